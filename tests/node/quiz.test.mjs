// The quiz's pure functions against cases that test_widgets_quiz.py has computed.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const { evaluate, fits, judge, pieces, readings, revive, score } = await import(process.env.MODULE);
const cases = JSON.parse(readFileSync(process.env.CASES, "utf8"));

test("formulas have the value that Python gives them", () => {
  assert.ok(cases.formulas.length > 100);
  for (const [text, value] of cases.formulas) {
    const found = evaluate(text);
    assert.ok(Math.abs(found - value) <= 1e-9 * Math.max(1, Math.abs(value)), `${text}: ${found}, not ${value}`);
  }
});

test("what is no formula is not a number", () => {
  for (const text of cases.unreadable) assert.ok(Number.isNaN(evaluate(text)), JSON.stringify(text));
});

test("readings: separators and units", () => {
  for (const [text, units, values] of cases.readings) assert.deepEqual(readings(text, units), values, text);
});

test("verdicts", () => {
  for (const { question, given, verdict, says } of cases.verdicts) {
    const found = judge(question, given);
    assert.equal(found.verdict, verdict, `${question.prompt} ${JSON.stringify(given)}: ${found.says}`);
    if (says !== null) assert.ok(found.says.includes(says), `${JSON.stringify(given)}: ${found.says}`);
  }
});

test("every order but the right one is wrong", () => {
  for (const [given, right] of cases.orders)
    assert.equal(judge(cases.order, given).verdict, right ? "right" : "wrong", String(given));
});

test("every set but the right one is wrong", () => {
  for (const [given, right] of cases.sets)
    assert.equal(judge(cases.choices, given).verdict, right ? "right" : given.length ? "wrong" : "none", String(given));
});

test("what the browser kept is judged again, and what does not fit is left out", () => {
  for (const { text, answers } of cases.kept) assert.deepEqual(revive(text, cases.questions), answers, text);
});

test("answers of the wrong shape do not fit", () => {
  for (const [kind, given, good] of cases.shapes) {
    const question = cases.questions.find((q) => q.kind === kind);
    assert.equal(fits(question, given), good, `${kind} ${JSON.stringify(given)}`);
  }
});

test("score", () => {
  for (const { answers, says } of cases.scores) assert.equal(score(cases.questions, answers), says);
});

test("code between backticks", () => {
  const again = pieces("a `b` c``<d>").map(({ code, text }) => (code ? `[${text}]` : text));
  assert.equal(again.join(""), "a [b] c<d>");
});
