// Details of a fault: its attributes, the parts of its latency, and its whole stack; and the panel that shows those of a fault or a piece of a path.

import { FLAG, NONE } from "./document.js";
import { KINDS } from "./model.js";
import { functionName, moduleName, placeOf } from "./groups.js";
import { baseName, formatOffset, formatShare, formatTime } from "./format.js";
import { describeRequest } from "./timeline.js";
import { element } from "./surface.js";

/** The frames of a fault, innermost first: [{ name, module, source, kind }]. */
export function stackOf(recording, fault) {
  return framesOf(recording, recording.columns.fault_stack[fault]);
}

/** The frames from a node of the stacks on, innermost first. */
export function framesOf(recording, innermost) {
  const { columns: c, strings } = recording;
  const frames = [];
  for (let node = innermost; node !== NONE; node = c.node_parent[node]) {
    const id = c.node_function[node];
    const file = c.node_source[node];
    frames.push({
      name: functionName(recording, id),
      module: moduleName(recording, id),
      source: file === NONE ? "" : `${strings[file]}${c.node_line[node] > 0 ? `:${c.node_line[node]}` : ""}`,
      kind: c.function_kind[id] ?? 0,
    });
  }
  return frames;
}

/** Known parts of a fault's latency, and the rest: [{ name, time }]. */
export function partsOf(recording, fault) {
  const { wait_fault: faults, wait_kind: kinds, wait_time: times, fault_duration: durations } = recording.columns;
  const parts = [];
  let rest = durations[fault];
  for (let i = firstAt(faults, fault); i < faults.length && faults[i] === fault; i++) {
    const name = recording.waits[kinds[i]];
    // Reclaim is included in the other parts.
    if (name !== "reclaim") rest -= times[i];
    parts.push({ name, time: times[i] });
  }
  if (parts.length > 0 && rest > 0) parts.push({ name: "kernel work", time: rest });
  return parts;
}

function firstAt(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Indices of the disk reads that a fault waited for. */
export function requestsOf(recording, fault) {
  const { cause_fault: faults, cause_request: requests } = recording.columns;
  const found = [];
  for (let i = firstAt(faults, fault); i < faults.length && faults[i] === fault; i++) found.push(requests[i]);
  return found;
}

/** Attributes of a fault: [name, text]. */
export function factsOf(recording, fault) {
  const { columns: c, strings } = recording;
  const flags = c.fault_flags[fault];
  const thread = recording.threads[c.fault_thread[fault]];
  const process = recording.processes[thread?.process];
  const { byte, section, symbol } = placeOf(recording, fault);
  const access = flags & FLAG.write ? "write" : flags & FLAG.execute ? "execute" : flags & FLAG.read ? "read" : "unknown";
  const notes = [
    flags & FLAG.major && "major",
    flags & FLAG.waited && "waited for a read",
    flags & FLAG.inKernel && "within a system call",
    flags & FLAG.remote && "in another process's memory",
    flags & FLAG.readAroundOff && "the kernel had disabled read-around",
    flags & FLAG.failed && `failed: ${recording.failures[flags >> 12] ?? "unknown"}`,
  ].filter(Boolean);
  const facts = [
    ["latency", formatTime(c.fault_duration[fault])],
    ["class", `${recording.classes[c.fault_class[fault]] ?? "unknown"}, ${access}`],
    ["at", formatTime(c.fault_start[fault])],
  ];
  const file = recording.files[c.fault_file[fault]];
  if (file) {
    facts.push(["file", strings[file.path]]);
    facts.push(["offset", `${formatOffset(byte)}${section ? ` in ${section}` : ""}`]);
    if (symbol) facts.push(["symbol", symbol]);
  }
  if (thread) facts.push(["thread", `${strings[thread.name]} (${thread.tid})`]);
  if (process) facts.push(["process", `${strings[process.name]} (${process.pid})`]);
  const phase = recording.phases[c.fault_phase[fault]];
  if (phase) facts.push(["phase", phase]);
  if (c.fault_around_count[fault] > 0) facts.push(["adjacent pages mapped with it", String(c.fault_around_count[fault] - 1)]);
  if (c.fault_pages_read[fault] > 0) facts.push(["pages read", String(c.fault_pages_read[fault])]);
  if (notes.length > 0) facts.push(["notes", notes.join("; ")]);
  return facts;
}

/** A short description of a fault for the tooltip, in lines. */
export function describeFault(recording, kinds, fault) {
  const { columns: c } = recording;
  const { byte, section, symbol } = placeOf(recording, fault);
  const lines = [functionName(recording, c.fault_function[fault])];
  lines.push(`${formatTime(c.fault_duration[fault])}, ${recording.classes[c.fault_class[fault]] ?? "unknown"}`);
  const flags = c.fault_flags[fault];
  lines.push(flags & FLAG.waited ? "waited for a read" : flags & FLAG.major ? "major" : KINDS[kinds[fault]]);
  if (byte !== null) lines.push([formatOffset(byte), section, symbol].filter(Boolean).join(" · "));
  const thread = recording.threads[c.fault_thread[fault]];
  lines.push(`at ${formatTime(c.fault_start[fault])}${thread ? ` · ${recording.strings[thread.name]} (${thread.tid})` : ""}`);
  return lines;
}

/** What the panel shows of a fault. */
export function faultDetail(recording, fault) {
  const whole = recording.columns.fault_duration[fault];
  const rows = partsOf(recording, fault).map(({ name, time }) => {
    const row = element("div", "part", element("span", "", name), element("span", "", `${formatTime(time)}, ${formatShare(time / whole)}`));
    row.style.setProperty("--share", String(Math.min(1, time / whole)));
    return row;
  });
  const reads = requestsOf(recording, fault).map((request) => {
    const [first, ...rest] = describeRequest(recording, request);
    return element("p", "request", element("b", "", first), element("br"), rest.join(" · "));
  });
  return {
    title: functionName(recording, recording.columns.fault_function[fault]),
    facts: factsOf(recording, fault),
    parts: [...rows, ...reads],
    frames: stackOf(recording, fault),
    missing: "no stack was recorded for this fault",
  };
}

/** The side panel with details. */
export class Detail {
  constructor(root, { close, step }) {
    this.root = root;
    this.title = root.querySelector("h2");
    this.facts = root.querySelector("dl");
    this.parts = root.querySelector(".parts");
    this.stack = root.querySelector("ol");
    this.key = null;
    root.querySelector(".close").addEventListener("click", close);
    root.querySelector(".previous").addEventListener("click", () => step(-1));
    root.querySelector(".next").addEventListener("click", () => step(1));
  }

  /** Shows what `content()` returns, unless the panel already shows what `key` identifies; null closes it. */
  show(key, content) {
    this.root.hidden = key === null;
    if (this.key === key) return;
    this.key = key;
    if (key === null) return;
    const { title, facts, parts, frames, missing } = content();
    this.title.textContent = title;
    this.facts.replaceChildren(...facts.flatMap(([name, text]) => [element("dt", "", name), element("dd", "", text)]));
    this.parts.replaceChildren(...parts);
    this.parts.hidden = parts.length === 0;
    this.stack.replaceChildren(...frames.map((frame) => this.frame(frame)));
    if (frames.length === 0) this.stack.append(element("li", "missing", missing));
    this.root.scrollTop = 0;
  }

  frame({ name, module, source, kind }) {
    const item = element("li", ["", "kernel", "missing"][kind] ?? "", element("span", "function", name));
    if (module) item.append(element("span", "module", module));
    if (source) {
      const place = element("span", "source", baseName(source));
      place.title = source;
      item.append(place);
    }
    return item;
  }
}
