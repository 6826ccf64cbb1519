// The faults of the chosen file, and which of them pass the filters. Each filter has its own bit, set for the faults that fail it: a
// view can ignore its own filter, and only a changed filter is computed again.

import { FLAG, NONE } from "./document.js";

/** Pseudo files: all faults, and faults on memory without a file. */
export const ALL = -1;
export const NO_FILE = -2;

/** Kinds of faults that the page distinguishes, in drawing order: the last is on top. */
export const KINDS = ["memory without a file", "file page in memory", "copied on write", "waited for a read, or major"];
export const KIND = { memory: 0, mapped: 1, copied: 2, waited: 3 };

/** Bits of filters. */
export const FILTER = { time: 1, pages: 2, group: 4, under: 8, kind: 16 };

const COPIED = new Set(["file-cow", "shared-dirty"]);

/** By fault: its kind. */
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

/** By fault: the time of all faults that it represents, for sums; unknown times count as zero. */
export function weightsOf(recording) {
  const { fault_duration: times, fault_others_time: others } = recording.columns;
  return times.map((time, i) => (time > 0 ? time : 0) + (others?.[i] ?? 0));
}

/** The number of faults that one represents, itself among them. */
export function countOf(recording, fault) {
  return 1 + (recording.columns.fault_others?.[fault] ?? 0);
}

/** Faults by file, sorted by time within each file; faults without a file are last. */
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

  /** Indices of a file's faults, by time. */
  of(file) {
    if (file === ALL) return this.all;
    const slot = file === NO_FILE ? this.noFile : file;
    return this.faults.subarray(this.starts[slot], this.starts[slot + 1]);
  }
}

/** Counts faults, major and waited ones, and their time, of a list; with `fails`, only of those that pass all filters. */
export function tally(recording, weights, list, fails = null) {
  const flags = recording.columns.fault_flags;
  const sum = { faults: 0, major: 0, waited: 0, time: 0 };
  for (let i = 0; i < list.length; i++) {
    if (fails && fails[i] !== 0) continue;
    const fault = list[i];
    sum.faults += countOf(recording, fault);
    sum.time += weights[fault];
    if (flags[fault] & FLAG.major) sum.major += 1;
    if (flags[fault] & FLAG.waited) sum.waited += 1;
  }
  return sum;
}

/** Files with their totals, most time first; then memory without a file, if it has faults. */
export function filesByTime(recording, weights, index) {
  const rows = [];
  for (let file = 0; file < recording.files.length; file++) {
    rows.push({ file, path: recording.strings[recording.files[file].path], ...tally(recording, weights, index.of(file)) });
  }
  rows.sort((a, b) => b.time - a.time || b.faults - a.faults || a.file - b.file);
  const rest = tally(recording, weights, index.of(NO_FILE));
  if (rest.faults > 0) rows.push({ file: NO_FILE, path: "memory without a file", ...rest });
  return rows;
}

/** Copies the values of a list's faults into a contiguous array, for fast iteration in every frame. */
export function gather(column, list) {
  if (list.length === column.length) return column;
  const gathered = new column.constructor(list.length);
  for (let i = 0; i < gathered.length; i++) gathered[i] = column[list[i]];
  return gathered;
}

/** The faults of a file, and the filters that each fails. */
export class Selection {
  constructor(recording, kinds, list) {
    this.recording = recording;
    this.list = list;
    this.kinds = gather(kinds, list);
    /** Places of the faults that waited: few, and always drawn. */
    this.rare = Uint32Array.from(this.kinds.keys()).filter((place) => this.kinds[place] === KIND.waited);
    this.starts = gather(recording.columns.fault_start, list);
    this.pages = gather(recording.columns.fault_page, list);
    this.fails = new Uint8Array(list.length);
    this.filters = { time: null, pages: null, group: null, under: null, kind: null };
  }

  /** Whether any filter is set. */
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

  /** Selects faults that start within [from, to], in ns; null selects all. */
  setTime(range) {
    this.filters.time = range;
    if (!range) return this.set(FILTER.time, null);
    // The list is sorted by time, so one contiguous range passes.
    const { fails } = this;
    const { first, end } = placesBetween(this.starts, range);
    for (let i = 0; i < first; i++) fails[i] |= FILTER.time;
    for (let i = first; i < end; i++) fails[i] &= ~FILTER.time;
    for (let i = end; i < fails.length; i++) fails[i] |= FILTER.time;
    return undefined;
  }

  /** Selects faults on pages within [first, last]; null selects all. */
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

  /** Selects faults with the key `key` in `keys` (by place in the list); null selects all. */
  setGroup(filter) {
    this.filters.group = filter;
    this.set(FILTER.group, filter && ((fault, i) => filter.keys[i] === filter.key));
  }

  /** Selects faults with a stack through nodes of the flame graph where `nodes[node]` is 1; null selects all. */
  setUnder(filter) {
    this.filters.under = filter;
    const stacks = this.recording.columns.fault_stack;
    this.set(FILTER.under, filter && ((fault) => stacks[fault] !== NONE && filter.nodes[filter.nodeOf[stacks[fault]]] === 1));
  }

  /** Selects faults by a bit set of kinds; null selects all. */
  setKinds(bits) {
    this.filters.kind = bits;
    this.set(FILTER.kind, bits === null ? null : (_, i) => (bits >> this.kinds[i]) & 1);
  }

  /** Removes all filters. */
  clear() {
    this.filters = { time: null, pages: null, group: null, under: null, kind: null };
    this.fails.fill(0);
  }
}

/** The first place in ascending times at or after `time`; with `after`, strictly after it. */
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

/** The range of places in ascending times between two times, both included. */
export function placesBetween(starts, [from, to]) {
  return { first: firstFrom(starts, from), end: firstFrom(starts, to, true) };
}

/** The place of the next selected fault in the direction of `step`; -1: there is none. */
export function nextSelected(fails, place, step) {
  for (let i = place + step; i >= 0 && i < fails.length; i += step) {
    if (fails[i] === 0) return i;
  }
  return -1;
}

/** The place of the longest selected fault; -1: there is none. */
export function longestSelected(selection, weights) {
  let best = -1;
  for (let i = 0; i < selection.list.length; i++) {
    if (selection.fails[i] !== 0) continue;
    if (best < 0 || weights[selection.list[i]] > weights[selection.list[best]]) best = i;
  }
  return best;
}

/** The place of the fault nearest to a point of a plot, where `toX` and `toY` give its position; -1: none within `reach`. */
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
    // Of two faults at the same position, prefer the visible one: selected, and drawn last.
    if (fails[i] !== 0) distance += reach * reach;
    distance -= kinds[i] / 8;
    if (distance <= least) {
      least = distance;
      best = i;
    }
  }
  return best;
}
