// Keyboard shortcuts, and the help dialog that lists them.

import { element } from "./surface.js";

/** [keys, description, action] of the shown view. */
export function bindings(shell) {
  const shared = [
    [["?"], "show this help", () => shell.toggleHelp()],
    [["Escape"], "close panels, then clear the selection, then show everything", () => shell.escape()],
  ];
  if (shell.hasPaths) shared.push([["v"], "switch between page faults and the critical path", () => shell.switchView()]);
  shared.push([["t"], "switch the theme: system, light or dark", () => shell.theme.next()]);
  if (!shell.view) return shared;
  return [...shared, ...(shell.name === "path" ? ofPath(shell.view) : ofFaults(shell.view))];
}

function ofPath(page) {
  return [
    [["/"], "search for a thread", () => page.chooser.search.focus()],
    [["["], "previous thread", () => page.chooseNeighbour(-1)],
    [["]"], "next thread", () => page.chooseNeighbour(1)],
    [["l"], "longest piece of the path, with its stack", () => page.pinLongest()],
    [["j"], "next piece of the path", () => page.step(1)],
    [["k"], "previous piece of the path", () => page.step(-1)],
    [["b"], "follow the path of the time range in view", () => page.selectView()],
    [["z"], "zoom to the selected time span", () => page.zoomToSpan()],
    [["0"], "show the whole time range", () => page.resetView()],
    [["+", "="], "zoom in", () => page.zoom(0.7)],
    [["-"], "zoom out", () => page.zoom(1 / 0.7)],
    [["ArrowLeft"], "move to earlier times", () => page.move(-0.2)],
    [["ArrowRight"], "move to later times", () => page.move(0.2)],
    [["g"], "next table", () => page.nextTable()],
  ];
}

function ofFaults(app) {
  return [
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
  ];
}

const MOUSE = {
  faults: [
    ["drag", "select time and offset, time, or pages"],
    ["click", "fault: show its whole stack; function or file: show only its faults"],
    ["Shift + drag", "move the offset chart"],
  ],
  path: [
    ["drag", "follow the path of a time span"],
    ["click", "piece: show its whole stack; row of the table: emphasize its pieces"],
  ],
};

/** Installs the shortcuts. Keys for form controls and browser shortcuts are not intercepted. */
export function listenToKeys(shell) {
  addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches?.("input, select, textarea")) return;
    const [, , action] = bindings(shell).find(([keys]) => keys.includes(event.key)) ?? [];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/** Fills the help dialog with all keyboard and mouse actions of the shown view. */
export function fillHelp(shell, dialog) {
  const list = element("dl", "keys");
  for (const [keys, what] of bindings(shell)) {
    list.append(element("dt", "", ...keys.map((key) => element("kbd", "", key.replace("Arrow", "")))), element("dd", "", what));
  }
  for (const [how, what] of [
    ...MOUSE[shell.name],
    ["Ctrl + wheel", "zoom"],
    ["double-click", "show everything"],
  ]) {
    list.append(element("dt", "", element("kbd", "", how)), element("dd", "", what));
  }
  dialog.querySelector(".content").replaceChildren(list);
}
