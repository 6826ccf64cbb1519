import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { generatePath } from "../../../tests/explorer/paths.mjs";
import { lanesOf, matchingPieces, parsePath, pieceIn, piecesBetween } from "../path.js";
import { layoutPieces } from "../lanes.js";
import { GROUPS, reasonGroup } from "../reasons.js";
import { describePiece, pieceFacts } from "../piece.js";
import { numbers } from "./recording.js";

const parsed = (count, options) => parsePath(generatePath(count, options));

test("pieces are adjacent, from the start to the end", () => {
  const path = parsed(500);
  assert.deepEqual([path.starts[0], path.starts[500]], [path.start_ns, path.end_ns]);
  for (let i = 0; i < 500; i++) assert.equal(path.starts[i + 1] - path.starts[i], path.columns.piece_duration[i]);
});

test("the shown group of each reason is the one that the profile's categories have", () => {
  const source = (path) => readFileSync(new URL(`../../../profiler/${path}`, import.meta.url), "utf8");
  const reasons = [...source("fact/src/wait.rs").split("enum WaitReason")[1].split("impl WaitReason")[0].matchAll(/=> "([a-z-]+)"/g)].map(([, name]) => name);
  assert.equal(reasons.length, 15);
  const other = GROUPS.indexOf("other");
  for (const reason of reasons) assert.equal(reasonGroup(reason) === other, ["kernel", "unknown"].includes(reason), reason);
  const idle = /fn is_idle[^}]*matches!\(\s*self,([^)]*)\)/.exec(source("fact/src/wait.rs"))[1].match(/\w+(?= *[|\n])/g).filter((name) => name !== "Self");
  const group = reasonGroup("sleep");
  assert.deepEqual(reasons.filter((reason) => reasonGroup(reason) === group).sort(), idle.map((name) => name.toLowerCase()).sort());
  assert.equal(reasonGroup("run-queue"), reasonGroup("throttled"));
  assert.equal(reasonGroup("something new"), other);
});

test("the first lane is the path's own, the others are sorted by time, and the last has the rest", () => {
  const path = parsed(400, { threads: 9, thread: 4 });
  const all = lanesOf(path, 24).rows;
  assert.equal(all[0].threads[0], 4);
  all.slice(2).forEach((row, i) => assert.ok(all[i + 1].time >= row.time));
  const few = lanesOf(path, 3);
  assert.deepEqual(few.rows.map(({ threads }) => threads.length), [1, 1, 7]);
  const whole = path.end_ns - path.start_ns;
  for (const rows of [all, few.rows]) assert.equal(rows.reduce((sum, { time }) => sum + time, 0), whole);
  few.rows.forEach(({ threads }, row) => threads.forEach((thread) => assert.equal(few.rowOf[thread], row)));
});

test("blocks and bins fill the width, whatever is in view", () => {
  for (const [count, width] of [[1, 300], [50, 900], [5_000, 700], [200_000, 640]]) {
    const path = parsed(count);
    const lanes = lanesOf(path, 5);
    const [start, end] = [path.start_ns, path.end_ns];
    for (const range of [[start, end], [start + (end - start) * 0.3, start + (end - start) * 0.4]]) {
      const { blocks, bins, hops } = layoutPieces(path, lanes, range, width);
      const filled = blocks.reduce((sum, { from, to }) => sum + to - from, 0) + bins.reduce((sum, { share }) => sum + share, 0);
      assert.ok(Math.abs(filled - width) < 0.5, `${count} pieces: ${filled} of ${width}`);
      assert.ok(blocks.length <= width && bins.length <= width * lanes.rows.length && hops.length <= width + 1);
      for (const { column, row, share } of bins) assert.ok(column >= 0 && column < width && row < lanes.rows.length && share > 0 && share <= 1);
      for (const { from, to } of blocks) assert.ok(from >= 0 && to <= width && to - from >= 1);
    }
  }
});

test("the path is connected: each hop leaves the lane of a piece and enters that of the next", () => {
  const path = parsed(40);
  const lanes = lanesOf(path, 24);
  const { hops } = layoutPieces(path, lanes, [path.start_ns, path.end_ns], 1e6);
  const rows = Array.from(path.columns.piece_lane, (lane) => lanes.rowOf[lane]);
  const expected = rows.slice(1).map((row, i) => [Math.min(rows[i], row), Math.max(rows[i], row)]).filter(([low, high]) => low !== high);
  assert.deepEqual(hops.map(({ low, high }) => [low, high]), expected);
});

test("bins have the group with the most time, and emphasized pieces come first", () => {
  const path = parsed(20_000);
  const lanes = lanesOf(path, 5);
  const range = [path.start_ns, path.end_ns];
  const none = layoutPieces(path, lanes, range, 50, new Uint8Array(20_000));
  assert.ok([...none.blocks, ...none.bins].every(({ isDim }) => isDim));
  const rare = path.groups.map((group) => Number(group === 2));
  const { bins } = layoutPieces(path, lanes, range, 50, rare);
  const bright = bins.filter(({ isDim }) => !isDim);
  assert.ok(bright.length > 0 && bright.every(({ group }) => group === 2));
});

test("a moment has the piece that contains it, a range the longest one", () => {
  const path = parsed(300);
  const next = numbers();
  for (let round = 0; round < 200; round++) {
    const time = path.start_ns + next() * (path.end_ns - path.start_ns);
    const piece = pieceIn(path, [time, time]);
    assert.ok(path.starts[piece] <= time && time <= path.starts[piece + 1]);
    const range = [time, time + 2e7];
    const { first, end } = piecesBetween(path, range);
    const longest = Math.max(...path.columns.piece_duration.slice(first, end));
    assert.equal(path.columns.piece_duration[pieceIn(path, range)], longest);
  }
  assert.equal(pieceIn(path, [path.end_ns + 1, path.end_ns + 2]), -1);
  assert.equal(pieceIn(path, [0, path.start_ns - 1]), -1);
});

test("each row of a table has as many pieces and as much time as its pieces", () => {
  const path = parsed(700);
  for (const { key, rows } of path.tables) {
    const all = new Uint8Array(700);
    for (const row of rows) {
      const matches = matchingPieces(path, key, row);
      assert.equal(matches.reduce((sum, match) => sum + match, 0), row.pieces, key);
      assert.equal(path.columns.piece_duration.reduce((sum, time, i) => sum + time * matches[i], 0), row.time_ns, key);
      matches.forEach((match, i) => (all[i] += match));
    }
    assert.ok(all.every((count) => count === 1), key);
  }
});

test("the description of a piece names thread, reason, function, file, device and what led to it", () => {
  const path = parsed(900);
  const { columns: c } = path;
  const disk = c.piece_reason.findIndex((reason, i) => path.reasons[reason] === "disk" && path.columns.piece_via[i] < 99);
  const facts = new Map(pieceFacts(path, disk));
  assert.deepEqual([facts.get("reason"), facts.get("file"), facts.get("device")], ["disk", "/usr/lib/libbig.so", "vda"]);
  assert.match(describePiece(path, disk).join("\n"), /disk of libbig\.so[^]*via lock/);
  const queued = c.piece_reason.findIndex((reason, i) => path.reasons[reason] === "run-queue" && c.piece_lane[i] !== c.piece_thread[i]);
  assert.equal(new Map(pieceFacts(path, queued)).get("held up"), `${path.strings[path.threads[c.piece_lane[queued]].name]} (${path.threads[c.piece_lane[queued]].tid})`);
});

test("an answer with an invalid reference is rejected", () => {
  const damages = [
    (answer) => (answer.columns.piece_lane[3] = 99),
    (answer) => (answer.columns.piece_thread[3] = null),
    (answer) => (answer.columns.piece_reason[0] = 40),
    (answer) => (answer.columns.piece_stack[0] = 4),
    (answer) => (answer.columns.node_parent[1] = 2),
    (answer) => (answer.columns.function_name[0] = 1e6),
    (answer) => answer.columns.piece_via.pop(),
    (answer) => delete answer.columns.part_file,
    (answer) => (answer.threads[0].name = -1),
    (answer) => (answer.tables[0].rows[0].name = undefined),
  ];
  for (const damage of damages) {
    const answer = generatePath(10);
    damage(answer);
    assert.throws(() => parsePath(answer), Error, String(damage));
  }
});
