/* A tensor's way through multi-head attention, line by line: where did each element come from? Names as in shapes.py. */

const WORDS = {
  right: "right",
  "view-alone": "split by view alone",
  "all-at-once": "q, k, v and heads cut all at once",
  "merge-without-transpose": "merged without the transpose",
};

const LINES = {
  right: [
    ["x", "(B, T, C)"],
    ["qkv = x @ W_qkv", "(B, T, 3C)"],
    ["q, k, v = qkv.split(C, dim=2)", "(B, T, C)"],
    ["q = q.view(B, T, H, D)", "(B, T, H, D)"],
    ["q = q.transpose(1, 2)", "(B, H, T, D)"],
    ["P = softmax(q @ k.mT / D**0.5 + M)", "(B, H, T, T)"],
    ["y = P @ v", "(B, H, T, D)"],
    ["y = y.transpose(1, 2)", "(B, T, H, D)"],
    ["y = y.reshape(B, T, C)", "(B, T, C)"],
  ],
  "view-alone": { 3: ["q = q.view(B, H, T, D)", "(B, H, T, D)"], 4: ["# no transpose", "(B, H, T, D)"] },
  "all-at-once": {
    2: ["q, k, v = qkv.view(3, B, H, T, D)", "(B, H, T, D)"],
    3: ["# nothing left to do", "(B, H, T, D)"],
    4: ["# nothing left to do", "(B, H, T, D)"],
  },
  "merge-without-transpose": { 7: ["# no transpose", "(B, H, T, D)"], 8: ["y = y.reshape(B, T, C)", "(B, T, C)"] },
};

/* The lines of code, each with the shape of its result. */
export const lines = (reshape) => LINES.right.map((line, i) => (reshape === "right" ? line : (LINES[reshape][i] ?? line)));

/* A tensor: its shape, and its elements in the order of memory. */
const tensor = (shape, data) => ({ shape, data });

/* The axes in another order, and the elements copied so that memory follows. */
export function permute({ shape, data }, order) {
  const strides = shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
  const next = order.map((axis) => shape[axis]);
  const out = [];
  const walk = (depth, offset) => {
    if (depth === order.length) return void out.push(data[offset]);
    for (let i = 0; i < next[depth]; i++) walk(depth + 1, offset + i * strides[order[depth]]);
  };
  walk(0, 0);
  return tensor(next, out);
}

/* The tensor after each line. An element is the number of its place in qkv (B, T, 3C); see shapes.py. */
export function walk({ B, T, C, H, reshape }) {
  const D = C / H;
  const all = Array.from({ length: B * T * 3 * C }, (_, i) => i);
  const qkv = tensor([B, T, 3 * C], all);
  const x = tensor([B, T, C], all.filter((i) => i % (3 * C) < C));
  let q = x;
  let split = tensor([B, T, H, D], q.data);
  let heads = permute(split, [0, 2, 1, 3]);
  if (reshape === "view-alone") split = heads = tensor([B, H, T, D], q.data);
  if (reshape === "all-at-once") q = split = heads = tensor([B, H, T, D], all.slice(0, B * T * C));
  const scores = tensor([B, H, T, T], Array.from({ length: B * H * T * T }, (_, i) => heads.data[Math.floor(i / T) * D]));
  const back = reshape === "merge-without-transpose" ? heads : permute(heads, [0, 2, 1, 3]);
  return [x, qkv, q, split, heads, scores, heads, back, tensor([B, T, C], back.data)];
}

/* Where an element was made: in which text, at which position, as what (0 query, 1 key, 2 value), for which head. */
export function origin(number, { T, C, H }) {
  const channel = number % (3 * C);
  return {
    text: Math.floor(number / (3 * C * T)),
    position: Math.floor(number / (3 * C)) % T,
    role: Math.floor(channel / C),
    head: Math.floor((channel % C) / (C / H)),
  };
}

/* What is wrong in the rows of a (B, H, T, D) or (B, T, C) tensor, in words; "" if each holds what it should. */
export function mixing({ shape, data }, sizes) {
  const width = shape.at(-1);
  const rows = data.length / width;
  for (let r = 0; r < rows; r++) {
    const from = data.slice(r * width, (r + 1) * width).map((n) => origin(n, sizes));
    const seen = (key) => [...new Set(from.map((o) => o[key]))];
    const row = r % shape.at(-2);
    const where = shape.length === 4 ? `Head ${Math.floor(r / shape[2]) % shape[1]}, row ${row}` : `Row ${row}`;
    const text = Math.floor((r * B_of(shape)) / rows);
    if (seen("text").some((b) => b !== text)) return `${where} of text ${text} holds elements of text ${seen("text").filter((b) => b !== text)[0]}: the batch leaks.`;
    if (seen("role").length > 1 || seen("role")[0]) return `${where} is to hold queries, and holds ${seen("role").map((i) => ["queries", "keys", "values"][i]).join(" and ")}.`;
    if (seen("position").length > 1) return `${where} holds elements of positions ${seen("position").join(", ")}: a query that knows later positions.`;
    if (seen("position")[0] !== row) return `${where} holds elements of position ${seen("position")[0]}, made for head ${seen("head").join(" and ")}.`;
    if (shape.length === 4 && seen("head").length > 1) return `${where} mixes the channels of heads ${seen("head").join(", ")}.`;
    if (shape.length === 4 && seen("head")[0] !== Math.floor(r / shape[2]) % shape[1]) return `${where} holds head ${seen("head")[0]}.`;
    if (shape.length === 3 && from.some((o, c) => o.head !== Math.floor(c / (width / sizes.H)))) return `${where} has its heads out of order.`;
  }
  return "";
}
const B_of = (shape) => shape[0];

const TINTS = [0.16, 0.42, 0.72];
const PRIMES = ["", "′"]; // the second text of a batch

function build({ model, root, put }) {
  const sizesOf = () => Object.fromEntries(["B", "T", "C", "H"].map((name) => [name, model.get(name)]));
  const multiples = (H) => Array.from({ length: Math.floor(12 / H) }, (_, i) => (i + 1) * H);
  const channels = [1, 2, 3].map((H) => slider({ label: "C, channels", values: multiples(H), change: (C) => put({ C }) }));
  const controls = {
    B: slider({ label: "B, texts", low: 1, high: 2, change: (B) => put({ B }) }),
    T: slider({ label: "T, positions", low: 2, high: 5, change: (T) => put({ T }) }),
    H: slider({
      label: "H, heads",
      low: 1,
      high: 3,
      change: (H) => put({ H, C: multiples(H).reduce((a, b) => (Math.abs(b - model.get("C")) < Math.abs(a - model.get("C")) ? b : a)) }),
    }),
  };
  const reshape = oneOf({ label: "The reshape", options: WORDS, change: (value) => put({ reshape: value }) });
  const go = (by) => put({ step: Math.max(0, Math.min(LINES.right.length - 1, model.get("step") + by)) });
  const back = button("← Back", () => go(-1));
  const next = button("Next line →", () => go(1));
  const list = h("ol", { class: "tgw-lines", start: 0 });
  const drawing = h("div", { class: "tgw-texts tgw-scroll", tabIndex: 0, role: "group", "aria-label": "The tensor after this line" });
  const says = h("p", { class: "tgw-says" });
  const told = announcer();
  const sliders = [controls.B, controls.T, ...channels, controls.H].map((control) => control.node);
  root.append(
    h("div", { class: "tgw-controls tgw-sizes" }, ...sliders),
    h("div", { class: "tgw-controls" }, reshape.node),
    h("div", { class: "tgw-side" }, h("div", {}, list, h("div", { class: "tgw-steps" }, back, next)), h("div", { class: "tgw-tensor" }, drawing, says)),
    told.node,
  );

  function grid(name, heading, rows, columns, cells, size) {
    const top = heading ? 16 : 0;
    const width = Math.max(columns * size + 2, 7 * heading.length);
    const svg = s("svg", { class: "tgw-chart", width, height: top + rows * size + 2, role: "img", "aria-label": `${name || "the tensor"}: ${cells.map((cell) => cell.words).join("; ")}` });
    if (heading) svg.append(s("text", { x: 0, y: 12 }, heading));
    cells.forEach((cell, i) => {
      const [x, y] = [(i % columns) * size + 1, top + Math.floor(i / columns) * size + 1];
      svg.append(
        s("rect", { x, y, width: size - 1.5, height: size - 1.5, fill: `var(--w-${"qkv"[cell.role]})`, "fill-opacity": TINTS[cell.head] }),
        s("text", { x: x + size / 2 - 0.75, y: y + size / 2, dy: "0.34em", "text-anchor": "middle", "font-size": size > 20 ? 13 : size > 17 ? 11 : 10 }, cell.label),
      );
    });
    return svg;
  }

  function draw() {
    const sizes = sizesOf();
    const { B, T, C, H } = sizes;
    const [kind, step] = [model.get("reshape"), model.get("step")];
    for (const [name, control] of Object.entries(controls)) control.set(sizes[name]);
    channels.forEach((control, i) => {
      control.node.hidden = i + 1 !== H;
      if (i + 1 === H) control.set(C);
    });
    reshape.set(kind);
    back.setAttribute("aria-disabled", String(step === 0));
    next.setAttribute("aria-disabled", String(step === LINES.right.length - 1));
    const code = lines(kind);
    list.replaceChildren(
      ...code.map(([line, shape], i) =>
        h("li", { class: line === LINES.right[i][0] ? "" : "tgw-wrong", "data-step": i, "aria-current": i === step ? "step" : null }, h("code", {}, line), h("span", { class: "tgw-shape" }, `# ${shape}`)),
      ),
    );
    const steps = walk({ ...sizes, reshape: kind });
    const { shape, data } = steps[step];
    const scores = step === 5;
    const [rows, columns] = shape.slice(-2);
    const across = shape.length === 4 ? shape[1] : 1; // grids side by side
    const size = Math.max(16, Math.min(24, Math.floor(((drawing.clientWidth || 290) - 16 * (across - 1)) / (across * columns)) - 1));
    const names = code[step][1].replace(/[() ]/g, "").split(",");
    const grids = [];
    for (let g = 0; g < data.length / (rows * columns); g++) {
      const outer = shape.length === 4 ? [Math.floor(g / shape[1]), g % shape[1]] : [g];
      const name = outer.map((i, axis) => (names[axis] === "B" && B === 1 ? "" : `${{ B: "text", H: "head", T: "position" }[names[axis]]} ${i}`)).filter(Boolean).join(", ");
      const cells = data.slice(g * rows * columns, (g + 1) * rows * columns).map((number, i) => {
        const from = origin(number, sizes);
        const label = scores ? `${Math.floor(i / columns)}${i % columns}` : `${from.position}${PRIMES[from.text]}`;
        const words = `row ${Math.floor(i / columns)}, column ${i % columns} from position ${from.position}, head ${from.head}${B > 1 ? `, text ${from.text}` : ""}`;
        return { ...from, label, words };
      });
      // the first grid in a row says what is counted, the others only count
      const heading = shape.length < 4 ? "" : outer[1] ? String(outer[1]) : `${names[1] === "H" ? "head" : "position"} 0`;
      grids.push(grid(name, heading, rows, columns, cells, size));
    }
    const texts = Array.from({ length: B }, (_, b) => grids.slice(b * across, (b + 1) * across));
    drawing.replaceChildren(
      ...texts.map((some, b) => h("div", {}, B > 1 && h("p", { class: "tgw-heading" }, `text ${b}`), h("div", { class: "tgw-grids" }, ...some))),
    );
    const wrong = step >= 2 && !scores && !(step === 3 && kind !== "view-alone" && kind !== "all-at-once") && !(step === 7) ? mixing(steps[step], sizes) : "";
    const notes = {
      0: "Each row is a position. The tint says for which head a channel's query will be made.",
      1: "One matrix makes queries (blue), keys (orange) and values (green). The tint is the head.",
      2: "The queries. Heads still lie side by side in each row.",
      3: "Each position's channels are cut into heads. Nothing has moved in memory.",
      4: "Heads and positions have changed places: each grid is one head, each row one position.",
      5: "A cell “ij” is query i against key j. Each head has its own table.",
      6: "What each head has read, one row a position.",
      7: "Back: each position has its heads together again.",
      8: "And side by side in one row: a position's heads in order.",
    };
    const upstream = wrong || (step > 4 && mixing(steps[4], sizes));
    const about = upstream ? "" : kind === "merge-without-transpose" && step === 7 ? "Heads and positions have not changed places back." : notes[step];
    says.textContent = `Shape (${shape.join(", ")}). ${wrong || (upstream ? `Nothing mends it: in the queries, ${upstream[0].toLowerCase()}${upstream.slice(1)}` : about)}`;
    told.say(`Line ${step}: ${code[step][0]}. ${says.textContent}`);
  }
  return { draw, stop: told.stop };
}

export default { render: showing("tgw-shapes", build) };
