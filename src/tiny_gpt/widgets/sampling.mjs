/* The next token's distribution under temperature and top-k, and draws from it. Names as in sampling.py. */

const MOST_DRAWS = 100000;

/* How often each token comes in `draws` draws with the numbers of `seed`: where each falls in the running sum. */
export function counts(p, draws, seed) {
  const draw = drawer(p);
  const found = new Array(p.length).fill(0);
  for (const u of uniforms(seed, draws)) found[draw(u)] += 1;
  return found;
}

/* From a share u in (0, 1] to the token at which the running sum of the probabilities reaches it. */
function drawer(p) {
  let total = 0;
  const limits = p.map((x) => (total += x));
  return (u) => place(limits, u * total);
}

/* The first limit that is not below `value`. */
function place(limits, value) {
  let [low, high] = [0, limits.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (limits[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* The token of the last draw. */
export const lastDrawn = (p, draws, seed) => drawer(p)(uniforms(seed, draws).at(-1));

/* Token ids, most probable first. */
export const ranking = (logits) => logits.map((_, i) => i).sort((a, b) => logits[b] - logits[a] || a - b);

function build({ model, root, put }) {
  const anew = (traits) => put({ ...traits, draws: 0 }); // draws belong to the distribution that they were made from
  const controls = {
    context: picker({ label: "The text so far", change: (context) => anew({ context }) }),
    temperature: temperatureSlider((temperature) => anew({ temperature })),
    top_k: slider({ label: "Top-k", low: 1, change: (top_k) => anew({ top_k }) }),
  };
  const draw = (count) => put({ draws: Math.min(MOST_DRAWS, model.get("draws") + count) });
  const buttons = [
    button("Draw one", () => draw(1)),
    button("Draw a thousand", () => draw(1000)),
    button("Start again", () => put({ draws: 0, seed: (model.get("seed") + 1) % 2 ** 31 })),
  ];
  const chart = h("div", { class: "tgw-charts" });
  const says = h("p", { class: "tgw-says" });
  const told = announcer();
  const nodes = Object.values(controls).map((control) => control.node);
  root.append(h("div", { class: "tgw-controls" }, ...nodes), h("div", { class: "tgw-controls" }, ...buttons), chart, says, told.node);

  function show(width) {
    const names = ["contexts", "context", "vocab", "temperature", "top_k", "draws", "seed"];
    const [contexts, context, vocab, temperature, topK, draws, seed] = names.map((name) => model.get(name));
    const { logits } = contexts[context];
    controls.context.set(context, contexts.map(({ text }) => `${[...text].map(visible).join("")} …`));
    controls.temperature.set(temperature);
    controls.top_k.set(topK, vocab.length);
    const all = nextTokenProbs(logits, temperature);
    const p = nextTokenProbs(logits, temperature, topK);
    const order = ranking(logits);
    const drawn = counts(p, draws, seed);
    const bits = entropy(p);
    const shownBars = order.slice(0, Math.min(vocab.length, Math.floor((width - 60) / 15)));
    const kept = p.filter((x) => x > 0).length;
    const keptShare = p.reduce((sum, x, i) => (x > 0 ? sum + all[i] : sum), 0);
    const most = Math.max(...p, ...(draws ? drawn.map((n) => n / draws) : [0]));
    const best = order.slice(0, 3).filter((i) => p[i] > 0).map((i) => `${visible(vocab[i])} ${shown(p[i], 3)}`);
    const figure = axes({
      width,
      height: 270,
      alt: `The ${shownBars.length} most probable tokens: ${best.join(", ")}; ${kept} of ${vocab.length} tokens can be drawn.`,
      x: { domain: [0.4, shownBars.length + 0.6], label: "next token, most probable first", ticks: shownBars.map((_, i) => i + 1), show: (i) => visible(vocab[shownBars[i - 1]]) },
      y: { domain: [0, most * 1.08], label: "probability" },
    });
    bars(figure, shownBars.map((i) => (p[i] > 0 ? 0 : Math.min(all[i], most))), { colour: "masked", classes: "tgw-cut" });
    bars(figure, shownBars.map((i) => p[i]), { colour: "stream" });
    if (draws) {
      shownBars.forEach((i, at) => {
        const [x, share] = [figure.x(at + 1), drawn[i] / draws];
        const error = 2 * Math.sqrt((p[i] * (1 - p[i])) / draws);
        if (p[i] > 0 && draws > 30) figure.plot.append(s("line", { class: "tgw-axis", x1: x, x2: x, y1: figure.y(Math.max(0, p[i] - error)), y2: figure.y(Math.min(most * 1.08, p[i] + error)) }));
        if (drawn[i]) figure.plot.append(s("circle", { class: "tgw-drawn", cx: x, cy: figure.y(share), r: 3.2 }));
      });
    }
    chart.replaceChildren(figure.svg);
    const parts = [`Entropy ${shown(bits)} bits: ${shown(2 ** bits, 1)} effective choices.`];
    parts.push(kept === vocab.length
      ? `All ${kept} tokens can be drawn.`
      : `${kept} of ${vocab.length} tokens can be drawn; they hold ${shown(100 * keptShare, 1)}\u00a0% of the probability before the cut.`);
    if (draws) {
      const token = lastDrawn(p, draws, seed);
      parts.push(`Last of ${shown(draws, 0)} drawn: “${visible(vocab[token])}”, probability ${shown(p[token], 3)}.`);
      if (draws > 30) parts.push("Dots: share of the draws; lines: two standard errors about the probability.");
    }
    says.textContent = parts.join(" ");
    told.say(says.textContent);
  }
  return { draw: show, stop: told.stop };
}

export default { render: showing("tgw-sampling", build) };
