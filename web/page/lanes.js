// Places the pieces of a critical path on the lanes of the time line: wide ones as blocks, others in bins of one pixel.

import { GROUPS } from "./reasons.js";
import { piecesBetween } from "./path.js";

/** Number of values of a bin: time by group, dimmed or not. */
const VALUES = GROUPS.length * 2;

/**
 * What to draw of a time range that is `width` pixels wide, with places in pixels:
 * - `blocks`: pieces of at least a pixel: { piece, row, from, to, group, isDim }.
 * - `bins`: the others, by pixel: { row, column, group, share, isDim }: the group with the most time, and how much of the pixel its row fills.
 * - `hops`: where the path goes from row to row: { x, low, high, count }: one per pixel.
 * Pieces with `matches[i]` 0 are dimmed.
 */
export function layoutPieces(path, { rows, rowOf }, [from, to], width, matches = null) {
  const scale = width / (to - from);
  const { starts, groups } = path;
  const { piece_lane: lanes } = path.columns;
  const columns = Math.max(1, Math.ceil(width));
  const { first, end } = piecesBetween(path, [from, to]);
  const blocks = [];
  const hops = [];
  let times = null;
  const add = (row, column, value, time) => {
    times ??= new Float32Array(rows.length * columns * VALUES);
    if (time > 0) times[(row * columns + Math.min(columns - 1, column)) * VALUES + value] += time;
  };
  for (let i = first; i < end; i++) {
    const row = rowOf[lanes[i]];
    const x0 = Math.max(0, (starts[i] - from) * scale);
    const x1 = Math.min(width, (starts[i + 1] - from) * scale);
    const isDim = matches !== null && matches[i] === 0;
    if (x1 - x0 >= 1) {
      blocks.push({ piece: i, row, from: x0, to: x1, group: groups[i], isDim });
    } else {
      const column = Math.floor(x0);
      const value = groups[i] + (isDim ? GROUPS.length : 0);
      const here = Math.min(x1, column + 1);
      add(row, column, value, here - x0);
      add(row, column + 1, value, x1 - here);
    }
    if (i > first) hop(hops, rowOf[lanes[i - 1]], row, x0);
  }
  return { blocks, bins: times === null ? [] : binned(times, columns), hops };
}

function hop(hops, before, row, x) {
  if (before === row) return;
  const last = hops[hops.length - 1];
  const [low, high] = [Math.min(before, row), Math.max(before, row)];
  if (last && Math.floor(last.x) === Math.floor(x)) {
    last.low = Math.min(last.low, low);
    last.high = Math.max(last.high, high);
    last.count += 1;
  } else {
    hops.push({ x, low, high, count: 1 });
  }
}

function binned(times, columns) {
  const bins = [];
  for (let at = 0; at < times.length; at += VALUES) {
    let share = 0;
    let best = 0;
    let bright = 0;
    for (let value = 0; value < VALUES; value++) {
      const time = times[at + value];
      share += time;
      if (value < GROUPS.length) bright += time;
      // Bright ones are shown before dimmed ones, however short.
      const isBetter = time > times[at + best] && !(value >= GROUPS.length && bright > 0);
      if (isBetter) best = value;
    }
    if (share === 0) continue;
    const bin = at / VALUES;
    bins.push({ row: Math.floor(bin / columns), column: bin % columns, group: best % GROUPS.length, share: Math.min(1, share), isDim: best >= GROUPS.length });
  }
  return bins;
}
