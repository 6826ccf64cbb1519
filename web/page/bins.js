// Histograms of faults over time, and quantiles of latencies.

import { placesBetween } from "./model.js";

/** Counts faults in `count` equal bins of [from, to]: all faults, and the selected ones by kind. */
export function histogram(selection, kindCount, [from, to], count) {
  const { starts, fails, kinds } = selection;
  const all = new Uint32Array(count);
  const selected = new Uint32Array(count * kindCount);
  const scale = count / (to - from);
  const { first, end } = placesBetween(starts, [from, to]);
  for (let i = first; i < end; i++) {
    // A fault at the very end belongs to the last bin.
    const bin = Math.min(count - 1, ((starts[i] - from) * scale) | 0);
    all[bin] += 1;
    if (fails[i] === 0) selected[bin * kindCount + kinds[i]] += 1;
  }
  return { all, selected };
}

/** The quantile of the values for a share; NaN if there are none. Sorts the values in place. */
export function quantile(values, share) {
  if (values.length === 0) return NaN;
  values.sort();
  return values[Math.min(values.length - 1, Math.max(0, Math.ceil(share * values.length) - 1))];
}

/** Quantiles of the selected faults' latencies. */
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
