import assert from "node:assert/strict";
import { test } from "node:test";
import { baseName, binaryTicks, formatBytes, formatCount, formatOffset, formatShare, formatSum, formatTime, offsetLabels, ticks, timeLabels } from "../format.js";

test("times have three digits and a unit", () => {
  const said = [0, 999, 999.6, 1_500, 12_345, 999_400, 999_600, 1_234_567, 1e9, 12.34e9, 4_000e9].map(formatTime);
  assert.deepEqual(said, ["0", "999 ns", "1.00 µs", "1.50 µs", "12.3 µs", "999 µs", "1.00 ms", "1.23 ms", "1.00 s", "12.3 s", "4\u202f000 s"]);
  assert.equal(formatTime(NaN), "unknown");
  assert.deepEqual([formatSum(0, false), formatSum(0, true), formatSum(5, true)], ["–", "0", "5 ns"]);
});

test("counts, sizes, offsets and shares", () => {
  assert.deepEqual([0, 999, 1000, 1234567].map(formatCount), ["0", "999", "1\u202f000", "1\u202f234\u202f567"]);
  assert.deepEqual([0, 4096, 1536 * 1024, 163 * 2 ** 20, 2 ** 30].map(formatBytes), ["0 B", "4 KiB", "1.5 MiB", "163 MiB", "1 GiB"]);
  assert.equal(formatOffset(0x3b9e000), "0x3b9e000");
  assert.deepEqual([0, 0.0004, 0.5, 0.9996, 1].map(formatShare), ["0.0 %", "<0.1 %", "50.0 %", ">99.9 %", "100.0 %"]);
});

test("ticks of an axis are round, within it, and about as many as requested", () => {
  for (const [low, high] of [[0, 1], [0, 4.37e9], [1e6, 1.0001e6], [-3, 17]]) {
    for (const wanted of [2, 5, 9]) {
      const marks = ticks(low, high, wanted);
      assert.ok(marks.length <= wanted + 1, `${low} ${high} ${wanted}: ${marks}`);
      assert.ok(marks.every((mark) => mark >= low && mark <= high));
    }
  }
  assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(binaryTicks(0, 40_000, 4), [0, 16384, 32768]);
  assert.deepEqual([ticks(1, 1, 5), ticks(NaN, 1, 5), binaryTicks(5, 1, 4)], [[], [], []]);
});

test("different ticks have different labels", () => {
  assert.deepEqual(timeLabels([0, 1e9, 2e9]), ["0", "1 s", "2 s"]);
  assert.deepEqual(timeLabels([5e8, 1e9]), ["0.5 s", "1.0 s"]);
  assert.deepEqual(timeLabels([200, 400]), ["200 ns", "400 ns"]);
  assert.deepEqual(offsetLabels([0, 2 ** 25]), ["0", "32 MiB"]);
  assert.deepEqual(offsetLabels([0x7420000, 0x7430000]), ["0x7420000", "0x7430000"]);
  for (const [low, span] of [[1e9, 20_000], [0, 7], [3.7e9, 1e6], [12e9, 4e9], [999e6, 3e6]]) {
    const marks = ticks(low, low + span, 6);
    assert.equal(new Set(timeLabels(marks)).size, marks.length, `${low} ${span}: ${timeLabels(marks)}`);
  }
  for (const span of [40_000, 2 ** 22, 2 ** 28]) {
    const marks = binaryTicks(2 ** 30, 2 ** 30 + span, 6);
    assert.equal(new Set(offsetLabels(marks)).size, marks.length);
  }
});

test("the last component of a path", () => {
  assert.deepEqual(["/usr/lib/libc.so.6", "plain", "/ends/in/"].map(baseName), ["libc.so.6", "plain", "/ends/in/"]);
});
