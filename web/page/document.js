// Parses the document that ngmi writes (profiler/report/src/explorer.rs): a JSON header, then columns of little-endian numbers. All references are
// checked once, here: the rest of the page may use any value as an index.

/** Encodes a missing reference in a column of row numbers. */
export const NONE = 0xffffffff;
const LONG = 0xfffffffe;
const MAGIC = "NGMIPAGE";
const VERSION = 2;
const TYPES = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array };

/** Bits of a fault's `flags`. */
export const FLAG = { major: 1, waited: 2, read: 4, write: 8, execute: 16, inKernel: 32, failed: 64, remote: 128, readAroundOff: 256 };

/** Describes a problem with a document to the user. */
export class DocumentError extends Error {}

/** Parses a document: an ArrayBuffer. */
export function parseDocument(buffer) {
  const bytes = new Uint8Array(buffer);
  if (bytes.length < 16 || String.fromCharCode(...bytes.subarray(0, 8)) !== MAGIC) {
    throw new DocumentError("this is not a document of the page-fault explorer");
  }
  const view = new DataView(buffer);
  if (view.getUint32(8, true) !== VERSION) {
    throw new DocumentError("this document was created by another version of ngmi; create the page again with this version");
  }
  const length = view.getUint32(12, true);
  if (16 + length > bytes.length) throw new DocumentError("the document is truncated; create the page again");
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(16, 16 + length)));
  const columns = readColumns(header.columns, buffer, 16 + length);
  const recording = { ...header, columns };
  checkReferences(recording);
  return recording;
}

function readColumns(described, buffer, start) {
  const columns = {};
  let at = align(start);
  for (const { name, type, count, long } of described) {
    const Kind = TYPES[type] ?? Uint32Array;
    const size = count * Kind.BYTES_PER_ELEMENT;
    if (!Number.isSafeInteger(size) || size < 0 || at + size > buffer.byteLength) {
      throw new DocumentError("the document is truncated; create the page again");
    }
    const raw = new Kind(buffer, at, count);
    columns[name] = type in TYPES ? raw : widen(raw, type, long ?? []);
    at = align(at + size);
  }
  return columns;
}

function align(at) {
  return (at + 7) & ~7;
}

/** Times in ns: `time` has NaN for unknown values, `delta` is relative to the previous row. Values too long for 32 bits are in `long`. */
function widen(raw, type, long) {
  const wide = new Float64Array(raw.length);
  const beside = new Map(long);
  let sum = 0;
  for (let i = 0; i < raw.length; i++) {
    let value = raw[i];
    if (value === LONG) value = beside.get(i) ?? LONG;
    if (type === "delta") {
      sum += value;
      wide[i] = sum;
    } else {
      wide[i] = value === NONE ? NaN : value;
    }
  }
  return wide;
}

/** Checks that all references of columns into tables are valid. */
function checkReferences(recording) {
  const { columns: c, strings, threads, processes, files, classes, phases, devices } = recording;
  const nodes = c.node_parent.length;
  const functions = c.function_name.length;
  const within = (name, length) => {
    const column = c[name];
    if (!column) throw new DocumentError(`the document has no column ${name}`);
    for (let i = 0; i < column.length; i++) {
      if (column[i] >= length && column[i] !== NONE) throw new DocumentError(`the document's column ${name} has an invalid reference`);
    }
  };
  within("fault_thread", threads.length);
  within("fault_file", files.length);
  within("fault_class", classes.length);
  within("fault_phase", phases.length + 1);
  within("fault_function", functions);
  within("fault_stack", nodes);
  within("node_function", functions);
  within("node_source", strings.length);
  within("function_name", strings.length);
  within("function_module", strings.length);
  within("symbol_name", strings.length);
  within("wait_fault", c.fault_start.length);
  within("request_file", files.length);
  within("request_device", devices.length);
  within("request_thread", threads.length);
  within("read_file", files.length);
  within("read_thread", threads.length);
  for (const thread of threads) {
    if (thread.process !== null && !(thread.process < processes.length)) throw new DocumentError("the document has a thread without a process");
  }
  for (let i = 0; i < nodes; i++) {
    // A parent precedes its children, so no stack contains a cycle.
    if (c.node_parent[i] >= i && c.node_parent[i] !== NONE) throw new DocumentError("the document's stacks are not a tree");
  }
}
