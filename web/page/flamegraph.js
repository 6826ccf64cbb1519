// Draws the flame graph, from the outermost function down; widths are the time or the number of the selected faults.

import { FILTER } from "./model.js";
import { functionName, moduleName } from "./groups.js";
import { counted, formatShare, formatTime } from "./format.js";
import { fitted, listen, surface } from "./surface.js";

const ROW = 18;
const MOST_DEPTH = 160;
const LEAST_PIXELS = 1.5;

export class FlameGraph {
  constructor(app, root) {
    this.app = app;
    this.canvas = root.querySelector("canvas");
    this.boxes = [];
    listen(this.canvas, {
      click: (at) => {
        const box = this.boxAt(at);
        if (box) app.setUnder(box.node === app.focus ? app.flame.parent[box.node] : box.node);
      },
      hover: (at, event) => this.hover(at, event),
      leave: () => app.tooltip.hide(),
    });
  }

  draw() {
    const { app } = this;
    const width = Math.max(1, this.canvas.clientWidth);
    this.sums = app.flame.weigh(app.selection, app.byTime ? app.weights : null, FILTER.under);
    this.boxes = app.flame.layout(this.sums, app.focus, LEAST_PIXELS / width).filter(({ depth }) => depth <= MOST_DEPTH);
    const deepest = this.boxes.reduce((most, { depth }) => Math.max(most, depth), 0);
    this.canvas.style.height = `${(deepest + 1) * ROW}px`;
    const { context } = surface(this.canvas);
    context.textAlign = "left";
    for (const box of this.boxes) this.drawBox(context, box, width);
    this.canvas.setAttribute("aria-label", `Flame graph: ${this.boxes.length} functions, ${this.amount(this.sums[0])} in total`);
  }

  drawBox(context, { node, depth, from, to }, width) {
    const { app } = this;
    const colours = app.theme.colours;
    const x = from * width;
    const wide = (to - from) * width;
    const isAbove = depth < app.flame.depth[app.focus];
    context.globalAlpha = isAbove ? 0.55 : 1;
    context.fillStyle = node === 0 ? colours.band : colours.flame[this.kindOf(node)];
    context.fillRect(x, depth * ROW, Math.max(1, wide - 1), ROW - 1);
    context.globalAlpha = 1;
    if (wide < 26) return;
    context.fillStyle = colours.flameInk;
    context.fillText(fitted(context, this.nameOf(node), wide - 8), x + 4, depth * ROW + ROW / 2);
  }

  kindOf(node) {
    return this.app.recording.columns.function_kind[this.app.flame.function[node]] ?? 0;
  }

  nameOf(node) {
    return node === 0 ? `all: ${this.amount(this.sums[0])}` : functionName(this.app.recording, this.app.flame.function[node]);
  }

  amount(sum) {
    return this.app.byTime ? formatTime(sum) : counted(sum, "fault");
  }

  boxAt([x, y]) {
    const share = x / Math.max(1, this.canvas.clientWidth);
    const depth = Math.floor(y / ROW);
    return this.boxes.find((box) => box.depth === depth && share >= box.from && share < box.to);
  }

  hover(at, event) {
    const box = this.boxAt(at);
    this.canvas.style.cursor = box ? "pointer" : "default";
    if (!box) {
      this.app.tooltip.hide();
      return;
    }
    const lines = [this.nameOf(box.node)];
    if (box.node !== 0) {
      const module = moduleName(this.app.recording, this.app.flame.function[box.node]);
      if (module) lines.push(module);
      lines.push(`${this.amount(this.sums[box.node])}, ${formatShare(this.sums[box.node] / (this.sums[0] || 1))} of the selection`);
    }
    this.app.tooltip.show([event.clientX, event.clientY], lines);
  }
}
