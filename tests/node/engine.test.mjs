// The engine on models that Python wrote, with either kernel, against the numbers that PyTorch gives for them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const { plainKernel, simdKernel, anyKernel, TinyGPT, readSafetensors, draw, likeliest, gelu, uniforms } = await import(process.env.MODULE);
const cases = JSON.parse(readFileSync(process.env.CASES, "utf8"));
const KERNELS = [plainKernel, simdKernel];

const file = (path) => new Uint8Array(readFileSync(path)).buffer;

function furthest(found, wanted) {
  assert.equal(found.length, wanted.length);
  return found.reduce((most, x, i) => (Math.abs(x - wanted[i]) > most || Number.isNaN(x) ? Math.abs(x - wanted[i]) : most), 0);
}

for (const { name, path, ids, logits, attention, readings, bound } of cases.models ?? []) {
  for (const kernel of KERNELS) {
    test(`${name}, ${kernel.name}`, () => {
      const model = TinyGPT.from(file(path), kernel);
      ids.forEach((id, t) => {
        const off = furthest(model.logits(id), logits[t]);
        assert.ok(off < bound, `position ${t}: ${off}`);
      });
      const inside = model.inspect(ids);
      assert.ok(furthest(inside.attention, attention) < bound, "attention");
      assert.ok(furthest(inside.readings, readings) < bound, "readings");
    });
  }
}

for (const { path, texts, kernel } of cases.greedy ?? []) {
  test(`greedy, ${kernel}`, () => {
    const model = TinyGPT.from(file(path), KERNELS.find(({ name }) => name === kernel));
    for (const { prompt, whole } of texts) {
      const found = model.generate(model.tokenizer.encode(prompt), { maxNewTokens: whole.length - prompt.length, temperature: 0 });
      assert.equal(model.tokenizer.decode(found), whole);
    }
  });
}

for (const { name, base64, says } of cases.refused ?? []) {
  test(`refused: ${name}`, () => {
    const bytes = Uint8Array.from(Buffer.from(base64, "base64"));
    assert.throws(
      () => TinyGPT.from(bytes.buffer),
      ({ message, constructor }) => {
        assert.equal(constructor.name, "Refused", message);
        assert.match(message, new RegExp(says));
        return true;
      },
    );
  });
}

if (cases.laws) {
  const { path, phi, halves } = cases.laws;
  const model = TinyGPT.from(file(path));

  test("the distribution of each step is that of the logits, and the tokens are drawn from it", () => {
    const prompt = model.tokenizer.encode("ab");
    const u = uniforms(5, 9);
    let at = 0;
    const steps = [...model.stream(prompt, { maxNewTokens: 9, temperature: 0.7, topK: 3, random: () => u[at++] })];
    const ids = [...prompt];
    for (const [i, { token, probs }] of steps.entries()) {
      assert.ok(Math.abs(probs.reduce((a, b) => a + b) - 1) < 1e-12);
      assert.equal(probs.filter((p) => p > 0).length, 3);
      const z = Array.from(model.read(ids.slice(-model.config.block_size)));
      const [first, second] = likeliest(probs, 2);
      assert.equal(first[0], z.indexOf(Math.max(...z)));
      assert.ok(Math.abs(Math.log(first[1] / second[1]) - (z[first[0]] - z[second[0]]) / 0.7) < 1e-6);
      assert.equal(token, draw(probs, u[i]));
      ids.push(token);
    }
    assert.equal(at, 9);
  });

  test("draw takes each token over its share", () => {
    const probs = [0, 0.25, 0, 0.75, 0];
    assert.deepEqual([1e-12, 0.25, 0.2500001, 1].map((u) => draw(probs, u)), [1, 1, 3, 3]);
  });

  test("a stream can be left, and the model goes on to another text", () => {
    const given = { maxNewTokens: 1e9, temperature: 0 };
    const seen = [];
    for (const { token } of model.stream([0], given)) if (seen.push(token) === 3) break;
    assert.deepEqual(model.generate([0], { ...given, maxNewTokens: 3 }), [0, ...seen]);
    assert.deepEqual(model.generate([0, 1], { ...given, maxNewTokens: 0 }), [0, 1]);
  });

  test("settings that make no sense are refused", () => {
    const start = (ids, more) => model.stream(ids, { maxNewTokens: 1, ...more }).next();
    assert.throws(() => start([]), /nothing to continue/);
    assert.throws(() => start([0], { temperature: -1 }), /temperature must be 0 or more, got -1/);
    assert.throws(() => start([0], { temperature: NaN }), /temperature/);
    assert.throws(() => start([0], { topK: 0 }), /topK must be 1 or more/);
    assert.throws(() => start([99]), /The id 99 is outside 0 to/);
    assert.throws(() => model.inspect(new Array(99).fill(0)), /text of 1 to 8 tokens .* has 99/);
    assert.throws(() => model.tokenizer.encode("aß"), /never seen "ß": write with its 6 characters only, .*abc/);
    model.read([0, 0, 0, 0, 0, 0, 0, 0]);
    assert.throws(() => model.logits(0), /context is full with 8 tokens/);
  });

  test("gelu is x Φ(x)", () => {
    for (const [x, share] of phi) assert.ok(Math.abs(gelu(x) - x * share) < 1e-8, `${x}`);
  });

  test("every half-precision number", () => {
    const { numbers } = readSafetensors(file(halves.path)).tensors.get("all");
    assert.deepEqual([...new Uint8Array(numbers.buffer)], [...new Uint8Array(file(halves.floats))]);
  });

  test("the two kernels multiply alike", () => {
    const [rows, columns] = [5, 48];
    const u = uniforms(1, rows * columns + 2 * columns + rows);
    const found = KERNELS.map((make) => {
      const { memory, matvec, matvecInt8 } = make(8192);
      const [w, x, scales, y] = [1024, 4096, 5120, 6144];
      new Float32Array(memory, w, rows * columns).set(u.subarray(0, rows * columns));
      new Float32Array(memory, x, columns).set(u.subarray(rows * columns, (rows + 1) * columns));
      matvec(y, w, x, rows, columns, 4 * columns);
      const floats = [...new Float32Array(memory, y, rows + 1)];
      new Int8Array(memory, w, rows * columns).set(u.map((v) => 255 * v - 128).subarray(0, rows * columns));
      new Int16Array(memory, x, columns).set(u.subarray(rows * columns, (rows + 1) * columns).map((v) => 65535 * v - 32768));
      new Float32Array(memory, scales, rows).set(u.subarray(0, rows));
      matvecInt8(y, w, x, rows, columns, columns, scales, 0.001);
      return { floats, int8: [...new Float32Array(memory, y, rows + 1)] };
    });
    const byHand = Array.from({ length: rows }, (_, r) => {
      let sum = 0;
      for (let c = 0; c < columns; c++) sum += u[r * columns + c] * u[rows * columns + c];
      return sum;
    });
    for (const { floats } of found) {
      assert.ok(furthest(floats.slice(0, rows), byHand) < 1e-4);
      assert.equal(floats[rows], 0, "nothing is written beyond the last row");
    }
    assert.deepEqual(found[0].int8, found[1].int8); // whole numbers are added exactly
    assert.equal(found[0].int8[rows], 0);
  });

  test("the fast kernel where it runs, else the plain one", () => {
    assert.equal(anyKernel(100).name, "WebAssembly SIMD");
    const { Module } = WebAssembly;
    WebAssembly.Module = class {
      constructor() {
        throw new WebAssembly.CompileError("no SIMD here");
      }
    };
    try {
      assert.equal(anyKernel(100).name, "plain JavaScript");
    } finally {
      WebAssembly.Module = Module;
    }
  });
}
