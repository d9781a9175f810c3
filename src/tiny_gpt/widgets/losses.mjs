/* A training run: both losses, and at each evaluation the learning rate, the pace and what the model wrote. The same
 * while it runs, in a notebook, and afterwards. Names as in losses.py. */

/* The last sample that was written when `step` updates had been made, as [step, text]; null before the first. */
export const sampleAt = (samples, step) => samples.filter(([when]) => when <= step).at(-1) ?? null;

/* The value of a curve [[x, y], ...] at x, between its points on a straight line; null outside. */
export function between(curve, x) {
  for (let i = 0; i < curve.length; i++) {
    const [x1, y1] = curve[i];
    if (x1 === x) return y1;
    if (i && curve[i - 1][0] < x && x < x1) {
      const [x0, y0] = curve[i - 1];
      return y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
    }
  }
  return null;
}

function build({ model, root, put }) {
  const when = slider({ label: "Look at the run after", show: (i) => `${model.get("eval_step")[i] ?? 0} updates`, change: (at) => put({ at }) });
  const chart = h("div", { class: "tgw-charts" });
  const numbers = h("p", { class: "tgw-says" });
  const heading = h("p", { class: "tgw-heading" });
  const text = h("pre", { class: "tgw-sample", tabIndex: 0, "aria-label": "What the model wrote" });
  const told = announcer();
  root.append(h("div", { class: "tgw-controls" }, when.node), chart, numbers, heading, text, told.node);

  function draw(width) {
    const names = ["eval_step", "train_loss", "valid_loss", "lr", "rate", "samples", "reference", "ladder", "last_step"];
    const [steps, train, valid, lr, rate, samples, reference, ladder, last] = names.map((name) => model.get(name));
    if (!steps.length) {
      numbers.textContent = "The run has not begun.";
      return;
    }
    const at = Math.min(model.get("at"), steps.length - 1);
    when.set(at, steps.length - 1);
    const others = Object.entries(reference);
    const levels = Object.entries(ladder).sort((a, b) => b[1] - a[1]);
    const all = [...train, ...valid, ...others.flatMap(([, curve]) => curve.map(([, loss]) => loss)), ...levels.map(([, loss]) => loss)];
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const pad = 0.06 * (high - low || 1);
    const figure = axes({
      width,
      height: 320,
      alt: `Loss by updates: training from ${shown(train[0])} to ${shown(train.at(-1))}, validation from ${shown(valid[0])} to ${shown(valid.at(-1))} nats.`,
      x: { domain: [0, Math.max(last, steps.at(-1), 1)], label: "updates" },
      y: { domain: [low - 2 * pad, high + pad], label: "loss, nats" },
    });
    for (const [name, loss] of levels) level(figure, loss, `${name} ${shown(loss)}`, { above: loss > valid.at(-1) });
    for (const [, curve] of others) {
      const [xs, ys] = [0, 1].map((i) => curve.map((point) => point[i]));
      line(figure, xs, ys, { colour: "baseline", dash: "2 3", width: 1.5 });
      xs.forEach((x, i) => figure.plot.append(s("rect", { x: figure.x(x) - 3, y: figure.y(ys[i]) - 3, width: 6, height: 6, fill: "var(--w-baseline)" })));
    }
    line(figure, steps, train, { colour: "train" });
    line(figure, steps, valid, { colour: "valid", dash: "7 4" });
    const x = figure.x(steps[at]);
    figure.plot.append(s("line", { class: "tgw-axis", x1: x, x2: x, y1: figure.box.top, y2: figure.box.bottom }));
    dots(figure, [steps[at], steps[at]], [train[at], valid[at]], { size: 4 });
    chart.replaceChildren(
      figure.svg,
      h("p", { class: "tgw-legend" }, lineKey("training"), lineKey("validation", { dash: "7 4" }), ...others.map(([name]) => lineKey(name, { colour: "baseline", dash: "2 3" }))),
    );
    const parts = [`After ${shown(steps[at], 0)} updates: training loss ${shown(train[at], 3)}, validation loss ${shown(valid[at], 3)} nats`];
    for (const [name, curve] of others) {
      const loss = between(curve, steps[at]);
      if (loss !== null) parts[0] += `, ${name} ${shown(loss, 3)}`;
    }
    const beaten = levels.filter(([, loss]) => valid[at] < loss).map(([name]) => name);
    if (levels.length) parts.push(beaten.length ? `Better than the ${beaten.join(", ")} table` : "No rung of the ladder is passed yet");
    parts.push(`Learning rate ${precise(lr[at])}${rate[at] > 0 ? `; ${shown(rate[at], 0)} characters a second` : ""}`);
    numbers.textContent = `${parts.join(". ")}.`;
    const sample = sampleAt(samples, steps[at]);
    heading.textContent = sample ? `What it wrote after ${shown(sample[0], 0)} updates` : "Nothing was written until then.";
    text.textContent = sample ? sample[1] : "";
    told.say(numbers.textContent);
  }
  return { draw, stop: told.stop };
}

export default { render: showing("tgw-losses", build) };
