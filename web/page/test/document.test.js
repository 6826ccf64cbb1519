import assert from "node:assert/strict";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { generate, pack } from "../../../tests/explorer/generate.mjs";
import { NONE, parseDocument } from "../document.js";
import { inflated, numbers, sample } from "./recording.js";

test("columns and names match the generator", () => {
  const { recording, known } = sample(500);
  const { columns: c } = recording;
  assert.equal(c.fault_start.length, 500);
  assert.equal(c.fault_duration.reduce((sum, time) => sum + time, 0), known.time);
  assert.equal(recording.strings[recording.files[0].path], "/usr/lib/libbig.so");
  for (let i = 1; i < 500; i++) assert.ok(c.fault_start[i] >= c.fault_start[i - 1]);
});

test("times that do not fit 32 bits are listed separately, and unknown ones are NaN", () => {
  const { bytes } = generate(3);
  const raw = Buffer.from(inflated(bytes));
  const length = raw.readUInt32LE(12);
  const header = JSON.parse(raw.subarray(16, 16 + length));
  let at = (16 + length + 7) & ~7;
  const columns = {};
  const widths = { u8: Uint8Array, u16: Uint16Array };
  for (const { name, type, count } of header.columns) {
    const Kind = widths[type] ?? Uint32Array;
    columns[name] = new Kind(raw.buffer.slice(raw.byteOffset + at, raw.byteOffset + at + count * Kind.BYTES_PER_ELEMENT));
    at = (at + count * Kind.BYTES_PER_ELEMENT + 7) & ~7;
  }
  columns.fault_start.set([5, NONE - 1, 10]);
  columns.fault_duration.set([NONE, NONE - 1, 7]);
  const described = JSON.parse(JSON.stringify(header));
  const again = pack(described, columns);
  const text = again.subarray(16, 16 + again.readUInt32LE(12)).toString();
  const patched = JSON.parse(text);
  patched.columns.find(({ name }) => name === "fault_start").long = [[1, 9e9]];
  patched.columns.find(({ name }) => name === "fault_duration").long = [[1, 6e9]];
  const json = Buffer.from(JSON.stringify(patched));
  const head = Buffer.alloc(16);
  again.copy(head, 0, 0, 16);
  head.writeUInt32LE(json.length, 12);
  const body = again.subarray((16 + again.readUInt32LE(12) + 7) & ~7);
  const whole = Buffer.concat([head, json, Buffer.alloc(-json.length & 7), body]);
  const { columns: c } = parseDocument(whole.buffer.slice(whole.byteOffset, whole.byteOffset + whole.length));
  assert.deepEqual(Array.from(c.fault_start), [5, 9e9 + 5, 9e9 + 15]);
  assert.deepEqual(Array.from(c.fault_duration), [NaN, 6e9, 7]);
});

test("an invalid or truncated document is rejected with a remedy", () => {
  assert.throws(() => parseDocument(new ArrayBuffer(0)), /not a document/);
  assert.throws(() => parseDocument(new TextEncoder().encode("NGMIPAGE\x03\0\0\0\0\0\0\0").buffer), /create the page again/);
  const whole = inflated(generate(50).bytes);
  for (const length of [20, 400, whole.byteLength - 64]) assert.throws(() => parseDocument(whole.slice(0, length)), Error);
});

test("damaged documents are rejected or parsed with valid references only", () => {
  const whole = new Uint8Array(inflated(generate(40).bytes));
  const next = numbers();
  let parsed = 0;
  for (let round = 0; round < 400; round++) {
    const damaged = whole.slice();
    for (let i = 0; i < 3; i++) damaged[Math.floor(16 + next() * (whole.length - 16))] = Math.floor(next() * 256);
    let recording;
    try {
      recording = parseDocument(damaged.buffer);
    } catch (error) {
      assert.ok(error instanceof Error && !(error instanceof RangeError), String(error));
      continue;
    }
    parsed += 1;
    const { columns: c } = recording;
    c.node_parent.forEach((parent, node) => assert.ok(parent === NONE || parent < node));
    c.fault_stack.forEach((stack) => assert.ok(stack === NONE || stack < c.node_parent.length));
    c.function_name.forEach((name) => assert.ok(name === NONE || name < recording.strings.length));
    c.fault_file.forEach((file) => assert.ok(file === NONE || file < recording.files.length));
  }
  assert.ok(parsed > 0);
});

test("a column with an invalid reference is rejected", () => {
  const raw = gunzipSync(generate(4).bytes);
  const length = raw.readUInt32LE(12);
  const header = JSON.parse(raw.subarray(16, 16 + length));
  const at = header.columns.findIndex(({ name }) => name === "fault_file");
  const sizes = { u8: 1, u16: 2 };
  let offset = (16 + length + 7) & ~7;
  for (const { type, count } of header.columns.slice(0, at)) offset = (offset + count * (sizes[type] ?? 4) + 7) & ~7;
  raw.writeUInt32LE(77, offset);
  assert.throws(() => parseDocument(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length)), /fault_file has an invalid reference/);
});
