// Describes a piece of a critical path: for the tooltip, and in detail.

import { NONE } from "./document.js";
import { framesOf } from "./detail.js";
import { threadTitle } from "./path.js";
import { baseName, counted, formatTime } from "./format.js";

const named = (path, string) => (string === NONE ? "" : path.strings[string]);

/** "worker cpu in compress", "GeckoMain disk of libxul.so". */
export function pieceTitle(path, i) {
  const { columns: c } = path;
  const part = c.piece_part[i];
  const [name, file, device] = [c.part_function[part], c.part_file[part], c.part_device[part]].map((string) => named(path, string));
  const place = name ? ` in ${name}` : file ? ` of ${baseName(file)}` : device ? ` of ${device}` : "";
  return `${path.strings[path.threads[c.part_thread[part]].name]} ${path.reasons[c.part_reason[part]]}${place}`;
}

/** Attributes of a piece: [name, text]. */
export function pieceFacts(path, i) {
  const { columns: c } = path;
  const thread = path.threads[c.piece_thread[i]];
  const lane = path.threads[c.piece_lane[i]];
  const facts = [
    ["reason", path.reasons[c.piece_reason[i]]],
    ["duration", formatTime(c.piece_duration[i])],
    ["at", formatTime(path.starts[i])],
    ["thread", threadTitle(path, thread)],
    ["process", `${path.strings[thread.process]} (${thread.pid})`],
  ];
  const add = (name, text) => text && facts.push([name, text]);
  if (lane !== thread) add("held up", threadTitle(path, lane));
  add("via", c.piece_via[i] === NONE ? "" : `${path.reasons[c.piece_via[i]]}: why the next thread of the path waited`);
  add("function", named(path, c.piece_function[i]));
  add("file", named(path, c.piece_file[i]));
  add("device", named(path, c.piece_device[i]));
  if (c.piece_waker[i] !== NONE) add("ended by", `thread ${c.piece_waker[i]}`);
  if (c.piece_count[i] > 1) add("merged", `${counted(c.piece_count[i], "short piece")}; the reason, thread and place are those of the longest`);
  return facts;
}

/** A short description of a piece for the tooltip, in lines. */
export function describePiece(path, i) {
  const { columns: c } = path;
  const [thread, lane] = [path.threads[c.piece_thread[i]], path.threads[c.piece_lane[i]]];
  const lines = [pieceTitle(path, i), `${formatTime(c.piece_duration[i])} ${path.reasons[c.piece_reason[i]]}, at ${formatTime(path.starts[i])}`];
  lines.push(lane === thread ? threadTitle(path, thread) : `${threadTitle(path, lane)} waited for the CPU of ${threadTitle(path, thread)}`);
  const place = [named(path, c.piece_function[i]), baseName(named(path, c.piece_file[i])), named(path, c.piece_device[i])].filter(Boolean);
  if (place.length > 0) lines.push(place.join(" · "));
  if (c.piece_via[i] !== NONE) lines.push(`via ${path.reasons[c.piece_via[i]]}`);
  if (c.piece_count[i] > 1) lines.push(`${counted(c.piece_count[i], "piece")}, the longest of which this is`);
  return lines;
}

/** What the panel shows of a piece. */
export function pieceDetail(path, i) {
  const frames = framesOf(path, path.columns.piece_stack[i]);
  return { title: pieceTitle(path, i), facts: pieceFacts(path, i), parts: [], frames, missing: "no stack was recorded for this piece" };
}
