// Draws the number of faults over time and, below, the latencies of faults and disk reads on a logarithmic scale.

import { KINDS, nearest } from "./model.js";
import { histogram } from "./bins.js";
import { PointImage, TimeChart } from "./plot.js";
import { baseName, counted, formatBytes, formatCount, formatTime, ticks, timeLabels } from "./format.js";
import { listen, rule, surface } from "./surface.js";
import { EDGE, clip, drawBrush, pointStyle, ring } from "./scatter.js";

/** Height of the counts in pixels; the rest is for latencies. */
const COUNTS = 62;
const GAP = 16;
const BIN = 3;
const NEAR = 9;

export class Timeline extends TimeChart {
  constructor(app, root) {
    super(app);
    [this.ground, this.dots, this.overlay] = root.querySelectorAll("canvas");
    this.image = new PointImage();
    listen(this.overlay, {
      drag: ([x0], [x1]) => this.brush(x0, x1),
      click: (at) => app.pin(this.pick(at)),
      hover: (at, event) => this.hover(at, event),
      leave: () => app.tooltip.hide(),
    });
    this.overlay.addEventListener("dblclick", () => app.resetView());
  }

  /** Position of the latencies within the canvas. */
  measure() {
    const width = this.overlay.clientWidth;
    const isNarrow = width < 560;
    const left = isNarrow ? 52 : 64;
    const right = isNarrow ? 12 : EDGE;
    const top = 8 + COUNTS + GAP;
    return { left, top, width: Math.max(1, width - left - right), height: Math.max(1, this.overlay.clientHeight - top - 26), isNarrow };
  }

  /** Range of the latency axis, as powers of ten in ns. */
  get decades() {
    return this.app.decades;
  }

  yOf(log) {
    const { top, height } = this.area;
    const [low, high] = this.decades;
    return top + ((high - log) / (high - low)) * height;
  }

  draw() {
    const { app } = this;
    this.area = this.measure();
    const { context, width: wide, height: tall, ratio } = surface(this.dots);
    const { left, top, width, height } = this.area;
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    const [from, to] = app.view.time;
    const [low, high] = this.decades;
    const points = {
      ...app.shownPlaces(),
      xs: app.selection.starts,
      ys: app.listLogs,
      fails: app.selection.fails,
      kinds: app.selection.kinds,
      rare: app.selection.rare,
      xFrom: from,
      xScale: w / (to - from),
      yFrom: high,
      yScale: -h / (high - low),
    };
    const key = `${app.file} ${app.view.time} ${app.theme.isDark} ${wide} ${tall} ${points.step}`;
    if (key !== this.key) this.drawGround();
    this.key = key;
    const image = this.image.draw(w, h, points, pointStyle(app, ratio), app.selection.isNarrowed, key);
    this.dots.getContext("2d").putImageData(image, Math.round(left * ratio), Math.round(top * ratio));
    this.drawCounts(context, app.theme.colours);
    this.drawOverlay();
  }

  drawGround() {
    const { app } = this;
    const { context } = surface(this.ground);
    const { left, top, width, height, isNarrow } = this.area;
    const colours = app.theme.colours;
    const [from, to] = app.view.time;
    context.textAlign = "center";
    const times = ticks(from, to, width / (isNarrow ? 90 : 110));
    const timeNames = timeLabels(times);
    times.forEach((time, i) => {
      const x = this.xOf(time);
      rule(context, [x, 8], [x, top + height], colours.line);
      context.fillStyle = colours.soft;
      context.fillText(timeNames[i], x, top + height + 14);
    });
    context.textAlign = "right";
    const [low, high] = this.decades;
    for (let power = low; power <= high; power++) {
      const y = this.yOf(power);
      rule(context, [left, y], [left + width, y], colours.line);
      context.fillStyle = colours.soft;
      context.fillText(decadeName(power), left - 6, y);
    }
    this.drawReads(context, colours);
    if (!app.isTimed) {
      context.textAlign = "center";
      context.fillStyle = colours.soft;
      context.fillText("This recording has no fault latencies (see `ngmi doctor`).", left + width / 2, top + height / 2);
    }
    rule(context, [left, top + height], [left + width, top + height], colours.soft);
    rule(context, [left, 8 + COUNTS], [left + width, 8 + COUNTS], colours.soft);
  }

  drawCounts(context, colours) {
    const { app } = this;
    const { left, top, width, height, isNarrow } = this.area;
    const count = Math.max(1, Math.floor(width / BIN));
    const { all, selected } = histogram(app.selection, KINDS.length, app.view.time, count);
    const most = all.reduce((a, b) => Math.max(a, b), 0);
    const [from, to] = app.view.time;
    this.bins = { all, selected, count };
    context.fillStyle = colours.soft;
    context.textAlign = "right";
    context.fillText(formatCount(most), left - 6, 12);
    context.fillText("0", left - 6, 8 + COUNTS);
    context.textAlign = "left";
    const label = `faults per ${formatTime((to - from) / count)}`;
    context.fillStyle = colours.soft;
    if (isNarrow) context.fillText(label, left + 6, 12);
    else {
      context.fillText(label, left + width + 12, 8 + COUNTS / 2);
      context.fillText("latency of each fault", left + width + 12, top + height / 2 - 7);
      context.fillText("and disk read", left + width + 12, top + height / 2 + 7);
    }
    if (most === 0) return;
    const pixelsEach = COUNTS / most;
    for (let bin = 0; bin < count; bin++) {
      if (all[bin] === 0) continue;
      const x = left + bin * BIN;
      context.fillStyle = colours.dim;
      const whole = Math.max(1, all[bin] * pixelsEach);
      context.globalAlpha = 0.45;
      context.fillRect(x, 8 + COUNTS - whole, BIN - 1, whole);
      context.globalAlpha = 1;
      let base = 8 + COUNTS;
      // The rare kinds are at the bottom, where they can be compared.
      for (let kind = KINDS.length - 1; kind >= 0; kind--) {
        const some = selected[bin * KINDS.length + kind];
        if (some === 0) continue;
        const tall = Math.max(kind === KINDS.length - 1 ? 2 : 0, some * pixelsEach);
        context.fillStyle = colours.kinds[kind];
        context.fillRect(x, base - tall, BIN - 1, tall);
        base -= tall;
      }
    }
  }

  /** Draws disk reads from submission to completion, at the height of their latency. */
  drawReads(context, colours) {
    const { request_start: starts, request_duration: durations } = this.app.recording.columns;
    const { left, top, width, height } = this.area;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.fillStyle = colours.read;
    for (const i of this.app.requests) {
      if (!(durations[i] >= 0)) continue;
      const x = this.xOf(starts[i]);
      const long = Math.max(3, this.xOf(starts[i] + durations[i]) - x);
      context.globalAlpha = 0.8;
      context.fillRect(x, this.yOf(Math.log10(Math.max(1, durations[i]))) - 1, long, 2);
    }
    context.restore();
  }

  drawOverlay() {
    const { app } = this;
    const { context } = surface(this.overlay);
    const { left, top, width, height } = this.area;
    const { time } = app.selection.filters;
    const colours = app.theme.colours;
    if (time) {
      const box = clip([this.xOf(time[0]), 8, this.xOf(time[1]), top + height], { left, top: 8, width, height: top + height - 8 });
      drawBrush(context, colours, box);
    }
    if (app.pinned >= 0) {
      const fault = app.selection.list[app.pinned];
      if (app.logs[fault] > 0) ring(context, colours.accent, this.xOf(app.recording.columns.fault_start[fault]), this.yOf(app.logs[fault]));
    }
  }

  brush(x0, x1) {
    this.app.tooltip.hide();
    const { left, width } = this.area;
    const inside = (x) => Math.min(Math.max(x, left), left + width);
    this.app.brush({ time: [this.timeAt(inside(Math.min(x0, x1))), this.timeAt(inside(Math.max(x0, x1)))] });
  }

  pick(at) {
    const { app } = this;
    const starts = app.recording.columns.fault_start;
    const window = [this.timeAt(at[0] - NEAR), this.timeAt(at[0] + NEAR)];
    return nearest(app.selection, (fault) => this.xOf(starts[fault]), (fault) => this.yOf(app.logs[fault]), at, window, NEAR);
  }

  hover(at, event) {
    const pointer = [event.clientX, event.clientY];
    const { app } = this;
    if (at[1] < this.area.top - GAP / 2) {
      app.tooltip.show(pointer, this.describeBin(at[0]));
      return;
    }
    const place = this.pick(at);
    if (place >= 0) {
      app.tooltip.show(pointer, app.describe(place));
      return;
    }
    const request = this.requestAt(at);
    if (request < 0) app.tooltip.hide();
    else app.tooltip.show(pointer, describeRequest(app.recording, request));
  }

  requestAt([x, y]) {
    const { request_start: starts, request_duration: durations } = this.app.recording.columns;
    for (const i of this.app.requests) {
      if (!(durations[i] >= 0)) continue;
      const from = this.xOf(starts[i]) - 3;
      const to = Math.max(from + 6, this.xOf(starts[i] + durations[i]));
      if (x >= from && x <= to && Math.abs(this.yOf(Math.log10(Math.max(1, durations[i]))) - y) <= 4) return i;
    }
    return -1;
  }

  describeBin(x) {
    const { all, selected, count } = this.bins;
    const { left, width } = this.area;
    const bin = Math.min(count - 1, Math.max(0, Math.floor(((x - left) / width) * count)));
    const lines = [`${counted(all[bin], "fault")} at ${formatTime(this.timeAt(x))}`];
    KINDS.forEach((name, kind) => {
      const some = selected[bin * KINDS.length + kind];
      if (some > 0) lines.push(`${formatCount(some)} ${name}`);
    });
    return lines;
  }
}

/** A short description of a disk read for the tooltip, in lines. */
export function describeRequest(recording, i) {
  const { columns: c, strings } = recording;
  const device = recording.devices[c.request_device[i]];
  const thread = recording.threads[c.request_thread[i]];
  const file = recording.files[c.request_file[i]];
  const lines = [`disk read of ${formatBytes(c.request_bytes[i] || 0)} in ${formatTime(c.request_duration[i])}`];
  lines.push(`${device === undefined ? "unknown device" : strings[device]}, submitted at ${formatTime(c.request_start[i])}`);
  if (file) lines.push(`${baseName(strings[file.path])}${c.request_offset[i] >= 0 ? ` + 0x${c.request_offset[i].toString(16)}` : ""}`);
  if (thread) lines.push(`for ${strings[thread.name]} (${thread.tid})${c.request_flags[i] & 2 ? ", read ahead" : ""}`);
  return lines;
}

function decadeName(power) {
  const units = ["ns", "µs", "ms", "s"];
  const unit = Math.min(units.length - 1, Math.floor(power / 3));
  return `${10 ** (power - unit * 3)} ${units[unit]}`;
}
