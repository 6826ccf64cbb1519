// Faults and reads over time: how many in each piece of it, and how long they took.

import { placesBetween } from "./model.js";

/** Counts of faults in `count` equal pieces of [from, to], for each kind: all of them, and the selected ones. */
export function histogram(selection, kindCount, [from, to], count) {
  const { starts, fails, kinds } = selection;
  const all = new Uint32Array(count);
  const selected = new Uint32Array(count * kindCount);
  const scale = count / (to - from);
  const { first, end } = placesBetween(starts, [from, to]);
  for (let i = first; i < end; i++) {
    // What begins at the very end is in the last piece.
    const bin = Math.min(count - 1, ((starts[i] - from) * scale) | 0);
    all[bin] += 1;
    if (fails[i] === 0) selected[bin * kindCount + kinds[i]] += 1;
  }
  return { all, selected };
}

/** The value below which a share of the values lies; NaN of none. Reorders the values. */
export function quantile(values, share) {
  if (values.length === 0) return NaN;
  values.sort();
  return values[Math.min(values.length - 1, Math.max(0, Math.ceil(share * values.length) - 1))];
}

/** Latencies of the selected faults: how they spread. */
export function latencies(selection) {
  const durations = selection.recording.columns.fault_duration;
  const known = new Float64Array(selection.list.length);
  let count = 0;
  for (let i = 0; i < known.length; i++) {
    const time = durations[selection.list[i]];
    if (selection.fails[i] === 0 && time >= 0) known[count++] = time;
  }
  const values = known.subarray(0, count);
  return { median: quantile(values, 0.5), p99: quantile(values, 0.99), max: quantile(values, 1) };
}
