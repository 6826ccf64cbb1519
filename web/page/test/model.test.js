import assert from "node:assert/strict";
import { test } from "node:test";
import { FLAG, NONE } from "../document.js";
import { ALL, FILTER, KIND, NO_FILE, filesByTime, firstFrom, longestSelected, nearest, nextSelected, tally } from "../model.js";
import { numbers, sample } from "./recording.js";

test("each fault is only in the list of its file, sorted by time", () => {
  const { recording, index, known } = sample();
  const { fault_file: files, fault_start: starts } = recording.columns;
  let sum = 0;
  for (const file of [0, 1, 2, 3, NO_FILE]) {
    const list = index.of(file);
    sum += list.length;
    list.forEach((fault, i) => {
      assert.equal(files[fault], file === NO_FILE ? NONE : file);
      assert.ok(i === 0 || starts[fault] >= starts[list[i - 1]]);
    });
    if (file >= 0) assert.equal(list.length, known.perFile[file]);
  }
  assert.equal(sum, files.length);
  assert.equal(index.of(ALL).length, files.length);
});

test("totals of files add up to all faults, and the most time comes first", () => {
  const { recording, index, weights, known } = sample();
  const rows = filesByTime(recording, weights, index);
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  assert.equal(sum("faults"), 3_000);
  assert.equal(sum("time"), known.time);
  assert.equal(sum("waited"), known.waited);
  const files = rows.filter(({ file }) => file >= 0);
  files.forEach((row, i) => assert.ok(i === 0 || files[i - 1].time >= row.time));
});

test("filters select the same faults as a plain comparison, alone and combined, in any order", () => {
  const { recording, kinds, select } = sample();
  const { fault_start: starts, fault_page: pages, fault_class: classes } = recording.columns;
  const next = numbers();
  const selection = select(0);
  const keys = Uint32Array.from(selection.list, (fault) => classes[fault]);
  const now = { time: null, pages: null, group: null, kind: null };
  for (let round = 0; round < 60; round++) {
    const pair = (most) => [next() * most, next() * most].sort((a, b) => a - b);
    const clears = next() < 0.25;
    switch (Math.floor(next() * 4)) {
      case 0:
        selection.setTime((now.time = clears ? null : pair(4e9)));
        break;
      case 1:
        selection.setPages((now.pages = clears ? null : pair(40_000).map(Math.floor)));
        break;
      case 2:
        now.group = clears ? null : Math.floor(next() * 2);
        selection.setGroup(now.group === null ? null : { keys, key: now.group });
        break;
      default:
        selection.setKinds((now.kind = clears ? null : Math.floor(next() * 16)));
    }
    selection.list.forEach((fault, i) => {
      const expected =
        (!now.time || (starts[fault] >= now.time[0] && starts[fault] <= now.time[1])) &&
        (!now.pages || (pages[fault] >= now.pages[0] && pages[fault] <= now.pages[1])) &&
        (now.group === null || classes[fault] === now.group) &&
        (now.kind === null || ((now.kind >> kinds[fault]) & 1) === 1);
      assert.equal(selection.fails[i] === 0, expected);
    });
  }
  selection.clear();
  assert.ok(!selection.isNarrowed && selection.fails.every((bits) => bits === 0));
});

test("a filter does not change the bits of the others", () => {
  const { select } = sample(200);
  const selection = select(ALL);
  selection.setTime([1, 0.5]);
  assert.ok(selection.fails.every((bits) => bits === FILTER.time));
  selection.setKinds(0);
  selection.setTime(null);
  assert.ok(selection.fails.every((bits) => bits === FILTER.kind));
});

test("the kind of a fault depends on waiting first, then on copying, then on its file", () => {
  const { recording, kinds } = sample();
  const { fault_flags: flags, fault_class: classes, fault_file: files } = recording.columns;
  kinds.forEach((kind, fault) => {
    if (flags[fault] & (FLAG.waited | FLAG.major)) assert.equal(kind, KIND.waited);
    else if (classes[fault] === 1) assert.equal(kind, KIND.copied);
    else assert.equal(kind, files[fault] === NONE ? KIND.memory : KIND.mapped);
  });
});

test("the slowest, next and previous faults are found", () => {
  const { select, weights, known } = sample();
  const selection = select(ALL);
  assert.equal(selection.list[longestSelected(selection, weights)], known.longestAt);
  selection.setTime([1e9, 2e9]);
  const { fails } = selection;
  const places = Array.from(fails.keys()).filter((i) => fails[i] === 0);
  assert.equal(nextSelected(fails, -1, 1), places[0]);
  assert.equal(nextSelected(fails, places[0], 1), places[1]);
  assert.equal(nextSelected(fails, places[1], -1), places[0]);
  assert.equal(nextSelected(fails, places[0], -1), -1);
  assert.equal(tally(selection.recording, weights, selection.list, fails).faults, places.length);
});

test("the nearest fault matches a comparison of all faults", () => {
  const { recording, select, kinds } = sample();
  const { fault_start: starts, fault_page: pages } = recording.columns;
  const selection = select(0);
  const toX = (fault) => starts[fault] / 4e6;
  const toY = (fault) => pages[fault] / 100;
  const next = numbers();
  let found = 0;
  for (let round = 0; round < 200; round++) {
    const at = [next() * 1000, next() * 400];
    const place = nearest(selection, toX, toY, at, [(at[0] - 9) * 4e6, (at[0] + 9) * 4e6], 9);
    const far = (i) => (toX(selection.list[i]) - at[0]) ** 2 + (toY(selection.list[i]) - at[1]) ** 2;
    const close = Array.from(selection.list.keys()).filter((i) => far(i) <= 81);
    if (close.length === 0) {
      assert.equal(place, -1);
      continue;
    }
    found += 1;
    // A fault on top may be half a pixel further away.
    const score = (i) => far(i) - kinds[selection.list[i]] / 8;
    assert.equal(score(place), Math.min(...close.map(score)));
  }
  assert.ok(found > 50);
});

test("a place is found in lists with equal times", () => {
  const starts = [1, 2, 2, 2, 5];
  assert.deepEqual([0, 1, 2, 3, 5, 9].map((time) => firstFrom(starts, time)), [0, 0, 1, 4, 4, 5]);
  assert.deepEqual([0, 1, 2, 3, 5, 9].map((time) => firstFrom(starts, time, true)), [0, 1, 4, 4, 5, 5]);
});
