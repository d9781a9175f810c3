// Functions of a widget's module against the values that Python gives for the same arguments.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const module = await import(process.env.MODULE);

const number = (x) => (x && typeof x === "object" && "number" in x ? Number(x.number) : x);

/* Where two values differ, as a path with both; null if they agree. */
function difference(found, wanted, path = "") {
  wanted = number(wanted);
  if (typeof wanted === "number") {
    const near = Math.abs(found - wanted) <= 1e-6 * Math.max(1, Math.abs(wanted));
    return typeof found === "number" && (Object.is(found, wanted) || near) ? null : `${path}: ${found}, not ${wanted}`;
  }
  if (wanted === null || typeof wanted !== "object") return found === wanted ? null : `${path}: ${found}, not ${wanted}`;
  if (found === null || typeof found !== "object") return `${path}: ${found}, not an object`;
  const keys = Array.isArray(wanted) ? [...wanted.keys()] : Object.keys(wanted);
  if (Array.isArray(wanted) && found.length !== wanted.length) return `${path}: length ${found.length}, not ${wanted.length}`;
  for (const key of keys) {
    const differs = difference(found[key], wanted[key], `${path}.${key}`);
    if (differs) return differs;
  }
  return null;
}

const given = (x) => {
  x = number(x);
  if (Array.isArray(x)) return x.map(given);
  return x && typeof x === "object" ? Object.fromEntries(Object.entries(x).map(([k, v]) => [k, given(v)])) : x;
};

for (const [name, args, value] of JSON.parse(readFileSync(process.env.CASES, "utf8"))) {
  test(`${name}(${JSON.stringify(args).slice(0, 60)})`, () => {
    assert.equal(typeof module[name], "function", `${name} is not exported`);
    assert.equal(difference(module[name](...given(args)), value), null);
  });
}
