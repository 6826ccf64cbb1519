// Provides tests with a small synthetic recording of tests/explorer.
import { gunzipSync } from "node:zlib";
import { generate } from "../../../tests/explorer/generate.mjs";
import { parseDocument } from "../document.js";
import { FileIndex, Selection, kindsOf, weightsOf } from "../model.js";

/** Uncompressed bytes of a document in a separate ArrayBuffer. */
export function inflated(bytes) {
  const raw = gunzipSync(bytes);
  return raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length);
}

/** A parsed recording, with the data that the page derives from it at the start. */
export function sample(count = 3_000) {
  const { bytes, known } = generate(count);
  const recording = parseDocument(inflated(bytes));
  const kinds = kindsOf(recording);
  const index = new FileIndex(recording);
  return { recording, known, kinds, weights: weightsOf(recording), index, select: (file) => new Selection(recording, kinds, index.of(file)) };
}

/** Pseudorandom numbers below 1, the same in every run. */
export function numbers(seed = 7) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
