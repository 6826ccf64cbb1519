// A recording to test with: the synthetic one of tests/explorer, small, and what a test needs of it.
import { gunzipSync } from "node:zlib";
import { generate } from "../../../tests/explorer/generate.mjs";
import { parseDocument } from "../document.js";
import { FileIndex, Selection, kindsOf, weightsOf } from "../model.js";

/** Bytes of a document as an ArrayBuffer of their own. */
export function inflated(bytes) {
  const raw = gunzipSync(bytes);
  return raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length);
}

/** A parsed recording, with all that the page makes of it first. */
export function sample(count = 3_000) {
  const { bytes, known } = generate(count);
  const recording = parseDocument(inflated(bytes));
  const kinds = kindsOf(recording);
  const index = new FileIndex(recording);
  return { recording, known, kinds, weights: weightsOf(recording), index, select: (file) => new Selection(recording, kinds, index.of(file)) };
}

/** Numbers below 1, always the same. */
export function numbers(seed = 7) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
