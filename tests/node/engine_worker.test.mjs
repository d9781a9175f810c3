// What the engine's worker answers to messages, without a worker: the test posts and pauses.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const { engineServer, TinyGPT } = await import(process.env.MODULE);
const { path, broken } = JSON.parse(readFileSync(process.env.CASES, "utf8"));
const file = (name = path) => new Uint8Array(readFileSync(name)).buffer;
const settings = { temperature: 0.9, topK: 4, seed: 3, top: 2 };

function started(onPause = () => {}) {
  const posted = [];
  const server = engineServer(
    (message) => posted.push(message),
    () => new Promise((resolve) => setImmediate(() => resolve(void onPause(server)))),
  );
  return { server, posted };
}
const tokens = (posted, id) => posted.filter((m) => m.id === id && m.tokens).flatMap((m) => m.tokens);

test("without a model there is a sentence", async () => {
  const { server, posted } = started();
  await server({ id: 1, ask: "inspect", text: "a" });
  assert.deepEqual(posted, [{ id: 1, failed: "No model has been loaded yet." }]);
});

test("a text is written from its seed, token by token, and told with what else was likely", async () => {
  const { server, posted } = started();
  await server({ id: 1, ask: "load", file: file() });
  assert.equal(posted[0].done.config.n_layer, 2);
  assert.deepEqual(posted[0].done.provenance, { by: "é" });
  for (const id of [2, 3]) await server({ id, ask: "generate", prompt: "ab", maxNewTokens: 20, ...settings });
  await server({ id: 4, ask: "generate", prompt: "ab", maxNewTokens: 20, ...settings, seed: 4 });
  assert.deepEqual(posted.at(-1), { id: 4, done: { stopped: false } });
  const written = tokens(posted, 2);
  assert.equal(written.length, 20);
  assert.deepEqual(tokens(posted, 3), written);
  assert.notDeepEqual(tokens(posted, 4), written);
  for (const { token, character, probability, likeliest } of written) {
    assert.equal(character, posted[0].done.vocab[token]);
    assert.equal(likeliest.length, 2);
    assert.ok(likeliest[0][1] >= probability);
  }
});

test("a text ends when it is stopped, and the next one is whole", async () => {
  const { server, posted } = started((serve) => serve({ ask: "stop" }));
  server({ id: 1, ask: "load", file: file() });
  await server({ id: 2, ask: "generate", prompt: "a", maxNewTokens: 1e5, ...settings });
  assert.deepEqual(posted.at(-1), { id: 2, done: { stopped: true } });
  assert.ok(tokens(posted, 2).length < 1e5);
  await server({ id: 3, ask: "generate", prompt: "a", maxNewTokens: 0, ...settings });
  assert.deepEqual(posted.at(-1), { id: 3, done: { stopped: false } });
});

test("a file that a reader chose is read by the worker, unless it is too large to be", async () => {
  const { server, posted } = started();
  await server({ id: 1, ask: "load", file: new Blob([file()]) });
  assert.equal(posted[0].done.config.n_layer, 2);
  const huge = new Blob([]);
  Object.defineProperty(huge, "size", { value: 2 ** 31 });
  huge.arrayBuffer = () => assert.fail("it was read");
  await server({ id: 2, ask: "load", file: huge });
  assert.match(posted[1].failed, /has 2048.0 MB and this page reads at most 64.0 MB/);
  await server({ id: 3, ask: "inspect", text: "abc" });
  assert.equal(posted[2].done.ids.length, 3);
});

test("after a file that is none the old model is still there", async () => {
  const { server, posted } = started();
  server({ id: 1, ask: "load", file: file() });
  await server({ id: 2, ask: "load", file: file(broken) });
  assert.match(posted.at(-1).failed, /not a safetensors file/);
  await server({ id: 3, ask: "inspect", text: "abc" });
  const { ids, attention, readings } = posted.at(-1).done;
  const wanted = TinyGPT.from(file()).inspect(ids);
  assert.deepEqual({ attention, readings }, wanted);
});
