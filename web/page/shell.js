// What the views of the page share: theme, tooltip, panel of details, shortcuts, the selected time span, and which view is shown.

import { Theme } from "./theme.js";
import { Tooltip } from "./surface.js";
import { Detail } from "./detail.js";
import { PathPage } from "./pathpage.js";
import { fillHelp, listenToKeys } from "./keys.js";

const TITLES = { faults: "Page faults", path: "Critical path" };

export class Shell {
  constructor() {
    const at = (id) => document.getElementById(id);
    this.at = at;
    this.theme = new Theme(() => this.changed());
    this.tooltip = new Tooltip(at("tooltip"));
    this.detail = new Detail(at("detail"), { close: () => this.view?.pin(-1), step: (step) => this.view?.step(step) });
    /** The view of page faults; null if there are none. */
    this.faults = null;
    this.ownSpan = null;
    // A page in one file has no server that follows paths.
    this.hasPaths = at("document") === null;
    this.path = this.hasPaths ? new PathPage(this, at("path")) : null;
    at("views").hidden = !this.hasPaths;
    listenToKeys(this);
    const on = (id, action) => at(id).addEventListener("click", action);
    on("help-button", () => this.toggleHelp());
    on("help-close", () => at("help").close());
    on("theme-button", () => this.theme.next());
    addEventListener("hashchange", () => this.show());
    this.show();
  }

  get name() {
    return this.hasPaths && location.hash === "#path" ? "path" : "faults";
  }

  get view() {
    return this.name === "path" ? this.path : this.faults;
  }

  /** The selected time span in ns; null: all. */
  get span() {
    return this.faults ? this.faults.selection.filters.time : this.ownSpan;
  }

  setSpan(span) {
    this.ownSpan = span;
    this.faults?.selection.setTime(span);
  }

  /** Adds the view of page faults, which takes over a time span that was selected before. */
  join(faults) {
    if (this.ownSpan) faults.selection.setTime(this.ownSpan);
    this.faults = faults;
    if (this.name === "path") this.changed();
    else this.show();
  }

  /** Shows the view that the address names. */
  show() {
    const { name } = this;
    document.documentElement.dataset.view = name;
    this.at("view-name").textContent = TITLES[name];
    for (const link of this.at("views").querySelectorAll("a")) {
      if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.tooltip.hide();
    this.detail.show(null);
    this.changed();
    if (name === "path") this.path.open();
  }

  /** Shows the other view. */
  switchView() {
    if (this.hasPaths) location.hash = this.name === "path" ? "faults" : "path";
  }

  changed() {
    this.at("theme-button").textContent = `Theme: ${this.theme?.words ?? ""}`;
    this.view?.schedule();
  }

  escape() {
    if (this.at("help").open) this.at("help").close();
    else this.view?.escape();
  }

  toggleHelp() {
    const help = this.at("help");
    if (help.open) {
      help.close();
      return;
    }
    fillHelp(this, help);
    help.showModal();
  }
}
