// Generates the answer to a request for a critical path, as profiler/report/src/explorer/path.rs describes it, always the same.
import { EVIL } from "./generate.mjs";

const REASONS = ["cpu", "fault", "run-queue", "disk", "file-system", "memory", "lock", "condition", "poll", "pipe", "socket", "sleep", "child", "stopped", "kernel", "unknown", "throttled"];

/** A path of `count` pieces through `threads` threads; thread 1 has a name that is markup. */
export function generatePath(count, { threads: threadCount = 7, span = [1_000_000, 900_000_000], thread = 0 } = {}) {
  let state = 3 + thread;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const strings = [];
  const known = new Map();
  const name = (text) => {
    if (!known.has(text)) known.set(text, strings.push(text) - 1);
    return known.get(text);
  };
  const threads = Array.from({ length: threadCount }, (_, i) => ({ number: i, pid: 10 + (i % 2), tid: 100 + i, name: name(i === 1 ? EVIL : `thread ${i}`), process: name(`process ${i % 2}`) }));
  const c = {};
  for (const column of ["duration", "count", "lane", "thread", "reason", "via", "function", "file", "device", "part", "stack", "waker"]) c[`piece_${column}`] = [];
  for (const column of ["thread", "reason", "function", "file", "device"]) c[`part_${column}`] = [];
  c.node_parent = [null, 0, 1, 0];
  c.node_function = [0, 1, 2, 1];
  c.node_source = [null, name("main.c"), null, null];
  c.node_line = [0, 7, 0, 0];
  c.function_name = [name("main"), name(EVIL), name("work")];
  c.function_module = [name("program"), null, name("libwork.so")];
  c.function_kind = [0, 0, 1];
  const whole = span[1] - span[0];
  const weights = Array.from({ length: count }, () => next() ** 3 + 0.01);
  const sum = weights.reduce((all, weight) => all + weight, 0);
  const parts = new Map();
  let left = whole;
  let lane = thread;
  for (let i = 0; i < count; i++) {
    const duration = i === count - 1 ? left : Math.max(1, Math.min(left - (count - i), Math.floor((weights[i] / sum) * whole)));
    left -= duration;
    if (next() < 0.4) lane = Math.floor(next() * threadCount);
    const reason = next() < 0.5 ? 0 : Math.floor(next() * REASONS.length);
    const holder = REASONS[reason] === "run-queue" ? Math.floor(next() * threadCount) : lane;
    const stack = Math.floor(next() * 4);
    const isDisk = REASONS[reason] === "disk";
    const file = isDisk ? name("/usr/lib/libbig.so") : null;
    const place = isDisk ? null : c.function_name[c.node_function[stack]];
    const key = [holder, reason, place, file].join();
    if (!parts.has(key)) {
      parts.set(key, { part: parts.size, holder, reason, place, file, time_ns: 0, pieces: 0, longest_ns: 0 });
      c.part_thread.push(holder);
      c.part_reason.push(reason);
      c.part_function.push(place);
      c.part_file.push(file);
      c.part_device.push(null);
    }
    const row = parts.get(key);
    row.time_ns += duration;
    row.pieces += 1;
    row.longest_ns = Math.max(row.longest_ns, duration);
    const values = { duration, count: 1, lane, thread: holder, reason, via: lane === thread ? null : 6, function: c.function_name[c.node_function[stack]], file, device: isDisk ? name("vda") : null };
    for (const [column, value] of Object.entries({ ...values, part: row.part, stack, waker: next() < 0.1 ? 77 : null })) c[`piece_${column}`].push(value);
  }
  return { ...answerOf(threads, c, strings, name, [...parts.values()], count, span, thread) };
}

function answerOf(threads, c, strings, name, parts, count, [start, end], thread) {
  const nothing = { pid: null, tid: null, reason: null, via: null, function: null, file: null, device: null };
  const byTime = (rows) => rows.sort((a, b) => b.time_ns - a.time_ns);
  const sums = ({ time_ns, pieces, longest_ns }) => ({ time_ns, pieces, longest_ns, saves_ns: null });
  const byPart = parts.map((row) => {
    const of = threads[row.holder];
    const title = `${strings[of.name]} ${REASONS[row.reason]}`;
    return { ...nothing, ...sums(row), saves_ns: Math.floor(row.time_ns / 2), name: name(title), pid: of.pid, tid: of.tid, reason: name(REASONS[row.reason]), function: row.place, file: row.file };
  });
  const reasons = REASONS.map((reason, index) => {
    const own = parts.filter((row) => row.reason === index);
    const time = own.reduce((sum, row) => sum + row.time_ns, 0);
    const pieces = own.reduce((sum, row) => sum + row.pieces, 0);
    return { ...nothing, time_ns: time, pieces, longest_ns: 0, saves_ns: null, name: name(reason), reason: name(reason) };
  });
  const table = (key, title, rows) => ({ key, title, rows: byTime(rows), others: 0, others_ns: 0 });
  return {
    why_empty: null,
    thread: threads[thread],
    start_ns: start,
    end_ns: end,
    born_ns: Math.min(start, 1_000_000),
    ended_ns: Math.max(end, 900_000_000),
    pieces: count,
    left_out: 0,
    folded: 0,
    missed: 0,
    reasons: REASONS,
    threads,
    choices: threads.map((row, i) => ({ ...row, cpu_ns: 1_000_000 * (threads.length - i), waits: 10 * i })),
    other_choices: 0,
    tables: [table("by_part", "by thread, reason and place", byPart), table("by_reason", "by reason", reasons.filter((row) => row.pieces > 0))],
    columns: c,
    strings,
  };
}
