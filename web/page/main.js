// Starts the page, or says why it can't.

import { loadDocument } from "./load.js";
import { parseDocument } from "./document.js";
import { formatCount, formatTime } from "./format.js";
import { App } from "./app.js";

/** What the page can't show of the recording, in sentences. */
function notes({ totals, about }) {
  const said = [];
  if (totals.selected < totals.in_input) {
    said.push(`${formatCount(totals.selected)} of the ${formatCount(totals.in_input)} faults were asked for; pages and disk reads are the whole recording's.`);
  }
  if (totals.left_out > 0) {
    said.push(`The page has room for ${formatCount(totals.shown)} faults: the shortest ${formatCount(totals.left_out)}, ${formatTime(totals.left_out_ns)} together, are not shown. Narrow it down with --file, --process, --from and --to.`);
  }
  if (totals.folded > 0) {
    said.push(`The profile had no room for ${formatCount(totals.folded)} short faults, ${formatTime(totals.folded_ns)} together: the event log (--keep-events) has each of them.`);
  }
  if (about.losses > 0) said.push(`${formatCount(about.losses)} events were lost while recording; \`ngmi faults\` tells more.`);
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
  try {
    const recording = parseDocument(await loadDocument());
    document.getElementById("command").textContent = recording.about.command || "running processes";
    document.title = `Page faults: ${(recording.about.command || "running processes").slice(0, 100)}`;
    document.getElementById("about").textContent = describeRecording(recording);
    document.getElementById("notes").textContent = notes(recording).join(" ");
    if (recording.columns.fault_start.length === 0) {
      status.textContent = recording.why_empty ?? "None of the faults that were asked for is in this recording: ask for others, or for all of them.";
      root.dataset.state = "empty";
      return;
    }
    root.dataset.state = "ready";
    // For tests, and for whoever opens the console.
    globalThis.explorer = new App(recording);
  } catch (error) {
    status.textContent = `The page can't be shown: ${error.message}`;
    root.dataset.state = "failed";
  }
}

start();
