/* The engine in a Web Worker: messages in, tokens out. engine.py puts base.mjs and engine.mjs before this text.
 *
 * A message is { id, ask, ...arguments }; each answer carries its id, so that the page knows what it belongs to.
 *   load      { file: ArrayBuffer or File }                     → done with config, vocab, provenance, kernel, seconds
 *   generate  { prompt, maxNewTokens, temperature, topK, seed, top }  → tokens …, done with stopped
 *   stop      {}                                                  ends the text that is being written, if there is one
 *   inspect   { text }                                          → done with ids, attention (L, H, T, T), readings (L + 1, T, V)
 * A token is { token, character, probability, likeliest: [[id, probability], …] } with the `top` most probable.
 * What goes wrong is answered by { failed: a sentence }; a model that was there before stays.
 */

const SLICE = 12; // ms of work after which the worker looks whether a message has come

/* Answers to messages: `post(message, transferred)` sends one, `pause()` lets those that wait come in. */
export function engineServer(post, pause, makeKernel = anyKernel) {
  let model = null;
  let stopped = null; // the id of the text that shall end
  let writing = null; // the id of the one that is being written

  const asks = {
    async load({ file }) {
      const start = performance.now();
      if (file instanceof Blob) {
        checkSize(file.size);
        file = await file.arrayBuffer();
      }
      model = TinyGPT.from(file, makeKernel);
      const { config, provenance, kernel, tokenizer } = model;
      return { config, provenance, vocab: tokenizer.vocab, kernel: kernel.name, seconds: (performance.now() - start) / 1000 };
    },

    async generate({ id, prompt, maxNewTokens, temperature, topK, seed, top = 0 }) {
      const numbers = uniforms(seed, maxNewTokens).values();
      const settings = { maxNewTokens, temperature, topK, random: () => numbers.next().value };
      let tokens = [];
      let since = -Infinity; // the first token goes out at once
      const send = () => tokens.length && post({ id, tokens: tokens.splice(0) });
      for (const { token, probs } of model.stream(model.tokenizer.encode(prompt), settings)) {
        const character = model.tokenizer.vocab[token];
        tokens.push({ token, character, probability: probs[token], likeliest: likeliest(probs, top) });
        if (performance.now() - since < SLICE) continue;
        send();
        await pause();
        if (stopped === id) break; // leaving the loop ends the generator
        since = performance.now();
      }
      send();
      return { stopped: stopped === id };
    },

    inspect({ text }) {
      const ids = model.tokenizer.encode(text);
      return { ids, ...model.inspect(ids) };
    },
  };

  async function answer(message) {
    const { id, ask } = message;
    try {
      if (ask !== "load" && !model) refuse("No model has been loaded yet.");
      const found = await asks[ask](message);
      const moved = Object.values(found).filter(ArrayBuffer.isView);
      post({ id, done: found }, moved.map((array) => array.buffer));
    } catch (error) {
      const room = "This device has not enough memory for the model: try a smaller one.";
      const told = error instanceof RangeError ? room : `The engine failed: ${error}.`;
      post({ id, failed: error instanceof Refused ? error.message : told });
    }
  }

  /* What to do with a message: one after the other, but for `stop`, which does not wait. */
  let last = Promise.resolve();
  return (message) => {
    if (message.ask === "stop") return void (stopped = writing);
    return (last = last.then(() => {
      writing = message.id;
      return answer(message);
    }));
  };
}
