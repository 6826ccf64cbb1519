// The list of files with their totals, from which one is chosen.

import { ALL, NO_FILE } from "./model.js";
import { baseName, counted, formatCount, formatSum } from "./format.js";
import { element, replaceContent } from "./surface.js";

const MOST_FILES = 250;

export class Chooser {
  constructor(app, root) {
    this.app = app;
    this.list = root.querySelector("ul");
    this.search = root.querySelector("input");
    this.rest = root.querySelector(".more");
    this.search.addEventListener("input", () => this.draw());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.shown.length > 0) app.choose(this.shown[0].file);
      if (event.key === "Enter" || event.key === "Escape") this.search.blur();
    });
  }

  /** Files that match the search. */
  matching() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.app.files.filter(({ path }) => words.every((word) => path.toLowerCase().includes(word)));
  }

  draw() {
    const { app } = this;
    this.shown = this.matching();
    const most = app.files.reduce((time, row) => Math.max(time, row.file === ALL ? 0 : row.time), 1);
    replaceContent(this.list, this.shown.slice(0, MOST_FILES).map((row) => this.item(row, most)));
    const rest = this.shown.length - MOST_FILES;
    this.rest.textContent = this.shown.length === 0 ? "No file matches this search." : rest > 0 ? `and ${formatCount(rest)} more; search by name to find them` : "";
  }

  item(row, most) {
    const { file, path, faults, waited, time } = row;
    const isFile = file !== ALL && file !== NO_FILE;
    const name = element("span", "file", isFile ? baseName(path) : path);
    const figures = element("span", "figures", element("b", "", formatSum(time, this.app.isTimed)), element("span", "", counted(faults, "fault")));
    if (waited > 0) figures.append(element("span", "waited", `${formatCount(waited)} waited`));
    const button = element("button", file === this.app.file ? "chosen" : "", name, figures);
    button.type = "button";
    button.title = path;
    button.dataset.key = String(file);
    button.setAttribute("aria-pressed", String(file === this.app.file));
    button.style.setProperty("--share", file === ALL ? "0" : String(time / most));
    button.addEventListener("click", () => this.app.choose(file));
    return element("li", "", button);
  }

  /** The file `step` places further down the list, limited to its ends. */
  neighbour(step) {
    const at = this.shown.findIndex(({ file }) => file === this.app.file);
    const next = Math.min(this.shown.length - 1, Math.max(0, at + step));
    return this.shown[next]?.file;
  }

  reveal() {
    this.list.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }
}
