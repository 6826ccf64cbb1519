// The state of the view of page faults. Only this module changes it; charts are redrawn at most once per frame.

import { ALL, FileIndex, KINDS, NO_FILE, Selection, filesByTime, gather, kindsOf, longestSelected, nextSelected, placesBetween, tally, weightsOf } from "./model.js";
import { GROUPINGS, groupKeys } from "./groups.js";
import { countFates, fatesOf, usedOf } from "./pages.js";
import { FlameTree } from "./flame.js";
import { heldIn, logarithms } from "./plot.js";
import { Summary } from "./summary.js";
import { baseName } from "./format.js";
import { Scatter } from "./scatter.js";
import { Timeline } from "./timeline.js";
import { HeatMap } from "./heatmap.js";
import { FlameGraph } from "./flamegraph.js";
import { GroupTable } from "./table.js";
import { Chooser } from "./chooser.js";
import { describeFault, faultDetail } from "./detail.js";

/** Milliseconds of a frame after which deferrable work is postponed: half of a frame at 30 frames per second. */
const BUDGET = 16;
/** Minimum number of points drawn while the view moves; all are drawn when it stops. */
const MOVING = 100_000;
const byId = (id) => document.getElementById(id);

export class App {
  constructor(recording, shell) {
    this.recording = recording;
    this.shell = shell;
    this.theme = shell.theme;
    this.tooltip = shell.tooltip;
    this.kinds = kindsOf(recording);
    this.weights = weightsOf(recording);
    this.logs = logarithms(recording.columns.fault_duration);
    this.index = new FileIndex(recording);
    this.files = filesByTime(recording, this.weights, this.index);
    const all = tally(recording, this.weights, this.index.all);
    this.files.push({ file: ALL, path: "all faults", ...all });
    this.flame = new FlameTree(recording);
    this.decades = decadesOf(recording);
    const starts = recording.columns.fault_start;
    this.duration = Math.max(1, recording.about.duration_ns, starts[starts.length - 1] ?? 0);
    this.grouping = "function";
    /** Whether the recording has fault latencies; tier 3 has none. */
    this.isTimed = all.time > 0;
    this.byTime = this.isTimed;
    this.focus = 0;
    this.pinned = -1;
    this.shownKinds = (1 << KINDS.length) - 1;
    this.pending = 0;
    this.queue = [];
    this.hot = [];
    this.summary = new Summary(this);
    this.scatter = new Scatter(this, byId("scatter"));
    this.timeline = new Timeline(this, byId("timeline"));
    this.heatMap = new HeatMap(this, byId("pages"));
    this.flameGraph = new FlameGraph(this, byId("flame"));
    this.table = new GroupTable(this, byId("groups"));
    this.chooser = new Chooser(this, byId("chooser"));
    this.connect();
    const first = this.files.find(({ file, faults }) => file >= 0 && faults > 0) ?? this.files[this.files.length - 1];
    this.chooser.draw();
    this.choose(first.file);
  }

  connect() {
    const on = (id, action) => byId(id).addEventListener("click", action);
    on("zoom-brush", () => this.zoomToBrush());
    on("zoom-out", () => this.resetView());
    on("slowest", () => this.pinLongest());
    on("weight", () => this.toggleWeight());
    new ResizeObserver(() => this.schedule()).observe(byId("main"));
  }

  /** Schedules a redraw of everything: the charts in the next frame, the other parts in turn as time permits. */
  schedule() {
    // While another view is shown, the charts have no size.
    if (!this.selection || this.shell.name !== "faults") return;
    this.isStale = true;
    for (const part of ["pages", "groups", "flame", "hot"]) if (!this.queue.includes(part)) this.queue.push(part);
    this.pending ||= requestAnimationFrame(() => this.frame());
  }

  frame() {
    this.pending = 0;
    const end = performance.now() + BUDGET;
    const moved = this.isStale && this.wasStale;
    this.wasStale = this.isStale;
    if (this.isStale) this.draw();
    this.isStale = false;
    // While something moves, one part per frame, since the browser must paint them as well.
    do this.drawPart(this.queue.shift());
    while (this.queue.length > 0 && !moved && performance.now() < end);
    if (this.queue.length > 0) this.pending = requestAnimationFrame(() => this.frame());
    this.frames = (this.frames ?? 0) + 1;
  }

  /** Draws what follows every move of the pointer. */
  draw() {
    const hasOffsets = this.file >= 0;
    byId("scatter").hidden = !hasOffsets;
    byId("pages").hidden = !hasOffsets;
    byId("no-offsets").hidden = hasOffsets;
    this.summary.draw();
    if (hasOffsets) this.scatter.draw();
    this.timeline.draw();
    const fault = this.pinned < 0 ? null : this.selection.list[this.pinned];
    this.shell.detail.show(fault === null ? null : `fault ${fault}`, () => faultDetail(this.recording, fault));
    byId("zoom-brush").disabled = !this.selection.filters.time && !this.selection.filters.pages;
    byId("zoom-out").disabled = !this.isZoomed;
    byId("weight").textContent = this.byTime ? "by time" : "by number of faults";
  }

  /** Draws a part that may follow slightly later. */
  drawPart(part) {
    if (part === "groups") this.table.draw();
    if (part === "flame") this.flameGraph.draw();
    if (this.file < 0) return;
    if (part === "pages") {
      this.heatMap.draw();
      this.summary.drawFates();
    }
    if (part === "hot") {
      this.hot = Scatter.hot(this);
      this.scatter.drawBack(true);
    }
  }

  /** Shows a file and drops the selection of the previous one. */
  choose(file) {
    this.file = file;
    const list = this.index.of(file);
    this.selection = new Selection(this.recording, this.kinds, list);
    if (this.shownKinds !== (1 << KINDS.length) - 1) this.selection.setKinds(this.shownKinds);
    this.listLogs = gather(this.logs, list);
    this.fates = file >= 0 ? fatesOf(this.recording, file, list) : new Uint8Array(1);
    this.used = usedOf(this.recording, this.fates, file >= 0 ? list : []);
    this.hot = [];
    this.fateCounts = countFates(this.fates);
    this.requests = requestsOfFile(this.recording, file);
    this.groups = groupKeys(this.recording, list, this.grouping);
    this.focus = 0;
    this.pinned = -1;
    const path = this.files.find((row) => row.file === file)?.path ?? "";
    byId("file-name").textContent = file >= 0 ? baseName(path) : path;
    byId("file-path").textContent = file >= 0 ? path : "";
    byId("no-offsets").textContent =
      file === NO_FILE
        ? "Memory without a file has no offsets: choose a file to see the offsets of its faults. Everything else on this page works as usual."
        : "Choose a file to see the offsets of its faults.";
    this.resetView();
    this.chooser.draw();
    this.chooser.reveal();
  }

  chooseNeighbour(step) {
    const next = this.chooser.neighbour(step);
    if (next !== undefined) this.choose(next);
  }

  /** The whole time range, and the file up to the last used page. */
  get whole() {
    const margin = this.used * 0.01;
    return { time: [0, this.duration], pages: [-margin, this.used + margin] };
  }

  get isZoomed() {
    const { time, pages } = this.whole;
    return this.view.time[0] > time[0] || this.view.time[1] < time[1] || this.view.pages[0] > pages[0] || this.view.pages[1] < pages[1];
  }

  /** Shows a range of time and pages, limited to the whole. */
  look({ time = this.view.time, pages = this.view.pages }) {
    const whole = this.whole;
    this.isMoving = true;
    clearTimeout(this.stops);
    this.stops = setTimeout(() => {
      this.isMoving = false;
      this.schedule();
    }, 160);
    this.view = { time: heldIn(time, whole.time, 1000), pages: heldIn(pages, whole.pages, 4) };
    this.schedule();
  }

  /** The places of the list that are in view, and the step between drawn ones: while the view moves, a sample of very many is enough. */
  shownPlaces() {
    const places = placesBetween(this.selection.starts, this.view.time);
    const step = this.isMoving ? Math.max(1, Math.floor((places.end - places.first) / MOVING)) : 1;
    return { ...places, step };
  }

  resetView() {
    this.view = this.whole;
    this.schedule();
  }

  /** Scales the shown range by a factor, around a point. */
  zoom(factor, time, page) {
    const about = ([from, to], at = (from + to) / 2) => [at + (from - at) * factor, at + (to - at) * factor];
    this.look({ time: about(this.view.time, time), pages: about(this.view.pages, page) });
  }

  /** Moves the shown range by shares of its size. */
  move(inTime, inFile) {
    const by = ([from, to], share) => [from + (to - from) * share, to + (to - from) * share];
    this.look({ time: by(this.view.time, inTime), pages: by(this.view.pages, inFile) });
  }

  zoomToBrush() {
    const { time, pages } = this.selection.filters;
    this.look({ ...(time && { time }), ...(pages && { pages: [pages[0], pages[1] + 1] }) });
  }

  /** Selects times and pages; omitted ones stay unchanged. */
  brush({ time, pages }) {
    if (time) this.selection.setTime(time);
    if (pages) this.selection.setPages(pages);
    this.schedule();
  }

  brushView() {
    const { time, pages } = this.view;
    this.brush({ time, ...(this.file >= 0 && { pages: [Math.max(0, Math.floor(pages[0])), Math.ceil(pages[1]) - 1] }) });
  }

  setGrouping(grouping) {
    this.grouping = grouping;
    this.selection.setGroup(null);
    this.groups = groupKeys(this.recording, this.selection.list, grouping);
    this.schedule();
  }

  nextGrouping() {
    this.setGrouping(GROUPINGS[(GROUPINGS.indexOf(this.grouping) + 1) % GROUPINGS.length]);
  }

  setGroup(key) {
    this.selection.setGroup(key === null ? null : { keys: this.groups.keys, key, name: this.groups.name(key) });
    this.schedule();
  }

  setUnder(node) {
    this.focus = node;
    this.selection.setUnder(node === 0 ? null : { nodes: this.flame.below(node), nodeOf: this.flame.nodeOf, node });
    this.schedule();
  }

  toggleKind(kind) {
    this.shownKinds ^= 1 << kind;
    const all = (1 << KINDS.length) - 1;
    if (this.shownKinds === 0) this.shownKinds = all;
    this.selection.setKinds(this.shownKinds === all ? null : this.shownKinds);
    this.schedule();
  }

  showAllKinds() {
    this.shownKinds = (1 << KINDS.length) - 1;
    this.selection.setKinds(null);
    this.schedule();
  }

  toggleWeight() {
    this.byTime = this.isTimed && !this.byTime;
    this.schedule();
  }

  /** Shows the details of the fault at a place of the list; -1 closes them. */
  pin(place) {
    this.pinned = place;
    this.tooltip.hide();
    this.schedule();
  }

  pinLongest() {
    this.pin(longestSelected(this.selection, this.weights));
  }

  step(step) {
    const from = this.pinned < 0 && step < 0 ? this.selection.list.length : this.pinned;
    const next = nextSelected(this.selection.fails, from, step);
    if (next >= 0) this.pin(next);
  }

  describe(place) {
    return describeFault(this.recording, this.kinds, this.selection.list[place]);
  }

  escape() {
    if (this.pinned >= 0) this.pin(-1);
    else if (this.selection.isNarrowed) this.clear();
    else this.resetView();
  }

  clear() {
    this.selection.clear();
    this.shownKinds = (1 << KINDS.length) - 1;
    this.focus = 0;
    this.schedule();
  }
}

/** Indices of the disk reads of a file, or of all. */
function requestsOfFile(recording, file) {
  const files = recording.columns.request_file;
  const found = [];
  for (let i = 0; i < files.length; i++) if (file === ALL || files[i] === file) found.push(i);
  return found;
}

/** Range of the latency axis, as powers of ten in ns. */
function decadesOf(recording) {
  let high = 4;
  for (const name of ["fault_duration", "request_duration"]) {
    for (const time of recording.columns[name]) if (time > 10 ** high) high = Math.ceil(Math.log10(time));
  }
  return [2, Math.min(13, high)];
}
