// Draws the map of the file's pages, with one or several pages per cell: how they were used, and which of them the selection touched.

import { FATES, cellsOf, pagesPerCell, touchedPages } from "./pages.js";
import { formatBytes, formatCount, formatOffset } from "./format.js";
import { listen, surface } from "./surface.js";

const PAGE_BYTES = 4096;
const PITCH = 7;
const MOST_ROWS = 34;

export class HeatMap {
  constructor(app, root) {
    this.app = app;
    this.canvas = root.querySelector("canvas");
    this.note = root.querySelector(".note");
    listen(this.canvas, {
      drag: (from, to) => this.brush(from, to),
      hover: (at, event) => this.hover(at, event),
      leave: () => app.tooltip.hide(),
    });
  }

  /** The shown pages and their arrangement. */
  layout() {
    const { app } = this;
    const columns = Math.max(8, Math.floor(this.canvas.clientWidth / PITCH));
    const first = Math.max(0, Math.floor(app.view.pages[0]));
    const last = Math.min(app.used - 1, Math.ceil(app.view.pages[1]) - 1);
    const perCell = pagesPerCell(first, last, columns, MOST_ROWS);
    const count = Math.max(1, Math.ceil((last - first + 1) / perCell));
    return { columns, first, last, perCell, rows: Math.ceil(count / columns), count };
  }

  draw() {
    const { app } = this;
    if (app.file < 0) return;
    const layout = this.layout();
    this.now = layout;
    this.canvas.style.height = `${layout.rows * PITCH}px`;
    const { context } = surface(this.canvas);
    const colours = app.theme.colours;
    const key = `${layout.first} ${layout.last} ${layout.perCell}`;
    if (this.fates !== app.fates || this.key !== key) this.cells = cellsOf(app.fates, layout.first, layout.last, layout.perCell);
    this.fates = app.fates;
    this.key = key;
    const { cells } = this;
    const touched = app.selection.isNarrowed ? touchedPages(app.recording, app.file, app.selection, app.fates) : null;
    for (let cell = 0; cell < layout.count; cell++) {
      const x = (cell % layout.columns) * PITCH;
      const y = Math.floor(cell / layout.columns) * PITCH;
      context.globalAlpha = touched && !this.isTouched(touched, cell, layout) ? 0.28 : 1;
      this.drawCell(context, colours, cells.subarray(cell * FATES.length, (cell + 1) * FATES.length), x, y);
    }
    context.globalAlpha = 1;
    const notes = [`${formatBytes(layout.perCell * PAGE_BYTES)} per cell`];
    if (app.isZoomed) notes.push(`from ${formatOffset(layout.first * PAGE_BYTES)}`);
    const rest = app.fates.length - app.used;
    if (rest > 0) notes.push(`the last ${formatBytes(rest * PAGE_BYTES)} of the file are unused`);
    this.note.textContent = notes.join("; ");
  }

  /** Divides a cell's width among the fates of its pages, by number. */
  drawCell(context, colours, counts, x, y) {
    const whole = counts.reduce((sum, count) => sum + count, 0);
    const side = PITCH - 1;
    let from = 0;
    for (let fate = FATES.length - 1; fate >= 0; fate--) {
      if (counts[fate] === 0) continue;
      const width = Math.max(1, Math.min(side - from, (counts[fate] / whole) * side));
      if (from >= side) break;
      context.fillStyle = colours.fates[fate];
      context.fillRect(x + from, y, width, side);
      from += width;
    }
  }

  isTouched(touched, cell, { first, last, perCell }) {
    const end = Math.min(first + (cell + 1) * perCell, last + 1);
    for (let page = first + cell * perCell; page < end; page++) if (touched[page]) return true;
    return false;
  }

  cellAt([x, y]) {
    const { columns, count } = this.now;
    const column = Math.min(columns - 1, Math.max(0, Math.floor(x / PITCH)));
    return Math.min(count - 1, Math.max(0, Math.floor(y / PITCH) * columns + column));
  }

  brush(from, to) {
    const [a, b] = [this.cellAt(from), this.cellAt(to)].sort((one, other) => one - other);
    const { first, last, perCell } = this.now;
    this.app.tooltip.hide();
    this.app.brush({ pages: [first + a * perCell, Math.min(last, first + (b + 1) * perCell - 1)] });
  }

  hover(at, event) {
    const { first, last, perCell } = this.now;
    const cell = this.cellAt(at);
    const from = first + cell * perCell;
    const end = Math.min(from + perCell - 1, last);
    const counts = cellsOf(this.app.fates, from, end, perCell);
    const lines = [perCell === 1 ? `page at ${formatOffset(from * PAGE_BYTES)}` : `${formatCount(end - from + 1)} pages from ${formatOffset(from * PAGE_BYTES)}`];
    FATES.forEach((name, fate) => {
      if (counts[fate] > 0) lines.push(perCell === 1 ? name : `${formatCount(counts[fate])} ${name}`);
    });
    const section = this.sectionOf(from);
    if (section) lines.push(section);
    this.app.tooltip.show([event.clientX, event.clientY], lines);
  }

  sectionOf(page) {
    const { recording, file } = this.app;
    const [low, high] = [page * PAGE_BYTES, (page + 1) * PAGE_BYTES];
    const here = recording.files[file].sections.filter(({ offset, size }) => offset < high && offset + size > low);
    return here.slice(0, 3).map(({ name }) => recording.strings[name]).join(", ");
  }
}
