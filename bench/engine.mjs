// Times the page's engine in Node: node engine.mjs MODULE FILE..., where MODULE is its front end. Prints JSON.
import { readFileSync } from "node:fs";

const [modulePath, ...files] = process.argv.slice(2);
const { TinyGPT, plainKernel, simdKernel } = await import(modulePath);
const median = (xs) => xs.sort((a, b) => a - b)[xs.length >> 1];

/* Tokens a second, by the clock and by the time that this process had, of a text that begins anew. */
function rates(model, count) {
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
  const whole = fast.config.block_size - 1;
  const pairs = Array.from({ length: 4 }, () => [rates(fast, 63), rates(plain, 63)]).slice(1); // the compilers had one
  const alone = Array.from({ length: 9 }, () => rates(fast, whole)).slice(2);
  return {
    first,
    fast: median(alone.map(({ clock }) => clock)),
    fastCpu: median(alone.map(({ cpu }) => cpu)),
    plain: median(pairs.map(([, { clock }]) => clock)),
    ratio: median(pairs.map(([a, b]) => a.clock / b.clock)),
  };
});
console.log(JSON.stringify(found));
