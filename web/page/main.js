// Starts the page, or shows why it can't.

import { loadDocument } from "./load.js";
import { parseDocument } from "./document.js";
import { counted, formatCount, formatTime } from "./format.js";
import { Shell } from "./shell.js";
import { App } from "./app.js";

/** Sentences about data of the recording that the page does not show. */
function notes({ totals, about }) {
  const said = [];
  if (totals.selected < totals.in_input) {
    said.push(`Showing ${formatCount(totals.selected)} of ${formatCount(totals.in_input)} faults as requested; pages and disk reads cover the whole recording.`);
  }
  if (totals.left_out > 0) {
    said.push(`The page is limited to ${counted(totals.shown, "fault")}; shortest faults not shown: ${formatCount(totals.left_out)}, ${formatTime(totals.left_out_ns)} in total. Narrow the selection with --file, --process, --from and --to.`);
  }
  if (totals.folded > 0) {
    said.push(`Short faults aggregated in the profile and not shown: ${formatCount(totals.folded)}, ${formatTime(totals.folded_ns)} in total; the event log (--keep-events) has all of them.`);
  }
  if (about.losses > 0) said.push(`Events lost while recording: ${formatCount(about.losses)}; run \`ngmi faults\` for details.`);
  return said;
}

/** The line under the title. */
function describeRecording({ about }) {
  const when = new Date(about.start_unix_ms);
  const date = about.start_unix_ms > 0 && !Number.isNaN(when.getTime()) ? when.toISOString().replace("T", " ").slice(0, 16) : "";
  return [date && `${date} UTC`, formatTime(about.duration_ns), about.kernel && `Linux ${about.kernel}`].filter(Boolean).join(" · ");
}

async function start() {
  const root = document.documentElement;
  const status = document.getElementById("status");
  // For tests, and for use in the console.
  globalThis.shell = new Shell();
  try {
    const recording = parseDocument(await loadDocument());
    document.getElementById("command").textContent = recording.about.command || "running processes";
    document.title = `Page faults: ${(recording.about.command || "running processes").slice(0, 100)}`;
    document.getElementById("about").textContent = describeRecording(recording);
    document.getElementById("notes").textContent = notes(recording).join(" ");
    if (recording.columns.fault_start.length === 0) {
      status.textContent = recording.why_empty ?? "This recording contains none of the requested faults; change the selection, or request all faults.";
      root.dataset.state = "empty";
      return;
    }
    root.dataset.state = "ready";
    globalThis.explorer = new App(recording, shell);
    shell.join(explorer);
  } catch (error) {
    status.textContent = `Cannot show the page: ${error.message}`;
    root.dataset.state = "failed";
  }
}

start();
