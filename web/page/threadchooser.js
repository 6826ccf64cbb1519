// The list of threads, from which the one is chosen whose critical path is shown.

import { counted, formatCount, formatTime } from "./format.js";
import { element, replaceContent } from "./surface.js";

const MOST_THREADS = 250;

export class ThreadChooser {
  constructor(page, root) {
    this.page = page;
    this.list = root.querySelector("ul");
    this.search = root.querySelector("input");
    this.rest = root.querySelector(".more");
    this.threads = [];
    this.shown = [];
    this.search.addEventListener("input", () => this.draw());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.shown.length > 0) page.choose(this.shown[0].number);
      if (event.key === "Enter" || event.key === "Escape") this.search.blur();
    });
  }

  /** Lists the threads of an answer. */
  take({ choices, other_choices: others, strings }) {
    this.threads = choices.map((choice) => ({ ...choice, title: `${strings[choice.name]} (${choice.tid})`, owner: `${strings[choice.process]} (${choice.pid})` }));
    this.others = others;
  }

  draw() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = this.threads.filter(({ title, owner }) => words.every((word) => `${title} ${owner}`.toLowerCase().includes(word)));
    const most = this.threads.reduce((time, { cpu_ns: cpu }) => Math.max(time, cpu), 1);
    replaceContent(this.list, this.shown.slice(0, MOST_THREADS).map((thread) => this.item(thread, most)));
    const rest = Math.max(0, this.shown.length - MOST_THREADS) + (words.length === 0 ? (this.others ?? 0) : 0);
    const none = this.threads.length > 0 && this.shown.length === 0 ? "No thread matches this search." : "";
    this.rest.textContent = rest > 0 ? `and ${formatCount(rest)} more` : none;
  }

  item({ number, title, owner, cpu_ns: cpu, waits }, most) {
    const { page } = this;
    const isChosen = number === page.shownThread;
    const figures = element("span", "figures", element("b", "", formatTime(cpu)), element("span", "", counted(waits, "wait")));
    const button = element("button", isChosen ? "chosen" : "", element("span", "file", title), figures);
    button.type = "button";
    button.title = `${title}, of ${owner}: ${formatTime(cpu)} on CPUs`;
    button.dataset.key = String(number);
    button.setAttribute("aria-pressed", String(isChosen));
    button.style.setProperty("--share", String(cpu / most));
    button.addEventListener("click", () => page.choose(number));
    return element("li", "", button);
  }

  /** The thread `step` places further down the list, limited to its ends. */
  neighbour(step) {
    const at = this.shown.findIndex(({ number }) => number === this.page.shownThread);
    const next = Math.min(this.shown.length - 1, Math.max(0, at + step));
    return this.shown[next]?.number;
  }

  reveal() {
    this.list.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }
}
