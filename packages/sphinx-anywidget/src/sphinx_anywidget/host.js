/* The static host of anywidgets: gives each widget on a page the `model` it expects, where there is no kernel.
 *
 * A widget's front end is an ES module whose default export has `render({ model, el })` (and perhaps `initialize`). Its
 * source comes as a string, by window.staticWidgets.push([key, source, name]), and is imported from a blob URL: a page
 * opened from file:// may import that, and no other module. Those scripts and this one are asynchronous, in any order:
 * the modules are there when the page has been parsed, and the widgets start before the theme's deferred script runs.
 * What the model does here:
 *   get, set, on, off   as in a notebook: two views of one model follow each other
 *   save_changes        nothing: there is nobody to save for; the changes have been announced by `set` already
 *   send                nothing, and says nothing: a message is for Python, and there is none. A front end that wants to
 *                       work without a kernel sets traits instead.
 */
(() => {
  const modules = new Map(); // key: { promise, resolve, reject } of the default export
  const models = new Map(); // id: { model, ready }

  function equal(a, b) {
    if (Object.is(a, b)) return true;
    if (typeof a !== "object" || typeof b !== "object" || !a || !b) return false;
    if (ArrayBuffer.isView(a) || ArrayBuffer.isView(b)) return false;
    const names = Object.keys(a);
    return names.length === Object.keys(b).length && names.every((name) => equal(a[name], b[name]));
  }

  class Model {
    #state;
    #listeners = new Map();
    constructor(state) {
      this.#state = state;
    }
    get(name) {
      return this.#state[name];
    }
    set(name, value) {
      const given = typeof name === "object" ? name : { [name]: value };
      const changed = Object.keys(given).filter((key) => !equal(this.#state[key], given[key]));
      for (const key of changed) this.#state[key] = given[key];
      for (const key of changed) this.#announce(`change:${key}`, this, given[key]);
      if (changed.length) this.#announce("change", this);
    }
    save_changes() {}
    send() {}
    on(names, listener) {
      for (const name of names.split(/\s+/)) {
        if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
        this.#listeners.get(name).add(listener);
      }
    }
    off(names, listener) {
      for (const name of names ? names.split(/\s+/) : [...this.#listeners.keys()]) {
        if (listener) this.#listeners.get(name)?.delete(listener);
        else this.#listeners.delete(name);
      }
    }
    #announce(name, ...args) {
      for (const listener of [...(this.#listeners.get(name) ?? [])]) listener(...args);
    }
  }

  /* The widget's state with its binary traits, which JSON carries apart, put where they belong. */
  function restore({ state, buffers }) {
    for (const { path, data, encoding } of buffers) {
      if (encoding !== "base64") throw new Error(`a trait came in an unknown encoding, ${encoding}`);
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      const parent = path.slice(0, -1).reduce((place, key) => (place[key] ??= {}), state);
      parent[path.at(-1)] = new DataView(bytes.buffer); // what ipywidgets hands to a front end
    }
    return state;
  }

  /* The module of a key, whether or not its script has come yet. */
  function expected(key) {
    if (!modules.has(key)) {
      const module = {};
      module.promise = new Promise((resolve, reject) => Object.assign(module, { resolve, reject }));
      module.promise.catch(() => {}); // each widget that waits for it says what went wrong
      modules.set(key, module);
    }
    return modules.get(key);
  }

  async function load(source, name) {
    const blob = new Blob([source, `\n//# sourceURL=widgets/${name}.js`], { type: "text/javascript" });
    const url = URL.createObjectURL(blob);
    try {
      const widget = (await import(url)).default;
      return typeof widget === "function" ? await widget() : widget;
    } finally {
      URL.revokeObjectURL(url);
    }
  }

  async function mount(el) {
    const spec = JSON.parse(el.querySelector("script").textContent);
    el.dataset.model = spec.id;
    const { signal } = new AbortController();
    const experimental = { invoke: () => Promise.reject(new Error("there is no kernel on this page")) };
    const widget = await expected(spec.esm).promise;
    if (!models.has(spec.id)) {
      const model = new Model(restore(spec));
      models.set(spec.id, { model, ready: Promise.resolve(widget.initialize?.({ model, signal, experimental })) });
    }
    const { model, ready } = models.get(spec.id);
    await ready;
    el.replaceChildren();
    await widget.render?.({ model, el, signal, experimental });
    el.dataset.state = "ready";
  }

  function fail(el, error) {
    el.dataset.state = "error";
    const box = document.createElement("p");
    box.className = "widget-error";
    box.setAttribute("role", "alert");
    box.textContent = `This interactive figure could not start: ${error.message}. The rest of the page works without it.`;
    el.replaceChildren(box);
    console.error(error);
  }

  window.staticModels = models; // for tests and the curious
  const take = ([key, source, name]) => expected(key).resolve(load(source, name));
  (window.staticWidgets ?? []).forEach(take); // of the scripts that came before this one
  window.staticWidgets = { push: take };

  function begin() {
    for (const el of document.querySelectorAll(".static-widget")) {
      el.dataset.state = "loading";
      mount(el).catch((error) => fail(el, error));
    }
  }
  if (document.readyState === "loading") document.addEventListener("readystatechange", begin, { once: true });
  else begin();

  function missing() {
    for (const { reject } of modules.values()) reject(new Error("its script is missing")); // unless it has come
  }
  if (document.readyState === "complete") missing();
  else addEventListener("load", missing);
})();
