// Points into pixels: no canvas here, only arrays of 32-bit colours, so that half a million points take a few milliseconds.

/** A point of a kind, in pixels: `size` squares, or a diamond. */
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
 * Draws the points of a list. `style` has, for each kind, a colour and a size, and the colour and size of what is not selected; `kindCount`
 * kinds are drawn one after the other, so that the rare ones stay on top.
 */
export function paintPoints(pixels, width, height, points, style) {
  const { list, xs, ys, fails, kinds, xFrom, xScale, yFrom, yScale } = points;
  const { dim, dimSize, colours, sizes, diamond } = style;
  const later = [];
  for (let pass = 0; pass < 2; pass++) {
    const size = pass === 0 ? dimSize : 0;
    for (let i = 0; i < list.length; i++) {
      const selected = fails[i] === 0;
      if (selected !== (pass === 1)) continue;
      const fault = list[i];
      const x = ((xs[fault] - xFrom) * xScale) | 0;
      const y = ((ys[fault] - yFrom) * yScale) | 0;
      if (x < 0 || y < 0 || x >= width || y >= height) continue;
      if (pass === 0) {
        square(pixels, width, height, x, y, size, dim);
      } else if (kinds[fault] === diamond) {
        later.push(x, y);
      } else {
        square(pixels, width, height, x, y, sizes[kinds[fault]], colours[kinds[fault]]);
      }
    }
  }
  for (let i = 0; i < later.length; i += 2) {
    stamp(pixels, width, height, later[i], later[i + 1], sizes[diamond] + 2, style.halo, true);
    stamp(pixels, width, height, later[i], later[i + 1], sizes[diamond], colours[diamond], true);
  }
}

function square(pixels, width, height, x, y, size, colour) {
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

/** `#rrggbb` and an opacity as ImageData has it on a little-endian machine. */
export function pixelOf(hex, opacity = 1) {
  const number = parseInt(hex.slice(1), 16);
  const [red, green, blue] = [(number >> 16) & 255, (number >> 8) & 255, number & 255];
  return ((Math.round(opacity * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Logarithm of times, for the axis of latencies: Float32Array, with what is unknown below everything. */
export function logarithms(times) {
  const logs = new Float32Array(times.length);
  for (let i = 0; i < logs.length; i++) logs[i] = times[i] > 0 ? Math.log10(times[i]) : -1;
  return logs;
}
