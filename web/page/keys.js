// Keyboard shortcuts, and the help dialog that lists them.

import { element } from "./surface.js";

/** [keys, description, action]. */
export function bindings(app) {
  return [
    [["?"], "show this help", () => app.toggleHelp()],
    [["Escape"], "close panels, then clear the selection, then show everything", () => app.escape()],
    [["/"], "search for a file", () => app.chooser.search.focus()],
    [["["], "previous file", () => app.chooseNeighbour(-1)],
    [["]"], "next file", () => app.chooseNeighbour(1)],
    [["l"], "slowest fault of the selection, with its stack", () => app.pinLongest()],
    [["j"], "next fault of the selection", () => app.step(1)],
    [["k"], "previous fault of the selection", () => app.step(-1)],
    [["b"], "select everything in view", () => app.brushView()],
    [["z"], "zoom to the selection", () => app.zoomToBrush()],
    [["0"], "show the whole time range and file", () => app.resetView()],
    [["+", "="], "zoom in", () => app.zoom(0.7)],
    [["-"], "zoom out", () => app.zoom(1 / 0.7)],
    [["ArrowLeft"], "move to earlier times", () => app.move(-0.2, 0)],
    [["ArrowRight"], "move to later times", () => app.move(0.2, 0)],
    [["."], "move to higher offsets", () => app.move(0, 0.2)],
    [[","], "move to lower offsets", () => app.move(0, -0.2)],
    [["g"], "next grouping of the table", () => app.nextGrouping()],
    [["w"], "switch the flame graph between time and number of faults", () => app.toggleWeight()],
    [["t"], "switch the theme: system, light or dark", () => app.theme.next()],
  ];
}

/** Installs the shortcuts. Keys for form controls and browser shortcuts are not intercepted. */
export function listenToKeys(app) {
  const actions = new Map();
  for (const [keys, , action] of bindings(app)) for (const key of keys) actions.set(key, action);
  addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches?.("input, select, textarea")) return;
    const action = actions.get(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/** Fills the help dialog with all keyboard and mouse actions. */
export function fillHelp(app, dialog) {
  const list = element("dl", "keys");
  for (const [keys, what] of bindings(app)) {
    list.append(element("dt", "", ...keys.map((key) => element("kbd", "", key.replace("Arrow", "")))), element("dd", "", what));
  }
  for (const [how, what] of [
    ["drag", "select time and offset, time, or pages"],
    ["click", "fault: show its whole stack; function or file: show only its faults"],
    ["Shift + drag", "move the offset chart"],
    ["Ctrl + wheel", "zoom"],
    ["double-click", "show everything"],
  ]) {
    list.append(element("dt", "", element("kbd", "", how)), element("dd", "", what));
  }
  dialog.querySelector(".content").replaceChildren(list);
}
