/* One attention head on the reader's text: scores, masked scores, weights, and who notices a changed character.
 * Names as in mask.py. */

const LONGEST = 12;
const D = 8;
const WORDS = {
  right: "as it should be",
  "sees-next": "one too far: sees the next",
  "excludes-self": "one too short: not itself",
  missing: "missing",
  "after-softmax": "after the softmax",
};

/* { S, allowed, P, O } of the head, each a list of rows; the character at position `changed` becomes the next one. */
export function head(text, seed, mask, changed = -1) {
  const codes = [...text].slice(0, LONGEST).map((c, t) => c.codePointAt(0) + (t === changed ? 1 : 0));
  const at = (offset) => normals((seed + offset) | 0, D);
  const x = codes.map((code, t) => {
    const token = at(Math.imul(7919, code));
    return at(104729 * (t + 1)).map((position, i) => position + token[i]);
  });
  const W = normals(seed + 1, 3 * D * D);
  const project = (which) =>
    x.map((row) =>
      Array.from({ length: D }, (_, j) => row.reduce((sum, v, i) => sum + v * W[(which * D + i) * D + j], 0) / Math.sqrt(D)),
    );
  const [q, k, v] = [project(0), project(1), project(2)];
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const S = q.map((row) => k.map((key) => dot(row, key) / Math.sqrt(D)));
  const reach = { "sees-next": 1, "excludes-self": -1, missing: codes.length }[mask] ?? 0;
  const allowed = S.map((row, i) => row.map((_, j) => j <= i + reach));
  const P = S.map((row, i) =>
    mask === "after-softmax"
      ? softmax(row).map((p, j) => (allowed[i][j] ? p : 0))
      : softmax(row.map((score, j) => (allowed[i][j] ? score : -Infinity))),
  );
  const O = P.map((row) => Array.from({ length: D }, (_, c) => row.reduce((sum, p, j) => sum + p * v[j][c], 0)));
  return { S, allowed, P, O };
}

/* How far each position's output moves when the character at `changed` is replaced. */
export function moved(text, seed, mask, changed) {
  const [before, after] = [head(text, seed, mask).O, head(text, seed, mask, changed).O];
  return before.map((row, t) => Math.hypot(...row.map((value, i) => value - after[t][i])));
}

/* The positions before `changed` that notice: what must not happen. */
export const leaks = (moves, changed) => moves.flatMap((move, t) => (t < changed && move > 1e-9 ? [t] : []));

function build({ model, root, put }) {
  root.dir = "ltr"; // positions run from left to right, whatever the reader types
  const controls = {
    text: textField({ label: `Your text, up to ${LONGEST} characters`, longest: LONGEST, change: (text) => put({ text, changed: -1 }) }),
    mask: oneOf({ label: "The mask", options: WORDS, change: (mask) => put({ mask }) }),
  };
  const maps = h("div", { class: "tgw-charts" });
  const readout = h("p", { class: "tgw-readout" });
  const strip = h("div", { class: "tgw-strip", role: "group", "aria-label": "Change one character" });
  const says = h("p", { class: "tgw-says" });
  const told = announcer();
  root.append(
    h("div", { class: "tgw-controls" }, controls.text.node, controls.mask.node),
    maps,
    readout,
    h("p", { class: "tgw-heading" }, "Change one character: which outputs move?"),
    h("div", { class: "tgw-scroll" }, strip),
    says,
    told.node,
  );
  let at = { S: [0, 0], SM: [0, 0], P: [0, 0] }; // where the reader is in each map

  const cell = (name) => root.querySelector(`[data-map="${name}"] [tabindex="0"]`);

  function draw(width) {
    const [text, mask, seed] = ["text", "mask", "seed"].map((name) => model.get(name));
    const characters = [...text].slice(0, LONGEST);
    const T = characters.length;
    const changed = Math.min(model.get("changed"), T - 1);
    controls.text.set(text);
    controls.mask.set(mask);
    if (!T) {
      maps.replaceChildren(h("p", {}, "Type a character, and its head appears here."));
      strip.replaceChildren();
      readout.textContent = says.textContent = "";
      return;
    }
    const { S, allowed, P } = head(text, seed, mask);
    const after = mask === "after-softmax";
    const middle = after ? S.map(softmax) : S.map((row, i) => row.map((score, j) => (allowed[i][j] ? score : -Infinity)));
    const sums = P.map((row) => row.reduce((a, b) => a + b, 0));
    const most = Math.max(...S.flat().map(Math.abs));
    const label = (t) => `${t} “${visible(characters[t])}”`;
    const where = (i, j) => {
      const value = after ? `softmax(S) = ${shown(middle[i][j], 3)}` : `S + M = ${shown(middle[i][j])}`;
      return `Query ${label(i)}, key ${label(j)}: S = ${shown(S[i][j])}, ${value}, P = ${shown(P[i][j], 3)}.`;
    };
    const rest = "Point at a cell, or visit it with Tab and the arrow keys: rows are queries, columns are keys.";
    const visit = (name) => (i, j) => {
      if (i !== null) at[name] = [i, j];
      readout.textContent = i === null ? rest : where(i, j);
    };
    const columns = width > 620 ? 3 : width > 420 ? 2 : 1;
    // beside the cells stand the characters, with the last map the sums, and a pixel between any two
    const size = Math.max(24, Math.min(columns > 1 ? 38 : 30, Math.floor(((width - 11 * (columns - 1) - 42) / columns - 19) / T) - 1));
    const number = (value, digits) => (size < 27 ? "" : shown(value, digits).replace(/^(−?)0\./, "$1."));
    const signed = (v) => (Number.isFinite(v) ? 0.5 + v / (2 * most) : null);
    const P_share = (v, i, j) => (Number.isNaN(v) || (!after && !allowed[i][j]) ? null : v);
    const held = root.contains(document.activeElement) && document.activeElement.closest("[data-map]")?.dataset.map;
    const names = characters.map(visible);
    const make = (name, title, values, map, share, digits, beside = null) => {
      const write = (v, i, j) => (Number.isNaN(v) ? "NaN" : share(v, i, j) === null ? "" : number(v, digits));
      const parts = { title, rows: names, columns: names, values, map, share, write, say: where, beside, size };
      const { node } = heatMap({ ...parts, visit: visit(name), at: at[name] });
      return h("div", { class: "tgw-scroll", "data-map": name }, node);
    };
    maps.replaceChildren(
      make("S", "S, the scores", S, "scores", signed, 1),
      after
        ? make("SM", "softmax(S)", middle, "weights", (v) => v, 2)
        : make("SM", "S + M", middle, "scores", signed, 1),
      make("P", after ? "P = softmax(S), masked" : "P, the weights", P, "weights", P_share, 2, ["sum", sums.map((x) => shown(x))]),
    );
    if (held) cell(held)?.focus();
    else readout.textContent = rest;

    const moves = changed < 0 ? null : moved(text, seed, mask, changed);
    const largest = moves ? Math.max(...moves.filter(Number.isFinite), 1e-12) : 1;
    const pressed = strip.contains(document.activeElement) ? [...strip.children].findIndex((b) => b.contains(document.activeElement)) : -1;
    strip.replaceChildren(
      ...characters.map((character, t) => {
        const move = moves?.[t];
        const quiet = !moves || !(move > 1e-9);
        const rgb = mapped("weights", quiet ? 0 : 0.25 + (0.75 * move) / largest);
        const now = t === changed ? String.fromCodePoint(character.codePointAt(0) + 1) : character;
        const tile = button("", () => put({ changed: t === changed ? -1 : t }), {
          class: `tgw-tile${!quiet && t < changed ? " tgw-leak" : ""}`,
          "aria-pressed": String(t === changed),
        });
        const unseen = (words) => h("span", { class: "tgw-unseen" }, words);
        tile.append(unseen(`Change position ${t}: `), h("span", { class: "tgw-key" }, visible(now)));
        if (moves) tile.append(unseen(", its output moves by "), h("span", {}, Number.isNaN(move) ? "NaN" : quiet ? "0" : shown(move)));
        if (!quiet) Object.assign(tile.style, { background: `rgb(${rgb.join(" ")})`, color: onColour(rgb) });
        return tile;
      }),
    );
    if (pressed >= 0) strip.children[Math.min(pressed, T - 1)].focus();

    const empty = P.flatMap((row, i) => (row.some(Number.isNaN) ? [i] : []));
    const early = moves ? leaks(moves, changed) : [];
    const parts = [];
    if (empty.length) parts.push(`Row ${empty.join(", ")} has no key to attend to: 0/0, NaN, which spreads through every later layer.`);
    else if (after) parts.push(`The rows sum to ${shown(Math.min(...sums))} to ${shown(Math.max(...sums))}, not to 1: the weight on hidden keys is lost, and each row's denominator still knows them.`);
    else if (mask === "right") parts.push("Each row sums to 1, over itself and what came before.");
    else parts.push(`Each row sums to 1, with keys that a query must not see${mask === "missing" ? "" : " yet"}.`);
    if (moves && changed >= 0) {
      parts.push(early.length
        ? `Position ${changed} changed, and position${early.length > 1 ? "s" : ""} ${early.join(", ")} before it moved: the future leaks.`
        : `Position ${changed} changed: nothing before it moved.`);
    }
    says.textContent = parts.join(" ");
    told.say(says.textContent);
  }
  return { draw, stop: told.stop };
}

export default { render: showing("tgw-mask", build) };
