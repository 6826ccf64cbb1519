// Data of the table: the faults that pass the other filters, grouped by function, symbol, section, thread and so on.

import { FLAG, NONE } from "./document.js";
import { FILTER, countOf } from "./model.js";

/** Groupings of the table. */
export const GROUPINGS = ["function", "symbol", "section", "class", "phase", "thread", "process"];

/** The group of each fault of the list, as a number, and a function that names groups. */
export function groupKeys(recording, list, grouping) {
  const { columns: c, strings } = recording;
  const keys = new Uint32Array(list.length);
  const fill = (column, count, name, none) => {
    for (let i = 0; i < list.length; i++) keys[i] = Math.min(column[list[i]], count);
    return { keys, name: (key) => (key < count ? name(key) : none) };
  };
  switch (grouping) {
    case "symbol":
    case "section":
      return placeKeys(recording, list, grouping, keys);
    case "class":
      return fill(c.fault_class, recording.classes.length, (key) => recording.classes[key], "unknown");
    case "phase":
      return fill(c.fault_phase, recording.phases.length, (key) => recording.phases[key], "unknown");
    case "thread": {
      const name = (key) => `${strings[recording.threads[key].name]} (${recording.threads[key].tid})`;
      return fill(c.fault_thread, recording.threads.length, name, "unknown");
    }
    case "process": {
      const of = recording.threads.map((thread) => thread.process);
      for (let i = 0; i < list.length; i++) keys[i] = of[c.fault_thread[list[i]]] ?? recording.processes.length;
      const name = (key) => `${strings[recording.processes[key].name]} (${recording.processes[key].pid})`;
      return { keys, name: (key) => (key < recording.processes.length ? name(key) : "unknown") };
    }
    default:
      return fill(c.fault_function, c.function_name.length, (key) => functionName(recording, key), "no function of the program");
  }
}

/** The name of a function, or a placeholder if there is none. */
export function functionName(recording, id) {
  if (!(id < recording.columns.function_name.length)) return "no function of the program";
  return recording.strings[recording.columns.function_name[id]];
}

/** The module of a function; empty if it has none. */
export function moduleName(recording, id) {
  const module = recording.columns.function_module[id];
  return module === undefined || module === NONE ? "" : recording.strings[module];
}

/** Groups by section or symbol over all files; equal names in one file share a group. */
function placeKeys(recording, list, grouping, keys) {
  const { fault_file: files } = recording.columns;
  const numbers = new Map();
  const names = [];
  for (let i = 0; i < list.length; i++) {
    const place = placeOf(recording, list[i]);
    const name = grouping === "section" ? place.section : place.symbol;
    const key = name === null ? "" : `${files[list[i]]} ${name}`;
    let number = numbers.get(key);
    if (number === undefined) {
      number = names.length;
      numbers.set(key, number);
      names.push(name ?? (grouping === "section" ? "no section" : "no symbol"));
    }
    keys[i] = number;
  }
  return { keys, name: (key) => names[key] };
}

/** Location of a fault in its file: offset, section and symbol, or null for each. */
export function placeOf(recording, fault) {
  const { columns: c, strings } = recording;
  const file = recording.files[c.fault_file[fault]];
  if (!file) return { byte: null, section: null, symbol: null };
  const byte = c.fault_page[fault] * 4096 + c.fault_in_page[fault];
  const section = within(file.sections.length, (i) => file.sections[i].offset, (i) => file.sections[i].size, byte);
  const [first, end] = file.symbols;
  const symbol = within(end - first, (i) => c.symbol_offset[first + i], (i) => c.symbol_size[first + i], byte);
  return {
    byte,
    section: section < 0 ? null : strings[file.sections[section].name],
    symbol: symbol < 0 ? null : strings[c.symbol_name[first + symbol]],
  };
}

/** Index of the range that contains a byte, of `count` ranges sorted by offset; -1: none. */
function within(count, offset, size, byte) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (offset(middle) <= byte) low = middle + 1;
    else high = middle;
  }
  const at = low - 1;
  return at >= 0 && byte - offset(at) < size(at) ? at : -1;
}

/** Rows of the table, from the faults that pass all filters except the table's own. */
export function groupRows(selection, weights, { keys, name }) {
  const { list, fails } = selection;
  const flags = selection.recording.columns.fault_flags;
  const length = keys.reduce((most, key) => Math.max(most, key + 1), 0);
  const faults = new Uint32Array(length);
  const waited = new Uint32Array(length);
  const times = new Float64Array(length);
  let total = 0;
  for (let i = 0; i < list.length; i++) {
    if (fails[i] & ~FILTER.group) continue;
    const key = keys[i];
    faults[key] += countOf(selection.recording, list[i]);
    times[key] += weights[list[i]];
    total += weights[list[i]];
    if (flags[list[i]] & FLAG.waited) waited[key] += 1;
  }
  const rows = [];
  for (let key = 0; key < length; key++) {
    if (faults[key] > 0) rows.push({ key, faults: faults[key], waited: waited[key], time: times[key] });
  }
  return { rows, total, name };
}

/** Sorts rows by a column, largest first; ties are sorted by the other columns. */
export function sortRows(rows, column) {
  const order = [column, "time", "faults", "waited"];
  return rows.sort((a, b) => {
    for (const by of order) if (a[by] !== b[by]) return b[by] - a[by];
    return a.key - b.key;
  });
}

/** The symbols with the most time among the selected faults of a file: [{ name, page, time }]. */
export function hotSymbols(recording, file, selection, weights, most) {
  const [first, end] = recording.files[file]?.symbols ?? [0, 0];
  if (end <= first) return [];
  const { symbol_offset: offsets, symbol_size: sizes, symbol_name: names, fault_page: pages, fault_in_page: inPage } = recording.columns;
  const times = new Float64Array(end - first);
  for (let i = 0; i < selection.list.length; i++) {
    if (selection.fails[i] !== 0) continue;
    const fault = selection.list[i];
    const byte = pages[fault] * 4096 + inPage[fault];
    const symbol = within(end - first, (at) => offsets[first + at], (at) => sizes[first + at], byte);
    if (symbol >= 0) times[symbol] += weights[fault];
  }
  const ranked = Array.from(times.keys()).filter((at) => times[at] > 0);
  ranked.sort((a, b) => times[b] - times[a]);
  return ranked.slice(0, most).map((at) => ({
    name: recording.strings[names[first + at]],
    page: offsets[first + at] / 4096,
    time: times[at],
  }));
}
