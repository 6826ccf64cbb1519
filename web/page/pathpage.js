// The view of critical paths: requests one for a thread and a time span, and shows it. Only this module changes the view's state.

import { heldIn } from "./plot.js";
import { fetchPath } from "./load.js";
import { matchingPieces, parsePath, threadTitle } from "./path.js";
import { GROUPS } from "./reasons.js";
import { pieceDetail } from "./piece.js";
import { PathChart } from "./pathchart.js";
import { PathTable } from "./pathtable.js";
import { ThreadChooser } from "./threadchooser.js";
import { counted, formatTime } from "./format.js";
import { element, replaceContent } from "./surface.js";

/** Reasons that the line of figures names. */
const MOST_REASONS = 5;

export class PathPage {
  constructor(shell, root) {
    this.shell = shell;
    this.root = root;
    this.theme = shell.theme;
    this.tooltip = shell.tooltip;
    this.thread = null;
    this.path = null;
    this.pinned = -1;
    this.tableKey = "by_part";
    this.chosenRow = -1;
    this.matches = null;
    this.brushing = null;
    this.frames = 0;
    this.view = { time: [0, 1] };
    this.whole = [0, 1];
    this.part = (selector) => root.querySelector(selector);
    this.chart = new PathChart(this, this.part("#lanes"));
    this.table = new PathTable(this, this.part("#path-table"));
    this.chooser = new ThreadChooser(this, this.part("#thread-chooser"));
    const on = (id, action) => this.part(id).addEventListener("click", action);
    on("#path-longest", () => this.pinLongest());
    on("#path-zoom", () => this.zoomToSpan());
    on("#path-whole", () => this.resetView());
    new ResizeObserver(() => this.schedule()).observe(this.part("main"));
  }

  /** The selected time span, which the view of page faults shares. */
  get span() {
    return this.shell.span;
  }

  get shownThread() {
    return this.thread ?? this.path?.thread.number;
  }

  /** Shows the path of the chosen thread and time span; requests it if another one is shown. */
  async open() {
    const wanted = JSON.stringify([this.thread, this.span]);
    const isOther = this.wanted !== wanted;
    this.wanted = wanted;
    // One request at a time: the server would compute each, and only the last one is shown.
    if (isOther && !this.isFollowing) {
      this.isFollowing = true;
      this.say(this.path ? null : "Following the path…");
      this.root.setAttribute("aria-busy", "true");
      while (!(await this.follow()));
      this.root.setAttribute("aria-busy", "false");
      this.isFollowing = false;
    }
    this.schedule();
  }

  /** Requests the path that is wanted now. False: another one was chosen meanwhile. */
  async follow() {
    const { wanted } = this;
    const [thread, span] = JSON.parse(wanted);
    try {
      const answer = await fetchPath(thread, span);
      if (this.wanted !== wanted) return false;
      if (answer.why_empty) this.none(String(answer.why_empty));
      else this.take(parsePath(answer));
    } catch (error) {
      if (this.wanted !== wanted) return false;
      this.none(`Cannot show the path: ${error.message}`);
      // The next attempt requests it again.
      this.wanted = null;
    }
    return true;
  }

  take(path) {
    const isOther = path.thread.number !== this.path?.thread.number;
    this.path = path;
    this.pinned = -1;
    this.whole = [path.born_ns, Math.max(path.born_ns + 1, path.ended_ns)];
    if (isOther) this.view = { time: this.whole };
    this.chart.take(path);
    this.table.take(path);
    this.chooser.take(path);
    this.chooseRow(-1);
    this.say(null);
  }

  none(why) {
    this.path = null;
    this.pinned = -1;
    this.say(why);
  }

  /** Shows a sentence instead of a path; null: the path. */
  say(text) {
    const status = this.part("#path-status");
    status.hidden = text === null;
    status.textContent = text ?? "";
    for (const shown of this.root.querySelectorAll("[data-of-path]")) shown.hidden = text !== null;
  }

  schedule() {
    if (this.shell.view !== this) return;
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  draw() {
    this.drawChips();
    this.chooser.draw();
    this.part("#path-zoom").disabled = !this.span;
    this.part("#path-whole").disabled = !this.isZoomed;
    if (this.path) {
      this.drawHead();
      this.chart.draw();
      this.table.draw();
    }
    this.shell.detail.show(this.path && this.pinned >= 0 ? `${this.wanted} ${this.pinned}` : null, () => pieceDetail(this.path, this.pinned));
    this.frames += 1;
  }

  drawHead() {
    const { path } = this;
    const { strings, thread } = path;
    this.part("#path-name").textContent = threadTitle(path, thread);
    this.part("#path-of").textContent = `of process ${strings[thread.process]} (${thread.pid}), from ${formatTime(path.start_ns)} to ${formatTime(path.end_ns)}`;
    this.part("#path-notes").textContent = notesOf(path).join(" ");
    const reasons = path.tables.find(({ key }) => key === "by_reason")?.rows ?? [];
    const figures = [
      [formatTime(path.end_ns - path.start_ns), "in total"],
      ...reasons.slice(0, MOST_REASONS).map((row) => [formatTime(row.time_ns), strings[row.name]]),
      [counted(path.threads.length, "thread"), counted(path.pieces, "piece")],
    ];
    this.part("#path-figures").replaceChildren(...figures.map(([figure, label]) => element("div", "", element("b", "", figure), element("span", "", label))));
    this.drawLegend();
  }

  drawLegend() {
    const times = new Float64Array(GROUPS.length);
    this.path.groups.forEach((group, i) => {
      times[group] += this.path.columns.piece_duration[i];
    });
    const shown = GROUPS.map((name, group) => ({ name, group })).filter(({ group }) => times[group] > 0);
    const items = shown.map(({ name, group }) => {
      const swatch = element("span", "swatch");
      swatch.style.background = this.theme.colours.reasons[group];
      return element("span", "kind still", swatch, name, element("span", "count", formatTime(times[group])));
    });
    this.part("#reasons").replaceChildren(...items);
  }

  drawChips() {
    const chips = [];
    if (this.span) chips.push(this.chip("span", `${formatTime(this.span[0])} to ${formatTime(this.span[1])}`, () => this.setSpan(null)));
    if (this.path && this.chosenRow >= 0) chips.push(this.chip("row", this.path.strings[this.chosenTable.rows[this.chosenRow].name], () => this.chooseRow(-1)));
    replaceContent(this.part("#path-chips"), chips);
    this.part("#path-chips-empty").hidden = chips.length > 0;
  }

  chip(key, text, drop) {
    const button = element("button", "chip", text, element("span", "cross", "×"));
    button.type = "button";
    button.title = "Remove this";
    button.dataset.key = key;
    button.addEventListener("click", drop);
    return button;
  }

  /** Shows the path of a thread, by its number. */
  choose(number) {
    if (number === undefined) return;
    this.thread = number;
    this.open().then(() => this.chooser.reveal());
  }

  chooseNeighbour(step) {
    this.choose(this.chooser.neighbour(step));
  }

  /** Follows the path of a time span, in ns; null: of all. */
  setSpan(span) {
    this.brushing = null;
    this.shell.setSpan(span && [Math.max(0, Math.floor(span[0])), Math.ceil(span[1])]);
    this.open();
  }

  get chosenTable() {
    return this.path.tables.find(({ key }) => key === this.tableKey) ?? this.path.tables[0];
  }

  setTable(key) {
    this.tableKey = key;
    this.chooseRow(-1);
  }

  nextTable() {
    if (!this.path) return;
    const keys = this.path.tables.map(({ key }) => key);
    this.setTable(keys[(keys.indexOf(this.tableKey) + 1) % keys.length]);
  }

  /** Emphasizes the pieces of a row of the table; -1: all. */
  chooseRow(place) {
    this.chosenRow = place;
    this.matches = place < 0 ? null : matchingPieces(this.path, this.tableKey, this.chosenTable.rows[place]);
    this.schedule();
  }

  get isZoomed() {
    return this.view.time[0] > this.whole[0] || this.view.time[1] < this.whole[1];
  }

  look(time) {
    this.view = { time: heldIn(time, this.whole, 1000) };
    this.schedule();
  }

  resetView() {
    this.look(this.whole);
  }

  zoom(factor, at = (this.view.time[0] + this.view.time[1]) / 2) {
    this.look(this.view.time.map((time) => at + (time - at) * factor));
  }

  move(share) {
    const [from, to] = this.view.time;
    this.look([from + (to - from) * share, to + (to - from) * share]);
  }

  zoomToSpan() {
    if (this.span) this.look(this.span);
  }

  selectView() {
    if (this.path) this.setSpan(this.view.time);
  }

  /** Shows the details of a piece; -1 closes them. */
  pin(piece) {
    this.pinned = piece;
    this.tooltip.hide();
    this.schedule();
  }

  isMatching(piece) {
    return this.matches === null || this.matches[piece] === 1;
  }

  pinLongest() {
    if (!this.path) return;
    const durations = this.path.columns.piece_duration;
    let best = -1;
    for (let i = 0; i < durations.length; i++) if (this.isMatching(i) && (best < 0 || durations[i] > durations[best])) best = i;
    this.pin(best);
  }

  step(step) {
    if (!this.path) return;
    const count = this.path.groups.length;
    let next = this.pinned < 0 && step < 0 ? count - 1 : this.pinned + step;
    while (next >= 0 && next < count && !this.isMatching(next)) next += step;
    if (next >= 0 && next < count) this.pin(next);
  }

  escape() {
    if (this.pinned >= 0) this.pin(-1);
    else if (this.chosenRow >= 0) this.chooseRow(-1);
    else if (this.span) this.setSpan(null);
    else this.resetView();
  }
}

/** Sentences about what a path is followed without. */
function notesOf({ left_out: leftOut, folded, missed, pieces, groups }) {
  const said = [];
  if (groups.length < pieces) said.push(`Of ${counted(pieces, "piece")}, short ones are merged with their neighbors; select a time span to see all.`);
  if (folded > 0) said.push(`The profile has ${counted(folded, "wait")} only as totals; the path counts them as time on a CPU. The event log (--keep-events) has them.`);
  if (leftOut > 0) said.push(`Beyond the memory limit are ${counted(leftOut, "wait")}, samples and requests; the path counts waits among them as time on a CPU.`);
  if (missed > 0) said.push(`The kernel did not show ${counted(missed, "switch").replace("switchs", "switches")}; the path counts those threads as running.`);
  return said;
}
