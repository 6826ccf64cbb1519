// The tables of a critical path, as `ngmi path` prints them; a click on a row emphasizes its pieces.

import { formatCount, formatShare, formatTime } from "./format.js";
import { element, replaceContent } from "./surface.js";

const MOST_PATH_ROWS = 60;

export class PathTable {
  constructor(page, root) {
    this.page = page;
    this.choice = root.querySelector("select");
    this.choice.addEventListener("change", () => page.setTable(this.choice.value));
    this.table = root.querySelector("table");
    this.more = root.querySelector(".more");
  }

  /** Shows the tables of a new path. */
  take(path) {
    this.path = path;
    const options = path.tables.map(({ key, title }) => {
      const option = element("option", "", title.replace(/^by /, ""));
      option.value = key;
      return option;
    });
    this.choice.replaceChildren(...options);
    this.keys = path.tables.map(({ key }) => key);
  }

  draw() {
    const { page, path } = this;
    this.choice.value = page.tableKey;
    const table = path.tables.find(({ key }) => key === page.tableKey) ?? path.tables[0];
    const whole = path.end_ns - path.start_ns;
    const shown = table.rows.slice(0, MOST_PATH_ROWS);
    const most = shown.reduce((time, row) => Math.max(time, row.time_ns), 1);
    const body = element("tbody", "");
    body.append(...shown.map((row, place) => this.row(row, place, whole, most)));
    replaceContent(this.table, [this.head(table), body]);
    const rest = table.rows.slice(MOST_PATH_ROWS);
    const others = rest.length + table.others;
    const time = rest.reduce((sum, row) => sum + row.time_ns, table.others_ns);
    this.more.textContent = others > 0 ? `and ${formatCount(others)} more, ${formatTime(time)} in total` : "";
  }

  head({ title }) {
    const row = element("tr", "", element("th", "name", title.replace(/^by /, "")));
    for (const [text, className] of [["time", ""], ["share", ""], ["pieces", "optional"], ["longest", "optional"], ["saves ~", ""]]) {
      const cell = element("th", `number ${className}`, text);
      if (text === "saves ~") cell.title = "By how much the path would be shorter without it: an estimate";
      row.append(cell);
    }
    for (const cell of row.children) cell.scope = "col";
    return element("thead", "", row);
  }

  row(row, place, whole, most) {
    const { page, path } = this;
    const isChosen = page.chosenRow === place;
    const name = path.strings[row.name];
    const button = element("button", "pick", name);
    button.type = "button";
    button.title = name;
    button.dataset.key = String(place);
    button.setAttribute("aria-pressed", String(isChosen));
    button.addEventListener("click", () => page.chooseRow(isChosen ? -1 : place));
    const share = element("td", "number share", whole > 0 ? formatShare(row.time_ns / whole) : "–");
    share.style.setProperty("--share", String(row.time_ns / most));
    const saves = row.saves_ns;
    return element(
      "tr",
      isChosen ? "chosen" : "",
      element("td", "name", button),
      element("td", "number", formatTime(row.time_ns)),
      share,
      element("td", "number optional", formatCount(row.pieces)),
      element("td", "number optional", formatTime(row.longest_ns)),
      element("td", saves ? "number" : "number zero", typeof saves === "number" ? formatTime(saves) : "–"),
    );
  }
}
