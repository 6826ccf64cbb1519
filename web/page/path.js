// A critical path as the server sends it (profiler/report/src/explorer/path.rs). All references are checked once, here.

import { DocumentError, NONE } from "./document.js";
import { firstFrom } from "./model.js";
import { reasonGroup } from "./reasons.js";

const THREADS = ["piece_lane", "piece_thread", "part_thread"];
const REASONS = ["piece_reason", "piece_via", "part_reason"];
const STRINGS = ["piece_function", "piece_file", "piece_device", "part_function", "part_file", "part_device", "node_source", "function_name", "function_module"];
/** Columns of one kind of row have the same length as the first of them. */
const SAME = ["piece_", "part_", "node_", "function_"];

/** Checks an answer and adds what the page derives from it: `starts` of pieces, with the end of the last, and their `groups`. */
export function parsePath(answer) {
  const columns = {};
  for (const [name, values] of Object.entries(answer.columns ?? {})) {
    if (!Array.isArray(values)) throw new DocumentError(`the path's column ${name} is not a list`);
    const Kind = name === "piece_duration" || name === "piece_count" ? Float64Array : Uint32Array;
    columns[name] = Kind.from(values, (value) => value ?? NONE);
  }
  const path = { ...answer, columns };
  checkPath(path);
  const count = columns.piece_duration.length;
  path.starts = new Float64Array(count + 1);
  path.starts[0] = path.start_ns;
  for (let i = 0; i < count; i++) path.starts[i + 1] = path.starts[i] + columns.piece_duration[i];
  const groups = path.reasons.map(reasonGroup);
  path.groups = Uint8Array.from(columns.piece_reason, (reason) => groups[reason]);
  return path;
}

function checkPath({ columns: c, strings, threads, reasons, tables, choices, thread }) {
  const within = (name, length, mayBeMissing = true) => {
    if (!c[name]) throw new DocumentError(`the path has no column ${name}`);
    for (const value of c[name]) {
      if (value >= length && !(mayBeMissing && value === NONE)) throw new DocumentError(`the path's column ${name} has an invalid reference`);
    }
  };
  for (const name of THREADS) within(name, threads.length, false);
  for (const name of REASONS) within(name, reasons.length, name === "piece_via");
  for (const name of STRINGS) within(name, strings.length, name !== "function_name");
  within("piece_part", c.part_thread.length, false);
  within("piece_stack", c.node_parent.length);
  within("node_function", c.function_name.length);
  for (const start of SAME) {
    const names = Object.keys(c).filter((name) => name.startsWith(start));
    if (names.some((name) => c[name].length !== c[names[0]].length)) throw new DocumentError(`the path's columns ${start}* differ in length`);
  }
  if (!c.piece_duration) throw new DocumentError("the path has no column piece_duration");
  c.node_parent.forEach((parent, node) => {
    if (parent >= node && parent !== NONE) throw new DocumentError("the path's stacks are not a tree");
  });
  const names = [...threads, ...choices, thread].flatMap(({ name, process }) => [name, process]);
  for (const { rows } of tables) for (const { name } of rows) names.push(name);
  if (names.some((name) => !(Number.isInteger(name) && name >= 0 && name < strings.length))) throw new DocumentError("the path has an invalid name");
}

/** "worker (123)". */
export function threadTitle(path, { name, tid }) {
  return `${path.strings[name]} (${tid})`;
}

/**
 * The rows of the time line: the path's own thread, then the others by their time on it. The last row has all further ones, if there are more than
 * `most`: { rows: [{ threads, time }], rowOf: by thread }.
 */
export function lanesOf(path, most) {
  const { piece_lane: lanes, piece_duration: durations } = path.columns;
  const times = new Float64Array(path.threads.length);
  for (let i = 0; i < lanes.length; i++) times[lanes[i]] += durations[i];
  const own = path.threads.findIndex(({ number }) => number === path.thread.number);
  const order = Array.from(times.keys()).filter((thread) => times[thread] > 0 || thread === own);
  order.sort((a, b) => (b === own) - (a === own) || times[b] - times[a] || a - b);
  const rowOf = new Uint32Array(path.threads.length);
  const rows = [];
  order.forEach((thread, place) => {
    const row = order.length > most ? Math.min(place, most - 1) : place;
    rowOf[thread] = row;
    rows[row] ??= { threads: [], time: 0 };
    rows[row].threads.push(thread);
    rows[row].time += times[thread];
  });
  return { rows, rowOf };
}

/** The range of pieces that overlap a time range: [first, end). */
export function piecesBetween(path, [from, to]) {
  const count = path.groups.length;
  const first = Math.max(0, firstFrom(path.starts, from, true) - 1);
  return { first: Math.min(first, count), end: Math.min(count, firstFrom(path.starts, to)) };
}

/** The longest piece that overlaps a time range, preferably of the lanes for which `isPreferred(lane)`; -1: there is none. */
export function pieceIn(path, range, isPreferred = () => true) {
  const { first, end } = piecesBetween(path, range);
  const { piece_lane: lanes, piece_duration: durations } = path.columns;
  let best = -1;
  let isBestPreferred = false;
  for (let i = first; i < end; i++) {
    const preferred = isPreferred(lanes[i]);
    if (best >= 0 && (preferred < isBestPreferred || (preferred === isBestPreferred && durations[i] <= durations[best]))) continue;
    best = i;
    isBestPreferred = preferred;
  }
  return best;
}

/** What identifies the row of a table that a piece belongs to. */
const KEYS = {
  by_part: (path, i) => {
    const { columns: c } = path;
    const part = c.piece_part[i];
    const { pid, tid } = path.threads[c.part_thread[part]];
    return [pid, tid, path.reasons[c.part_reason[part]], c.part_function[part], c.part_file[part], c.part_device[part]];
  },
  by_reason: (path, i) => [path.reasons[path.columns.piece_reason[i]]],
  by_thread: (path, i) => {
    const { pid, tid } = path.threads[path.columns.piece_thread[i]];
    return [pid, tid];
  },
  by_via: (path, i) => [path.reasons[path.columns.piece_via[i]]],
  by_function: (path, i) => [path.columns.piece_function[i]],
  by_file: (path, i) => [path.columns.piece_file[i]],
  by_device: (path, i) => [path.columns.piece_device[i]],
};
const ROW_KEYS = {
  by_part: ({ pid, tid, reason, function: name, file, device }, said) => [pid, tid, said(reason), name ?? NONE, file ?? NONE, device ?? NONE],
  by_reason: ({ reason }, said) => [said(reason)],
  by_thread: ({ pid, tid }) => [pid, tid],
  by_via: ({ via }, said) => [said(via)],
  by_function: ({ function: name }) => [name ?? NONE],
  by_file: ({ file }) => [file ?? NONE],
  by_device: ({ device }) => [device ?? NONE],
};

/** By piece: 1 if it belongs to a row of the table `key`. */
export function matchingPieces(path, key, row) {
  const said = (string) => (string === null || string === undefined ? undefined : path.strings[string]);
  const wanted = ROW_KEYS[key]?.(row, said) ?? [];
  const of = KEYS[key] ?? (() => [null]);
  return path.groups.map((_, i) => {
    const found = of(path, i);
    return Number(wanted.length === found.length && found.every((value, at) => value === wanted[at]));
  });
}
