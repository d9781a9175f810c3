/* What the widgets share: elements, controls, axes, bars, lines, heat maps, and how a widget follows its traits.
 *
 * base.py puts this text, the colours and a widget's own module together into one module, so nothing here is imported
 * or exported twice. Charts are SVG at the size of the page, drawn again when that changes; their words are real text.
 */

// -- elements ---------------------------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    const property = name === "class" ? "className" : name;
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (property in node && !(node instanceof SVGElement)) node[property] = value;
    else if (value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const CODE = ["code", "pre"]; // no browser should translate it

/* An element: h("p", { class: "note" }, "text", other). Text is text; nothing is parsed as HTML. */
export const h = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), CODE.includes(tag) ? { translate: false, ...attributes } : attributes, children);

/* The same within an <svg>. */
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/* `root`, in which a key belongs to what has the focus: JupyterLab's shortcuts begin with the focused element, so it is
 * that one, whatever it is, which has to say no. On the root alone, ArrowRight on a slider moved to another cell. */
export function keepingKeys(root) {
  root.addEventListener("focusin", ({ target }) => target.setAttribute("data-lm-suppress-shortcuts", "true"));
  return root;
}

let made = 0;
const fresh = (name) => `tgw-${name}-${++made}-${Math.random().toString(36).slice(2, 7)}`;

// -- numbers ----------------------------------------------------------------------------------------------------------

/* Uniform numbers in (0, 1] that depend on the seed alone: mulberry32, which base.py computes as well. */
export function uniforms(seed, count) {
  return Float64Array.from({ length: count }, (_, i) => {
    const state = (seed + Math.imul(i + 1, 0x6d2b79f5)) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return (((t ^ (t >>> 14)) >>> 0) + 1) / 2 ** 32;
  });
}

/* Standard normal numbers from the same seed, by the method of Box and Muller. */
export function normals(seed, count) {
  const u = uniforms(seed, count + (count % 2));
  return Float64Array.from({ length: count }, (_, i) => {
    const pair = i - (i % 2);
    const radius = Math.sqrt(-2 * Math.log(u[pair]));
    const angle = 2 * Math.PI * u[pair + 1];
    return radius * (i % 2 ? Math.sin(angle) : Math.cos(angle));
  });
}

/* Weights from scores; a row of which all are -Infinity gives NaN, as it does in PyTorch. */
export const softmax = (scores) => softmaxInPlace(Array.from(scores), scores.length);

/* The same of the first `count` scores, written over them. */
export function softmaxInPlace(scores, count) {
  let [top, total] = [-Infinity, 0];
  for (let i = 0; i < count; i++) top = Math.max(top, scores[i]);
  for (let i = 0; i < count; i++) total += scores[i] = Math.exp(scores[i] - top);
  for (let i = 0; i < count; i++) scores[i] /= total;
  return scores;
}

/* The n most probable tokens, [[id, probability], …], the first the most probable. */
export function likeliest(probs, n) {
  const ids = Array.from(probs, (_, id) => id).sort((a, b) => probs[b] - probs[a] || a - b);
  return ids.slice(0, n).map((id) => [id, probs[id]]);
}

/* What `next_token_probs` gives for one row of logits: temperature 0 is its limit, ties of the k-th are all kept. */
export function nextTokenProbs(logits, temperature = 1, topK = null) {
  const top = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  if (temperature === 0) {
    const best = logits.indexOf(top);
    return Array.from(logits, (_, i) => Number(i === best));
  }
  const least = topK === null || topK >= logits.length ? -Infinity : Float64Array.from(logits).sort().at(-topK);
  return softmax(Array.from(logits, (z) => (z < least ? -Infinity : (z - top) / temperature)));
}

/* In bits. What has probability 0 adds nothing. */
export const entropy = (p) => p.reduce((sum, x) => (x > 0 ? sum - x * Math.log2(x) : sum), 0);

/* A number for people: `digits` decimals, a true minus sign, thin spaces in long whole numbers. */
export function shown(value, digits = 2) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const [whole, part] = Math.abs(value).toFixed(digits).split(".");
  const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
  const text = grouped + (part ? `.${part}` : "");
  return value < 0 && /[1-9]/.test(text) ? `−${text}` : text;
}

/* The same to `digits` significant places, however small: 0.00012 is 1.2e−4. */
export function precise(value, digits = 2) {
  const size = Math.abs(value);
  if (!Number.isFinite(value) || !size || (size >= 10 ** -digits && size < 1e5)) {
    return shown(value, size >= 1 ? Math.max(0, digits - Math.ceil(Math.log10(size + 1e-9))) : digits + 1);
  }
  return value.toExponential(digits - 1).replace(/e\+?/, "e").replaceAll("-", "−");
}

// -- controls ---------------------------------------------------------------------------------------------------------

/* A slider with its number. `values` lists what it can be; without it, whole steps from `low` to `high`.
 * `set` shows a value that need not be on the slider: Python may choose any. */
export function slider({ label, values = null, low = 0, high = 1, step = 1, show = (x) => String(x), change }) {
  const id = fresh("slider");
  const nearest = (value) =>
    values.reduce((best, x, i) => (Math.abs(x - value) < Math.abs(values[best] - value) ? i : best), 0);
  const read = () => (values ? values[Number(input.value)] : Number(input.value));
  const range = values ? { min: 0, max: values.length - 1, step: 1 } : { min: low, max: high, step };
  const input = h("input", { type: "range", id, ...range, oninput: () => change(read()) });
  const number = h("output", { class: "tgw-number", htmlFor: id });
  return {
    node: h("div", { class: "tgw-slider" }, h("label", { htmlFor: id }, label), number, input),
    set(value, ceiling = null) {
      if (ceiling !== null) input.max = ceiling;
      input.value = values ? nearest(value) : value;
      number.textContent = show(value);
      input.setAttribute("aria-valuetext", show(value));
    },
  };
}

// nearly even steps on a logarithmic scale, and 0, which has none
const TEMPERATURES = [
  0, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
  1, 1.1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5,
];

export const temperatureSlider = (change) =>
  slider({ label: "Temperature τ", values: TEMPERATURES, show: (t) => (t === 0 ? "0 (greedy)" : String(t)), change });

/* One of a few: radio buttons in a row. `options` maps each value to its words. */
export function oneOf({ label, options, change }) {
  const name = fresh("choice");
  const inputs = new Map();
  const parts = Object.entries(options).map(([value, words]) => {
    const input = h("input", { type: "radio", name, value, onchange: () => change(value) });
    inputs.set(value, input);
    return h("label", { class: "tgw-option" }, input, h("span", {}, words));
  });
  return {
    node: h("fieldset", { class: "tgw-choice" }, h("legend", {}, label), h("div", { class: "tgw-options" }, ...parts)),
    set(value) {
      for (const [key, input] of inputs) input.checked = key === value;
    },
  };
}

/* One of several, in a list that opens. `options` is a list of words; the value is the place in it. */
export function picker({ label, change }) {
  const id = fresh("picker");
  const select = h("select", { id, onchange: () => change(select.selectedIndex) });
  return {
    node: h("div", { class: "tgw-text" }, h("label", { htmlFor: id }, label), select),
    set(index, options) {
      if ([...select.options].map((o) => o.text).join("\n") !== options.join("\n")) {
        select.replaceChildren(...options.map((words) => h("option", {}, words)));
      }
      select.selectedIndex = index;
    },
  };
}

/* A line of text, or with `rows` several. What is longer than `longest` characters is cut, as a reader counts them. */
export function textField({ label, longest, change, rows = 0, ...more }) {
  const id = fresh("text");
  const kind = rows ? { rows } : { type: "text" };
  const input = h(rows ? "textarea" : "input", { ...kind, id, autocomplete: "off", spellcheck: false, ...more });
  input.setAttribute("autocapitalize", "off");
  const take = () => change([...input.value].slice(0, longest).join(""));
  input.addEventListener("input", ({ isComposing }) => isComposing || take()); // not half a character, still being typed
  input.addEventListener("compositionend", take); // no input event follows in Chromium
  return {
    node: h("div", { class: "tgw-text" }, h("label", { htmlFor: id }, label), input),
    input,
    set(value) {
      if (input.value !== value && [...input.value].slice(0, longest).join("") !== value) input.value = value;
    },
  };
}

export const button = (label, click, more = {}) => h("button", { type: "button", onclick: click, ...more }, label);

/* Says a sentence to a screen reader once the reader's hand has come to rest, and only if it is news. */
export function announcer() {
  let timer, last;
  const node = h("span", { class: "tgw-unseen", role: "status" });
  return {
    node,
    say(sentence) {
      if (last === undefined) last = sentence; // what stands there at the start is read with the page
      clearTimeout(timer);
      if (sentence === last) return;
      timer = setTimeout(() => (node.textContent = last = sentence), 700);
    },
    stop: () => clearTimeout(timer),
  };
}

/* What the browser keeps of a widget under a key: read() gives a text or null, write(object) replaces it, {} removes it.
 * Without a key, or in a browser that keeps nothing, all is forgotten. */
export function keeper(kind, key) {
  const name = `tiny-gpt:${kind}:${key}`;
  const guarded = (act) => {
    try {
      return key ? act(window.localStorage) : null;
    } catch {
      return null;
    }
  };
  return {
    read: () => guarded((store) => store.getItem(name)),
    write: (object) =>
      guarded((store) => (Object.keys(object).length ? store.setItem(name, JSON.stringify(object)) : store.removeItem(name))),
  };
}

// -- charts -----------------------------------------------------------------------------------------------------------

/* Where a value lies between two ends of the screen; `log` for a logarithmic axis. */
export function scale([low, high], [from, to], log = false) {
  const t = log ? Math.log : (x) => x;
  return (value) => from + ((t(value) - t(low)) / (t(high) - t(low))) * (to - from);
}

/* Round numbers from `low` to `high`, about `count` of them; on a logarithmic axis powers of `base`. */
export function ticks(low, high, count = 5, log = 0) {
  if (log) {
    const powers = [];
    for (let n = Math.ceil(Math.log(low) / Math.log(log) - 1e-9); log ** n <= high * (1 + 1e-9); n++) powers.push(log ** n);
    const every = Math.ceil(powers.length / (count + 1));
    return powers.filter((_, i) => i % every === 0);
  }
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((x) => x >= raw * (1 - 1e-9));
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}

const plain = (x) => (Math.abs(x) >= 1e4 ? `${Number((x / 1e3).toPrecision(6))}k` : String(Number(x.toPrecision(6)))).replace("-", "−");

/* 0.001 as 10⁻³, for the ticks of a logarithmic axis. */
export const power = (v) => `10${String(Math.round(Math.log10(v))).replace(/./g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)])}`;

/* Axes: { svg, x, y, plot }, the last a group to draw in, and `x`, `y` from values to the screen.
 * `x`, `y`: { domain: [low, high], label, log: base or 0, ticks: values or undefined, show }. An axis that is null is
 * not drawn, and its values are pixels. `alt` says in words what the chart shows. */
export function axes({ width, height, x, y, title = "", alt }) {
  const box = { left: y ? 54 : 4, right: width - 16, top: title ? 28 : 10, bottom: height - (x ? 42 : 6) };
  const place = {
    x: x ? scale(x.domain, [box.left, box.right], x.log) : (v) => v,
    y: y ? scale(y.domain, [box.bottom, box.top], y.log) : (v) => v,
  };
  const marks = s("g", { class: "tgw-axes", "aria-hidden": "true" });
  const name = (axis) => axis.show ?? plain;
  for (const v of y ? (y.ticks ?? ticks(...y.domain, 4, y.log)) : []) {
    const at = place.y(v);
    marks.append(
      s("line", { class: "tgw-grid", x1: box.left, x2: box.right, y1: at, y2: at }),
      s("text", { x: box.left - 6, y: at, dy: "0.32em", "text-anchor": "end" }, name(y)(v)),
    );
  }
  for (const v of x ? (x.ticks ?? ticks(...x.domain, Math.min(8, Math.floor(width / 70)), x.log)) : []) {
    marks.append(s("text", { x: place.x(v), y: box.bottom + 16, "text-anchor": "middle" }, name(x)(v)));
  }
  if (x) {
    marks.append(
      s("line", { class: "tgw-axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
      s("text", { x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, x.label),
    );
  }
  if (y?.label) {
    const at = (box.top + box.bottom) / 2;
    marks.append(s("text", { transform: `translate(11 ${at}) rotate(-90)`, "text-anchor": "middle" }, y.label));
  }
  if (title) marks.append(s("text", { class: "tgw-title", x: (box.left + box.right) / 2, y: 15, "text-anchor": "middle" }, title));
  const plot = s("g");
  const svg = s("svg", { class: "tgw-chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": alt }, marks, plot);
  return { svg, plot, box, ...place };
}

/* Bars, one a value, over places 1 to n of a chart's x-axis. */
export function bars(chart, values, { colour, width = 0.75, base = 0, classes = "" }) {
  const thick = Math.max(1, (chart.x(2) - chart.x(1)) * width);
  chart.plot.append(
    ...Array.from(values, (v, i) => {
      const [a, b] = [chart.y(base), chart.y(v)];
      const place = { x: chart.x(i + 1) - thick / 2, width: thick, y: Math.min(a, b), height: Math.abs(a - b) };
      return s("rect", { class: `tgw-bar ${classes}`, ...place, fill: `var(--w-${colour})` });
    }),
  );
}

/* Dots at points. */
export function dots(chart, xs, ys, { colour = "ink", size = 3 } = {}) {
  xs.forEach((x, i) => chart.plot.append(s("circle", { cx: chart.x(x), cy: chart.y(ys[i]), r: size, fill: `var(--w-${colour})` })));
}

/* A line through points; gaps where a value is not finite. */
export function line(chart, xs, ys, { colour = "ink", dash = null, width = 2 }) {
  let path = "";
  let pen = "M";
  xs.forEach((x, i) => {
    if (!Number.isFinite(ys[i])) return void (pen = "M");
    path += `${pen}${chart.x(x).toFixed(2)} ${chart.y(ys[i]).toFixed(2)}`;
    pen = "L";
  });
  chart.plot.append(s("path", { class: "tgw-line", d: path, stroke: `var(--w-${colour})`, "stroke-width": width, "stroke-dasharray": dash }));
}

/* A level with its name at the right end. */
export function level(chart, value, words, { above = true } = {}) {
  const y = chart.y(value);
  chart.plot.append(
    s("line", { class: "tgw-level", x1: chart.box.left, x2: chart.box.right, y1: y, y2: y }),
    s("text", { class: "tgw-quiet", x: chart.box.right - 5, y: y + (above ? -5 : 14), "text-anchor": "end" }, words),
  );
}

/* An entry of a legend: a piece of a line, and its words. */
export const lineKey = (words, { colour = "ink", dash = null } = {}) =>
  h(
    "span",
    { class: "tgw-entry" },
    s(
      "svg",
      { class: "tgw-chart", width: 26, height: 8, "aria-hidden": "true" },
      s("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: `var(--w-${colour})`, "stroke-width": 2, "stroke-dasharray": dash }),
    ),
    words,
  );

/* The colour of a share from 0 to 1 on a map of COLOUR_MAPS, as [red, green, blue]. */
export function mapped(map, share) {
  const stops = COLOUR_MAPS[map];
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  return [0, 1, 2].map((c) => Math.round(stops[i][c] + (at - i) * (stops[i + 1][c] - stops[i][c])));
}

/* Black or white, whichever reads better on a colour. */
export function onColour(rgb) {
  const linear = rgb.map((c) => (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return luminance > 0.179 ? "#000" : "#fff";
}

/* A matrix as cells that can be visited: with the mouse, or with Tab and then the arrow keys.
 * `colour(value)` gives a share of `map`; null hides the cell behind hatching, as a mask does. `write(value)` is what
 * stands in a cell if there is room. `say(row, column)` describes a cell in words; `visit(row, column)`, or null and
 * null when it is left, is told where the reader is. `beside`, [name, values], is one more column, without colour. */
export function heatMap({ title, rows, columns, values, map, share, write, say, visit, at = null, size = 30, beside = null }) {
  const [height, width] = [rows.length, columns.length];
  const here = at ?? [0, 0];
  const cells = [];
  const body = values.map((row, i) =>
    h(
      "tr",
      { role: "row" },
      h("th", { scope: "row", class: "tgw-key" }, rows[i]),
      ...Array.from(row, (value, j) => {
        const part = share(value, i, j);
        const rgb = part === null ? null : mapped(map, part);
        const written = write(value, i, j);
        const cell = h("td", {
          class: `tgw-cell${rgb ? "" : " tgw-masked"}`,
          role: "gridcell",
          "aria-label": written ? `${written}. ${say(i, j)}` : say(i, j), // a name holds what is seen
          tabIndex: i === Math.min(here[0], height - 1) && j === Math.min(here[1], width - 1) ? 0 : -1,
        }, written);
        if (rgb) Object.assign(cell.style, { background: `rgb(${rgb.join(" ")})`, color: onColour(rgb) });
        cell.addEventListener("pointerenter", () => visit(i, j));
        cell.addEventListener("focus", () => {
          for (const other of cells.flat()) other.tabIndex = other === cell ? 0 : -1;
          visit(i, j);
        });
        (cells[i] ??= [])[j] = cell;
        return cell;
      }),
      beside && h("td", { class: "tgw-beside", role: "gridcell" }, beside[1][i]),
    ),
  );
  const names = columns.map((name) => h("th", { scope: "col", class: "tgw-key" }, name));
  const head = h("tr", { role: "row" }, h("td"), ...names, beside && h("th", { scope: "col", class: "tgw-beside" }, beside[0]));
  const table = h("table", { class: "tgw-heat", role: "grid" }, h("caption", {}, title), h("thead", {}, head), h("tbody", {}, ...body));
  table.style.setProperty("--cell", `${size}px`);
  table.addEventListener("pointerleave", () => visit(null, null));
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const i = cells.findIndex((row) => row.includes(event.target));
    if (i < 0) return;
    const j = cells[i].indexOf(event.target);
    const goal = step ? [i + step[0], j + step[1]] : { Home: [i, 0], End: [i, width - 1] }[event.key];
    if (!goal) return;
    event.preventDefault();
    cells[Math.max(0, Math.min(height - 1, goal[0]))][Math.max(0, Math.min(width - 1, goal[1]))].focus();
  });
  return { node: table, cells };
}

/* Signs for characters that do not show. */
export const visible = (character) => ({ " ": "␣", "\n": "↵", "\t": "⇥" })[character] ?? character;

/* Characters for people to read: the first of them, and how many more there are. */
export const listed = (characters, most = 100) =>
  characters.slice(0, most).join("") + (characters.length > most ? ` and ${characters.length - most} more` : "");

// -- a widget ---------------------------------------------------------------------------------------------------------

/* `render` of a widget that shows its traits. `build({ model, root, put })` makes the parts once and returns
 * `draw(width)`, which shows the traits as they are; it is called whenever one of them changes, by the reader or by
 * Python, and when the width does. `put({ name: value })` changes traits; `redraw()` is for what is no trait. */
export function showing(name, build) {
  return ({ model, el }) => {
    const root = keepingKeys(h("div", { class: `tgw tgw-figure ${name}` }));
    let frame = 0;
    let width = 0;
    const room = () => {
      const { paddingLeft, paddingRight } = getComputedStyle(root);
      return root.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
    };
    function put(traits) {
      for (const [key, value] of Object.entries(traits)) model.set(key, value);
      model.save_changes();
    }
    const later = () => (frame ||= requestAnimationFrame(draw));
    const parts = build({ model, root, put, redraw: later });
    function draw() {
      frame = 0;
      width = Math.max(240, room() > 0 ? room() : width || 640);
      parts.draw(width);
    }
    const watcher = new ResizeObserver(() => room() > 0 && room() !== width && later());
    el.append(root);
    draw();
    watcher.observe(root);
    model.on("change", later);
    return () => {
      model.off("change", later);
      watcher.disconnect();
      cancelAnimationFrame(frame);
      parts.stop?.();
      root.remove();
    };
  };
}
