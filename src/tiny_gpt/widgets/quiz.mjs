/* A quiz: a number, one or several choices, lines to be ordered. What is wrong is told by cause.
 *
 * The questions come from Python (quiz.py) as the trait `questions`; what the reader answered is the trait `answers`:
 * question id -> { given, right, shown }. The last is true if the answer was looked at before it was found. The browser
 * keeps `answers` under the name `key`. Nothing that is kept is trusted: it is judged again when it is read.
 */

const LONGEST = 200; // characters of an answer that are looked at
const FUNCTIONS = { ln: Math.log, log: Math.log, log2: Math.log2, log10: Math.log10, exp: Math.exp, sqrt: Math.sqrt };
const CONSTANTS = { e: Math.E, pi: Math.PI };
const SIGNS = { "−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "√": " sqrt ", "π": " pi ", "²": "^2", "³": "^3", "₂": "2" };

/* The value of a number or a formula such as `6*12*384^2` or `ln 65`; NaN if it is neither. */
export function evaluate(text) {
  if (text.length > LONGEST) return NaN;
  const plain = text
    .replace(/[−–×·÷√π²³₂]/g, (sign) => SIGNS[sign])
    .replaceAll("**", "^")
    .replace(/(\d)[\s_'](?=\d{3}(?!\d))/g, "$1");
  const tokens = plain.match(/\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[a-zA-Z]+\d*|[^\s]/g) ?? [];
  let at = 0;
  const take = (...signs) => (signs.includes(tokens[at]) ? tokens[at++] : null);

  function sum() {
    let value = product();
    for (let sign; (sign = take("+", "-")); ) value = sign === "+" ? value + product() : value - product();
    return value;
  }
  function product() {
    let value = signed();
    for (let sign; (sign = take("*", "/")); ) value = sign === "*" ? value * signed() : value / signed();
    return value;
  }
  function signed() {
    const sign = take("+", "-");
    return sign ? (sign === "-" ? -signed() : signed()) : power();
  }
  function power() {
    const base = single();
    return take("^") ? base ** signed() : base;
  }
  function single() {
    if (take("(")) {
      const value = sum();
      return take(")") ? value : NaN;
    }
    const token = tokens[at++] ?? "";
    const name = token.toLowerCase();
    if (Object.hasOwn(FUNCTIONS, name)) return FUNCTIONS[name](single());
    if (Object.hasOwn(CONSTANTS, name)) return CONSTANTS[name];
    const [, base, digits] = name.match(/^([a-z]+)(\d+)$/) ?? [];
    if (base && Object.hasOwn(FUNCTIONS, base)) return FUNCTIONS[base](Number(digits)); // "ln2"
    return /^[\d.]*\d/.test(token) ? Number(token) : NaN;
  }
  const value = sum();
  return at === tokens.length ? value : NaN;
}

/* What an entered text may mean. `4,174` is a number of thousands to some readers and a decimal to others. */
export function readings(text, units = "") {
  let plain = text.trim();
  if (units && plain.toLowerCase().endsWith(units.toLowerCase())) plain = plain.slice(0, -units.length).trim();
  const forms = plain.includes(",") ? [plain.replace(/(\d),(?=\d{3}(?!\d))/g, "$1")] : [plain];
  if (plain.split(",").length === 2) forms.push(plain.replace(",", "."));
  return forms.map(evaluate).filter(Number.isFinite);
}

const near = (x, value, tolerance) => Math.abs(x - value) <= tolerance * (1 + 1e-9) + 1e-12 * Math.abs(value);

function judgeNumber(question, given) {
  if (!given.trim()) return { verdict: "none", says: "Enter a number first." };
  if (given.length > LONGEST) return { verdict: "none", says: `That is too long: at most ${LONGEST} characters.` };
  const values = readings(given, question.units);
  if (!values.length) {
    const unit = question.units ? ` It is in ${question.units} already.` : "";
    return { verdict: "none", says: `That cannot be read as a number. Give one, or a formula such as ln(65).${unit}` };
  }
  if (values.some((x) => near(x, question.answer, question.tolerance))) return { verdict: "right", says: "" };
  const off = (mistake) => Math.min(...values.map((x) => Math.abs(x - mistake.value)));
  const causes = question.mistakes.filter((mistake) => values.some((x) => near(x, mistake.value, mistake.tolerance)));
  if (causes.length) return { verdict: "wrong", says: causes.reduce((a, b) => (off(b) < off(a) ? b : a)).says };
  const [x] = values;
  if (near(x, question.answer, 4 * question.tolerance)) return { verdict: "wrong", says: "Close: calculate more exactly." };
  return { verdict: "wrong", says: x > question.answer ? "That is too large." : "That is too small." };
}

function judgeChoice(question, given) {
  const option = question.options[given];
  if (!option) return { verdict: "none", says: "Choose one first." };
  return { verdict: option.right ? "right" : "wrong", says: option.says };
}

function judgeChoices(question, given) {
  if (!given.length) return { verdict: "none", says: "Choose at least one first." };
  const wrong = given.find((i) => !question.options[i].right);
  if (wrong !== undefined) return { verdict: "wrong", says: question.options[wrong].says };
  const missing = question.options.filter((option, i) => option.right && !given.includes(i)).length;
  if (!missing) return { verdict: "right", says: "" };
  const they = missing === 1 ? "one more holds" : `${missing} more hold`;
  return { verdict: "wrong", says: `What you chose holds, and ${they}.` };
}

function judgeOrder(question, given) {
  const texts = given.map((i) => question.lines[i]);
  if (texts.every((text, place) => text === question.lines[place])) return { verdict: "right", says: "" };
  const place = (line) => given.indexOf(line);
  const broken = question.reasons.find(({ first, then }) => place(first) > place(then));
  if (broken) return { verdict: "wrong", says: broken.says };
  const good = texts.findIndex((text, i) => text !== question.lines[i]);
  if (!good) return { verdict: "wrong", says: "Another line comes first." };
  return { verdict: "wrong", says: `The first ${good === 1 ? "line is" : `${good} lines are`} at the right place.` };
}

const JUDGES = { numeric: judgeNumber, choice: judgeChoice, choices: judgeChoices, order: judgeOrder };

/* { verdict: "right", "wrong" or "none" (nothing to judge), says: a sentence, by cause }. */
export const judge = (question, given) => JUDGES[question.kind](question, given);

/* Whether something has the shape of an answer to this question. */
export function fits(question, given) {
  const all = (n, items) => Array.isArray(items) && items.every((i) => Number.isInteger(i) && i >= 0 && i < n);
  const different = (items) => new Set(items).size === items.length;
  if (question.kind === "numeric") return typeof given === "string" && given.length <= LONGEST;
  if (question.kind === "choice") return Number.isInteger(given) && given >= 0 && given < question.options.length;
  const n = (question.options ?? question.lines).length;
  return all(n, given) && different(given) && (question.kind === "choices" || given.length === n);
}

/* The answers in a text that the browser kept. What does not fit the questions is left out. */
export function revive(text, questions) {
  let kept;
  try {
    kept = JSON.parse(text);
  } catch {
    return {};
  }
  const answers = {};
  for (const question of questions) {
    const entry = kept && typeof kept === "object" && Object.hasOwn(kept, question.id) ? kept[question.id] : null;
    if (!entry || typeof entry !== "object") continue;
    const given = fits(question, entry.given) ? entry.given : null;
    const right = given !== null && judge(question, given).verdict === "right";
    if (given !== null || entry.shown === true) answers[question.id] = { given, right, shown: entry.shown === true };
  }
  return answers;
}

/* "2 of 3 right, 1 after seeing the answer" */
export function score(questions, answers) {
  const entries = questions.map((question) => answers[question.id]).filter(Boolean);
  const right = entries.filter((entry) => entry.right && !entry.shown).length;
  const shown = entries.filter((entry) => entry.shown).length;
  return `${right} of ${questions.length} right${shown ? `, ${shown} shown` : ""}`;
}

/* A text in pieces: what stands between backticks is code. */
export function pieces(text) {
  return text
    .split("`")
    .map((part, i) => ({ text: part, code: i % 2 === 1 }))
    .filter((piece) => piece.text);
}

/* -- the page ----------------------------------------------------------------------------------------------------- */

const inline = (text) => pieces(text).map((piece) => (piece.code ? h("code", {}, piece.text) : piece.text));

/* The part of a question where the answer is given: { node, given(), set(given) or set(null) to clear }. */
function numberControl(question, prompt) {
  const units = h("span", { class: "tgq-units", id: `${prompt}-units` }, question.hint);
  const input = h("input", {
    type: "text",
    "aria-labelledby": `${prompt} ${prompt}-units`,
    autocomplete: "off",
    autocapitalize: "off",
    maxlength: LONGEST,
  });
  input.spellcheck = false;
  return {
    node: h("div", { class: "tgq-number" }, input, units),
    given: () => input.value,
    set: (given) => {
      input.value = given ?? "";
    },
  };
}

function optionsControl(question, prompt) {
  const many = question.kind === "choices";
  const inputs = question.options.map((_, i) => h("input", { type: many ? "checkbox" : "radio", name: prompt, value: i }));
  const rows = question.options.map((option, i) => h("label", {}, inputs[i], h("span", {}, ...inline(option.text))));
  return {
    node: h("div", { class: "tgq-options", role: many ? "group" : "radiogroup", "aria-labelledby": prompt }, ...rows),
    given: () => {
      const chosen = inputs.flatMap((input, i) => (input.checked ? [i] : []));
      return many ? chosen : (chosen[0] ?? null);
    },
    set: (given) => inputs.forEach((input, i) => (input.checked = many ? (given ?? []).includes(i) : given === i)),
  };
}

function orderControl(question, prompt, announce) {
  const list = h("ol", { class: "tgq-lines", "aria-labelledby": prompt });
  const rows = question.lines.map((line, i) => {
    const up = h("button", { type: "button", "aria-label": `Move up: ${line}` }, "↑");
    const down = h("button", { type: "button", "aria-label": `Move down: ${line}` }, "↓");
    up.addEventListener("click", () => move(i, -1, up));
    down.addEventListener("click", () => move(i, 1, down));
    const row = h("li", {}, h("code", {}, line), up, down);
    row.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(i, step, event.target);
    });
    return row;
  });
  let now = [...question.start];
  function place() {
    list.append(...now.map((i) => rows[i]));
    now.forEach((i, at) => {
      const [up, down] = rows[i].querySelectorAll("button");
      up.setAttribute("aria-disabled", String(at === 0));
      down.setAttribute("aria-disabled", String(at === now.length - 1));
    });
  }
  function move(i, step, button) {
    const from = now.indexOf(i);
    const to = from + step;
    if (to < 0 || to >= now.length) return;
    [now[from], now[to]] = [now[to], now[from]];
    place();
    button.focus();
    list.dispatchEvent(new Event("input", { bubbles: true }));
    announce(`Now line ${to + 1} of ${now.length}.`);
  }
  place();
  return {
    node: list,
    given: () => [...now],
    set: (given) => {
      now = [...(given ?? question.start)];
      place();
    },
  };
}

function answerOf(question) {
  if (question.kind === "numeric") return [h("p", {}, h("strong", {}, "Answer: "), question.display)];
  if (question.kind === "order") return [h("ol", {}, ...question.lines.map((line) => h("li", {}, h("code", {}, line))))];
  const right = question.options.filter((option) => option.right);
  const items = right.map((option) => h("li", {}, ...inline(option.text)));
  if (items.length > 1) return [h("p", {}, h("strong", {}, "These hold:")), h("ul", {}, ...items)];
  return [h("p", {}, h("strong", {}, "Answer: "), ...inline(right[0].text))];
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/* One question: its form, and a way to bring it up to date. `save(entry)` keeps what the reader did. */
function questionView(question, save) {
  const prompt = `q${Math.random().toString(36).slice(2)}`;
  const status = h("p", { class: "tgq-status", role: "status", id: `${prompt}-status` });
  const make = { numeric: numberControl, order: orderControl, choice: optionsControl, choices: optionsControl };
  const control = make[question.kind](question, prompt, (text) => status.replaceChildren(text));
  const check = h("button", { type: "submit", class: "tgq-check" }, "Check");
  const reveal = h("button", { type: "button", class: "tgq-reveal", "aria-expanded": "false" });
  const explanation = h("div", { class: "tgq-explanation", hidden: true });
  explanation.append(...answerOf(question), h("p", {}, ...inline(question.explanation)));
  const node = h(
    "form",
    { class: "tgq-question", "aria-labelledby": prompt, noValidate: true },
    h("p", { class: "tgq-prompt", id: prompt }, ...inline(question.prompt)),
    control.node,
    h("div", { class: "tgq-actions" }, check, reveal),
    status,
    explanation,
  );
  const input = question.kind === "numeric" ? control.node.querySelector("input") : null;
  input?.setAttribute("aria-describedby", status.id);
  let entry = null;

  function say(bold, text) {
    status.replaceChildren(h("strong", {}, bold), " ", ...inline(text));
  }
  function open(yes) {
    explanation.hidden = !yes;
    reveal.setAttribute("aria-expanded", String(yes));
    reveal.textContent = (yes ? "Hide the " : "Show the ") + (entry?.right ? "explanation" : "answer");
  }
  function mark(state) {
    node.dataset.state = state;
    if (input) input.setAttribute("aria-invalid", String(state === "wrong"));
  }
  function verdict() {
    if (entry && entry.given !== null) {
      const { verdict, says } = judge(question, entry.given);
      mark(verdict === "right" && entry.shown ? "shown" : verdict);
      say(verdict === "right" ? "Right." : "Not yet.", says);
    } else {
      mark(entry?.shown ? "shown" : "");
      status.replaceChildren();
    }
  }
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = control.given();
    const { verdict: found, says } = judge(question, given);
    if (found === "none") {
      mark("");
      status.replaceChildren(says);
      return;
    }
    const again = same(entry?.given, given);
    save({ given, right: found === "right", shown: entry?.shown ?? false });
    if (again) verdict(); // nothing has changed, and the reader asked all the same
    if (found === "right") open(true);
  });
  node.addEventListener("input", () => {
    mark("");
    status.replaceChildren();
  });
  reveal.addEventListener("click", () => {
    const yes = explanation.hidden;
    if (yes && !entry?.right) save({ given: entry?.given ?? null, right: false, shown: true });
    open(yes);
  });

  return {
    node,
    update(next) {
      if (same(entry, next)) return;
      const before = entry;
      entry = next;
      if (!next || !same(before?.given ?? null, next.given)) control.set(next?.given ?? null);
      verdict();
      open(next ? !explanation.hidden : false);
    },
    clear() {
      entry = null;
      control.set(null);
      verdict();
      open(false);
    },
  };
}

function render({ model, el }) {
  const root = keepingKeys(h("div", { class: "tgw tgq" }));
  let views = new Map();
  let tally;

  const answers = () => model.get("answers") ?? {};
  function put(next) {
    model.set("answers", next);
    model.save_changes();
  }
  function refresh() {
    const questions = model.get("questions");
    for (const question of questions) {
      const entry = answers()[question.id];
      const good = entry && (entry.given === null || fits(question, entry.given));
      views.get(question.id).update(good ? entry : null);
    }
    tally.textContent = score(questions, answers());
  }
  function changed() {
    keeper("quiz", model.get("key")).write(answers());
    refresh();
  }
  function draw() {
    const questions = model.get("questions");
    const make = (question) => questionView(question, (entry) => put({ ...answers(), [question.id]: entry }));
    views = new Map(questions.map((question) => [question.id, make(question)]));
    tally = h("span", { class: "tgq-score" });
    const told = h("span", { class: "tgw-unseen", role: "status" });
    const reset = h("button", { type: "button", class: "tgq-reset" }, "Clear my answers");
    reset.addEventListener("click", () => {
      put({});
      for (const view of views.values()) view.clear();
      told.textContent = "Your answers are cleared.";
    });
    root.replaceChildren(...[...views.values()].map((view) => view.node), h("div", { class: "tgq-footer" }, tally, told, reset));
    for (const view of views.values()) view.clear();
    refresh();
  }

  if (!Object.keys(answers()).length) {
    const kept = revive(keeper("quiz", model.get("key")).read() ?? "{}", model.get("questions"));
    if (Object.keys(kept).length) put(kept);
  }
  draw();
  el.append(root);
  model.on("change:answers", changed);
  model.on("change:questions", draw);
  return () => {
    model.off("change:answers", changed);
    model.off("change:questions", draw);
    root.remove();
  };
}

export default { render };
