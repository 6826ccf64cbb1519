// Draws points into arrays of 32-bit colours instead of a canvas: half a million points take a few milliseconds.

/** Draws a point as a square or a diamond of `size` pixels. */
export function stamp(pixels, width, height, x, y, size, colour, isDiamond) {
  const half = size >> 1;
  for (let row = 0; row < size; row++) {
    const py = y + row - half;
    if (py < 0 || py >= height) continue;
    const inset = isDiamond ? Math.abs(row - half) : 0;
    const from = Math.max(0, x - half + inset);
    const end = Math.min(width, x - half + size - inset);
    for (let px = from; px < end; px++) pixels[py * width + px] = colour;
  }
}

/**
 * Draws the selected points or, with `all`, every point in the style of unselected ones. `style` has a colour and a size for each kind and for
 * unselected points. Of ordinary points, every `step`th is drawn; the `rare` ones are drawn as diamonds on top.
 */
export function paintPoints(pixels, width, height, points, style, all = false) {
  const { first = 0, end = points.xs.length, step = 1, xs, ys, fails, kinds, rare, xFrom, xScale, yFrom, yScale } = points;
  const { dim, dimSize, colours, sizes, diamond } = style;
  for (let i = first; i < end; i += step) {
    const kind = kinds[i];
    if (!all && (fails[i] !== 0 || kind === diamond)) continue;
    const right = (xs[i] - xFrom) * xScale;
    const down = (ys[i] - yFrom) * yScale;
    if (!(right >= 0 && right < width && down >= 0 && down < height)) continue;
    if (all) square(pixels, width, height, right | 0, down | 0, dimSize, dim);
    else square(pixels, width, height, right | 0, down | 0, sizes[kind], colours[kind]);
  }
  if (all) return;
  for (const i of rare) {
    const right = (xs[i] - xFrom) * xScale;
    const down = (ys[i] - yFrom) * yScale;
    if (fails[i] !== 0 || !(right >= 0 && right < width && down >= 0 && down < height)) continue;
    stamp(pixels, width, height, right | 0, down | 0, sizes[diamond] + 2, style.halo, true);
    stamp(pixels, width, height, right | 0, down | 0, sizes[diamond], colours[diamond], true);
  }
}

/** An image of points. Unselected points are drawn once and reused while only the selection changes. */
export class PointImage {
  /** Draws the points; `key` identifies everything that the image depends on except the selection. */
  draw(width, height, points, style, isNarrowed, key) {
    if (this.image?.width !== width || this.image?.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.ground = new Uint32Array(this.pixels.length);
      this.key = null;
    }
    if (!isNarrowed) {
      this.pixels.fill(0);
    } else {
      if (this.key !== key || this.xs !== points.xs) {
        this.ground.fill(0);
        paintPoints(this.ground, width, height, points, style, true);
        this.key = key;
        this.xs = points.xs;
      }
      this.pixels.set(this.ground);
    }
    paintPoints(this.pixels, width, height, points, style);
    return this.image;
  }
}

function square(pixels, width, height, x, y, size, colour) {
  if (size > 3) {
    stamp(pixels, width, height, x, y, size, colour, false);
    return;
  }
  const at = y * width + x;
  pixels[at] = colour;
  if (size < 2) return;
  const right = x + 1 < width;
  const below = y + 1 < height;
  if (right) pixels[at + 1] = colour;
  if (below) {
    pixels[at + width] = colour;
    if (right) pixels[at + width + 1] = colour;
  }
  if (size < 3) return;
  const left = x > 0;
  const above = y > 0;
  if (left) pixels[at - 1] = colour;
  if (above) pixels[at - width] = colour;
  if (above && left) pixels[at - width - 1] = colour;
  if (above && right) pixels[at - width + 1] = colour;
  if (below && left) pixels[at + width - 1] = colour;
}

/** Converts `#rrggbb` and an opacity to a pixel of ImageData on a little-endian machine. */
export function pixelOf(hex, opacity = 1) {
  const number = parseInt(hex.slice(1), 16);
  const [red, green, blue] = [(number >> 16) & 255, (number >> 8) & 255, number & 255];
  return ((Math.round(opacity * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Spreads ascending positions until each is at least `least` from the next and none is beyond `end`. */
export function spread(places, least, end) {
  const apart = [];
  places.forEach((place, i) => apart.push(i === 0 ? place : Math.max(place, apart[i - 1] + least)));
  let limit = end;
  for (let i = apart.length - 1; i >= 0; i--) {
    apart[i] = Math.min(apart[i], limit);
    limit = apart[i] - least;
  }
  return apart;
}

/** Decimal logarithms of times for the latency axis, as a Float32Array; unknown times are below all others. */
export function logarithms(times) {
  const logs = new Float32Array(times.length);
  for (let i = 0; i < logs.length; i++) logs[i] = times[i] > 0 ? Math.log10(times[i]) : -1;
  return logs;
}

/** Moves and limits a range to [low, high], with a least size. */
export function heldIn([from, to], [low, high], least) {
  const span = Math.min(high - low, Math.max(least, to - from));
  const start = Math.min(Math.max(low, from), high - span);
  return [start, start + span];
}

/** A chart over the view's time range; `area` is its position in pixels. */
export class TimeChart {
  constructor(app) {
    this.app = app;
  }

  xOf(time) {
    const { left, width } = this.area;
    const [from, to] = this.app.view.time;
    return left + ((time - from) / (to - from)) * width;
  }

  timeAt(x) {
    const { left, width } = this.area;
    const [from, to] = this.app.view.time;
    return from + ((x - left) / width) * (to - from);
  }
}
