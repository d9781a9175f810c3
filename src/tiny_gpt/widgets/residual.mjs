/* How loud each branch writes, and how much gradient reaches each layer; values come from the page. See residual.py. */

const DASHES = { "pre-norm": null, "post-norm": "7 4", "no residual": "2 3" };

/* The gradient at the first layer relative to that at the last. */
export const reach = ({ gradient }) => gradient[0] / gradient.at(-1);

/* The ends of a logarithmic axis that holds all values, widened to whole powers of ten. */
export function decades(values) {
  const sizes = values.filter((v) => v > 0 && Number.isFinite(v)).map(Math.log10);
  return [10 ** Math.floor(Math.min(...sizes)), 10 ** Math.ceil(Math.max(...sizes) + 1e-9)];
}

function build({ model, root, put }) {
  const kinds = Object.keys(model.get("profiles"));
  const depths = () => Object.keys(Object.values(model.get("profiles"))[0]).map(Number).sort((a, b) => a - b);
  const kind = oneOf({ label: "The block", options: Object.fromEntries(kinds.map((name) => [name, name])), change: (value) => put({ kind: value }) });
  const depth = slider({ label: "Depth, layers", values: depths(), change: (value) => put({ depth: value }) });
  const charts = h("div", { class: "tgw-charts" });
  const says = h("p", { class: "tgw-says" });
  const told = announcer();
  root.append(h("div", { class: "tgw-controls" }, kind.node, depth.node), charts, says, told.node);

  function layers(L) {
    return { domain: [0.5, L + 0.5], label: "layer", ticks: ticks(1, L, Math.min(L, 8)).filter(Number.isInteger) };
  }

  function draw(width) {
    const [profiles, name, L] = ["profiles", "kind", "depth"].map((trait) => model.get(trait));
    kind.set(name);
    depth.set(L);
    const at = (other) => profiles[other][L];
    const now = at(name);
    const places = now.gradient.map((_, i) => i + 1);
    const half = width > 560 ? (width - 16) / 2 : width;
    const gradient = axes({
      width: half,
      height: 270,
      title: "Gradient at each layer",
      alt: `Gradient norm by layer, ${name}: ${precise(now.gradient[0])} at the first, ${precise(now.gradient.at(-1))} at the last.`,
      x: layers(L),
      y: { domain: decades(kinds.flatMap((other) => at(other).gradient)), log: 10, label: "norm", show: power },
    });
    for (const other of kinds) {
      const chosen = other === name;
      line(gradient, places, at(other).gradient, { colour: chosen ? "ink" : "baseline", dash: DASHES[other] ?? null, width: chosen ? 2.5 : 1.3 });
    }
    dots(gradient, places, now.gradient);
    const size = axes({
      width: half,
      height: 270,
      title: "What each branch writes",
      alt: `Root mean square by layer, ${name}: attention ${precise(now.attention[0])} to ${precise(now.attention.at(-1))}, feed-forward ${precise(now.ffn[0])} to ${precise(now.ffn.at(-1))}, stream ${precise(now.stream[0])} to ${precise(now.stream.at(-1))}.`,
      x: layers(L),
      y: { domain: decades(kinds.flatMap((other) => ["attention", "ffn", "stream"].flatMap((curve) => at(other)[curve]))), log: 10, label: "size (rms)", show: power },
    });
    for (const curve of ["stream", "attention", "ffn"]) {
      line(size, places, now[curve], { colour: curve });
      dots(size, places, now[curve], { colour: curve });
    }
    const key = (colour, words) => h("span", { class: "tgw-entry" }, h("span", { class: "tgw-swatch", style: `background: var(--w-${colour})` }), words);
    charts.replaceChildren(
      h("div", { style: `width: ${half}px` }, gradient.svg, h("p", { class: "tgw-legend" }, ...kinds.map((other) => lineKey(other, { dash: DASHES[other] })))),
      h("div", { style: `width: ${half}px` }, size.svg, h("p", { class: "tgw-legend" }, key("stream", "stream"), key("attention", "attention"), key("ffn", "feed-forward"))),
    );
    const last = now.stream.length - 1;
    const share = Math.hypot(now.attention[last], now.ffn[last]) / now.stream[last];
    says.textContent =
      `${name[0].toUpperCase()}${name.slice(1)}, ${L} layers: the first layer gets ${precise(reach(now))} times the gradient of the last. ` +
      `The last block writes ${precise(share)} times the stream that it leaves.`;
    told.say(says.textContent);
  }
  return { draw, stop: told.stop };
}

export default { render: showing("tgw-residual", build) };
