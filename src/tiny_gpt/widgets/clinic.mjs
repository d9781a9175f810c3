/* Blind diagnosis: what one sees of a trained model, tests that cost points, and a verdict. Names as in clinic.py. */

const START = 10;
const WRONG = 3;
const SOURCES = {
  shakespeare: "Shakespeare, by characters",
  markov: "a chain in which each symbol depends on the one before",
  copy: "six random symbols, then the same six again, and so on",
};

/* What a patient has brought: nothing before the right verdict, then what the tests and wrong verdicts have left. */
export function points(patient, chart, tests) {
  if (!chart.named.includes(patient.bug)) return 0;
  const cost = chart.ordered.reduce((sum, name) => sum + tests[name][1], 0) + WRONG * (chart.named.length - 1);
  return Math.max(0, START - cost);
}

/* The verdicts to choose from, in an order that tells nothing: by their words, "nothing" last. */
export function verdicts(patient, diagnoses) {
  const ids = [...new Set([patient.bug, ...patient.confusable])].filter((id) => id !== "healthy");
  return [...ids.sort((a, b) => (diagnoses[a][0] < diagnoses[b][0] ? -1 : 1)), "healthy"];
}

/* What was kept of earlier visits, without what does not fit. */
export function revive(text, patients, tests, diagnoses) {
  let kept;
  try {
    kept = JSON.parse(text);
  } catch {
    return {};
  }
  const charts = {};
  patients.forEach((patient, i) => {
    const chart = kept && typeof kept === "object" && Object.hasOwn(kept, i) ? kept[i] : null;
    if (!chart || !Array.isArray(chart.ordered) || !Array.isArray(chart.named)) return;
    const known = verdicts(patient, diagnoses);
    charts[i] = {
      ordered: [...new Set(chart.ordered)].filter((name) => Object.hasOwn(tests, name)),
      named: [...new Set(chart.named)].filter((id) => known.includes(id)),
    };
  });
  return charts;
}

const clear = (x) => (x === null ? "none" : Math.abs(x) < 1e-4 ? "0" : precise(x));

const nats = (x) => (x === null ? "NaN" : shown(x, 3));

/* A test's result in a sentence. */
export function result(name, patient) {
  const found = patient.tests[name];
  switch (name) {
    case "count":
      return `The formula gives ${shown(patient.expected_parameters, 0)} parameters. This model has ${shown(patient.parameters, 0)}.`;
    case "prefix":
      return `Largest difference of the first 8 positions' logits: ${clear(found.difference)}.`;
    case "batch":
      return `Largest change of the last row's logits when the other rows change: ${clear(found.difference)}.`;
    case "perturb":
      return `The token at position ${found.position} was changed. Largest change of the logits, position by position: ${found.moved.map(clear).join(", ")}.`;
    case "silence":
      return `With all branches silent, the stream leaves the blocks with ${clear(found.size)} times the size that it came in with; the cosine of the two is ${clear(found.cosine)}.`;
    case "bend":
      return found.bend === null
        ? "It gives no number: not all of what this network computes is finite."
        : `What is left of its output's change beyond the doubling: ${clear(found.bend)} times the output.`;
    case "scale":
      return Math.abs(found.ratio) < 0.2
        ? "The weights do not follow the scores: no single factor explains them."
        : `The scores were multiplied by ${precise(found.ratio)} times 1/√D.`;
    case "gradients":
      return `${Object.entries(found.norms).map(([part, norm]) => `${part}: ${norm === null ? "no gradient" : clear(norm)}`).join("; ")}.`;
    default:
      return "";
  }
}

function build({ model, root, put }) {
  const head = h("div", { class: "tgw-controls" });
  const who = picker({ label: "Patient", change: (current) => put({ current }) });
  const step = (by) => put({ current: (model.get("current") + by + model.get("patients").length) % model.get("patients").length });
  head.append(who.node, h("div", { class: "tgw-steps" }, button("← Before", () => step(-1)), button("Next →", () => step(1))));
  const tally = h("p", { class: "tgw-tally" });
  const facts = h("dl", { class: "tgw-facts" });
  const charts = h("div", { class: "tgw-charts" });
  const attention = h("div", { class: "tgw-scroll" });
  const sample = h("pre", { class: "tgw-sample", tabIndex: 0, "aria-label": "What the model wrote" });
  const ordered = h("div", { class: "tgw-ordered" });
  const choice = h("div", { class: "tgw-verdict" });
  const says = h("div", { class: "tgw-says" });
  const told = announcer();
  const readout = h("p", { class: "tgw-readout" });
  const reset = button("Forget all my diagnoses", () => put({ charts: {} }));
  root.append(
    head,
    tally,
    facts,
    charts,
    h("div", { class: "tgw-pair" }, h("div", {}, attention, readout), h("div", {}, h("p", { class: "tgw-heading" }, "What it writes"), sample)),
    h("p", { class: "tgw-heading" }, "Order tests"),
    ordered,
    h("p", { class: "tgw-heading" }, "Your verdict"),
    choice,
    says,
    h("div", { class: "tgw-foot" }, reset),
    told.node,
  );
  const chartOf = (i) => model.get("charts")[i] ?? { ordered: [], named: [] };
  const update = (change) => {
    const i = model.get("current");
    put({ charts: { ...model.get("charts"), [i]: { ...chartOf(i), ...change } } });
  };
  const box = keeper("clinic", model.get("key"));
  if (!Object.keys(model.get("charts")).length) {
    const kept = revive(box.read() ?? "{}", model.get("patients"), model.get("tests"), model.get("diagnoses"));
    if (Object.keys(kept).length) put({ charts: kept });
  }
  let shownPatient = null;

  function curves(patient, width) {
    const all = [...patient.train, ...patient.valid, Math.log(patient.vocab_size), patient.floor ?? 4].filter((v) => v !== null);
    const top = Math.min(Math.max(...all), 6);
    const figure = axes({
      width,
      height: 230,
      title: "Loss",
      alt: `Loss by updates: training ${patient.train[0] ?? "NaN"} to ${patient.train.at(-1) ?? "NaN"}, validation ${patient.valid[0] ?? "NaN"} to ${patient.valid.at(-1) ?? "NaN"} nats.`,
      x: { domain: [0, patient.steps], label: "updates" },
      y: { domain: [0, top * 1.05], label: "nats" },
    });
    level(figure, Math.log(patient.vocab_size), `ln ${patient.vocab_size} = ${shown(Math.log(patient.vocab_size))}`, { above: false });
    if (patient.floor) level(figure, patient.floor, `the source's entropy ${shown(patient.floor)}`, { above: patient.valid.at(-1) < patient.floor });
    const cut = (ys) => ys.map((y) => (y === null ? NaN : Math.min(y, top * 1.05)));
    line(figure, patient.step, cut(patient.train), { colour: "train" });
    line(figure, patient.step, cut(patient.valid), { colour: "valid", dash: "7 4" });
    return figure.svg;
  }

  function norms(patient, width) {
    const values = patient.gradient.map((v) => v ?? NaN);
    const finite = values.filter((v) => v > 0);
    const figure = axes({
      width,
      height: 230,
      title: "Gradient norm",
      alt: `Gradient norm by updates: ${clear(patient.gradient[0])} at first, ${clear(patient.gradient.at(-1))} at last.`,
      x: { domain: [0, patient.steps], label: "updates" },
      y: { domain: [0, 1.1 * (finite.length ? Math.max(...finite) : 1)], label: "norm" },
    });
    line(figure, patient.step, values, { colour: "ink" });
    return figure.svg;
  }

  function moves(patient) {
    const { moved, position } = patient.tests.perturb;
    const figure = axes({
      width: Math.min(520, root.clientWidth - 40),
      height: 150,
      alt: result("perturb", patient),
      x: { domain: [-0.6, moved.length - 0.4], label: "position", ticks: [...moved.keys()].filter((i) => i % 3 === 0) },
      y: { domain: [-7, 1], label: "log₁₀", ticks: [-6, -3, 0] },
    });
    const shift = { ...figure, x: (i) => figure.x(i - 1) }; // bars count from 1
    bars(shift, moved.map((m) => Math.max(-7, Math.log10(Math.max(m, 1e-7)))), { colour: "stream", base: -7 });
    const x = figure.x(position);
    figure.plot.append(s("line", { class: "tgw-axis", x1: x, x2: x, y1: figure.box.top, y2: figure.box.bottom, "stroke-dasharray": "2 3" }));
    return figure.svg;
  }

  function draw(width) {
    const [patients, diagnoses, tests, i] = ["patients", "diagnoses", "tests", "current"].map((name) => model.get(name));
    const patient = patients[i];
    const chart = chartOf(i);
    const solved = chart.named.includes(patient.bug);
    const marks = patients.map((p, n) => (chartOf(n).named.includes(p.bug) ? ` ✓ ${points(p, chartOf(n), tests)}` : ""));
    who.set(i, patients.map((_, n) => `${n + 1} of ${patients.length}${marks[n]}`));
    const total = patients.reduce((sum, p, n) => sum + points(p, chartOf(n), tests), 0);
    const done = marks.filter(Boolean).length;
    tally.textContent = `${done} of ${patients.length} diagnosed, ${total} of ${START * done} points.`;
    const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
    facts.replaceChildren(
      ...fact("Trained on", SOURCES[patient.source] ?? patient.source),
      ...fact("Sizes", "3 layers, 4 heads, width 64, context 48, no biases"),
      ...fact("Parameters", shown(patient.parameters, 0)),
      ...fact("First loss", `${nats(patient.train[0])} nats, beside ln ${patient.vocab_size} = ${shown(Math.log(patient.vocab_size), 3)}`),
      ...fact("Last losses", `training ${nats(patient.train.at(-1))}, validation ${nats(patient.valid.at(-1))} nats after ${patient.steps} updates${patient.floor ? `; the source's entropy is ${shown(patient.floor, 3)}` : ""}`),
    );
    const half = width > 560 ? (width - 16) / 2 : width;
    charts.replaceChildren(curves(patient, half), norms(patient, half));
    if (shownPatient !== i) {
      shownPatient = i;
      const { labels, P } = patient.attention;
      const names = labels.map(visible);
      const where = (r, c) => `Query ${r} “${names[r]}”, key ${c} “${names[c]}”: weight ${P[r][c] === null ? "NaN" : shown(P[r][c], 3)}.`;
      const rest = "Point at a cell to read its weight.";
      readout.textContent = rest;
      const parts = { title: "Attention of one head, middle layer", rows: names, columns: names, values: P, map: "weights", size: 24 };
      attention.replaceChildren(
        heatMap({ ...parts, share: (v) => v, write: () => "", say: where, visit: (r, c) => (readout.textContent = r === null ? rest : where(r, c)) }).node,
      );
      sample.textContent = patient.sample;
      says.replaceChildren();
    }
    const at = document.activeElement?.dataset?.test;
    const cheapestFirst = Object.entries(tests).sort((a, b) => a[1][1] - b[1][1]);
    ordered.replaceChildren(
      ...cheapestFirst.map(([name, [words, cost, about]]) => {
        const open = chart.ordered.includes(name) || solved;
        const order = button(`${words} · ${cost} point${cost > 1 ? "s" : ""}`, () => update({ ordered: [...chart.ordered, name] }), {
          "data-test": name,
          "aria-disabled": String(open),
        });
        if (open) order.onclick = null;
        return h("div", { class: "tgw-test" }, open ? h("p", { class: "tgw-name" }, words) : order, h("p", {}, open ? result(name, patient) : about), open && name === "perturb" ? moves(patient) : null);
      }),
    );
    if (at) (ordered.querySelector(`[data-test="${at}"]`) ?? root.querySelector(".tgw-verdict input"))?.focus();
    drawVerdict(patient, chart, solved, diagnoses, tests);
    box.write(model.get("charts"));
  }

  let verdictOf = "";
  function drawVerdict(patient, chart, solved, diagnoses, tests) {
    const now = JSON.stringify([model.get("current"), chart, solved]);
    if (now === verdictOf) return;
    verdictOf = now;
    const radios = oneOf({
      label: "What is wrong with this model?",
      options: Object.fromEntries(verdicts(patient, diagnoses).map((id) => [id, diagnoses[id][0]])),
      change: () => {},
    });
    const name = button("That is it", () => {
      const chosen = choice.querySelector("input:checked")?.value;
      if (!chosen) {
        says.replaceChildren(h("p", {}, "Choose a verdict first."));
        told.say("Choose a verdict first.");
        return;
      }
      if (!chart.named.includes(chosen)) update({ named: [...chart.named, chosen] });
    });
    const last = chart.named.at(-1);
    radios.set(last);
    choice.replaceChildren(radios.node, solved ? "" : h("div", { class: "tgw-steps" }, name));
    const parts = [];
    if (solved) {
      parts.push(h("p", {}, h("strong", {}, `Right, ${points(patient, chart, tests)} points. `), patient.why));
      if (!patient.settles) parts.push(h("p", {}, "What you see for nothing was enough to settle it."));
      else parts.push(h("p", {}, `What settles it at once: ${tests[patient.settles][0].toLowerCase()}.`));
      const wrong = chart.named.filter((id) => id !== patient.bug);
      if (wrong.length) parts.push(h("p", {}, `You first thought of: ${wrong.map((id) => diagnoses[id][0]).join("; ")}.`));
    } else if (last) {
      parts.push(h("p", {}, h("strong", {}, "Not that. "), `If it were so: ${diagnoses[last][1]}`));
    }
    says.replaceChildren(...parts);
    told.say(says.textContent || " ");
  }
  return { draw, stop: told.stop };
}

export default { render: showing("tgw-clinic", build) };
