import assert from "node:assert/strict";
import { test } from "node:test";
import { NONE } from "../document.js";
import { ALL, FILTER, KINDS } from "../model.js";
import { GROUPINGS, groupKeys, groupRows, hotSymbols, placeOf, sortRows } from "../groups.js";
import { histogram, latencies, quantile } from "../bins.js";
import { FATE, FATES, cellsOf, countFates, fatesOf, pagesPerCell, touchedPages, usedOf } from "../pages.js";
import { FlameTree } from "../flame.js";
import { PointImage, paintPoints, pixelOf, spread, stamp } from "../plot.js";
import { sample } from "./recording.js";

test("every grouping adds up to the selection, regardless of its own filter", () => {
  const { select, weights, known } = sample();
  const selection = select(ALL);
  for (const grouping of GROUPINGS) {
    const groups = groupKeys(selection.recording, selection.list, grouping);
    const { rows, total } = groupRows(selection, weights, groups);
    assert.equal(rows.reduce((sum, row) => sum + row.faults, 0), 3_000, grouping);
    assert.equal(rows.reduce((sum, row) => sum + row.waited, 0), known.waited, grouping);
    assert.equal(total, known.time, grouping);
    assert.ok(rows.every((row) => typeof groups.name(row.key) === "string"), grouping);
    selection.setGroup({ keys: groups.keys, key: rows[0].key });
    assert.equal(selection.fails.filter((bits) => bits === 0).length, rows[0].faults, grouping);
    assert.deepEqual(groupRows(selection, weights, groups).rows, rows, grouping);
    selection.setGroup(null);
  }
});

test("rows are sorted by the column, then by time", () => {
  const rows = [
    { key: 0, faults: 1, waited: 0, time: 5 },
    { key: 1, faults: 3, waited: 1, time: 5 },
    { key: 2, faults: 3, waited: 0, time: 9 },
  ];
  assert.deepEqual(sortRows(rows, "faults").map(({ key }) => key), [2, 1, 0]);
  assert.deepEqual(sortRows(rows, "waited").map(({ key }) => key), [1, 2, 0]);
  assert.deepEqual(sortRows(rows, "time").map(({ key }) => key), [2, 1, 0]);
});

test("section and symbol contain the byte", () => {
  const { recording } = sample(800);
  const { columns: c, files, strings } = recording;
  for (let fault = 0; fault < 800; fault++) {
    const { byte, section, symbol } = placeOf(recording, fault);
    const file = files[c.fault_file[fault]];
    if (!file) {
      assert.equal(byte, null);
      continue;
    }
    const holds = ({ offset, size }) => offset <= byte && byte < offset + size;
    assert.equal(section, strings[file.sections.find(holds)?.name] ?? null);
    const symbols = [];
    for (let i = file.symbols[0]; i < file.symbols[1]; i++) symbols.push({ offset: c.symbol_offset[i], size: c.symbol_size[i], name: c.symbol_name[i] });
    assert.equal(symbol, strings[symbols.find(holds)?.name] ?? null);
  }
});

test("the hottest symbols are those with the most time", () => {
  const { recording, select, weights } = sample();
  const selection = select(0);
  const times = new Map();
  selection.list.forEach((fault) => {
    const { symbol } = placeOf(recording, fault);
    times.set(symbol, (times.get(symbol) ?? 0) + weights[fault]);
  });
  const best = Array.from(times).sort((a, b) => b[1] - a[1]).slice(0, 5).map(([name]) => name);
  assert.deepEqual(hotSymbols(recording, 0, selection, weights, 5).map(({ name }) => name), best);
});

test("a histogram counts every fault of its range once", () => {
  const { select, kinds } = sample();
  const selection = select(ALL);
  selection.setKinds(0b0111);
  const { all, selected } = histogram(selection, KINDS.length, [0, 4.1e9], 97);
  assert.equal(all.reduce((sum, count) => sum + count, 0), 3_000);
  assert.equal(selected.reduce((sum, count) => sum + count, 0), kinds.filter((kind) => kind !== 3).length);
});

test("quantiles are values of the list, and NaN for an empty list", () => {
  const values = () => Float64Array.from([5, 1, 4, 2, 3]);
  assert.deepEqual([0, 0.5, 0.6, 0.99, 1].map((share) => quantile(values(), share)), [1, 3, 3, 5, 5]);
  assert.ok(Number.isNaN(quantile(new Float64Array(0), 0.5)));
  const { select, known } = sample();
  assert.equal(latencies(select(ALL)).max, known.longest);
});

test("pages have the fate with the highest precedence", () => {
  const { recording, index } = sample();
  const list = index.of(0);
  const fates = fatesOf(recording, 0, list);
  assert.equal(fates.length, 40_000);
  const written = new Set(Array.from(list).filter((fault) => recording.columns.fault_class[fault] === 1).map((fault) => recording.columns.fault_page[fault]));
  // The generator's runs: faulted up to 20 %, around up to 50 %, wasted up to 70 %, called from 75 % to 85 %.
  const base = (page) => (page < 8_000 ? "faulted" : page < 20_000 ? "around" : page < 28_000 ? "wasted" : page >= 30_000 && page < 34_000 ? "called" : "untouched");
  for (let page = 0; page < 40_000; page++) assert.equal(fates[page], written.has(page) ? FATE.dirtied : FATE[base(page)], `page ${page}`);
  assert.equal(countFates(fates).reduce((sum, count) => sum + count, 0), 40_000);
});

test("a file is used up to its last page with a fate", () => {
  const { recording, index } = sample();
  const of = (...fates) => usedOf(recording, Uint8Array.from(fates), []);
  assert.deepEqual([of(0, 0, 0), of(1, 0, 0), of(0, 4, 0), of(0, 0, 2)], [1, 1, 2, 3]);
  const list = index.of(0);
  const last = list.reduce((most, fault) => Math.max(most, recording.columns.fault_page[fault]), 0);
  assert.ok(usedOf(recording, fatesOf(recording, 0, list), list) > last);
});

test("labels are spread in order, and not beyond the end", () => {
  for (const places of [[0, 1, 2, 50, 98, 99], [99, 99, 99], [10, 40, 70], []]) {
    const apart = spread(places, 10, 100);
    apart.forEach((place, i) => assert.ok(place <= 100 && (i === 0 || place - apart[i - 1] >= 10)));
  }
  assert.deepEqual(spread([10, 40, 70], 10, 100), [10, 40, 70]);
});

test("cells contain every page once, and fit", () => {
  const { recording, index } = sample();
  const fates = fatesOf(recording, 0, index.of(0));
  for (const [first, last] of [[0, 39_999], [17, 17], [100, 4_321], [39_000, 39_999]]) {
    const perCell = pagesPerCell(first, last, 100, 20);
    const cells = cellsOf(fates, first, last, perCell);
    assert.ok(cells.length / FATES.length <= 2_000);
    assert.equal(cells.reduce((sum, count) => sum + count, 0), last - first + 1);
  }
});

test("touched pages are those of the selected faults, mapped around them, or read in the selected time", () => {
  const { recording, index, select } = sample();
  const selection = select(0);
  selection.setTime([1e9, 1.3e9]);
  const fates = fatesOf(recording, 0, index.of(0));
  const touched = touchedPages(recording, 0, selection, fates);
  const { columns: c } = recording;
  const expected = new Uint8Array(fates.length);
  selection.list.forEach((fault, i) => {
    if (selection.fails[i] !== 0) return;
    expected[c.fault_page[fault]] = 1;
    const from = c.fault_page[fault] - c.fault_around_before[fault];
    for (let page = from; page < from + c.fault_around_count[fault]; page++) if (fates[page] === FATE.around) expected[page] = 1;
  });
  c.read_start.forEach((start, i) => {
    if (c.read_file[i] !== 0 || start < 1e9 || start > 1.3e9) return;
    for (let page = c.read_first[i]; page < c.read_first[i] + c.read_count[i]; page++) {
      if (fates[page] === FATE.wasted || fates[page] === FATE.called) expected[page] = 1;
    }
  });
  assert.deepEqual(touched, expected);
});

test("the flame graph merges by function, and each box is the time of the stacks through it", () => {
  const { recording, select, weights, known } = sample(400);
  const flame = new FlameTree(recording);
  const selection = select(ALL);
  const sums = flame.weigh(selection, weights, 0);
  assert.equal(sums[0], known.time);
  const { node_parent: parents, node_function: functions, fault_stack: stacks } = recording.columns;
  const through = new Map();
  for (const fault of selection.list) {
    const path = [];
    for (let node = stacks[fault]; node !== NONE; node = parents[node]) path.unshift(functions[node]);
    for (let depth = 1; depth <= path.length; depth++) {
      const key = path.slice(0, depth).join(" ");
      through.set(key, (through.get(key) ?? 0) + weights[fault]);
    }
  }
  let checked = 0;
  for (let node = 1; node < flame.parent.length; node++) {
    const key = flame.pathTo(node).slice(1).map((at) => flame.function[at]).join(" ");
    assert.equal(sums[node], through.get(key) ?? 0);
    checked += sums[node] > 0;
  }
  assert.equal(checked, through.size);
});

test("boxes are within their parents and do not overlap", () => {
  const { recording, select, weights } = sample();
  const flame = new FlameTree(recording);
  const sums = flame.weigh(select(0), weights, 0);
  const boxes = flame.layout(sums, 0, 0.002);
  const of = new Map(boxes.map((box) => [box.node, box]));
  for (const box of boxes.slice(1)) {
    const above = of.get(flame.parent[box.node]);
    assert.ok(box.from >= above.from - 1e-9 && box.to <= above.to + 1e-9 && box.depth === above.depth + 1);
    assert.ok(Math.abs(box.to - box.from - sums[box.node] / sums[0]) < 1e-9);
  }
  const rows = new Map();
  for (const box of boxes) rows.set(box.depth, [...(rows.get(box.depth) ?? []), box]);
  for (const row of rows.values()) {
    row.sort((a, b) => a.from - b.from);
    row.forEach((box, i) => assert.ok(i === 0 || box.from >= row[i - 1].to - 1e-9));
  }
});

test("the faults below a node are those with stacks through it", () => {
  const { recording, select, weights } = sample();
  const flame = new FlameTree(recording);
  const selection = select(ALL);
  const sums = flame.weigh(selection, null, 0);
  const node = flame.layout(sums, 0, 0.01)[4].node;
  selection.setUnder({ nodes: flame.below(node), nodeOf: flame.nodeOf, node });
  assert.equal(selection.fails.filter((bits) => bits === 0).length, sums[node]);
  assert.deepEqual(flame.weigh(selection, null, FILTER.under), sums);
  assert.equal(weights.length, 3_000);
});

test("points are at their positions, nothing is drawn beyond the edge, and diamonds are on top", () => {
  const pixels = new Uint32Array(10 * 10);
  const points = { xs: [1, 8, 99], ys: [1, 8, 99], fails: Uint8Array.from([0, 1, 0]), kinds: [0, 1, 1], rare: [], xFrom: 0, xScale: 1, yFrom: 0, yScale: 1 };
  const style = { dim: 9, dimSize: 1, colours: [1, 2, 3, 4], sizes: [1, 1, 1, 3], diamond: 3, halo: 7 };
  paintPoints(pixels, 10, 10, points, style);
  assert.deepEqual([pixels[11], pixels[88]], [1, 0]);
  assert.equal(pixels.filter((pixel) => pixel !== 0).length, 1);
  paintPoints(pixels, 10, 10, points, style, true);
  assert.deepEqual([pixels[11], pixels[88]], [9, 9]);
  const rare = { ...points, fails: Uint8Array.from([0, 0, 0]), kinds: [0, 3, 1], rare: [1] };
  paintPoints(pixels, 10, 10, rare, style);
  assert.deepEqual([pixels[88], pixels[78], pixels[87]], [4, 4, 4]);
  // The rare points are drawn even if others are skipped during movement.
  pixels.fill(0);
  paintPoints(pixels, 10, 10, { ...rare, step: 3 }, style);
  assert.deepEqual([pixels[11], pixels[88]], [1, 4]);
  for (const [x, y] of [[0, 0], [9, 9], [-3, 4], [12, 12]]) stamp(pixels, 10, 10, x, y, 7, 5, true);
  assert.equal(pixels.length, 100);
  assert.equal(pixelOf("#102030"), 0xff302010);
});

test("unselected points are repainted only when the image changes", () => {
  globalThis.ImageData ??= class {
    constructor(width, height) {
      Object.assign(this, { width, height, data: new Uint8ClampedArray(width * height * 4) });
    }
  };
  const image = new PointImage();
  const points = { xs: [1, 5], ys: [1, 5], fails: Uint8Array.from([0, 1]), kinds: [0, 0], rare: [], xFrom: 0, xScale: 1, yFrom: 0, yScale: 1 };
  const style = { dim: 9, dimSize: 1, colours: [1], sizes: [1, 1, 1, 3], diamond: 3, halo: 7 };
  const drawn = (narrowed, key) => {
    const pixels = new Uint32Array(image.draw(8, 8, points, style, narrowed, key).data.buffer);
    return [pixels[9], pixels[45], pixels.filter((pixel) => pixel !== 0).length];
  };
  assert.deepEqual(drawn(true, "a"), [1, 9, 2]);
  points.fails = Uint8Array.from([1, 0]);
  assert.deepEqual(drawn(true, "a"), [9, 1, 2]);
  points.xFrom = 1;
  assert.deepEqual(drawn(true, "b").slice(2), [2]);
  points.xFrom = 0;
  points.fails = Uint8Array.from([0, 0]);
  assert.deepEqual(drawn(false, "c"), [1, 1, 2]);
});
