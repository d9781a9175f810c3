/* One query, some keys, their weights: raw, and scaled as the reader chooses. Names as in scaling.py. */

const WIDEST = 1024;
const MOST_KEYS = 64;
const SCALES = { none: () => 1, root: (d) => d ** -0.5, width: (d) => 1 / d, model: (d) => (8 * d) ** -0.5 };
const NAMES = { none: "raw", root: "1/√D", width: "1/D", model: "1/√C" };
const WORDS = { root: "÷ √D", width: "÷ D", model: "÷ √C, with C = 8 D", none: "not at all" };
// four widths to the octave, where whole numbers allow it
const WIDTHS = [...new Set(Array.from({ length: 41 }, (_, i) => Math.round(2 ** (i / 4))))];

/* Raw scores at the widths asked for, in rising order, of one and the same draw: each wider vector begins with the
 * narrower one. */
export function scoresAt(widths, keys, seed) {
  const drawn = normals(seed, (1 + MOST_KEYS) * WIDEST);
  const sums = new Float64Array(keys);
  let done = 0;
  return widths.map((width) => {
    for (; done < width; done++) {
      for (let i = 0; i < keys; i++) sums[i] += drawn[done] * drawn[(i + 1) * WIDEST + done];
    }
    return Array.from(sums);
  });
}

export const weights = (scores, scaling, width) => softmax(scores.map((z) => z * SCALES[scaling](width)));

/* Frobenius norm of diag(p) - p pᵀ, without making the matrix. */
export function jacobian(p) {
  const power = (n) => p.reduce((sum, x) => sum + x ** n, 0);
  return Math.sqrt(Math.max(0, power(2) - 2 * power(3) + power(2) ** 2));
}

function build({ model, root, put }) {
  const controls = {
    d_k: slider({ label: "Width D of query and keys", values: WIDTHS, change: (d_k) => put({ d_k }) }),
    n_keys: slider({ label: "Number of keys", low: 2, high: MOST_KEYS, change: (n_keys) => put({ n_keys }) }),
    scaling: oneOf({ label: "Scores scaled", options: WORDS, change: (scaling) => put({ scaling }) }),
  };
  const again = button("Draw other vectors", () => put({ seed: (model.get("seed") + 1) % 2 ** 31 }));
  const charts = h("div", { class: "tgw-charts" });
  const says = h("p", { class: "tgw-says" });
  const told = announcer();
  const nodes = Object.values(controls).map((control) => control.node);
  root.append(h("div", { class: "tgw-controls" }, ...nodes, again), charts, says, told.node);
  let drawn = ["", null];

  function panel(p, scaling, colour, width) {
    const n = p.length;
    const name = NAMES[scaling];
    const chart = axes({
      width,
      height: 190,
      title: `${name}: ${shown(entropy(p))} bits`,
      alt: `Weights of ${n} keys, ${name}: the largest is ${shown(Math.max(...p), 3)}, ${shown(2 ** entropy(p), 1)} keys are in effect read.`,
      x: { domain: [0.4, n + 0.6], label: "key", ticks: ticks(1, n, 6).filter(Number.isInteger) },
      y: { domain: [0, 1], label: "weight" },
    });
    bars(chart, p, { colour });
    level(chart, 1 / n, "", {});
    return chart.svg;
  }

  function curve(scores, width, d, n, scaling) {
    const most = Math.log2(n);
    const chart = axes({
      width,
      height: 210,
      title: `Entropy: raw dashed${scaling === "none" ? "" : `, ${NAMES[scaling]} solid`}`,
      alt: `Entropy by width from 1 to ${WIDEST}: raw it ends at ${shown(entropy(weights(scores.at(-1), "none", WIDEST)))} bits, scaled ${NAMES[scaling]} at ${shown(entropy(weights(scores.at(-1), scaling, WIDEST)))}.`,
      x: { domain: [1, WIDEST], log: 2, label: "width D" },
      y: { domain: [0, 1.12 * most], label: "bits" },
    });
    const along = (how) => WIDTHS.map((w, i) => entropy(weights(scores[i], how, w)));
    level(chart, most, `log₂ ${n} = ${shown(most)}`);
    line(chart, WIDTHS, along("none"), { colour: "ink", dash: "6 4" });
    if (scaling !== "none") line(chart, WIDTHS, along(scaling), { colour: "attention" });
    const x = chart.x(d);
    chart.plot.append(s("line", { class: "tgw-axis", x1: x, x2: x, y1: chart.box.top, y2: chart.box.bottom, "stroke-width": 1 }));
    return chart.svg;
  }

  return {
    stop: told.stop,
    draw(width) {
      const [d, n, scaling, seed] = ["d_k", "n_keys", "scaling", "seed"].map((name) => model.get(name));
      controls.d_k.set(d);
      controls.n_keys.set(n);
      controls.scaling.set(scaling);
      if (drawn[0] !== `${n} ${seed}`) drawn = [`${n} ${seed}`, scoresAt(WIDTHS, n, seed)];
      const at = WIDTHS.indexOf(d); // Python may choose a width that the slider has not
      const scores = at >= 0 ? drawn[1][at] : scoresAt([d], n, seed)[0];
      const [raw, scaled] = ["none", scaling].map((how) => weights(scores, how, d));
      const half = width > 460 ? (width - 16) / 2 : width;
      charts.replaceChildren(
        panel(raw, "none", "ink", half),
        panel(scaled, scaling, scaling === "none" ? "ink" : "attention", half),
        curve(drawn[1], width, d, n, scaling),
      );
      const most = shown(Math.log2(n));
      const part = (name, p) => `${name} ${shown(entropy(p))} of ${most} bits, Jacobian's norm ${precise(jacobian(p))}`;
      says.textContent = `D = ${d}, ${n} keys. ${part("Raw:", raw)}. ${part(`Times ${NAMES[scaling]}:`, scaled)}.`;
      told.say(says.textContent);
    },
  };
}

export default { render: showing("tgw-scaling", build) };
