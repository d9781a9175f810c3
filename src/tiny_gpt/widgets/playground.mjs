/* A model that writes in the page, and what goes on inside it while it does. Names as in playground.py.
 *
 * The text is prompt and what was written, and one place in it, `at`, is looked at: what the model had to say before the
 * character there was known, from the window of at most N characters (its context) that ends just before it.
 */

const MOST = 2000; // characters of a prompt, and of what is written
const TOP = 7; // how many of the likeliest characters are told at each place
const VIEWS = { choices: "Its choices", attention: "Attention", layers: "Layer by layer", change: "What if" };

// -- what is computed of a model's answers --------------------------------------------------------------------------

/* [first, end) of what a model with context N is given to see what it had before place i: i - 1 is in it, and nothing
 * before `first` would be. While the text before i fits into the context, that is the same for all i. */
export const windowBefore = (i, N, length) => (i <= N ? [0, Math.min(N, length)] : [i - N, i]);

/* [first, end) of at most N characters about place i, half of them after it where there are as many. */
export function windowAround(i, N, length) {
  const first = Math.max(0, Math.min(i - (N >> 1), length - N));
  return [first, Math.min(length, first + N)];
}

/* The part of T places that is shown: `most` of them, with q among them, the last if it is not among the first. */
export const shownPart = (q, T, most) => (q < most ? [0, Math.min(T, most)] : [q + 1 - most, q + 1]);

/* Row (layer, t) of readings (L + 1, T, V), as probabilities. */
export const reading = (readings, { T, V }, layer, t) =>
  softmax(readings.slice((layer * T + t) * V, (layer * T + t + 1) * V));

/* [[id, probability], …] with characters in place of ids, without those that cannot come: [[character, probability], …]. */
const possible = (pairs, vocab) => pairs.filter(([, p]) => p > 0).map(([id, p]) => [vocab[id], p]);

/* The n likeliest characters of a distribution. */
export const likeliestOf = (p, vocab, n) => possible(likeliest(p, n), vocab);

/* How far two distributions are apart: the share of probability that has to be moved, 0 to 1. */
export const distance = (p, q) => p.reduce((sum, x, i) => sum + Math.abs(x - q[i]), 0) / 2;

/* What a model is and where it comes from, in sentences. Its file's own words; what it does not say is left out. */
export function provenanceWords(config, provenance) {
  const { vocab_size: V, block_size: N, n_layer: L, n_head: H, n_embd: C, bias } = config;
  const count = V * C + N * C + L * (12 * C * C + 2 * C) + C + (bias ? L * (11 * C) + C : 0);
  const sizes = `${shown(count / 1e6, 2)} million parameters: ${L} layers, ${H} heads, width ${C}, context ${N}, ${V} characters.`;
  const { text, train_config: run, valid_loss: loss, device, torch, step, rounded_later: later } = provenance ?? {};
  const made = [];
  const add = (before, words) => typeof words === "string" && made.push(`${before}${words.slice(0, 200)}`); // a file may say anything
  add("trained on ", text);
  const updates = step ?? run?.max_steps;
  if (Number.isFinite(updates)) made.push(`${updates} updates`);
  if (Number.isFinite(run?.seed)) made.push(`seed ${run.seed}`);
  add("on ", device);
  add("torch ", torch);
  const parts = [sizes];
  const { file, name } = provenance?.own ?? {}; // of a model that a reader wrote
  if (typeof file === "string" && file) parts.push(`Written in ${file.slice(0, 80)}${typeof name === "string" ? `, class ${name.slice(0, 80)}` : ""}.`);
  if (made.length) parts.push(`${made.join(", ").replace(/^./, (c) => c.toUpperCase())}.`);
  if (Number.isFinite(loss)) {
    const when = later ? ", measured before its weights were rounded to 8 bits" : "";
    parts.push(`Validation loss ${shown(loss, 3)} nats a character${when}.`);
  }
  return parts.join(" ");
}

/* A text in the form in which a vocabulary has all its characters, if there is one, else as it is: an é is one character or
 * two, e and an accent, as a keyboard or a file has it. As `CharTokenizer.in_known_form`. */
export function inKnownForm(text, vocab) {
  const known = new Set(vocab);
  const plain = text.replaceAll("\r\n", "\n");
  const forms = [text, plain, plain.normalize("NFC"), plain.normalize("NFD")];
  return forms.find((form) => [...form].every((character) => known.has(character))) ?? text;
}

const quoted = (character) => `“${visible(character)}”`;
const colourOf = (p) => {
  const rgb = mapped("weights", p);
  return { background: `rgb(${rgb.join(" ")})`, color: onColour(rgb) };
};

// -- where weights come from ----------------------------------------------------------------------------------------

/* The book's own address, from which its scripts come; undefined in a notebook. */
const site = () => document.documentElement.dataset.content_root;

/* The file of a model: from scripts beside the page, which work from a folder too, or from Python. */
async function weightsOf(entry, model, progress) {
  if (site() === undefined) return fromPython(entry, model);
  if (!entry.parts) throw new Error("The weights of this model are not part of the page: run its notebook to play with it.");
  return fromScripts(entry, new URL(site(), location.href), progress);
}

async function fromScripts({ parts, bytes }, root, progress) {
  const file = new Uint8Array(bytes);
  let filled = 0;
  for (const name of parts) {
    progress(filled / bytes);
    await new Promise((resolve, reject) => {
      const failed = () => reject(new Error("The model's file could not be loaded. Look at your connection, and try again."));
      const script = h("script", { src: new URL(`_static/models/${name}.js`, root).href, onload: resolve, onerror: failed });
      document.head.append(script);
    });
    const text = atob(window.tinyGptParts.get(name));
    for (let i = 0; i < text.length; i++) file[filled + i] = text.charCodeAt(i);
    filled += text.length;
  }
  progress(1);
  return file.buffer;
}

function fromPython({ name }, model) {
  return new Promise((resolve, reject) => {
    const bytes = () => {
      const { buffer, byteOffset, byteLength } = model.get("weights");
      return buffer.slice(byteOffset, byteOffset + byteLength);
    };
    if (model.get("sent") === name) return resolve(bytes());
    const arrived = () => {
      if (model.get("sent") !== name) return;
      model.off("change:sent", arrived);
      clearTimeout(patience);
      resolve(bytes());
    };
    const patience = setTimeout(() => {
      model.off("change:sent", arrived);
      reject(new Error("This model's weights are in Python, and no kernel answers. Run the notebook to play with it."));
    }, 20000);
    model.on("change:sent", arrived);
    model.set("asked", name);
    model.save_changes();
  });
}

// -- the widget -----------------------------------------------------------------------------------------------------

function build({ model, root, put, redraw }) {
  const get = (name) => model.get(name);
  const [told, wrote] = [announcer(), announcer()];
  wrote.say("");
  let engine = null; // the worker, once something was asked of it
  let ready = null; // the model that it has: { name, title, config, vocab, provenance }
  let loading = null; // { title, share }, while one is on its way
  let writing = null; // { text, record }, while the model writes
  let problem = ""; // a sentence for the reader
  let fileProblem = ""; // one about a file that is no model: it stands where files are chosen
  let chosen = false; // whether the reader has asked for a model: the book's own comes only while they have not
  const seen = new Map(); // text: what goes on inside the model on it, or { failed }; the newest few
  let busy = false;

  const trouble = (error) => {
    problem = error.message;
    redraw();
  };

  // -- asking the engine

  let last = Promise.resolve(); // one model after the other
  const use = (entry, file) => (last = last.then(() => load(entry, file)));

  /* Whether the model is there; if not, the one before stays, and the reader is told why. */
  async function load(entry, file) {
    loading = { title: entry.title, share: null };
    problem = "";
    redraw();
    try {
      if (writing) engine.stop();
      const bytes = await file((share) => {
        loading.share = share;
        redraw();
      });
      engine ??= startEngine();
      const { config, vocab, provenance } = await engine.load(bytes);
      ready = { name: entry.name, title: entry.title, config, vocab, provenance };
      root.dataset.model = entry.name; // for tests and the curious
      seen.clear();
      fileProblem = "";
      return true;
    } catch (error) {
      if (entry.name === "own") fileProblem = `${entry.file}: ${error.message}`;
      else problem = error.message;
      return false;
    } finally {
      loading = null;
      redraw();
    }
  }

  const useCarried = (entry) => use(entry, (progress) => weightsOf(entry, model, progress));

  /* A model that the reader asked for: what the one before wrote is not its text. */
  async function change(arrived) {
    chosen = true;
    if (!(await arrived)) {
      if (!ready && lives()) useCarried(get("models")[0]); // the file was none, and there is no model yet
      return;
    }
    const known = new Set(ready.vocab);
    const prompt = inKnownForm(get("prompt"), ready.vocab);
    put({ text: "", record: [], swap: "", at: [...prompt].length, layer: 0, head: 0 });
    if ([...prompt].every((character) => known.has(character))) await write();
    else trouble(new Error(unknown(prompt)));
  }

  const unknown = (text) => {
    const strange = [...new Set(text)].filter((character) => !ready.vocab.includes(character));
    const more = strange.length > 10 ? ` and ${strange.length - 10} more` : "";
    return `This model has never seen ${strange.slice(0, 10).map(quoted).join(", ")}${more}. It knows ${listed(ready.vocab.map(visible))}`;
  };

  async function write() {
    if (writing) return;
    await last;
    if (!ready && !(await useCarried(get("models")[0]))) return;
    const prompt = inKnownForm(get("prompt"), ready.vocab);
    if (prompt !== get("prompt")) put({ prompt });
    const [length, temperature, topK, seed] = ["length", "temperature", "top_k", "seed"].map(get);
    const found = { text: [], record: [], prompt };
    writing = found;
    problem = "";
    redraw();
    const { vocab } = ready;
    const settings = { maxNewTokens: length, temperature, topK, seed, top: TOP };
    try {
      await engine.generate(prompt, settings, (tokens) => {
        for (const { character, probability, likeliest } of tokens) {
          found.text.push(character);
          found.record.push([probability, possible(likeliest, vocab)]);
        }
        redraw();
      });
      if (get("prompt") !== prompt) return; // what was written does not continue the prompt that stands there now
      const start = [...prompt].length;
      const at = get("at") >= start && get("at") < start + found.text.length ? get("at") : start;
      writing = null;
      put({ record: found.record, text: found.text.join(""), at, swap: "" });
      wrote.say(`${found.text.length} characters written: ${found.text.join("")}`);
    } catch (error) {
      trouble(error);
    } finally {
      writing = null;
      redraw();
    }
  }

  /* What goes on inside the model on a text: asked for, and null until it is there. */
  function inside(text) {
    if (seen.has(text)) return seen.get(text);
    if (!ready || busy || writing || loading) return null;
    busy = true;
    const of = ready;
    engine
      .inspect(text)
      .catch((error) => ({ failed: error.message }))
      .then((found) => {
        busy = false;
        if (of === ready) seen.set(text, { ...found, T: [...text].length, V: of.config.vocab_size });
        while (seen.size > 4) seen.delete(seen.keys().next().value);
        redraw();
      });
    return null;
  }

  // -- above: what is asked

  const fields = {
    prompt: textField({
      label: "Prompt",
      longest: MOST,
      rows: 2,
      change: (prompt) => {
        if (!prompt) return trouble(new Error("There is nothing to continue: write at least one character."));
        problem = "";
        if (writing) engine.stop();
        put({ prompt, text: "", record: [], at: [...prompt].length - 1, swap: "" });
      },
    }),
    temperature: temperatureSlider((temperature) => put({ temperature })),
    top_k: slider({ label: "Top-k", low: 1, show: (k) => k, change: (k) => put({ top_k: k === size() ? null : k }) }),
    length: slider({ label: "Length", low: 20, high: 1000, step: 20, change: (length) => put({ length }) }),
    seed: textField({
      label: "Seed",
      longest: 9,
      inputMode: "numeric",
      change: (seed) => /^\d+$/.test(seed) && put({ seed: Number(seed) }),
    }),
  };
  fields.seed.node.classList.add("tgw-seed");
  const size = () => (ready?.config ?? get("models")[0].config).vocab_size;
  const context = () => (ready?.config ?? get("models")[0].config).block_size;
  const go = button("Write", write, { class: "tgw-go" });
  const another = button("Another", () => {
    if (writing) return;
    put({ seed: (get("seed") + 1) % 1e9 });
    write();
  });
  const halt = button("Stop", () => writing && engine.stop());
  const paint = h("input", { type: "checkbox", onchange: () => put({ coloured: paint.checked }) });
  const ramp = h("span", { class: "tgw-ramp", "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${COLOUR_MAPS.weights.map((c) => `rgb(${c.join(" ")})`)})`;
  const legend = h("span", { class: "tgw-legend" }, "0", ramp, "1");
  fields.prompt.input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) write();
  });
  const [alarm, fileAlarm] = ["p", "p"].map((tag) => h(tag, { class: "tgw-alarm", role: "alert" }));

  // -- the text

  const page = h("div", {
    class: "tgw-page",
    role: "listbox",
    tabIndex: 0,
    "aria-label": "The text, a character at a time: arrow keys move, and what the model had to say at that place is below",
  });
  const spans = [];
  const label = fresh("text");
  let shownAt = -1;
  const select = (at) => put({ at, swap: "" });
  page.addEventListener("click", ({ target }) => {
    const at = spans.indexOf(target);
    if (at >= 0 && !writing) select(at);
  });
  page.addEventListener("keydown", (event) => {
    const last = spans.length - 1;
    const at = Math.min(get("at"), last);
    const goals = { ArrowLeft: () => at - 1, ArrowRight: () => at + 1, Home: () => 0, End: () => last, ArrowUp: () => beside(at, -1), ArrowDown: () => beside(at, 1) };
    if (!goals[event.key] || writing) return;
    event.preventDefault();
    select(Math.max(0, Math.min(last, goals[event.key]())));
  });

  /* The place on the next line, up or down, that is nearest to straight above or below. */
  function beside(at, way) {
    const { offsetTop: top, offsetLeft: left } = spans[at];
    const off = (i) => Math.abs(spans[i].offsetLeft - left);
    let [best, line] = [at, null];
    for (let i = at + way; spans[i]; i += way) {
      const here = spans[i].offsetTop;
      if (here === top) continue;
      line ??= here;
      if (here !== line) break;
      if (best === at || off(i) < off(best)) best = i;
    }
    return best;
  }

  function drawText(text, start, choices) {
    while (spans.length > text.length) spans.pop().remove();
    while (spans.length < text.length) {
      const span = h("span", { role: "option", id: `${label}-${spans.length}` });
      spans.push(span);
      page.append(span);
    }
    const coloured = get("coloured");
    const at = writing ? -1 : Math.min(get("at"), text.length - 1);
    text.forEach((character, i) => {
      const span = spans[i];
      if (span.dataset.character !== character) {
        span.dataset.character = character;
        span.textContent = character;
        span.setAttribute("aria-label", { " ": "space", "\n": "new line" }[character] ?? character);
      }
      span.className = i < start ? "tgw-given" : "";
      span.setAttribute("aria-selected", String(i === at));
      const p = coloured ? choices(i)?.[0] : undefined;
      const { background, color } = p === undefined ? { background: "", color: "" } : colourOf(p);
      if (span.style.background !== background) Object.assign(span.style, { background, color });
    });
    if (at >= 0) page.setAttribute("aria-activedescendant", spans[at].id);
    if (writing) page.scrollTop = page.scrollHeight;
    else if (at !== shownAt && spans[at]) {
      const [top, bottom] = [spans[at].offsetTop, spans[at].offsetTop + spans[at].offsetHeight];
      if (top < page.scrollTop) page.scrollTop = top - 4;
      if (bottom > page.scrollTop + page.clientHeight) page.scrollTop = bottom - page.clientHeight + 4;
    }
    shownAt = at;
  }

  // -- the views of one place

  const tabs = new Map();
  const panel = h("div", { class: "tgw-panel", role: "tabpanel", id: fresh("panel") });
  const bar = h(
    "div",
    { class: "tgw-tabs", role: "tablist", "aria-label": "What to look at" },
    Object.entries(VIEWS).map(([view, words]) => {
      const tab = button(words, () => put({ view }), { role: "tab", id: fresh("tab") });
      tab.setAttribute("aria-controls", panel.id);
      tabs.set(view, tab);
      return tab;
    }),
  );
  bar.addEventListener("keydown", (event) => {
    const names = Object.keys(VIEWS);
    const step = { ArrowLeft: names.length - 1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const view = names[(names.indexOf(get("view")) + step) % names.length];
    put({ view });
    tabs.get(view).focus();
  });
  const says = h("p", { class: "tgw-says" });
  const body = h("div");
  panel.append(says, body);

  /* What can be said of a place without its picture: { says }, or { wait } while it is not known yet. */
  function excuse(found) {
    if (found?.failed) return { says: found.failed };
    if (found) return null;
    return { says: lives() ? "The model is on its way …" : "Run the notebook of this page to look inside its model.", keep: true };
  }
  const lives = () => Boolean(ready || site() === undefined || get("models")[0].parts);

  function choicesView(text, at, start, choices) {
    if (at === 0) return { says: "Nothing stands before the first character: the model had nothing to go by. Choose another one in the text." };
    const window = text.slice(...windowBefore(at, context(), text.length)).join("");
    const none = excuse(inside(window));
    if (none && !choices(at)) return none;
    const [p, best] = choices(at, Boolean(none));
    const rows = best.some(([character]) => character === text[at]) ? best : [...best, [text[at], p]];
    const most = Math.max(...rows.map(([, share]) => share));
    const rejected = best.filter(([character]) => character !== text[at]).slice(0, 3);
    const others = rejected.length ? ` Rejected: ${rejected.map(([character, share]) => `${quoted(character)} ${shown(share, 3)}`).join(", ")}.` : "";
    const list = rows.map(([character, share]) => {
      const line = h("span", { class: "tgw-bar" });
      line.style.width = `${(100 * share) / most}%`;
      const chosen = character === text[at];
      return h(
        "li",
        { class: chosen ? "tgw-chosen" : "" },
        h("span", { class: "tgw-key" }, visible(character)),
        h("span", { class: "tgw-track" }, line),
        h("span", { class: "tgw-number" }, shown(share, 3), chosen ? h("span", { class: "tgw-unseen" }, ", the one that stands there") : null),
      );
    });
    return {
      says: `${quoted(text[at])}${at < start ? ", in the prompt," : ""} has probability ${shown(p, 3)} at temperature ${get("temperature")}: ${shown(p > 0 ? -Math.log2(p) : Infinity)} bits of surprise.${others}`,
      body: [h("ol", { class: "tgw-choices" }, list)],
    };
  }

  function attentionView(text, at, width) {
    if (at === 0) return { says: "Nothing stands before the first character, so there is nothing to attend to. Choose another one in the text." };
    const [first, end] = windowBefore(at, context(), text.length);
    const found = inside(text.slice(first, end).join(""));
    const none = excuse(found);
    if (none) return none;
    const { attention, T } = found;
    const { n_layer: L, n_head: H } = ready.config;
    const [layer, head, q] = [Math.min(get("layer"), L - 1), Math.min(get("head"), H - 1), at - 1 - first];
    const weight = (l, hd, t, s) => attention[((l * H + hd) * T + t) * T + s];
    const [from, to] = shownPart(q, T, width > 560 ? 32 : 22);
    const places = Array.from({ length: to - from }, (_, i) => from + i);
    const name = (t) => visible(text[first + t]);
    const row = Array.from({ length: q + 1 }, (_, s) => weight(layer, head, q, s));
    const best = row.map((w, s) => [w, s]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const far = row.slice(0, from).reduce((sum, w) => sum + w, 0);
    const back = (s) => (s === q ? "itself" : `${q - s} back`);
    const where = best.map(([w, s]) => `${quoted(text[first + s])} (${back(s)}) ${shown(w)}`).join(", ");
    const step = Math.min(22, (width - 16) / places.length);
    const high = Math.min(120, 18 + (step * places.length) / 4);
    const x = (t) => 8 + (t - from + 0.5) * step;
    const arcs = s("svg", { class: "tgw-chart tgw-arcs", width: 16 + step * places.length, height: high + 26, role: "img", "aria-label": `Arcs from ${name(q)} to what this head looks at: ${where}.` });
    for (const t of places.filter((t) => t < q)) {
      const [rx, ry] = [(x(q) - x(t)) / 2, Math.min(high - 6, (x(q) - x(t)) / 2)];
      const w = row[t];
      if (w > 0.005) arcs.append(s("path", { class: "tgw-arc", d: `M${x(q)} ${high}A${rx} ${ry} 0 0 0 ${x(t)} ${high}`, "stroke-width": 0.6 + 9 * w, opacity: Math.min(1, 0.25 + w) }));
    }
    if (row[q] > 0.005) arcs.append(s("circle", { class: "tgw-arc", cx: x(q), cy: high - 5, r: 3.5, "stroke-width": 0.6 + 5 * row[q], opacity: Math.min(1, 0.25 + row[q]) }));
    for (const t of places) {
      const mark = s("text", { x: x(t), y: high + 17, "text-anchor": "middle", class: t === q ? "tgw-query" : t > q ? "tgw-later" : "" }, name(t));
      const catcher = s("rect", { class: "tgw-catch", x: x(t) - step / 2, y: 0, width: step, height: high + 26 });
      catcher.addEventListener("click", () => select(first + t + 1));
      arcs.append(mark, catcher);
    }
    const readout = h("p", { class: "tgw-readout" }, "Point at a cell of the map to read its weight, click to choose its row.");
    const cell = Math.floor(Math.min(12, (width > 560 ? width * 0.55 : width - 16) / (places.length + 1)));
    const side = cell * (places.length + 1);
    const map = s("svg", { class: "tgw-chart tgw-map", width: side, height: side, role: "img", "aria-label": `Heat map of layer ${layer + 1}, head ${head + 1}: each row is a character that reads, each column one that is read. The row of ${name(q)} is marked.` });
    places.forEach((t, i) => {
      const middle = (i + 1.5) * cell;
      map.append(
        s("text", { class: t === q ? "tgw-query" : "", x: cell / 2, y: middle, dy: "0.33em", "text-anchor": "middle", "font-size": cell - 1 }, name(t)),
        s("text", { x: middle, y: cell / 2, dy: "0.33em", "text-anchor": "middle", "font-size": cell - 1 }, name(t)),
      );
      for (const u of places) {
        if (u > t) break;
        const w = weight(layer, head, t, u);
        const square = s("rect", { class: "tgw-cell", x: (u - from + 1) * cell, y: (i + 1) * cell, width: cell - 0.5, height: cell - 0.5, fill: `rgb(${mapped("weights", w).join(" ")})` });
        square.addEventListener("pointerenter", () => {
          readout.textContent = `${quoted(text[first + t])} (place ${first + t}) reads ${quoted(text[first + u])} (place ${first + u}): weight ${shown(w, 3)}.`;
        });
        square.addEventListener("click", () => select(first + t + 1));
        map.append(square);
      }
    });
    map.append(s("rect", { class: "tgw-row", x: cell, y: (q - from + 1) * cell, width: (q - from + 1) * cell, height: cell }));
    return {
      says: `Having read ${quoted(text[first + q])}, head ${head + 1} of layer ${layer + 1} looks at ${where}.${far > 0.005 ? ` ${shown(far)} of its weight lies further back than is drawn.` : ""}`,
      body: [
        h("div", { class: "tgw-scroll" }, arcs),
        h("div", { class: "tgw-pair" }, map, headsGrid(L, H, layer, head, (l, hd, t, u) => weight(l, hd, from + t, from + u), places.length, width)),
        readout,
      ],
    };
  }

  /* All heads, small: what chooses one of them. */
  function headsGrid(L, H, layer, head, weight, n, width) {
    const tile = Math.max(26, Math.min(62, Math.floor((width > 560 ? width * 0.42 - 30 : width - 40) / H) - 8));
    const grid = h("div", { class: "tgw-heads", role: "radiogroup", "aria-label": "Layer and head" });
    grid.style.gridTemplateColumns = `auto repeat(${H}, ${tile}px)`;
    grid.append(h("span"), ...Array.from({ length: H }, (_, i) => h("span", { "aria-hidden": "true" }, `head ${i + 1}`.slice(tile < 44 ? 5 : 0))));
    for (let l = 0; l < L; l++) {
      grid.append(h("span", { "aria-hidden": "true" }, `layer ${l + 1}`.slice(width > 560 ? 0 : 6)));
      for (let hd = 0; hd < H; hd++) {
        const picture = h("canvas", { width: n, height: n });
        const pixels = picture.getContext("2d").createImageData(n, n);
        for (let t = 0; t < n; t++) {
          for (let u = 0; u <= t; u++) pixels.data.set([...mapped("weights", weight(l, hd, t, u)), 255], 4 * (t * n + u));
        }
        picture.getContext("2d").putImageData(pixels, 0, 0);
        const chosen = l === layer && hd === head;
        const one = button("", () => put({ layer: l, head: hd }), { role: "radio", class: "tgw-head", tabIndex: chosen ? 0 : -1 });
        one.setAttribute("aria-checked", String(chosen));
        one.setAttribute("aria-label", `Layer ${l + 1}, head ${hd + 1}`);
        one.dataset.key = `head ${l} ${hd}`;
        one.append(picture);
        grid.append(one);
      }
    }
    grid.addEventListener("keydown", (event) => {
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
      if (down === undefined) return;
      event.preventDefault();
      const goal = { layer: (layer + down + L) % L, head: (head + right + H) % H };
      put(goal);
      focusKey = `head ${goal.layer} ${goal.head}`;
    });
    return grid;
  }

  function layersView(text, at, width) {
    const most = width > 560 ? 6 : 3;
    if (at === 0) return { says: "Nothing stands before the first character: there is no stream to read yet. Choose another one in the text." };
    const [first, end] = windowBefore(at, context(), text.length);
    const found = inside(text.slice(first, end).join(""));
    const none = excuse(found);
    if (none) return none;
    const [L, t] = [ready.config.n_layer, at - 1 - first];
    const rows = Array.from({ length: L + 1 }, (_, layer) => {
      const p = reading(found.readings, found, layer, t);
      return { best: likeliestOf(p, ready.vocab, most), own: p[ready.vocab.indexOf(text[at])] };
    });
    const since = rows.findIndex((_, layer) => rows.slice(layer).every(({ best }) => best[0][0] === rows[L].best[0][0]));
    const name = (layer) => (layer ? `after block ${layer}` : "embedding");
    const cells = ({ best }) =>
      best.map(([character, p]) => {
        const cell = h("td", { class: character === text[at] ? "tgw-own" : "" }, h("span", { class: "tgw-key" }, visible(character)), h("span", {}, shown(p)));
        Object.assign(cell.style, colourOf(p));
        return cell;
      });
    const table = h(
      "table",
      { class: "tgw-lens" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "stream read"), h("th", { scope: "col", colSpan: most }, most > 3 ? "its likeliest next characters, at temperature 1" : "its likeliest"), h("th", { scope: "col" }, `of ${quoted(text[at])}`))),
      h("tbody", {}, rows.map((row, layer) => h("tr", {}, h("th", { scope: "row" }, name(layer)), cells(row), h("td", { class: "tgw-share" }, shown(row.own, 3))))),
    );
    return {
      says: `Before ${quoted(text[at])}, having read ${quoted(text[at - 1])}: the guess ${quoted(rows[L].best[0][0])} stands ${since ? `since block ${since}` : "from the embedding on"}. ${quoted(text[at])} itself goes from ${shown(rows[0].own, 3)} to ${shown(rows[L].own, 3)}.`,
      body: [h("div", { class: "tgw-scroll", tabIndex: 0, role: "group", "aria-label": "Guesses after each layer" }, table)],
    };
  }

  const swapField = textField({
    label: "Put in its place",
    longest: 3,
    change: (value) => {
      const typed = [...value].at(-1) ?? "";
      put({ swap: { "␣": " ", "↵": "\n" }[typed] ?? typed });
    },
  });
  swapField.input.addEventListener("focus", () => swapField.input.select());
  swapField.node.classList.add("tgw-seed");

  function changeView(text, at, choices, width) {
    const [first, end] = windowAround(at, context(), text.length);
    const other = choices(at)?.[1].find(([character]) => character !== text[at])?.[0];
    const swap = get("swap") || other || (text[at] === "e" ? "a" : "e");
    swapField.set(visible(swap));
    const now = inside(text.slice(first, end).join(""));
    const changed = text.slice(first, end);
    changed[at - first] = swap;
    const then = now && inside(changed.join(""));
    const none = excuse(now) ?? excuse(then);
    if (none) return { ...none, body: none.keep ? undefined : [swapField.node] };
    const last = ready.config.n_layer;
    const most = width > 560 ? 32 : 20;
    const from = Math.max(first, Math.min(at - 6, end - most));
    const moves = [];
    const tiles = [];
    for (let i = from; i < Math.min(end, from + most); i++) {
      const [p, q] = [now, then].map((found) => reading(found.readings, found, last, i - first));
      const far = distance(p, q);
      const [a, b] = [p, q].map((row) => likeliestOf(row, ready.vocab, 1)[0][0]);
      moves.push([far, i]);
      const tile = h(
        "li",
        { class: `tgw-tile${i === at ? " tgw-swapped" : ""}` },
        h("span", { class: "tgw-key" }, visible(i === at ? swap : text[i])),
        h("span", {}, i < at ? "0" : shown(far)),
        h("span", { class: "tgw-guess" }, a === b ? visible(a) : `${visible(a)} → ${visible(b)}`),
      );
      tile.title = `After ${quoted(i === at ? swap : text[i])} the likeliest next was ${quoted(a)} and is ${quoted(b)}`;
      if (far > 0) Object.assign(tile.style, colourOf(far));
      tiles.push(tile);
    }
    const before = moves.filter(([, i]) => i < at);
    const [far, where] = moves.filter(([, i]) => i > at).sort((a, b) => b[0] - a[0])[0] ?? [];
    return {
      says: `${quoted(swap)} instead of ${quoted(text[at])}. ${before.length ? (before.every(([d]) => d === 0) ? "Nothing before it moves. " : "Something before it moves: the model leaks. ") : ""}At the place itself ${shown(moves.find(([, i]) => i === at)[0])} of the probability goes to other characters${where === undefined ? "." : `; of those after it ${quoted(text[where])} moves most, ${shown(far)}, ${where - at} on.`}`,
      body: [swapField.node, h("ol", { class: "tgw-moves", "aria-label": "How much each position's prediction moves, and its favourite before and after" }, tiles)],
    };
  }

  // -- the model

  const about = h("p", { class: "tgw-about" });
  const offers = h("div", { class: "tgw-offers" });
  const progress = h("progress", { max: 1, "aria-label": "Loading the model" });
  const file = h("input", { type: "file", accept: ".safetensors", hidden: true, tabIndex: -1 });
  const own = (chosen) => chosen && change(use({ name: "own", file: chosen.name, title: `Your model, ${chosen.name.replace(/\.safetensors$/, "")}` }, async () => chosen));
  file.addEventListener("change", () => {
    own(file.files[0]);
    file.value = "";
  });
  const choose = button("Your own model …", () => file.click());
  let dragged = 0;
  for (const [name, by] of [["dragenter", 1], ["dragleave", -1]]) {
    root.addEventListener(name, (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      dragged += by;
      root.classList.toggle("tgw-drop", dragged > 0);
    });
  }
  root.addEventListener("dragover", (event) => [...event.dataTransfer.types].includes("Files") && event.preventDefault());
  root.addEventListener("drop", (event) => {
    event.preventDefault();
    dragged = 0;
    root.classList.remove("tgw-drop");
    own(event.dataTransfer.files[0]);
  });

  let offered = "";
  function drawModel() {
    const models = get("models");
    const now = ready ?? { ...models[0] };
    const others = models.filter(({ name }) => name !== now.name);
    const key = `${now.name} ${Boolean(loading)}`;
    if (key !== offered) {
      offered = key;
      offers.replaceChildren(
        ...others.map((entry) => button(`${entry.title}${entry.bytes ? `, ${shown(entry.bytes / 1e6, 1)} MB` : ""}`, () => loading || change(useCarried(entry)), { "aria-disabled": String(Boolean(loading)) })),
        choose,
        h("span", { class: "tgw-note" }, "A file from ", h("code", {}, "tiny-gpt export"), ": choose it or drop it here. It stays on your device; nothing is uploaded."),
      );
    }
    progress.hidden = !loading;
    if (loading?.share === null || loading?.share === undefined) progress.removeAttribute("value");
    else progress.value = loading.share;
    about.replaceChildren(h("strong", {}, now.title), ` · ${provenanceWords(now.config, now.provenance)}`);
  }

  // -- all of it

  root.append(
    h("div", { class: "tgw-ask" }, fields.prompt.node, h("div", { class: "tgw-buttons" }, go, another, halt)),
    h("div", { class: "tgw-controls" }, fields.temperature.node, fields.top_k.node, fields.length.node, fields.seed.node),
    alarm,
    page,
    h("div", { class: "tgw-under" }, h("label", { class: "tgw-option" }, paint, h("span", {}, "Colour by probability")), legend, h("span", { class: "tgw-note" }, "Choose a character: mouse or arrow keys.")),
    bar,
    panel,
    h("div", { class: "tgw-model" }, about, progress, offers, fileAlarm, file),
    told.node,
    wrote.node,
  );

  let focusKey = null;
  let shownView = "";
  function draw(width) {
    const arriving = writing?.text.length && writing.prompt === get("prompt");
    const text = [...get("prompt"), ...(arriving ? writing.text : get("text"))];
    const record = arriving ? writing.record : get("record");
    const start = [...get("prompt")].length;
    const N = context();
    fields.prompt.set(get("prompt"));
    fields.temperature.set(get("temperature"));
    fields.top_k.set(get("top_k") ?? size(), size());
    fields.length.set(get("length"));
    if (document.activeElement !== fields.seed.input) fields.seed.set(String(get("seed")));
    for (const one of [go, another]) one.setAttribute("aria-disabled", String(Boolean(writing)));
    halt.setAttribute("aria-disabled", String(!writing));
    paint.checked = get("coloured");
    legend.style.visibility = get("coloured") ? "" : "hidden";
    for (const [node, words] of [[alarm, problem], [fileAlarm, fileProblem]]) {
      if (node.textContent !== words) node.textContent = words;
    }
    const opening = ready && !writing ? seen.get(text.slice(0, N).join("")) : null;
    /* [probability, likeliest] of the character at a place: as it was `drawn`, or by what the settings are now. */
    function choices(i, drawn = true) {
      const written = record.length === text.length - start ? record[i - start] : undefined;
      if (written && drawn) return written;
      const [first] = windowBefore(i, N, text.length);
      const found = i < 1 ? null : first ? seen.get(text.slice(first, i).join("")) : opening;
      if (!found?.readings) return undefined;
      const { T, V, readings } = found;
      const from = (ready.config.n_layer * T + i - 1 - first) * V;
      const p = nextTokenProbs(readings.subarray(from, from + V), get("temperature"), get("top_k"));
      return [p[ready.vocab.indexOf(text[i])], likeliestOf(p, ready.vocab, TOP)];
    }
    drawText(text, start, choices);
    if (ready && get("coloured") && !opening) inside(text.slice(0, N).join(""));
    const [view, at] = [get("view"), Math.max(0, Math.min(get("at"), text.length - 1))];
    for (const [name, tab] of tabs) {
      tab.setAttribute("aria-selected", String(name === view));
      tab.tabIndex = name === view ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", tabs.get(view).id);
    if (!writing) {
      const focused = focusKey ?? (panel.contains(document.activeElement) ? document.activeElement.dataset.key : null);
      const typing = document.activeElement === swapField.input;
      const parts = { choices: () => choicesView(text, at, start, choices), attention: () => attentionView(text, at, width), layers: () => layersView(text, at, width), change: () => changeView(text, at, choices, width) }[view]();
      if (!(parts?.keep && shownView === view)) {
        says.textContent = parts?.says ?? "";
        if (!(typing && parts?.body?.[0] === swapField.node && body.firstChild === swapField.node)) body.replaceChildren(...(parts?.body ?? []));
        else {
          while (body.childNodes.length > 1) body.lastChild.remove();
          body.append(...parts.body.slice(1));
        }
        shownView = view;
        if (focused) body.querySelector(`[data-key="${focused}"]`)?.focus();
        focusKey = null;
        told.say(says.textContent);
      }
    }
    drawModel();
  }

  // the small model comes by itself, once the page is there and the reader is near
  const near = new IntersectionObserver(
    ([{ isIntersecting }]) => {
      if (!isIntersecting) return;
      near.disconnect();
      const [first] = get("models");
      const begin = () => lives() && !chosen && useCarried(first);
      if (document.readyState === "complete") begin();
      else addEventListener("load", begin, { once: true });
    },
    { rootMargin: "300px" },
  );
  near.observe(root);
  /* Python has sent the weights anew. */
  const anew = () => ready && get("sent") === ready.name && useCarried(get("models").find(({ name }) => name === ready.name));
  model.on("change:weights", anew);
  return {
    draw,
    stop() {
      model.off("change:weights", anew);
      near.disconnect();
      told.stop();
      wrote.stop();
      engine?.close();
    },
  };
}

export default { render: showing("tgw-playground", build) };
