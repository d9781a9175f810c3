/* The page's side of the engine: starts it in a Web Worker and speaks with it. engine.py puts ENGINE_WORKER before it. */

/* An engine of one's own, from a blob, because a page opened from a file may start no other worker:
 *   load(file)                       promises { config, vocab, provenance, kernel, seconds } of a safetensors file,
 *                                    which is an ArrayBuffer or a File that a reader chose
 *   generate(prompt, settings, show) promises { stopped }; show(tokens) is called as they come. Settings: maxNewTokens,
 *                                    temperature, topK, seed, and top, how many of the likeliest to tell of each token
 *   inspect(text)                    promises { ids, attention (L, H, T, T), readings (L + 1, T, V) }
 *   stop(), close()                  end the text that is being written; end the worker
 * A promise is rejected with a sentence for the reader. An ArrayBuffer goes to the worker: the page's is empty. */
export function startEngine(source = ENGINE_WORKER) {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const worker = new Worker(url, { name: "Tiny GPT" });
  const waiting = new Map(); // id: { resolve, reject, show }
  let asked = 0;
  let broken = null; // why there will be no more answers
  const ask = (message, { show = null, moved = [] } = {}) =>
    new Promise((resolve, reject) => {
      if (broken) return void reject(new Error(broken));
      waiting.set(++asked, { resolve, reject, show });
      worker.postMessage({ ...message, id: asked }, moved);
    });
  const fail = (sentence) => {
    broken = sentence;
    for (const { reject } of waiting.values()) reject(new Error(sentence));
    waiting.clear();
  };
  worker.onmessage = ({ data: { id, tokens, done, failed } }) => {
    if (tokens) return void waiting.get(id)?.show?.(tokens);
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (failed) reject?.(new Error(failed));
    else resolve?.(done);
  };
  worker.onerror = (event) => fail(`The engine could not start: ${event.message || "the browser does not say why"}.`);
  return {
    load: (file) => ask({ ask: "load", file }, { moved: file instanceof ArrayBuffer ? [file] : [] }),
    generate: (prompt, settings, show) => ask({ ask: "generate", prompt, ...settings }, { show }),
    inspect: (text) => ask({ ask: "inspect", text }),
    stop: () => worker.postMessage({ ask: "stop" }),
    close() {
      worker.terminate();
      URL.revokeObjectURL(url);
      fail("The engine was closed.");
    },
  };
}
