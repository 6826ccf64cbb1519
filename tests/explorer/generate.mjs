// Generates a document like that of a browser's start, with the given number of faults, always the same: a pseudo-random number generator with
// seed 1. Command line: generate.mjs FAULTS > document.bin
import { gzipSync } from "node:zlib";
import { writeSync } from "node:fs";
import { fileURLToPath } from "node:url";

const NONE = 0xffffffff;

/** A name that is markup, if inserted unescaped. */
export const EVIL = '</script><img src="x" onerror="globalThis.hacked = true"><script>globalThis.hacked = true</script>';

function random() {
  let state = 1;
  // A linear congruential generator with the constants of Numerical Recipes: good enough for points on a plot.
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The document as compressed bytes, and known facts about it. */
export function generate(count, { evil = true } = {}) {
  const next = random();
  const strings = [];
  const known = new Map();
  const name = (text) => {
    if (!known.has(text)) {
      known.set(text, strings.length);
      strings.push(text);
    }
    return known.get(text);
  };
  const duration = 4_000_000_000;
  const columns = {};
  const column = (key, Kind, values) => {
    columns[key] = Kind.from(values);
  };
  const threads = Array.from({ length: 12 }, (_, i) => ({ tid: 100 + i, name: name(`thread ${i}`), process: i % 3 }));
  const processes = Array.from({ length: 3 }, (_, i) => ({ pid: 100 + i, name: name(`process ${i}`) }));
  const sizes = [40_000, 4_000, 900, 300];
  const paths = ["/usr/lib/libbig.so", "/usr/lib/libsmall.so", `/tmp/${evil ? EVIL : "plain"}`, "/usr/lib/liblast.so"];

  // Functions, and stacks of up to 24 of them below one root.
  const functions = Array.from({ length: 3_000 }, (_, i) => name(i === 7 && evil ? EVIL : `library::module_${i % 37}::function_${i}`));
  const parents = [NONE];
  const nodeFunctions = [0];
  const depths = [0];
  for (let node = 1; node < 60_000; node++) {
    const parent = Math.floor(Math.max(0, node - 1 - next() * 400) * (next() < 0.02 ? next() : 1));
    const shallow = depths[parent] >= 24 ? 0 : parent;
    parents.push(shallow);
    // Number 7 has the name that is markup.
    nodeFunctions.push(node === 3 ? 7 : Math.floor(next() * functions.length));
    depths.push(depths[shallow] + 1);
  }
  column("node_parent", Uint32Array, parents);
  column("node_function", Uint32Array, nodeFunctions);
  column("node_source", Uint32Array, parents.map((_, i) => (i % 3 === 0 ? name(`src/module_${i % 37}.rs`) : NONE)));
  column("node_line", Uint32Array, parents.map((_, i) => i % 900));
  column("function_name", Uint32Array, functions);
  column("function_module", Uint32Array, functions.map((_, i) => name(`lib${i % 5}.so`)));
  column("function_kind", Uint8Array, functions.map((_, i) => (i % 50 === 0 ? 1 : 0)));

  const faults = { delta: [], duration: [], thread: [], file: [], page: [], inPage: [], class: [], phase: [], flags: [], function: [], stack: [], before: [], around: [], read: [] };
  const waits = { fault: [], kind: [], time: [] };
  const requests = { start: [], duration: [], bytes: [], offset: [], file: [], thread: [] };
  const known_ = { time: 0, waited: 0, perFile: sizes.map(() => 0), longest: 0, longestAt: 0 };
  let time = 0;
  for (let i = 0; i < count; i++) {
    const step = Math.floor((next() * 2 * duration) / (count + 1));
    time += step;
    const pick = next();
    const file = pick < 0.7 ? 0 : pick < 0.8 ? 1 : pick < 0.85 ? 2 : pick < 0.9 ? 3 : NONE;
    const wave = Math.sin((time / duration) * 9 + (i % 7)) * 0.5 + 0.5;
    const page = file === NONE ? NONE : Math.floor(Math.min(0.999, wave * 0.8 + next() * 0.2) * sizes[file]);
    const waited = next() < 0.002;
    const latency = Math.floor(waited ? 200_000 + next() * 9_000_000 : 400 * Math.exp(next() * 3));
    const written = next() < 0.15;
    faults.delta.push(step);
    faults.duration.push(latency);
    faults.thread.push(Math.floor(next() * threads.length));
    faults.file.push(file);
    faults.page.push(page);
    faults.inPage.push(Math.floor(next() * 4096));
    faults.class.push(file === NONE ? 4 : written ? 1 : 0);
    faults.phase.push(Math.min(4, Math.floor((time / duration) * 5)));
    faults.flags.push((waited ? 3 : 0) | (written ? 8 : 4));
    const stack = i % 500 === 5 ? 3 : Math.floor(next() * parents.length);
    faults.stack.push(stack);
    faults.function.push(nodeFunctions[stack]);
    faults.before.push(file === NONE ? 0 : page % 16);
    faults.around.push(file === NONE ? 0 : 16);
    faults.read.push(waited ? 32 : 0);
    if (waited) {
      waits.fault.push(i);
      waits.kind.push(1);
      waits.time.push(Math.floor(latency * 0.9));
      requests.start.push(time + 1_000);
      requests.duration.push(Math.floor(latency * 0.9));
      requests.bytes.push(131_072);
      requests.offset.push(file === NONE ? NONE : Math.min(page * 4096, NONE - 2));
      requests.file.push(file);
      requests.thread.push(faults.thread[i]);
      known_.waited += 1;
    }
    known_.time += latency;
    if (file !== NONE) known_.perFile[file] += 1;
    if (latency > known_.longest) [known_.longest, known_.longestAt] = [latency, i];
  }
  column("fault_start", Uint32Array, faults.delta);
  column("fault_duration", Uint32Array, faults.duration);
  column("fault_thread", Uint32Array, faults.thread);
  column("fault_file", Uint32Array, faults.file);
  column("fault_page", Uint32Array, faults.page);
  column("fault_in_page", Uint16Array, faults.inPage);
  column("fault_class", Uint8Array, faults.class);
  column("fault_phase", Uint8Array, faults.phase);
  column("fault_flags", Uint16Array, faults.flags);
  column("fault_function", Uint32Array, faults.function);
  column("fault_stack", Uint32Array, faults.stack);
  column("fault_around_before", Uint16Array, faults.before);
  column("fault_around_count", Uint16Array, faults.around);
  column("fault_pages_read", Uint16Array, faults.read);
  column("wait_fault", Uint32Array, waits.fault);
  column("wait_kind", Uint8Array, waits.kind);
  column("wait_time", Uint32Array, waits.time);
  const order = requests.start.map((_, i) => i);
  column("request_start", Uint32Array, order.map((i) => requests.start[i] - (i > 0 ? requests.start[i - 1] : 0)));
  column("request_duration", Uint32Array, requests.duration);
  column("request_queued", Uint32Array, requests.duration.map((d) => Math.floor(d / 10)));
  column("request_bytes", Uint32Array, requests.bytes);
  column("request_offset", Uint32Array, requests.offset);
  column("request_device", Uint32Array, order.map(() => 0));
  column("request_file", Uint32Array, requests.file);
  column("request_thread", Uint32Array, requests.thread);
  column("request_flags", Uint8Array, order.map(() => 1));
  column("cause_fault", Uint32Array, waits.fault);
  column("cause_request", Uint32Array, order);
  const reads = order.filter((i) => requests.file[i] !== NONE);
  column("read_start", Uint32Array, reads.map((i, at) => requests.start[i] - (at > 0 ? requests.start[reads[at - 1]] : 0)));
  column("read_file", Uint32Array, reads.map((i) => requests.file[i]));
  column("read_first", Uint32Array, reads.map((i) => Math.floor(requests.offset[i] / 4096)));
  column("read_count", Uint32Array, reads.map(() => 32));
  column("read_thread", Uint32Array, reads.map((i) => requests.thread[i]));
  column("read_flags", Uint8Array, reads.map(() => 1));

  const symbols = { name: [], offset: [], size: [] };
  const runs = { first: [], count: [] };
  const files = sizes.map((pages, file) => {
    const bytes = pages * 4096;
    const first = symbols.name.length;
    for (let offset = 0; offset < bytes && offset < NONE; offset += Math.max(4096, Math.floor(bytes / 500))) {
      symbols.name.push(name(`symbol_${file}_${offset.toString(16)}`));
      symbols.offset.push(offset);
      symbols.size.push(Math.max(4096, Math.floor(bytes / 500)));
    }
    const run = (start, length) => {
      runs.first.push(Math.floor(pages * start));
      runs.count.push(Math.floor(pages * length));
      return [runs.first.length - 1, runs.first.length];
    };
    const faulted = run(0, 0.2);
    const around = run(0.2, 0.3);
    const readByFaults = run(0, 0.7);
    const called = run(0.75, 0.1);
    return {
      path: name(paths[file]),
      build_id: "",
      sections: [".rodata", ".text", ".data.rel.ro", ".data"].map((section, i) => ({ name: name(section), offset: Math.floor((bytes * i) / 4), size: Math.floor(bytes / 4) })),
      symbols: [first, symbols.name.length],
      pages: [faulted, around, readByFaults, called, run(0.5, 0.2)],
      extent: pages,
    };
  });
  column("symbol_name", Uint32Array, symbols.name);
  column("symbol_offset", Uint32Array, symbols.offset);
  column("symbol_size", Uint32Array, symbols.size);
  column("run_first", Uint32Array, runs.first);
  column("run_count", Uint32Array, runs.count);

  const header = {
    about: { command: "synthetic", ngmi: "0", kernel: "0", start_unix_ms: 1_700_000_000_000, duration_ns: Math.max(duration, time), losses: 0, is_profile: false },
    totals: { in_input: count, selected: count, selected_ns: known_.time, shown: count, left_out: 0, left_out_ns: 0, folded: 0, folded_ns: 0 },
    why_empty: count === 0 ? "This recording contains no page faults; record them with `ngmi record --faults all -- COMMAND`." : null,
    classes: ["file-read", "file-cow", "shared-dirty", "shmem", "anonymous", "zero-page", "cow", "huge", "swap-in", "userfaultfd", "error", "unknown"],
    phases: ["exec", "ld.so", "initialisers", "main", "after first window"],
    waits: ["lock", "disk", "other read", "blocked", "preempted", "reclaim"],
    failures: ["SIGSEGV", "SIGBUS", "OOM", "other"],
    processes,
    threads,
    devices: [name("vda")],
    files,
    strings,
  };
  return { bytes: gzipSync(pack(header, columns), { level: 1 }), known: known_ };
}

const WIDE = new Set(["fault_duration", "wait_time", "request_duration", "request_queued", "request_bytes", "request_offset", "symbol_offset", "symbol_size"]);
const ASCENDING = new Set(["fault_start", "request_start", "read_start"]);

/** Header and columns as in docs/explorer.md, uncompressed. */
export function pack(header, columns) {
  const names = { Uint8Array: "u8", Uint16Array: "u16", Uint32Array: "u32" };
  const described = Object.entries(columns).map(([name, values]) => ({
    name,
    type: WIDE.has(name) ? "time" : ASCENDING.has(name) ? "delta" : names[values.constructor.name],
    count: values.length,
  }));
  const json = Buffer.from(JSON.stringify({ ...header, columns: described }));
  const start = Buffer.alloc(16);
  start.write("NGMIPAGE", "latin1");
  start.writeUInt32LE(2, 8);
  start.writeUInt32LE(json.length, 12);
  const pieces = [start, json, Buffer.alloc(-json.length & 7)];
  for (const values of Object.values(columns)) {
    pieces.push(Buffer.from(values.buffer, values.byteOffset, values.byteLength), Buffer.alloc(-values.byteLength & 7));
  }
  return Buffer.concat(pieces);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  let bytes = generate(Number(process.argv[2] ?? 500_000)).bytes;
  while (bytes.length > 0) bytes = bytes.subarray(writeSync(1, bytes));
}
