// What the playground's worker writes with a carried model, beside what Python wrote with the same seed.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const { engineServer } = await import(process.env.MODULE);
const { path, cases } = JSON.parse(readFileSync(process.env.CASES, "utf8"));

for (const { prompt, text, record, ...settings } of cases) {
  test(JSON.stringify({ prompt, ...settings }), async () => {
    const posted = [];
    const server = engineServer((message) => posted.push(message), async () => {});
    await server({ id: 1, ask: "load", file: new Uint8Array(readFileSync(path)).buffer });
    const { vocab } = posted[0].done;
    await server({ id: 2, ask: "generate", prompt, ...settings });
    const tokens = posted.filter(({ tokens }) => tokens).flatMap(({ tokens }) => tokens);
    assert.equal(tokens.map(({ character }) => character).join(""), text);
    tokens.forEach(({ probability, likeliest }, i) => {
      const [p, best] = record[i];
      assert.ok(Math.abs(probability - p) < 2e-3, `${probability}, not ${p}`);
      const found = new Map(likeliest.map(([id, share]) => [vocab[id], share]));
      for (const [character, share] of best.slice(0, -1)) {
        assert.ok(Math.abs((found.get(character) ?? best.at(-1)[1]) - share) < 2e-3, `${character} at ${i}`);
      }
    });
  });
}
