// Draws a critical path through the threads over time: a lane for each thread, blocks coloured by reason, and lines where it goes from one thread to
// another.

import { TimeChart } from "./plot.js";
import { lanesOf, pieceIn, threadTitle } from "./path.js";
import { layoutPieces } from "./lanes.js";
import { describePiece } from "./piece.js";
import { counted, formatTime, ticks, timeLabels } from "./format.js";
import { fitted, listen, rule, surface } from "./surface.js";
import { clip, drawBrush } from "./scatter.js";

/** Lanes; the last one has all further threads. */
const MOST_LANES = 24;
const LANE = 26;
/** Height of a lane with its label above the blocks. */
const NARROW_LANE = 36;
const BLOCK = 16;
/** Distance in pixels at which the pointer is on a piece. */
const TOUCH = 3;

export class PathChart extends TimeChart {
  constructor(page, root) {
    super(page);
    this.layers = root.querySelector(".layers");
    [this.ground, this.pieces, this.overlay] = root.querySelectorAll("canvas");
    listen(this.overlay, {
      drag: ([x0], [x1]) => {
        page.tooltip.hide();
        page.brushing = this.rangeOf(x0, x1);
        page.schedule();
      },
      dragged: ([x0], [x1]) => page.setSpan(this.rangeOf(x0, x1)),
      click: (at) => page.pin(this.pick(at)),
      hover: (at, event) => this.hover(at, event),
      leave: () => this.leave(),
    });
    this.overlay.addEventListener("dblclick", () => page.resetView());
    this.overlay.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** Follows a new path. */
  take(path) {
    this.path = path;
    this.lanes = lanesOf(path, MOST_LANES);
    this.hovered = -1;
  }

  measure() {
    const width = this.overlay.clientWidth;
    const isNarrow = width < 560;
    const left = isNarrow ? 6 : 168;
    const each = isNarrow ? NARROW_LANE : LANE;
    return { left, top: 6, width: Math.max(1, width - left - 10), height: this.lanes.rows.length * each, each, isNarrow };
  }

  /** The top of a row's blocks. */
  yOf(row) {
    const { top, each } = this.area;
    return top + (row + 1) * each - BLOCK - 5;
  }

  draw() {
    const rows = this.lanes.rows.length;
    const isNarrow = this.overlay.clientWidth < 560;
    this.layers.style.height = `${rows * (isNarrow ? NARROW_LANE : LANE) + 34}px`;
    this.area = this.measure();
    this.drawGround();
    this.drawPieces();
    this.drawOverlay();
    const [from, to] = this.app.view.time;
    this.overlay.setAttribute(
      "aria-label",
      `Critical path through ${counted(this.path.threads.length, "thread")}: ${counted(this.path.pieces, "piece")}, ${formatTime(from)} to ${formatTime(to)}`,
    );
  }

  drawGround() {
    const { context } = surface(this.ground);
    const { left, top, width, height, each, isNarrow } = this.area;
    const colours = this.app.theme.colours;
    this.lanes.rows.forEach((lane, row) => {
      const y = top + row * each;
      if (row % 2 === 0) {
        context.fillStyle = colours.band;
        context.fillRect(0, y, left + width, each);
      }
      context.fillStyle = row === 0 ? colours.ink : colours.soft;
      context.textAlign = "left";
      const text = fitted(context, this.labelOf(row), isNarrow ? width : left - 20);
      context.fillText(text, isNarrow ? left : 8, isNarrow ? y + 8 : this.yOf(row) + BLOCK / 2);
    });
    context.textAlign = "center";
    const [from, to] = this.app.view.time;
    const times = ticks(from, to, width / (isNarrow ? 90 : 110));
    const names = timeLabels(times);
    times.forEach((time, i) => {
      const x = this.xOf(time);
      rule(context, [x, top], [x, top + height], colours.line);
      context.fillStyle = colours.soft;
      const half = context.measureText(names[i]).width / 2;
      context.fillText(names[i], Math.min(x, left + width + 10 - half), top + height + 14);
    });
    rule(context, [left, top + height], [left + width, top + height], colours.soft);
  }

  labelOf(row) {
    const { threads } = this.lanes.rows[row];
    if (threads.length > 1) return `${counted(threads.length, "other thread")}`;
    return threadTitle(this.path, this.path.threads[threads[0]]);
  }

  drawPieces() {
    const { context } = surface(this.pieces);
    const { left, top, width, height } = this.area;
    const colours = this.app.theme.colours;
    const { blocks, bins, hops } = layoutPieces(this.path, this.lanes, this.app.view.time, width, this.app.matches);
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.strokeStyle = colours.soft;
    context.lineWidth = 1;
    // Many lines next to each other would hide the blocks.
    const most = this.app.matches === null ? 0.9 : 0.3;
    context.globalAlpha = Math.max(0.08, Math.min(most, width / (8 * Math.max(1, hops.length))));
    context.beginPath();
    for (const { x, low, high } of hops) {
      const at = Math.round(left + x) + 0.5;
      context.moveTo(at, this.yOf(low) + BLOCK / 2);
      context.lineTo(at, this.yOf(high) + BLOCK / 2);
    }
    context.stroke();
    for (const { row, from, to, group, isDim } of blocks) {
      context.globalAlpha = isDim ? 0.2 : 1;
      context.fillStyle = colours.reasons[group];
      const wide = to - from;
      context.fillRect(left + from, this.yOf(row), wide > 3 ? wide - 0.5 : wide, BLOCK);
    }
    for (const { row, column, group, share, isDim } of bins) {
      context.globalAlpha = isDim ? 0.2 : 1;
      context.fillStyle = colours.reasons[group];
      const tall = Math.max(3, share * BLOCK);
      context.fillRect(left + column, this.yOf(row) + BLOCK - tall, 1, tall);
    }
    context.restore();
  }

  drawOverlay() {
    const { context } = surface(this.overlay);
    const { left, top, width, height } = this.area;
    const colours = this.app.theme.colours;
    const span = this.app.brushing ?? this.app.span;
    if (span) drawBrush(context, colours, clip([this.xOf(span[0]), top, this.xOf(span[1]), top + height], this.area));
    this.outline(context, this.hovered, colours.ink, 1);
    this.outline(context, this.app.pinned, colours.accent, 2);
  }

  outline(context, piece, colour, thickness) {
    if (piece < 0) return;
    const { left, width } = this.area;
    const { starts, columns } = this.path;
    const from = Math.max(left, this.xOf(starts[piece]));
    const to = Math.min(left + width, this.xOf(starts[piece + 1]));
    if (to < left || from > left + width) return;
    context.strokeStyle = colour;
    context.lineWidth = thickness;
    const y = this.yOf(this.lanes.rowOf[columns.piece_lane[piece]]);
    context.strokeRect(from - 1.5, y - 1.5, Math.max(3, to - from + 3), BLOCK + 3);
  }

  /** The times between two positions, at least a pixel of them. */
  rangeOf(x0, x1) {
    const { left, width } = this.area;
    const inside = (x) => Math.min(Math.max(x, left), left + width);
    const from = inside(Math.min(x0, x1));
    return [this.timeAt(from), this.timeAt(Math.max(inside(Math.max(x0, x1)), from + 1))];
  }

  /** The piece at a position; of several that are too short to tell apart, the longest in the lane. */
  pick([x, y]) {
    const { left, width, top, each } = this.area;
    if (x < left - TOUCH || x > left + width + TOUCH) return -1;
    const row = Math.floor((y - top) / each);
    const exact = pieceIn(this.path, [this.timeAt(x), this.timeAt(x)]);
    if (exact >= 0 && this.isWide(exact)) return exact;
    return pieceIn(this.path, [this.timeAt(x - TOUCH), this.timeAt(x + TOUCH)], (lane) => this.lanes.rowOf[lane] === row);
  }

  isWide(piece) {
    const { starts } = this.path;
    return this.xOf(starts[piece + 1]) - this.xOf(starts[piece]) > 2 * TOUCH;
  }

  hover(at, event) {
    const piece = this.pick(at);
    if (piece !== this.hovered) {
      this.hovered = piece;
      this.drawOverlay();
    }
    if (piece < 0) this.app.tooltip.hide();
    else this.app.tooltip.show([event.clientX, event.clientY], describePiece(this.path, piece));
  }

  leave() {
    this.hovered = -1;
    this.app.tooltip.hide();
    if (this.path && this.area) this.drawOverlay();
  }

  wheel(event) {
    // A plain wheel scrolls the page.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.overlay.getBoundingClientRect();
    this.app.zoom(Math.exp(event.deltaY * 0.004), this.timeAt(event.clientX - box.left));
  }
}
