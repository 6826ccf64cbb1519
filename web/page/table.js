// The sortable table of groups; a click on a row filters by it.

import { GROUPINGS, groupRows, sortRows } from "./groups.js";
import { formatCount, formatShare, formatSum } from "./format.js";
import { element, replaceContent } from "./surface.js";

const MOST_ROWS_SHOWN = 60;
const HEADS = [
  ["faults", "faults"],
  ["waited", "waited"],
  ["time", "time"],
];

export class GroupTable {
  constructor(app, root) {
    this.app = app;
    this.sortBy = "time";
    this.choice = root.querySelector("select");
    this.choice.replaceChildren(
      ...GROUPINGS.map((name) => {
        const option = element("option", "", name);
        option.value = name;
        return option;
      }),
    );
    this.choice.addEventListener("change", () => app.setGrouping(this.choice.value));
    this.table = root.querySelector("table");
    this.more = root.querySelector(".more");
  }

  draw() {
    const { app } = this;
    this.choice.value = app.grouping;
    const { rows, total, name } = groupRows(app.selection, app.weights, app.groups);
    sortRows(rows, this.sortBy);
    this.most = rows.reduce((most, { time }) => Math.max(most, time), 0);
    const chosen = app.selection.filters.group?.key;
    const shown = rows.slice(0, MOST_ROWS_SHOWN);
    const body = element("tbody", "");
    body.append(...shown.map((row) => this.row(row, name(row.key), total, row.key === chosen)));
    replaceContent(this.table, [this.head(), body]);
    const rest = rows.length - shown.length;
    this.more.textContent = rest > 0 ? `and ${formatCount(rest)} more` : rows.length === 0 ? "No faults selected; press Escape to clear the selection." : "";
  }

  head() {
    const row = element("tr", "", element("th", "name", this.app.grouping));
    row.firstChild.scope = "col";
    for (const [key, label] of HEADS) {
      const button = element("button", "sort", label);
      button.type = "button";
      button.dataset.key = `sort ${key}`;
      button.addEventListener("click", () => {
        this.sortBy = key;
        this.app.schedule();
      });
      const cell = element("th", "number", button);
      cell.scope = "col";
      cell.setAttribute("aria-sort", this.sortBy === key ? "descending" : "none");
      row.append(cell);
    }
    row.append(element("th", "number share", "share"));
    return element("thead", "", row);
  }

  row({ key, faults, waited, time }, name, total, isChosen) {
    const button = element("button", "pick", name);
    button.type = "button";
    button.title = name;
    button.dataset.key = String(key);
    button.setAttribute("aria-pressed", String(isChosen));
    button.addEventListener("click", () => this.app.setGroup(isChosen ? null : key));
    const share = total > 0 ? time / total : 0;
    const bar = element("td", "number share", element("span", "", total > 0 ? formatShare(share) : "–"));
    bar.style.setProperty("--share", String(time / (this.most || 1)));
    return element(
      "tr",
      isChosen ? "chosen" : "",
      element("td", "name", button),
      element("td", "number", formatCount(faults)),
      element("td", waited ? "number" : "number zero", formatCount(waited)),
      element("td", "number", formatSum(time, this.app.isTimed)),
      bar,
    );
  }
}
