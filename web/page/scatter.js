// Draws offset over time: faults of the file are points, sections are bands, reads are strokes; the symbols with the most time are labelled at
// the edge.

import { NONE } from "./document.js";
import { KIND, nearest } from "./model.js";
import { hotSymbols } from "./groups.js";
import { PointImage, TimeChart, pixelOf, spread } from "./plot.js";
import { binaryTicks, counted, formatBytes, formatTime, offsetLabels, ticks, timeLabels } from "./format.js";
import { fitted, listen, rule, surface } from "./surface.js";

const PAGE_SIZE = 4096;
const REACH = 9;
/** Width at the right for names, the same for all charts over time. */
export const EDGE = 196;

export class Scatter extends TimeChart {
  constructor(app, root) {
    super(app);
    this.root = root;
    [this.back, this.points, this.front] = root.querySelectorAll("canvas");
    this.image = new PointImage();
    listen(this.front, {
      drag: (from, to, event) => (event.shiftKey ? this.pan(from, to) : this.brush(from, to)),
      dragged: () => {
        this.panFrom = null;
      },
      click: (at) => app.pin(this.pick(at)),
      hover: (at, event) => this.hover(at, event),
      leave: () => app.tooltip.hide(),
    });
    this.front.addEventListener("dblclick", () => app.resetView());
    this.front.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** Position of the plot within the canvas. It is read once per frame, since reading it makes the browser lay out the page. */
  measure() {
    const width = this.front.clientWidth;
    const height = this.front.clientHeight;
    const isNarrow = width < 560;
    const right = isNarrow ? 12 : EDGE;
    return { left: isNarrow ? 52 : 64, top: 8, width: Math.max(1, width - (isNarrow ? 52 : 64) - right), height: Math.max(1, height - 34), isNarrow };
  }

  pageAt(y) {
    const { top, height } = this.area;
    const [first, end] = this.app.view.pages;
    return end - ((y - top) / height) * (end - first);
  }

  yOf(page) {
    const { top, height } = this.area;
    const [first, end] = this.app.view.pages;
    return top + ((end - page) / (end - first)) * height;
  }

  draw() {
    const { app } = this;
    this.area = this.measure();
    const { width, height, ratio } = surface(this.points);
    const { left, top, width: plotWidth, height: plotHeight } = this.area;
    const [w, h] = [Math.max(1, Math.round(plotWidth * ratio)), Math.max(1, Math.round(plotHeight * ratio))];
    const [from, to] = app.view.time;
    const [first, end] = app.view.pages;
    const points = {
      ...app.shownPlaces(),
      xs: app.selection.starts,
      ys: app.selection.pages,
      fails: app.selection.fails,
      kinds: app.selection.kinds,
      rare: app.selection.rare,
      xFrom: from,
      xScale: w / (to - from),
      // The middle of a page; offsets increase upwards.
      yFrom: end - 0.5,
      yScale: -h / (end - first),
    };
    const key = `${app.file} ${app.view.time} ${app.view.pages} ${app.theme.isDark} ${width} ${height} ${points.step}`;
    this.drawBack(key !== this.key);
    this.key = key;
    const image = this.image.draw(w, h, points, pointStyle(app, ratio), app.selection.isNarrowed, key);
    this.points.getContext("2d").putImageData(image, Math.round(left * ratio), Math.round(top * ratio));
    this.drawFront();
    this.front.setAttribute(
      "aria-label",
      `Offset in the file over time: ${counted(app.selection.list.length, "fault")}, ${formatTime(from)} to ${formatTime(to)}, ` +
        `${formatBytes(Math.round(first) * PAGE_SIZE)} to ${formatBytes(Math.round(end) * PAGE_SIZE)}; ${width} × ${height} pixels`,
    );
  }

  /** Draws what does not depend on the selection, and the symbols. */
  drawBack(isStale) {
    if (!isStale) return;
    const { app } = this;
    const { context } = surface(this.back);
    const { left, top, width, height, isNarrow } = this.area;
    const colours = app.theme.colours;
    this.drawSections(context, colours);
    const [from, to] = app.view.time;
    const [first, end] = app.view.pages;
    context.textAlign = "right";
    const offsets = binaryTicks(Math.max(0, first * PAGE_SIZE), end * PAGE_SIZE, height / 44);
    const offsetNames = offsetLabels(offsets);
    offsets.forEach((bytes, i) => {
      const y = this.yOf(bytes / PAGE_SIZE);
      rule(context, [left, y], [left + width, y], colours.line);
      context.fillStyle = colours.soft;
      context.fillText(offsetNames[i], left - 6, y);
    });
    context.textAlign = "center";
    const times = ticks(from, to, width / (isNarrow ? 90 : 110));
    const timeNames = timeLabels(times);
    times.forEach((time, i) => {
      const x = this.xOf(time);
      rule(context, [x, top], [x, top + height], colours.line);
      context.fillStyle = colours.soft;
      context.fillText(timeNames[i], x, top + height + 14);
    });
    this.drawReads(context, colours);
    rule(context, [left, top + height], [left + width, top + height], colours.soft);
    rule(context, [left, top], [left, top + height], colours.soft);
  }

  drawSections(context, colours) {
    const { app } = this;
    const { left, top, width, height, isNarrow } = this.area;
    const sections = app.recording.files[app.file]?.sections ?? [];
    context.textAlign = "left";
    if (!isNarrow) this.drawSymbols(context, colours);
    let lastLabel = Infinity;
    sections.forEach((section, i) => {
      const low = Math.min(top + height, this.yOf(section.offset / PAGE_SIZE));
      const high = Math.max(top, this.yOf((section.offset + section.size) / PAGE_SIZE));
      if (low <= high || section.size === 0) return;
      if (i % 2 === 0) {
        context.fillStyle = colours.band;
        context.fillRect(left, high, width, low - high);
      }
      context.fillStyle = i % 2 === 0 ? colours.soft : colours.dim;
      context.fillRect(left + width + 3, high, 3, Math.max(1, low - high - 1));
      const middle = (low + high) / 2;
      if (!isNarrow && low - high >= 7 && lastLabel - middle >= 12) {
        const name = fitted(context, app.recording.strings[section.name], 64);
        context.strokeStyle = colours.paper;
        context.lineWidth = 4;
        context.strokeText(name, left + width + 10, middle);
        context.fillStyle = colours.soft;
        context.fillText(name, left + width + 10, middle);
        lastLabel = middle;
      }
    });
  }

  drawSymbols(context, colours) {
    const { app } = this;
    const { left, top, width, height } = this.area;
    const seen = app.hot.filter(({ page }) => page >= app.view.pages[0] && page <= app.view.pages[1]);
    const labels = seen.slice(0, Math.floor(height / 14)).sort((a, b) => b.page - a.page);
    const places = spread(labels.map(({ page }) => this.yOf(page)), 13, top + height);
    labels.forEach(({ name, page }, i) => {
      const at = this.yOf(page);
      const y = places[i];
      context.strokeStyle = colours.line;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(left + width - 4, at);
      context.lineTo(left + width + 6, at);
      context.lineTo(left + width + 76, y);
      context.stroke();
      context.fillStyle = colours.ink;
      context.fillText(fitted(context, name, 114), left + width + 79, y);
    });
  }

  /** Draws which pages were read when. */
  drawReads(context, colours) {
    const { read_start: starts, read_file: files, read_first: firsts, read_count: counts } = this.app.recording.columns;
    const { left, top, width, height } = this.area;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.fillStyle = colours.read;
    context.globalAlpha = 0.45;
    for (let i = 0; i < starts.length; i++) {
      if (files[i] !== this.app.file) continue;
      const low = this.yOf(firsts[i]);
      const high = this.yOf(firsts[i] + counts[i]);
      context.fillRect(this.xOf(starts[i]) - 1, high, 2, Math.max(2, low - high));
    }
    context.restore();
  }

  drawFront() {
    const { app } = this;
    const { context } = surface(this.front);
    const { left, top, width, height } = this.area;
    const { time, pages } = app.selection.filters;
    const colours = app.theme.colours;
    if (time || pages) {
      const [x0, x1] = time ? time.map((t) => this.xOf(t)) : [left, left + width];
      const [y1, y0] = pages ? [this.yOf(pages[0]), this.yOf(pages[1] + 1)] : [top + height, top];
      drawBrush(context, colours, clip([x0, y0, x1, y1], this.area));
    }
    if (app.pinned >= 0) {
      const { fault_start: starts, fault_page: faultPages } = app.recording.columns;
      const fault = app.selection.list[app.pinned];
      if (faultPages[fault] === NONE) return;
      ring(context, colours.accent, this.xOf(starts[fault]), this.yOf(faultPages[fault] + 0.5));
    }
  }

  brush([x0, y0], [x1, y1]) {
    this.app.tooltip.hide();
    const area = this.area;
    const [left, top, right, bottom] = clip([Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)], area);
    this.app.brush({
      time: [this.timeAt(left), this.timeAt(right)],
      pages: [Math.max(0, Math.floor(this.pageAt(bottom))), Math.max(0, Math.ceil(this.pageAt(top)) - 1)],
    });
  }

  pan(from, to) {
    this.panFrom ??= { time: this.app.view.time, pages: this.app.view.pages };
    const { width, height } = this.area;
    const { time, pages } = this.panFrom;
    const dt = ((from[0] - to[0]) / width) * (time[1] - time[0]);
    const dp = ((to[1] - from[1]) / height) * (pages[1] - pages[0]);
    this.app.look({ time: [time[0] + dt, time[1] + dt], pages: [pages[0] + dp, pages[1] + dp] });
  }

  wheel(event) {
    // A plain wheel scrolls the page.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.front.getBoundingClientRect();
    this.app.zoom(Math.exp(event.deltaY * 0.004), this.timeAt(event.clientX - box.left), this.pageAt(event.clientY - box.top));
  }

  pick(at) {
    const { app } = this;
    const { fault_start: starts, fault_page: pages } = app.recording.columns;
    const window = [this.timeAt(at[0] - REACH), this.timeAt(at[0] + REACH)];
    return nearest(app.selection, (fault) => this.xOf(starts[fault]), (fault) => this.yOf(pages[fault] + 0.5), at, window, REACH);
  }

  hover(at, event) {
    const place = this.pick(at);
    if (place < 0) this.app.tooltip.hide();
    else this.app.tooltip.show([event.clientX, event.clientY], this.app.describe(place));
  }

  /** The symbols to label at the edge. */
  static hot(app) {
    return app.file < 0 ? [] : hotSymbols(app.recording, app.file, app.selection, app.weights, 10);
  }
}

/** Style of points, depending on their number. */
export function pointStyle(app, ratio) {
  const colours = app.theme.colours;
  const count = app.selection.list.length;
  const size = [30_000, 3_000, 300].filter((most) => count <= most).length + 1;
  const scaled = ratio > 1.5 ? size + 1 : size;
  const sizes = [scaled, scaled, scaled, ratio > 1.5 ? 11 : Math.max(7, size + 3)];
  return {
    dim: pixelOf(colours.dim, 0.55),
    dimSize: scaled,
    colours: colours.kinds.map((colour) => pixelOf(colour)),
    sizes,
    diamond: KIND.waited,
    halo: pixelOf(colours.paper),
  };
}

/** Draws the range selected by dragging. */
export function drawBrush(context, colours, [x0, y0, x1, y1]) {
  context.save();
  context.globalAlpha = 0.1;
  context.fillStyle = colours.accent;
  context.fillRect(x0, y0, x1 - x0, y1 - y0);
  context.restore();
  context.strokeStyle = colours.accent;
  context.lineWidth = 1;
  context.strokeRect(Math.round(x0) + 0.5, Math.round(y0) + 0.5, Math.max(1, Math.round(x1 - x0)), Math.max(1, Math.round(y1 - y0)));
}

/** Marks the fault with the shown details. */
export function ring(context, colour, x, y) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, y, 8, 0, 7);
  context.stroke();
}

/** Limits a box to the plot. */
export function clip([x0, y0, x1, y1], { left, top, width, height }) {
  const inside = (value, low, high) => Math.min(Math.max(value, low), high);
  return [inside(x0, left, left + width), inside(y0, top, top + height), inside(x1, left, left + width), inside(y1, top, top + height)];
}
