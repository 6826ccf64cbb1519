// Draws what surrounds the charts: numbers of the selection, its filters, and legends.

import { KINDS, tally } from "./model.js";
import { functionName } from "./groups.js";
import { latencies } from "./bins.js";
import { FATES } from "./pages.js";
import { formatBytes, formatCount, formatOffset, formatSum, formatTime } from "./format.js";
import { element, replaceContent } from "./surface.js";

/** Number of faults above which latency quantiles, which need a sort, are computed only when the selection is stable. */
const MANY = 20_000;
const place = (id) => document.getElementById(id);

export class Summary {
  constructor(app) {
    this.app = app;
  }

  draw() {
    this.drawFigures();
    this.drawChips();
    this.drawLegend();
  }

  drawFigures() {
    const { app } = this;
    const { selection } = app;
    const sum = tally(app.recording, app.weights, selection.list, selection.fails);
    const figures = [
      [formatCount(sum.faults), selection.isNarrowed ? `of ${formatCount(tally(app.recording, app.weights, selection.list).faults)} faults` : "faults"],
      [formatSum(sum.time, app.isTimed), "in total"],
      [formatCount(sum.major), "major"],
      [formatCount(sum.waited), "waited for a read"],
    ];
    const spread = this.spread(sum);
    if (spread && app.isTimed) {
      const said = (time) => (Number.isNaN(time) ? "–" : formatTime(time));
      figures.push([said(spread.median), "median"], [said(spread.p99), "99th percentile"], [said(spread.max), "slowest"]);
    }
    place("summary").replaceChildren(...figures.map(([figure, label]) => element("div", "", element("b", "", figure), element("span", "", label))));
  }

  /** Latency quantiles; for very many faults, only after the selection has been stable for a moment. */
  spread(sum) {
    const name = `${this.app.file} ${sum.faults} ${sum.time}`;
    if (this.spreadOf === name) return this.spreadNow;
    clearTimeout(this.timer);
    const compute = () => {
      this.spreadNow = latencies(this.app.selection);
      this.spreadOf = name;
    };
    if (sum.faults <= MANY) {
      compute();
      return this.spreadNow;
    }
    this.timer = setTimeout(() => {
      compute();
      this.app.schedule();
    }, 150);
    return { median: NaN, p99: NaN, max: NaN };
  }

  drawChips() {
    const { app } = this;
    const { selection } = app;
    const { time, pages, group, under, kind } = selection.filters;
    const chips = [];
    if (time) chips.push(this.chip("time", `${formatTime(time[0])} to ${formatTime(time[1])}`, () => selection.setTime(null)));
    if (pages) {
      const range = `${formatOffset(pages[0] * 4096)} to ${formatOffset((pages[1] + 1) * 4096)}`;
      chips.push(this.chip("pages", range, () => selection.setPages(null)));
    }
    if (group) chips.push(this.chip("group", `${app.grouping}: ${group.name}`, () => app.setGroup(null)));
    if (under) chips.push(this.chip("under", `under ${functionName(app.recording, app.flame.function[under.node])}`, () => app.setUnder(0)));
    if (kind !== null) chips.push(this.chip("kind", "some kinds", () => app.showAllKinds()));
    replaceContent(place("chips"), chips);
    place("chips-empty").hidden = chips.length > 0;
  }

  chip(key, text, drop) {
    const button = element("button", "chip", text, element("span", "cross", "×"));
    button.type = "button";
    button.title = "Remove this filter";
    button.dataset.key = key;
    button.addEventListener("click", () => {
      drop();
      this.app.schedule();
    });
    return button;
  }

  drawLegend() {
    const { app } = this;
    const { list, kinds } = app.selection;
    if (this.counted !== list) {
      this.counts = new Array(KINDS.length).fill(0);
      for (const kind of kinds) this.counts[kind] += 1;
      this.counted = list;
    }
    const items = KINDS.map((name, kind) => {
      const swatch = element("span", kind === KINDS.length - 1 ? "swatch diamond" : "swatch");
      swatch.style.background = app.theme.colours.kinds[kind];
      const button = element("button", "kind", swatch, name, element("span", "count", formatCount(this.counts[kind])));
      button.type = "button";
      button.disabled = this.counts[kind] === 0;
      button.dataset.key = String(kind);
      button.setAttribute("aria-pressed", String(((app.shownKinds >> kind) & 1) === 1));
      button.addEventListener("click", () => app.toggleKind(kind));
      return button;
    });
    const stroke = element("span", "swatch stroke");
    stroke.style.background = app.theme.colours.read;
    items.push(element("span", "kind still", stroke, "disk read"));
    replaceContent(place("legend"), items);
  }

  drawFates() {
    const { app } = this;
    const items = FATES.map((name, fate) => {
      const swatch = element("span", "swatch");
      swatch.style.background = app.theme.colours.fates[fate];
      return element("span", "kind still", swatch, name, element("span", "count", formatBytes(app.fateCounts[fate] * 4096)));
    });
    place("fates").replaceChildren(...items.reverse());
  }
}
