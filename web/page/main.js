// Starts the page.

import { loadDocument } from "./load.js";
import { parseDocument } from "./document.js";
import { formatCount, formatTime } from "./format.js";

async function start() {
  const status = document.getElementById("status");
  try {
    const recording = parseDocument(await loadDocument());
    const { fault_file: files, fault_duration: durations } = recording.columns;
    const sums = recording.files.map(() => ({ faults: 0, time: 0 }));
    for (let i = 0; i < files.length; i++) {
      const sum = sums[files[i]];
      if (!sum) continue;
      sum.faults += 1;
      sum.time += durations[i] || 0;
    }
    const list = document.getElementById("files");
    recording.files.forEach((file, i) => {
      const item = document.createElement("li");
      item.textContent = `${file.path}: ${formatCount(sums[i].faults)} faults, ${formatTime(sums[i].time)}`;
      list.append(item);
    });
    status.textContent = `${formatCount(files.length)} page faults`;
    document.documentElement.dataset.state = "ready";
  } catch (error) {
    status.textContent = `The page can't be shown: ${error.message}`;
    document.documentElement.dataset.state = "failed";
  }
}

start();
