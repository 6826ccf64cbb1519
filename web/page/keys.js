// What keys do; the list on `?` is made of the same table.

import { element } from "./surface.js";

/** [keys, what they do, action]. */
export function bindings(app) {
  return [
    [["?"], "this list", () => app.toggleHelp()],
    [["Escape"], "close, then clear the selection, then show everything", () => app.escape()],
    [["/"], "search for a file", () => app.chooser.search.focus()],
    [["["], "the file before", () => app.chooseNeighbour(-1)],
    [["]"], "the next file", () => app.chooseNeighbour(1)],
    [["l"], "the slowest fault of the selection, with its stack", () => app.pinLongest()],
    [["j"], "the next fault of the selection", () => app.step(1)],
    [["k"], "the fault before", () => app.step(-1)],
    [["b"], "select what is in view", () => app.brushView()],
    [["z"], "zoom to the selection", () => app.zoomToBrush()],
    [["0"], "show the whole time and file", () => app.resetView()],
    [["+", "="], "zoom in", () => app.zoom(0.7)],
    [["-"], "zoom out", () => app.zoom(1 / 0.7)],
    [["ArrowLeft"], "earlier", () => app.move(-0.2, 0)],
    [["ArrowRight"], "later", () => app.move(0.2, 0)],
    [["."], "further up in the file", () => app.move(0, 0.2)],
    [[","], "further down in the file", () => app.move(0, -0.2)],
    [["g"], "group the table by something else", () => app.nextGrouping()],
    [["w"], "flame graph by time, or by number of faults", () => app.toggleWeight()],
    [["t"], "light, dark, or as the system", () => app.theme.next()],
  ];
}

/** Listens; keys of controls and of the browser stay theirs. */
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

/** The dialog with all keys, and what the pointer does. */
export function fillHelp(app, dialog) {
  const list = element("dl", "keys");
  for (const [keys, what] of bindings(app)) {
    list.append(element("dt", "", ...keys.map((key) => element("kbd", "", key.replace("Arrow", "")))), element("dd", "", what));
  }
  for (const [how, what] of [
    ["drag", "select: time and offset, time, or pages"],
    ["click", "a fault's whole stack; a function or file: only its faults"],
    ["Shift + drag", "move the scatter"],
    ["Ctrl + wheel", "zoom"],
    ["double click", "show everything"],
  ]) {
    list.append(element("dt", "", element("kbd", "", how)), element("dd", "", what));
  }
  dialog.querySelector(".content").replaceChildren(list);
}
