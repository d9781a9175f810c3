// Times the page's engine beside onnxruntime-web, in Node: node engine.mjs MODULE NAME, where MODULE is the engine's
// front end and NAME stands for a model: NAME.safetensors, NAME.onnx, and NAME.logits, PyTorch's for the tokens below.
// Prints JSON. Times are CPU time of the process unless they are called otherwise.
import { readFileSync } from "node:fs";
import * as ort from "onnxruntime-web/wasm";

const [modulePath, name] = process.argv.slice(2);
const { TinyGPT, draw, nextTokenProbs, plainKernel, simdKernel } = await import(modulePath);
const median = (xs) => xs.sort((a, b) => a - b)[xs.length >> 1];
ort.env.wasm.numThreads = 1;

/* The graph of onnx_graph.py, called as the engine is: reset() and logits(token). Its caches come out of one run and go
 * into the next. */
class Graph {
  constructor(session, { n_layer, n_head, n_embd }) {
    Object.assign(this, { session, n_layer });
    this.nothing = () => new ort.Tensor("float32", new Float32Array(0), [n_head, 0, n_embd / n_head]);
  }
  reset() {
    this.position = 0;
    this.caches = {};
    for (let layer = 0; layer < this.n_layer; layer++) {
      this.caches[`keys.${layer}`] = this.nothing();
      this.caches[`values.${layer}`] = this.nothing();
    }
  }
  async logits(token) {
    const number = (n) => new ort.Tensor("int64", BigInt64Array.of(BigInt(n)), [1]);
    const out = await this.session.run({ ...this.caches, token: number(token), position: number(this.position++) });
    for (const name of Object.keys(this.caches)) this.caches[name] = out[`new_${name}`];
    return out.logits.data;
  }
}

/* How far logits are from those wanted, at most, over a context of the tokens 0, 1, … V - 1, 0, … */
async function furthest(model, wanted, V) {
  let most = 0;
  model.reset();
  for (let t = 0; t < wanted.length / V; t++) {
    const logits = await model.logits(t % V);
    for (let i = 0; i < V; i++) {
      const off = Math.abs(logits[i] - wanted[t * V + i]);
      if (!(off <= most)) most = off; // NaN too
    }
  }
  return most;
}

/* Milliseconds of CPU time that this process has had. */
const spent = () => (({ user, system }) => (user + system) / 1e3)(process.cpuUsage());

/* Tokens a second, by CPU time and by the clock, of a text that begins anew. */
async function rates(write, count) {
  const [clock, cpu] = [performance.now(), spent()];
  await write(count);
  return { cpu: count / ((spent() - cpu) / 1e3), clock: count / ((performance.now() - clock) / 1e3) };
}

/* What `rates` says of two, in turn: medians, and the median of the first's rate over the second's. */
async function pair(a, b, count, rounds) {
  const found = [];
  for (let round = 0; round < rounds; round++) found.push([await rates(a, count), await rates(b, count)]);
  return {
    first: median(found.map(([{ cpu }]) => cpu)),
    clock: median(found.map(([{ clock }]) => clock)),
    second: median(found.map(([, { cpu }]) => cpu)),
    ratio: median(found.map(([a, b]) => a.cpu / b.cpu)),
  };
}

const [temperature, topK] = [1, 20];
const writer = (model) => (maxNewTokens) => model.generate([0], { maxNewTokens, temperature, topK });
const graphWriter = (graph) => async (count) => {
  graph.reset();
  for (let made = 0, token = 0; made < count; made++) {
    token = draw(nextTokenProbs(await graph.logits(token), temperature, topK), Math.random());
  }
};

const bytes = readFileSync(`${name}.safetensors`);
const started = spent();
const model = TinyGPT.from(new Uint8Array(bytes).buffer, simdKernel);
model.logits(0);
const start = spent() - started;
const { vocab_size: V, block_size } = model.config;

const graphBytes = readFileSync(`${name}.onnx`);
const graphStarted = spent();
const graph = new Graph(await ort.InferenceSession.create(graphBytes, { executionProviders: ["wasm"] }), model.config);
graph.reset();
await graph.logits(0);
const graphStart = spent() - graphStarted;

const wanted = new Float32Array(new Uint8Array(readFileSync(`${name}.logits`)).buffer);
const off = { ours: await furthest(model, wanted, V), theirs: await furthest(graph, wanted, V) };
await pair(writer(model), graphWriter(graph), block_size, 2); // the compilers look at what runs often
const onnx = await pair(writer(model), graphWriter(graph), block_size, 9);
const plainModel = TinyGPT.from(new Uint8Array(bytes).buffer, plainKernel);
await rates(writer(plainModel), 63);
const plain = await pair(writer(model), writer(plainModel), 63, 3);
console.log(JSON.stringify({ off, start, graphStart, onnx, plain }));
