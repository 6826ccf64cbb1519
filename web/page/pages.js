// The pages of a file: the fate of each, and the number of pages by fate in the cells of the map.

import { NONE } from "./document.js";

/** Fates of a page, in ascending precedence. */
export const FATES = ["untouched", "read by system calls", "wasted", "mapped around", "faulted", "dirtied"];
export const FATE = { untouched: 0, called: 1, wasted: 2, around: 3, faulted: 4, dirtied: 5 };
/** Maximum number of pages with a fate: 64 GiB. */
const MOST_PAGES = 1 << 24;
/** Indices into a file's `pages`, which has runs of pages by kind. */
const SET = { faulted: 0, around: 1, readByFaults: 2, readByCalls: 3, wasted: 4 };

/** By page of a file: its fate in the whole recording. */
export function fatesOf(recording, file, list) {
  const { run_first: firsts, run_count: counts, fault_class: classes, fault_page: pages } = recording.columns;
  const extent = extentOf(recording, file, list);
  const fates = new Uint8Array(Math.min(extent, MOST_PAGES));
  const mark = (set, fate) => {
    const [from, to] = recording.files[file].pages[set];
    for (let run = from; run < to; run++) {
      const end = Math.min(firsts[run] + counts[run], fates.length);
      for (let page = firsts[run]; page < end; page++) if (fates[page] < fate) fates[page] = fate;
    }
  };
  mark(SET.readByCalls, FATE.called);
  mark(SET.wasted, FATE.wasted);
  mark(SET.around, FATE.around);
  mark(SET.faulted, FATE.faulted);
  const dirties = recording.classes.map((name) => name === "file-cow" || name === "shared-dirty");
  for (const fault of list) {
    if (dirties[classes[fault]] && pages[fault] < fates.length) fates[pages[fault]] = FATE.dirtied;
  }
  return fates;
}

/** Number of pages of a file, as far as known. */
export function extentOf(recording, file, list) {
  const pages = recording.columns.fault_page;
  let extent = recording.files[file]?.extent ?? 0;
  for (const fault of list) if (pages[fault] !== NONE && pages[fault] >= extent) extent = pages[fault] + 1;
  return Math.max(1, extent);
}

/** Number of pages up to the last used one: debug information at the end of a file may be as large as the rest, and is never mapped. */
export function usedOf(recording, fates, list) {
  const pages = recording.columns.fault_page;
  let used = fates.length;
  while (used > 1 && fates[used - 1] === FATE.untouched) used -= 1;
  for (const fault of list) if (pages[fault] !== NONE && pages[fault] >= used) used = pages[fault] + 1;
  return used;
}

/** Number of pages by fate. */
export function countFates(fates) {
  const counts = new Array(FATES.length).fill(0);
  for (let page = 0; page < fates.length; page++) counts[fates[page]] += 1;
  return counts;
}

/** Number of pages per cell, a power of two, with which [first, last] fits `columns` × `rows` cells. */
export function pagesPerCell(first, last, columns, rows) {
  const pages = Math.max(1, last - first + 1);
  const room = Math.max(1, columns * rows);
  return 2 ** Math.max(0, Math.ceil(Math.log2(pages / room)));
}

/** Number of pages by cell and fate, from page `first` to `last`. */
export function cellsOf(fates, first, last, perCell) {
  const end = Math.min(last + 1, fates.length);
  const count = Math.max(0, Math.ceil((end - first) / perCell));
  const cells = new Uint32Array(count * FATES.length);
  for (let page = first; page < end; page++) {
    cells[Math.floor((page - first) / perCell) * FATES.length + fates[page]] += 1;
  }
  return cells;
}

/** By page: 1 if the selected faults, or reads in the selected time, touched it. */
export function touchedPages(recording, file, selection, fates) {
  const touched = new Uint8Array(fates.length);
  // By page: number of ranges around faults that start there minus those that end there.
  const edges = new Int32Array(fates.length + 1);
  const { fault_page: pages, fault_around_before: before, fault_around_count: count } = recording.columns;
  for (let i = 0; i < selection.list.length; i++) {
    if (selection.fails[i] !== 0) continue;
    const fault = selection.list[i];
    const page = pages[fault];
    if (page < touched.length) touched[page] = 1;
    const from = Math.max(0, page - before[fault]);
    const end = Math.min(touched.length, from + count[fault]);
    if (end > from) {
      edges[from] += 1;
      edges[end] -= 1;
    }
  }
  // Of the ranges around faults, only pages that were mapped by one and did not fault themselves.
  for (let page = 0, open = 0; page < fates.length; page++) {
    open += edges[page];
    if (open > 0 && fates[page] === FATE.around) touched[page] = 1;
  }
  markReads(recording, file, selection, fates, touched);
  return touched;
}

/** Marks pages that were read but neither faulted nor mapped, which only reads report. */
function markReads(recording, file, selection, fates, touched) {
  const { time, group, under, kind } = selection.filters;
  if (group || under || kind !== null) return;
  const { read_start: starts, read_file: files, read_first: firsts, read_count: counts } = recording.columns;
  const [low, high] = selection.filters.pages ?? [0, Infinity];
  for (let i = 0; i < starts.length; i++) {
    if (files[i] !== file || (time && (starts[i] < time[0] || starts[i] > time[1]))) continue;
    const end = Math.min(firsts[i] + counts[i], touched.length, high + 1);
    for (let page = Math.max(firsts[i], low); page < end; page++) {
      if (fates[page] === FATE.wasted || fates[page] === FATE.called) touched[page] = 1;
    }
  }
}
