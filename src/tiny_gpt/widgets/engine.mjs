/* TinyGPT in the page: what model.py computes, in plain JavaScript, with the same names in the same order.
 *
 * One token at a time. Where model.py has a matrix (T, C), this file has the vector (C,) of the newest position, and the
 * KVCache has what the positions before it left behind. Shapes use the book's letters: T positions, C model width
 * (n_embd), H heads, D = C / H, V vocabulary, L layers; S counts the positions in the cache.
 *
 * A model is read from a safetensors file (weights.py writes it) into one block of memory, which a kernel of WebAssembly
 * multiplies in place. `uniforms`, `softmaxInPlace` and `nextTokenProbs` are base.mjs's, which stands before this text.
 */

// -- sizes ------------------------------------------------------------------------------------------------------------

const MOST_BYTES = 64 * 2 ** 20; // of a file; the 10.6 million numbers of the book's large model take 42 MB in float32

/* What a reader did wrong, in a sentence. Any other error is the engine's own fault. */
export class Refused extends Error {}

const refuse = (sentence) => {
  throw new Refused(sentence);
};

/* The sizes that define a model, under GPTConfig's own names; refused if they are none. */
export function GPTConfig(sizes) {
  for (const name of ["vocab_size", "block_size", "n_layer", "n_head", "n_embd"]) {
    const value = sizes?.[name];
    if (!Number.isInteger(value) || value < 1) refuse(`${name} must be a positive integer, got ${JSON.stringify(value)}.`);
  }
  const { vocab_size, block_size, n_layer, n_head, n_embd, bias } = sizes;
  if (n_embd % n_head) refuse(`n_embd=${n_embd} is not divisible by n_head=${n_head}: every head needs as many channels.`);
  if (typeof bias !== "boolean") refuse(`bias must be true or false, got ${JSON.stringify(bias)}.`);
  return { vocab_size, block_size, n_layer, n_head, n_embd, bias };
}

/* Every parameter's name and shape, as model.state_dict() has them. The tied matrix is there once, as wte.weight. */
export function parameterShapes({ vocab_size: V, block_size, n_layer, n_embd: C, bias }) {
  const shapes = new Map([["wte.weight", [V, C]], ["wpe.weight", [block_size, C]]]);
  const add = (name, ...shape) => {
    shapes.set(`${name}.weight`, shape);
    if (bias) shapes.set(`${name}.bias`, [shape[0]]);
  };
  for (let layer = 0; layer < n_layer; layer++) {
    add(`blocks.${layer}.ln1`, C);
    add(`blocks.${layer}.attn.qkv`, 3 * C, C);
    add(`blocks.${layer}.attn.out_proj`, C, C);
    add(`blocks.${layer}.ln2`, C);
    add(`blocks.${layer}.mlp.fc1`, 4 * C, C);
    add(`blocks.${layer}.mlp.fc2`, C, 4 * C);
  }
  add("ln_f", C);
  return shapes;
}

// -- the file ---------------------------------------------------------------------------------------------------------

const ANEW = "Write it anew with `tiny-gpt export`.";

/* The value of each of the 65,536 half-precision numbers: 1 bit of sign, 5 of exponent, 10 of fraction. */
let halves = null;
function half(bits) {
  halves ??= new Float32Array(2 ** 16).map((_, bits) => {
    const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, (bits & 1023) / 1024];
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
  });
  const numbers = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) numbers[i] = halves[bits[i]];
  return numbers;
}

/* How many bytes a number takes, and what the bytes of many of them say. */
const FORMATS = {
  F32: { bytes: 4, numbers: (buffer) => new Float32Array(buffer) },
  F16: { bytes: 2, numbers: (buffer) => half(new Uint16Array(buffer)) },
  I8: { bytes: 1, numbers: (buffer) => new Int8Array(buffer) },
};

const megabytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MB`;

/* Refused if a file has more bytes than a page should read: to be asked before they are read. */
export function checkSize(bytes) {
  if (bytes <= MOST_BYTES) return;
  refuse(
    `The file has ${megabytes(bytes)} and this page reads at most ${megabytes(MOST_BYTES)}. ` +
      "With `tiny-gpt export --int8` a model takes about 1 MB for each million parameters.",
  );
}

/* A safetensors file taken apart: { tensors: Map of name to { dtype, shape, numbers }, config, vocab, provenance }.
 *
 * The file begins with the length of its header (8 bytes, the lowest first), then the header, JSON that says where each
 * tensor lies in the bytes after it. `numbers` are floats for F32 and F16, whole numbers from -127 to 127 for I8.
 * Refused, in a sentence, if the file is anything else than a model that weights.py wrote. */
export function readSafetensors(buffer) {
  checkSize(buffer.byteLength);
  const view = new DataView(buffer);
  const size = buffer.byteLength < 8 ? NaN : Number(view.getBigUint64(0, true));
  if (!(size >= 2 && 8 + size <= buffer.byteLength)) {
    refuse(
      "This is not a safetensors file, or only a part of one: it should begin with the length of its header, and the " +
        `${buffer.byteLength} bytes that came do not. Choose the file that \`tiny-gpt export\` wrote, whole.`,
    );
  }
  let header;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(buffer, 8, size)));
  } catch {
    refuse("This is not a safetensors file: its header should be JSON and is not. Choose the file that `tiny-gpt export` wrote.");
  }
  const { __metadata__: written, ...entries } = header ?? {};
  if (written?.format !== JSON.stringify("tiny-gpt weights 1")) {
    refuse(
      'The file is in the safetensors format, but no model of Tiny GPT: its format should be "tiny-gpt weights 1" and is ' +
        `${written?.format ?? "not given"}. Write it with \`tiny-gpt export\`.`,
    );
  }
  const [config, vocab, provenance] = ["config", "vocab", "provenance"].map((key) => {
    try {
      return JSON.parse(written[key]);
    } catch {
      return refuse(`The file's ${key} should be JSON and is not. ${ANEW}`);
    }
  });
  const tensors = new Map();
  for (const [name, entry] of Object.entries(entries)) {
    const { dtype, shape, data_offsets: ends } = entry ?? {};
    if (!Object.hasOwn(FORMATS, dtype)) refuse(`${name} has the type ${dtype}; this page reads F32, F16 and I8. ${ANEW}`);
    const length = Array.isArray(shape) ? shape.reduce((a, b) => a * b, FORMATS[dtype].bytes) : NaN;
    const [start, end] = Array.isArray(ends) ? ends : [];
    if (!(start >= 0 && end - start === length && 8 + size + end <= buffer.byteLength)) {
      refuse(`${name} should have ${length} bytes within the file and has not: the file is damaged or cut short. Copy it again.`);
    }
    const bytes = buffer.slice(8 + size + start, 8 + size + end); // a copy, because it may begin at an odd address
    tensors.set(name, { dtype, shape, numbers: FORMATS[dtype].numbers(bytes) });
  }
  return { tensors, config, vocab, provenance };
}

/* Refused unless the tensors are the parameters of a model of this size, all of them, finite, and no others. */
function checkParameters(config, tensors) {
  const shapes = parameterShapes(config);
  for (const [name, { dtype, shape }] of [...tensors]) {
    if (dtype === "I8") shapes.set(`${name}.scale`, [shape[0]]); // each row's unit
  }
  const missing = [...shapes.keys()].filter((name) => !tensors.has(name));
  const more = missing.length > 3 ? ` and ${missing.length - 3} more tensors` : "";
  if (missing.length) refuse(`The file lacks ${missing.slice(0, 3).join(", ")}${more}, which its config asks for. ${ANEW}`);
  for (const [name, { dtype, shape, numbers }] of tensors) {
    const wanted = shapes.get(name);
    if (!wanted) refuse(`The file holds ${name}, which a model of its config has not. ${ANEW}`);
    const [found, asked] = [shape, wanted].map((sizes) => `(${sizes.join(", ")})`);
    if (found !== asked) refuse(`${name} should have the shape ${asked}, by the file's config, and has ${found}. ${ANEW}`);
    if (dtype === "I8" && !/\.(qkv|out_proj|fc1|fc2)\.weight$/.test(name)) {
      refuse(`${name} is I8, which only the matrices of the blocks may be. ${ANEW}`);
    }
    let at = 0;
    while (at < numbers.length && Number.isFinite(numbers[at])) at += 1; // findIndex would call a function ten million times
    if (at < numbers.length) {
      refuse(
        `${name} holds ${numbers[at]} at place ${at}: every weight must be a finite number. ` +
          "The training diverged; export an earlier checkpoint.",
      );
    }
  }
}

/* Characters and their ids, as data.py's CharTokenizer has them. */
export class CharTokenizer {
  constructor(vocab, size) {
    this.vocab = typeof vocab === "string" ? [...vocab] : []; // V characters, the id of each is its place
    this.ids = new Map(this.vocab.map((character, id) => [character, id]));
    const found = this.ids.size;
    if (found !== size || found !== this.vocab.length) {
      refuse(`The vocabulary should have ${size} different characters, one for each row of wte, and has ${found}. ${ANEW}`);
    }
  }
  encode(text) {
    const unknown = [...new Set(text)].filter((character) => !this.ids.has(character));
    if (unknown.length) {
      refuse(
        `This model has never seen ${unknown.slice(0, 10).map((c) => JSON.stringify(c)).join(", ")}: ` +
          `write with its ${this.vocab.length} characters only, ${JSON.stringify(listed(this.vocab))}.`,
      );
    }
    return Array.from(text, (character) => this.ids.get(character));
  }
  decode(ids) {
    return ids.map((id) => this.vocab[id]).join("");
  }
}

// -- matrix times vector ----------------------------------------------------------------------------------------------

/* matvec.wat, compiled; a test compiles it again and compares. */
const MATVEC = [
  "AGFzbQEAAAABFQJgBn9/f39/fwBgCH9/f39/f399AAISAQZlbmdpbmUGbWVtb3J5AgABAwMCAAEHFwIGbWF0dmVjAAAKbWF0dmVjSW50OAABCoEE",
  "AqcCAgR/BHsgACADQQJ0aiEJA0AgASEGIAIhByABIARBAnRqIQj9DAAAAAAAAAAAAAAAAAAAAAAhCv0MAAAAAAAAAAAAAAAAAAAAACEL/QwAAAAA",
  "AAAAAAAAAAAAAAAAIQz9DAAAAAAAAAAAAAAAAAAAAAAhDQNAIAogBv0ABAAgB/0ABAD95gH95AEhCiALIAb9AAQQIAf9AAQQ/eYB/eQBIQsgDCAG",
  "/QAEICAH/QAEIP3mAf3kASEMIA0gBv0ABDAgB/0ABDD95gH95AEhDSAHQcAAaiEHIAZBwABqIgYgCEkNAAsgCiAL/eQBIAwgDf3kAf3kASEKIAAg",
  "Cv0fACAK/R8BkiAK/R8CIAr9HwOSkjgCACABIAVqIQEgAEEEaiIAIAlJDQALC9UBAgR/AnsgACADQQJ0aiELA0AgASEIIAIhCSABIARqIQr9DAAA",
  "AAAAAAAAAAAAAAAAAAAhDP0MAAAAAAAAAAAAAAAAAAAAACENA0AgDCAI/QEDACAJ/QAEAP26Af2uASEMIA0gCP0BAwggCf0ABBD9ugH9rgEhDSAJ",
  "QSBqIQkgCEEQaiIIIApJDQALIAwgDf2uASEMIAAgBioCACAHlCAM/RsAIAz9GwFqIAz9GwIgDP0bA2pqspQ4AgAgASAFaiEBIAZBBGohBiAAQQRq",
  "IgAgC0kNAAsLALoBBG5hbWUCjwECAA4AAXkBAXcCAXgDBHJvd3MEB2NvbHVtbnMFBnN0cmlkZQYCYXQHBGZyb20IA2VuZAkEbGFzdAoBYQsBYgwB",
  "Yw0BZAEOAAF5AQF3AgF4AwRyb3dzBAdjb2x1bW5zBQZzdHJpZGUGBnNjYWxlcwcEdW5pdAgCYXQJBGZyb20KA2VuZAsEbGFzdAwBYQ0BYgMhAgAC",
  "AANyb3cBB3NpeHRlZW4BAgADcm93AQdzaXh0ZWVu",
].join("");

/* Kernels multiply y = W x where the numbers lie: their arguments are addresses in `memory`, as matvec.wat says.
 * This one is plain JavaScript: the oracle of the other, and what runs in a browser that lacks SIMD. */
export function plainKernel(bytes) {
  const memory = new ArrayBuffer(bytes);
  const [f32, i16, i8] = [new Float32Array(memory), new Int16Array(memory), new Int8Array(memory)];
  function matvec(y, w, x, rows, columns, stride) {
    for (let row = 0; row < rows; row++) {
      const [at, from] = [(w + row * stride) >> 2, x >> 2];
      let sum = 0;
      for (let i = 0; i < columns; i++) sum += f32[at + i] * f32[from + i];
      f32[(y >> 2) + row] = sum;
    }
  }
  function matvecInt8(y, w, x, rows, columns, stride, scales, unit) {
    for (let row = 0; row < rows; row++) {
      const [at, from] = [w + row * stride, x >> 1];
      let sum = 0;
      for (let i = 0; i < columns; i++) sum += i8[at + i] * i16[from + i];
      f32[(y >> 2) + row] = Math.fround(f32[(scales >> 2) + row] * Math.fround(unit)) * Math.fround(sum);
    }
  }
  return { name: "plain JavaScript", memory, matvec, matvecInt8 };
}

export function simdKernel(bytes) {
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / 2 ** 16) });
  const code = Uint8Array.from(atob(MATVEC), (character) => character.charCodeAt(0));
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(code), { engine: { memory } });
  return { name: "WebAssembly SIMD", memory: memory.buffer, ...exports };
}

/* The fast kernel where there is SIMD, else the plain one. */
export function anyKernel(bytes) {
  try {
    return simdKernel(bytes);
  } catch (error) {
    if (error instanceof RangeError) throw error; // no room: the plain one would have none either
    return plainKernel(bytes);
  }
}

const padded = (n) => Math.ceil(n / 16) * 16;

/* Numbers one after the other in a kernel's memory. `floats(n)` also makes sure of zeros up to a multiple of 16. */
class Arena {
  constructor(makeKernel, bytes) {
    this.kernel = makeKernel(bytes);
    this.used = 0;
  }
  take(Type, count) {
    const array = new Type(this.kernel.memory, this.used, count);
    this.used += padded(count) * Type.BYTES_PER_ELEMENT;
    return array;
  }
  floats(count) {
    return this.take(Float32Array, count);
  }
  /* A matrix with rows filled up, so that the kernel need not think of what is left over. */
  matrix(Type, rows, columns, numbers = null) {
    const stride = padded(columns);
    const data = this.take(Type, rows * stride);
    for (let row = 0; numbers && row < rows; row++) data.set(numbers.subarray(row * columns, (row + 1) * columns), row * stride);
    return { rows, columns, stride, data, address: data.byteOffset };
  }
}

// -- the layers -------------------------------------------------------------------------------------------------------

/* y = W x + b. Whole-number weights need a whole-number x: its largest entry becomes the largest that the sums can bear. */
class Linear {
  constructor(arena, tensors, name) {
    const { dtype, shape, numbers } = tensors.get(`${name}.weight`);
    const [rows, columns] = shape;
    this.kernel = arena.kernel;
    this.weight = arena.matrix(numbers.constructor, rows, columns, numbers);
    this.bias = tensors.get(`${name}.bias`)?.numbers;
    if (dtype !== "I8") return;
    this.scales = arena.floats(rows);
    this.scales.set(tensors.get(`${name}.weight.scale`).numbers);
    this.whole = arena.take(Int16Array, columns); // x in units of `unit`
    this.largest = Math.min(32767, Math.floor((2 ** 31 - 1) / (128 * padded(columns)))); // no sum leaves 32 bits
  }
  forward(y, x) {
    const { rows, stride, address } = this.weight;
    if (this.scales) {
      const unit = this.round(x);
      this.kernel.matvecInt8(y.byteOffset, address, this.whole.byteOffset, rows, stride, stride, this.scales.byteOffset, unit);
    } else {
      this.kernel.matvec(y.byteOffset, address, x.byteOffset, rows, stride, 4 * stride);
    }
    if (this.bias) for (let i = 0; i < rows; i++) y[i] += this.bias[i];
  }
  /* Writes x to `whole` as multiples of a unit, which is returned. An Int16Array drops the fraction of what is stored. */
  round(x) {
    const { whole, largest } = this;
    let top = 1e-30; // all zeros have a unit too
    for (let i = 0; i < whole.length; i++) {
      const size = x[i] < 0 ? -x[i] : x[i];
      if (size > top) top = size;
    }
    const perUnit = largest / top;
    for (let i = 0; i < whole.length; i++) {
      const multiple = x[i] * perUnit;
      whole[i] = multiple < 0 ? multiple - 0.5 : multiple + 0.5;
    }
    return top / largest;
  }
}

/* A row of (C,) is brought to mean 0 and variance 1, then stretched and shifted by what was learned. */
class LayerNorm {
  constructor(tensors, name) {
    this.weight = tensors.get(`${name}.weight`).numbers;
    this.bias = tensors.get(`${name}.bias`)?.numbers;
  }
  forward(y, x) {
    const { weight, bias } = this;
    const C = x.length;
    let mean = 0;
    for (let i = 0; i < C; i++) mean += x[i];
    mean /= C;
    let variance = 0;
    for (let i = 0; i < C; i++) variance += (x[i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / C + 1e-5);
    for (let i = 0; i < C; i++) y[i] = (x[i] - mean) * scale * weight[i];
    if (bias) for (let i = 0; i < C; i++) y[i] += bias[i];
  }
}

/* Φ(x), the share of a normal distribution that lies below x, at steps of 1/64 from -8 to 8: the bell curve added up by
 * Simpson's rule. Between two steps a cubic goes through both values with both slopes: it is right to 1e-9. */
const STEPS = 64;
const bell = (x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
const below = new Float64Array(16 * STEPS + 1);
const slope = Float64Array.from(below, (_, i) => bell(i / STEPS - 8) / STEPS); // of a whole step
for (let i = 0; i < 16 * STEPS; i++) {
  below[i + 1] = below[i] + (slope[i] + (4 * bell((i + 0.5) / STEPS - 8)) / STEPS + slope[i + 1]) / 6;
}

/* The exact GELU, x Φ(x). */
export function gelu(x) {
  if (x <= -8) return 0; // -8 Φ(-8) is -5e-15
  if (x >= 8) return x;
  const place = (x + 8) * STEPS;
  const i = place | 0; // the whole part
  const t = place - i;
  const [rise, a, b] = [below[i + 1] - below[i], slope[i], slope[i + 1]];
  return x * (below[i] + t * (a + t * (3 * rise - 2 * a - b + t * (a + b - 2 * rise))));
}

/* One block's keys and values of the positions already read. Values lie on their side, (D, block_size) for each head:
 * then the sum of values by their weights is one more product of a matrix with a vector. */
class KVCache {
  constructor(arena, { block_size, n_head, n_embd }) {
    this.length = 0; // S: how many positions are stored
    this.keys = Array.from({ length: n_head }, () => arena.matrix(Float32Array, block_size, n_embd / n_head));
    this.values = Array.from({ length: n_head }, () => arena.matrix(Float32Array, n_embd / n_head, block_size));
  }
  /* Store the newest position's key and value, (C,) each. */
  append(k, v) {
    const D = this.keys[0].columns;
    this.keys.forEach(({ data, stride }, head) => {
      for (let d = 0; d < D; d++) data[this.length * stride + d] = k[head * D + d];
    });
    this.values.forEach(({ data, stride }, head) => {
      for (let d = 0; d < D; d++) data[d * stride + this.length] = v[head * D + d];
    });
    this.length += 1;
  }
}

/* H attention heads side by side, from one fused projection. The newest position may look at all that are stored, so
 * there is nothing to mask. `watch(head, weights)` is shown each head's weights, (S,). */
class CausalSelfAttention {
  constructor(arena, tensors, name, config) {
    const C = config.n_embd;
    this.D = C / config.n_head;
    this.kernel = arena.kernel;
    this.qkv = new Linear(arena, tensors, `${name}.qkv`);
    this.out_proj = new Linear(arena, tensors, `${name}.out_proj`);
    this.projected = arena.floats(3 * C + 16); // q, k, v; the kernel may read a little beyond a head that is narrow
    this.k = this.projected.subarray(C, 2 * C);
    this.v = this.projected.subarray(2 * C, 3 * C);
    this.weights = arena.floats(padded(config.block_size));
    this.heads = arena.floats(C); // what the heads bring, one after the other
  }
  forward(y, x, cache, watch) {
    const { kernel, projected, weights, heads, D } = this;
    this.qkv.forward(projected, x); // (3C,)
    cache.append(this.k, this.v);
    const [S, root] = [cache.length, Math.sqrt(D)];
    for (let head = 0; head < cache.keys.length; head++) {
      const [keys, values, own] = [cache.keys[head], cache.values[head], 4 * head * D];
      kernel.matvec(weights.byteOffset, keys.address, projected.byteOffset + own, S, keys.stride, 4 * keys.stride);
      for (let s = 0; s < S; s++) weights[s] /= root;
      softmaxInPlace(weights, S); // (S,), a distribution over the past
      weights.fill(0, S, padded(S));
      watch?.(head, weights.subarray(0, S));
      kernel.matvec(heads.byteOffset + own, values.address, weights.byteOffset, D, padded(S), 4 * values.stride);
    }
    this.out_proj.forward(y, heads); // (C,)
  }
}

/* The position-wise feed-forward network: widen to 4C, GELU, narrow again. */
class FFN {
  constructor(arena, tensors, name, { n_embd: C }) {
    this.fc1 = new Linear(arena, tensors, `${name}.fc1`);
    this.fc2 = new Linear(arena, tensors, `${name}.fc2`);
    this.wide = arena.floats(4 * C);
  }
  forward(y, x) {
    const { wide } = this;
    this.fc1.forward(wide, x); // (4C,)
    for (let i = 0; i < wide.length; i++) wide[i] = gelu(wide[i]);
    this.fc2.forward(y, wide); // (C,)
  }
}

/* One layer, pre-norm: each branch reads a normalised copy of the stream x and adds to the stream itself. */
class Block {
  constructor(arena, tensors, name, config) {
    this.ln1 = new LayerNorm(tensors, `${name}.ln1`);
    this.attn = new CausalSelfAttention(arena, tensors, `${name}.attn`, config);
    this.ln2 = new LayerNorm(tensors, `${name}.ln2`);
    this.mlp = new FFN(arena, tensors, `${name}.mlp`, config);
    this.normed = arena.floats(config.n_embd);
    this.branch = arena.floats(config.n_embd);
  }
  forward(x, cache, watch) {
    const { normed, branch } = this;
    this.ln1.forward(normed, x);
    this.attn.forward(branch, normed, cache, watch); // information moves between positions
    for (let i = 0; i < x.length; i++) x[i] += branch[i];
    this.ln2.forward(normed, x);
    this.mlp.forward(branch, normed); // each position thinks for itself
    for (let i = 0; i < x.length; i++) x[i] += branch[i];
  }
}

/* The bytes of memory that a model of this size takes, at most. */
function bytesFor({ vocab_size, block_size, n_layer, n_head, n_embd: C }, tensors) {
  const D = C / n_head;
  const weights = [...tensors.values()].map(({ shape: [rows, columns = 1], numbers }) => {
    return padded(rows) * padded(columns) * numbers.BYTES_PER_ELEMENT;
  });
  const cache = n_head * (block_size * padded(D) + D * padded(block_size));
  const layer = 16 * padded(C) + 2 * padded(block_size); // what it notes down as it computes
  return weights.reduce((a, b) => a + b) + 4 * (n_layer * (cache + layer) + 2 * padded(C) + padded(vocab_size));
}

/* A decoder-only transformer: token ids in, one after the other, and logits for the next token out. */
export class TinyGPT {
  /* `file` is what readSafetensors gives; `makeKernel` one of the kernels above. */
  constructor({ tensors, config, vocab, provenance = null }, makeKernel = anyKernel) {
    this.config = GPTConfig(config);
    checkParameters(this.config, tensors);
    this.tokenizer = new CharTokenizer(vocab, this.config.vocab_size);
    this.provenance = provenance;
    const { vocab_size: V, n_layer, n_embd: C } = this.config;
    const arena = new Arena(makeKernel, bytesFor(this.config, tensors));
    const layers = Array.from({ length: n_layer }, (_, layer) => layer);
    this.kernel = arena.kernel;
    this.wte = new Linear(arena, tensors, "wte"); // one matrix, two uses: its rows are tokens read in, and it is the head
    this.wpe = arena.matrix(Float32Array, ...tensors.get("wpe.weight").shape, tensors.get("wpe.weight").numbers);
    this.blocks = layers.map((layer) => new Block(arena, tensors, `blocks.${layer}`, this.config));
    this.caches = layers.map(() => new KVCache(arena, this.config));
    this.ln_f = new LayerNorm(tensors, "ln_f");
    this.x = arena.floats(C); // the residual stream at the newest position
    this.normed = arena.floats(C);
    this.scores = arena.floats(V);
  }

  static from(buffer, makeKernel = anyKernel) {
    return new TinyGPT(readSafetensors(buffer), makeKernel);
  }

  /* How many positions have been read. */
  get length() {
    return this.caches[0].length;
  }

  /* Forget everything that was read. */
  reset() {
    for (const cache of this.caches) cache.length = 0;
  }

  /* Read one more token: the logits (V,) of the one after it, in an array that the next call writes over.
   * `watch` may have attention(layer, head, weights (S,)) and stream(layer, logits (V,)): see inspect. */
  logits(token, watch = null) {
    const { x, wte, wpe, length } = this;
    if (!(token >= 0 && token < this.config.vocab_size)) refuse(`The id ${token} is outside 0 to ${this.config.vocab_size - 1}.`);
    if (length === this.config.block_size) {
      refuse(`The context is full with ${length} tokens: reset() it, or let stream() slide the window.`);
    }
    const [{ data: tokens, stride }, { data: positions }] = [wte.weight, wpe];
    for (let i = 0; i < x.length; i++) x[i] = tokens[token * stride + i] + positions[length * stride + i]; // what, plus where
    this.blocks.forEach((block, layer) => {
      watch?.stream?.(layer, this.unembed());
      block.forward(x, this.caches[layer], watch?.attention && ((head, weights) => watch.attention(layer, head, weights)));
    });
    const logits = this.unembed();
    watch?.stream?.(this.blocks.length, logits);
    return logits;
  }

  /* The stream as it stands, read as the last layer's would be: (V,). */
  unembed() {
    this.ln_f.forward(this.normed, this.x);
    this.wte.forward(this.scores, this.normed);
    return this.scores;
  }

  /* Read a whole text afresh; the logits after its last token. */
  read(ids) {
    this.reset();
    let logits;
    for (const id of ids) logits = this.logits(id);
    return logits;
  }

  /* What happens inside on ids (T,): every head's attention and the stream after 0, 1, …, L layers.
   * { attention: (L, H, T, T), readings: (L + 1, T, V) }, each one Float32Array; row t of attention is over the past. */
  inspect(ids) {
    const { n_layer: L, n_head: H, vocab_size: V, block_size } = this.config;
    const T = ids.length;
    if (T < 1 || T > block_size) refuse(`A text of 1 to ${block_size} tokens can be looked into, and this one has ${T}.`);
    const [attention, readings] = [new Float32Array(L * H * T * T), new Float32Array((L + 1) * T * V)];
    this.reset();
    ids.forEach((id, t) =>
      this.logits(id, {
        attention: (layer, head, weights) => attention.set(weights, ((layer * H + head) * T + t) * T),
        stream: (layer, logits) => readings.set(logits, (layer * T + t) * V),
      }),
    );
    return { attention, readings };
  }

  // -- writing text -----------------------------------------------------------------------------------------------------

  /* Like generate, a token at a time: yields { token, probs (V,) }. `random()` gives a number in (0, 1].
   *
   * While the text fits into the context each step reads the newest token only. Beyond it the window slides: every token
   * then stands at another position, so nothing stored holds any more and the window is read afresh. One text at a time:
   * a model has one memory. */
  *stream(ids, { maxNewTokens, temperature = 1, topK = null, random = Math.random }) {
    const longest = this.config.block_size;
    if (!ids.length) refuse("There is nothing to continue: write at least one character.");
    if (!(maxNewTokens >= 0)) refuse(`maxNewTokens must be 0 or more, got ${maxNewTokens}.`);
    if (!(temperature >= 0)) refuse(`temperature must be 0 or more, got ${temperature}.`);
    if (topK !== null && !(topK >= 1)) refuse(`topK must be 1 or more (or null to keep every token), got ${topK}.`);
    ids = [...ids];
    this.reset();
    for (let made = 0; made < maxNewTokens; made++) {
      let logits;
      if (ids.length > longest) logits = this.read(ids.slice(-longest));
      else for (const id of ids.slice(this.length)) logits = this.logits(id);
      if (!logits.every(Number.isFinite)) refuse("The model's logits are not finite: its weights are too large for float32.");
      const probs = nextTokenProbs(logits, temperature, topK);
      const token = draw(probs, random());
      ids.push(token);
      yield { token, probs };
    }
  }

  /* Continue ids (T,): (T + maxNewTokens,). Settings as in stream. */
  generate(ids, settings) {
    return [...ids, ...Array.from(this.stream(ids, settings), ({ token }) => token)];
  }
}

/* The token at which the running sum of the probabilities reaches the share u of the whole, u in (0, 1]. */
export function draw(probs, u) {
  let sum = 0;
  const sums = probs.map((p) => (sum += p));
  return sums.findIndex((reached) => reached >= u * sum);
}
