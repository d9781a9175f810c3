// Times the page's engine in Node: node engine.mjs MODULE FILE..., where MODULE is its front end. Prints JSON.
import { readFileSync } from "node:fs";

const [modulePath, ...files] = process.argv.slice(2);
const { TinyGPT, plainKernel, simdKernel } = await import(modulePath);
const median = (xs) => xs.sort((a, b) => a - b)[xs.length >> 1];

/* Seconds on the clock and of this process, of one context of tokens, and their count. */
function timed(model) {
  const count = model.config.block_size - 1;
  const [clock, cpu] = [performance.now(), process.cpuUsage()];
  model.generate([0], { maxNewTokens: count, temperature: 1, topK: 20 });
  const { user, system } = process.cpuUsage(cpu);
  return { clock: count / ((performance.now() - clock) / 1e3), cpu: count / ((user + system) / 1e6) };
}

const found = files.map((file) => {
  const start = performance.now();
  const fast = TinyGPT.from(new Uint8Array(readFileSync(file)).buffer, simdKernel);
  fast.logits(0);
  const first = performance.now() - start;
  const plain = TinyGPT.from(new Uint8Array(readFileSync(file)).buffer, plainKernel);
  for (let i = 0; i < 2; i++) [fast, plain].map(timed); // until the compilers have done their work
  const rounds = Array.from({ length: 5 }, () => [fast, plain].map(timed));
  const rates = (which, of) => median(rounds.map((round) => round[which][of]));
  return {
    first,
    fast: rates(0, "clock"),
    fastCpu: rates(0, "cpu"),
    plain: rates(1, "clock"),
    ratio: median(rounds.map(([a, b]) => a.clock / b.clock)),
  };
});
console.log(JSON.stringify(found));
