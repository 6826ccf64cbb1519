// Helpers for canvases, elements, pointer events and the tooltip.

/** Fits a canvas to its size on the screen; returns its context, scaled to CSS pixels. */
export function surface(canvas) {
  const ratio = Math.min(3, devicePixelRatio || 1);
  const width = Math.max(1, canvas.clientWidth);
  const height = Math.max(1, canvas.clientHeight);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px system-ui, "DejaVu Sans", sans-serif';
  context.textBaseline = "middle";
  return { context, width, height, ratio };
}

/** Creates an element with text; data of a recording is always inserted as text. */
export function element(name, className, ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

/** Replaces the content of an element; the focus moves to the new element with the same key. */
export function replaceContent(parent, children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  parent.replaceChildren(...children);
  if (focused === undefined) return;
  const next = Array.from(parent.querySelectorAll("[data-key]")).find((child) => child.dataset.key === focused);
  next?.focus({ preventScroll: true });
}

/** Draws a sharp line from [x, y] to [x, y]. */
export function rule(context, [fromX, fromY], [toX, toY], colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(Math.round(fromX) + 0.5, Math.round(fromY) + 0.5);
  context.lineTo(Math.round(toX) + 0.5, Math.round(toY) + 0.5);
  context.stroke();
}

/** Truncates a text to a width. */
export function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low)}…` : "";
}

/** Reports drags, clicks and hovers, in CSS pixels of the element. A drag shorter than 4 pixels is a click. */
export function listen(target, { drag, dragged, click, hover, leave }) {
  let start = null;
  let moved = false;
  const at = (event) => {
    const box = target.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  target.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = at(event);
    moved = false;
    target.setPointerCapture(event.pointerId);
  });
  target.addEventListener("pointermove", (event) => {
    const now = at(event);
    if (!start) {
      hover?.(now, event);
      return;
    }
    moved ||= Math.hypot(now[0] - start[0], now[1] - start[1]) >= 4;
    if (moved) drag?.(start, now, event);
  });
  const end = (event) => {
    if (!start) return;
    if (moved) dragged?.(start, at(event), event);
    else if (event.type === "pointerup") click?.(start, event);
    start = null;
  };
  target.addEventListener("pointerup", end);
  target.addEventListener("pointercancel", end);
  target.addEventListener("pointerleave", () => leave?.());
}

/** The tooltip at the pointer. */
export class Tooltip {
  constructor(box) {
    this.box = box;
  }

  /** Shows lines of text next to a position in the window; the first line is emphasized. */
  show([x, y], lines) {
    this.box.replaceChildren(...lines.map((line, i) => element("div", i === 0 ? "first" : "", line)));
    this.box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.box;
    const left = x + 14 + width > innerWidth ? Math.max(4, x - 14 - width) : x + 14;
    const top = y + 14 + height > innerHeight ? Math.max(4, y - 14 - height) : y + 14;
    this.box.style.left = `${left}px`;
    this.box.style.top = `${top}px`;
  }

  hide() {
    this.box.hidden = true;
  }
}
