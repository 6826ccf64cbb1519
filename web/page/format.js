// Formats times, counts and sizes, and computes the ticks of axes.

const THIN = "\u202f";

/** Formats a sum of times; "–" if the recording has no times. */
export function formatSum(ns, isTimed) {
  return isTimed ? formatTime(ns) : "–";
}

/** Formats an integer with thin spaces between thousands. */
export function formatCount(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

/** Formats a count with its noun: "1 fault", "2 faults". */
export function counted(number, noun) {
  return `${formatCount(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Formats a time with three digits and a unit; NaN is unknown. */
export function formatTime(ns) {
  if (Number.isNaN(ns)) return "unknown";
  if (ns === 0) return "0";
  if (ns < 999.5) return `${Math.round(ns)} ns`;
  if (ns < 999_500) return `${digits(ns / 1e3)} µs`;
  if (ns < 999_500_000) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

function digits(number) {
  if (number >= 1000) return formatCount(number);
  return number.toPrecision(3);
}

/** Formats a size in binary units. */
export function formatBytes(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let size = bytes / 1024;
  let unit = 0;
  while (size >= 1023.5 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 99.95 ? Math.round(size) : Number(size.toPrecision(3))} ${units[unit]}`;
}

/** Formats a file offset in hexadecimal, as ELF tools do. */
export function formatOffset(bytes) {
  return `0x${bytes.toString(16)}`;
}

/** Formats a share as a percentage with one decimal; 0 % and 100 % are shown only if exact. */
export function formatShare(share) {
  if (share > 0 && share < 0.001) return "<0.1 %";
  if (share < 1 && share > 0.999) return ">99.9 %";
  return `${(share * 100).toFixed(1)} %`;
}

/** About `wanted` round values between two ends, in steps of 1, 2 or 5 times a power of ten. */
export function ticks(low, high, wanted) {
  const span = high - low;
  if (!(span > 0) || !(wanted > 0)) return [];
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const values = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) values.push(i * step);
  return values;
}

/** The same for sizes, in steps of powers of two. */
export function binaryTicks(low, high, wanted) {
  const span = high - low;
  if (!(span > 0) || !(wanted > 0)) return [];
  const step = 2 ** Math.max(12, Math.ceil(Math.log2(span / wanted)));
  const values = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) values.push(i * step);
  return values;
}

/** Labels of ticks on a time axis: one unit for all, and enough digits to distinguish them. */
export function timeLabels(marks) {
  if (marks.length === 0) return [];
  const step = marks.length > 1 ? marks[1] - marks[0] : marks[0] || 1;
  const most = Math.max(...marks.map(Math.abs));
  const [unit, size] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]].find(([, candidate]) => most >= candidate) ?? ["ns", 1];
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return marks.map((mark) => (mark === 0 ? "0" : `${(mark / size).toFixed(decimals)} ${unit}`));
}

/** Labels of ticks on an offset axis: in MiB or GiB if that distinguishes them, otherwise hexadecimal. */
export function offsetLabels(marks) {
  const step = marks.length > 1 ? marks[1] - marks[0] : 1;
  const spelled = (mark) => {
    if (step >= 2 ** 30) return `${formatCount(mark / 2 ** 30)} GiB`;
    return step >= 2 ** 20 ? `${formatCount(mark / 2 ** 20)} MiB` : formatOffset(mark);
  };
  return marks.map((mark) => (mark === 0 ? "0" : spelled(mark)));
}

/** The last component of a path. */
export function baseName(path) {
  const at = path.lastIndexOf("/");
  return at >= 0 && at < path.length - 1 ? path.slice(at + 1) : path;
}
