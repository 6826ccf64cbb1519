// What is looked at: the faults of one file, and which of them pass the filters. Each filter has a bit of its own, set where it fails, so
// that a view can leave its own filter out and a changed filter is the only one that is computed again.

import { FLAG, NONE } from "./document.js";

/** Stands for a file: all faults; those on memory of no file. */
export const ALL = -1;
export const NO_FILE = -2;

/** What a fault was, as the page tells it apart. The order is that of drawing: the last is on top. */
export const KINDS = ["memory of no file", "page of a file, in memory", "copied when written", "waited for a read, or major"];
export const KIND = { memory: 0, mapped: 1, copied: 2, waited: 3 };

/** Bits of filters. */
export const FILTER = { time: 1, pages: 2, group: 4, under: 8, kind: 16 };

const COPIED = new Set(["file-cow", "shared-dirty"]);

/** The kind of every fault. */
export function kindsOf(recording) {
  const { fault_class: classes, fault_flags: flags, fault_file: files } = recording.columns;
  const copied = recording.classes.map((name) => COPIED.has(name));
  const kinds = new Uint8Array(classes.length);
  for (let i = 0; i < kinds.length; i++) {
    if (flags[i] & (FLAG.waited | FLAG.major)) kinds[i] = KIND.waited;
    else if (copied[classes[i]]) kinds[i] = KIND.copied;
    else kinds[i] = files[i] === NONE ? KIND.memory : KIND.mapped;
  }
  return kinds;
}

/** Time of every fault for sums: what is not known counts nothing. */
export function weightsOf(recording) {
  return recording.columns.fault_duration.map((time) => (time > 0 ? time : 0));
}

/** Faults by file, each file's by time; those of no file come last. */
export class FileIndex {
  constructor(recording) {
    const files = recording.columns.fault_file;
    const count = recording.files.length;
    this.noFile = count;
    this.starts = new Uint32Array(count + 2);
    for (let i = 0; i < files.length; i++) this.starts[this.slot(files[i]) + 1] += 1;
    for (let i = 1; i < this.starts.length; i++) this.starts[i] += this.starts[i - 1];
    const next = this.starts.slice();
    this.faults = new Uint32Array(files.length);
    for (let i = 0; i < files.length; i++) this.faults[next[this.slot(files[i])]++] = i;
    this.all = new Uint32Array(files.length);
    for (let i = 0; i < files.length; i++) this.all[i] = i;
  }

  slot(file) {
    return file === NONE ? this.noFile : file;
  }

  /** The numbers of a file's faults, by time. */
  of(file) {
    if (file === ALL) return this.all;
    const slot = file === NO_FILE ? this.noFile : file;
    return this.faults.subarray(this.starts[slot], this.starts[slot + 1]);
  }
}

/** Faults, major and waited ones, and time, of the faults of a list; with `fails`, of those that fail nothing. */
export function tally(recording, weights, list, fails = null) {
  const flags = recording.columns.fault_flags;
  const sum = { faults: 0, major: 0, waited: 0, time: 0 };
  for (let i = 0; i < list.length; i++) {
    if (fails && fails[i] !== 0) continue;
    const fault = list[i];
    sum.faults += 1;
    sum.time += weights[fault];
    if (flags[fault] & FLAG.major) sum.major += 1;
    if (flags[fault] & FLAG.waited) sum.waited += 1;
  }
  return sum;
}

/** Files with what they took, the dearest first; then memory of no file, if there is such a fault. */
export function filesByTime(recording, weights, index) {
  const rows = [];
  for (let file = 0; file < recording.files.length; file++) {
    rows.push({ file, path: recording.strings[recording.files[file].path], ...tally(recording, weights, index.of(file)) });
  }
  rows.sort((a, b) => b.time - a.time || b.faults - a.faults || a.file - b.file);
  const rest = tally(recording, weights, index.of(NO_FILE));
  if (rest.faults > 0) rows.push({ file: NO_FILE, path: "memory of no file", ...rest });
  return rows;
}

/** The values of a list's faults, side by side: what is gone through for every frame is near each other in memory. */
export function gather(column, list) {
  if (list.length === column.length) return column;
  const gathered = new column.constructor(list.length);
  for (let i = 0; i < gathered.length; i++) gathered[i] = column[list[i]];
  return gathered;
}

/** The faults of a file, and which filters each fails. */
export class Selection {
  constructor(recording, kinds, list) {
    this.recording = recording;
    this.list = list;
    this.kinds = gather(kinds, list);
    /** Places of those that waited: few, and drawn whatever else is left out. */
    this.rare = Uint32Array.from(this.kinds.keys()).filter((place) => this.kinds[place] === KIND.waited);
    this.starts = gather(recording.columns.fault_start, list);
    this.pages = gather(recording.columns.fault_page, list);
    this.fails = new Uint8Array(list.length);
    this.filters = { time: null, pages: null, group: null, under: null, kind: null };
  }

  /** Some filter is set. */
  get isNarrowed() {
    return Object.values(this.filters).some((filter) => filter !== null);
  }

  set(bit, passes) {
    const { fails, list } = this;
    const keep = ~bit;
    if (!passes) {
      for (let i = 0; i < fails.length; i++) fails[i] &= keep;
      return;
    }
    for (let i = 0; i < fails.length; i++) fails[i] = passes(list[i], i) ? fails[i] & keep : fails[i] | bit;
  }

  /** Faults that began within [from, to], in ns; null: any. */
  setTime(range) {
    this.filters.time = range;
    if (!range) return this.set(FILTER.time, null);
    // The list is by time: what passes is one run of it.
    const { fails } = this;
    const { first, end } = placesBetween(this.starts, range);
    for (let i = 0; i < first; i++) fails[i] |= FILTER.time;
    for (let i = first; i < end; i++) fails[i] &= ~FILTER.time;
    for (let i = end; i < fails.length; i++) fails[i] |= FILTER.time;
    return undefined;
  }

  /** Faults of pages within [first, last]; null: any. */
  setPages(range) {
    this.filters.pages = range;
    if (!range) return this.set(FILTER.pages, null);
    const { fails, pages } = this;
    const first = range[0];
    const last = Math.min(range[1], NONE - 1);
    for (let i = 0; i < fails.length; i++) {
      const page = pages[i];
      if (page >= first && page <= last) fails[i] &= ~FILTER.pages;
      else fails[i] |= FILTER.pages;
    }
    return undefined;
  }

  /** Faults whose key (by place in the list) is `key`; null: any. */
  setGroup(filter) {
    this.filters.group = filter;
    this.set(FILTER.group, filter && ((fault, i) => filter.keys[i] === filter.key));
  }

  /** Faults whose stack goes through a node of the flame graph: `nodes[node]` is 1 there; null: any. */
  setUnder(filter) {
    this.filters.under = filter;
    const stacks = this.recording.columns.fault_stack;
    this.set(FILTER.under, filter && ((fault) => stacks[fault] !== NONE && filter.nodes[filter.nodeOf[stacks[fault]]] === 1));
  }

  /** Faults of some kinds, as bits; null: any. */
  setKinds(bits) {
    this.filters.kind = bits;
    this.set(FILTER.kind, bits === null ? null : (_, i) => (bits >> this.kinds[i]) & 1);
  }

  /** Drops every filter. */
  clear() {
    this.filters = { time: null, pages: null, group: null, under: null, kind: null };
    this.fails.fill(0);
  }
}

/** The first place, of ascending times, that is at `time` or later; with `after`, that is later. */
export function firstFrom(starts, time, after = false) {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const start = starts[middle];
    if (start < time || (after && start === time)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The places, in ascending times, of what began between two times, both included. */
export function placesBetween(starts, [from, to]) {
  return { first: firstFrom(starts, from), end: firstFrom(starts, to, true) };
}

/** The place of the next selected fault after (or, backwards, before) a place; -1: there is none. */
export function nextSelected(fails, place, step) {
  for (let i = place + step; i >= 0 && i < fails.length; i += step) {
    if (fails[i] === 0) return i;
  }
  return -1;
}

/** The place of the selected fault that took longest; -1: there is none. */
export function longestSelected(selection, weights) {
  let best = -1;
  for (let i = 0; i < selection.list.length; i++) {
    if (selection.fails[i] !== 0) continue;
    if (best < 0 || weights[selection.list[i]] > weights[selection.list[best]]) best = i;
  }
  return best;
}

/** The place nearest to a point of a plot; `toX` and `toY` say where a fault is drawn; -1: none within `reach`. */
export function nearest(selection, toX, toY, [x, y], [from, to], reach) {
  const { list, fails, kinds, starts } = selection;
  let best = -1;
  let least = Infinity;
  const { first, end } = placesBetween(starts, [from, to]);
  for (let i = first; i < end; i++) {
    const dx = toX(list[i]) - x;
    const dy = toY(list[i]) - y;
    let distance = dx * dx + dy * dy;
    if (!(distance <= reach * reach)) continue;
    // Of two at the same place, the one that can be seen: selected, and drawn last.
    if (fails[i] !== 0) distance += reach * reach;
    distance -= kinds[i] / 8;
    if (distance <= least) {
      least = distance;
      best = i;
    }
  }
  return best;
}
