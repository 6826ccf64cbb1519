// Data of the flame graph: stacks merged by function, weighted by time or number of the selected faults.

import { NONE } from "./document.js";

/** Merges the tree of frames into a tree of functions. Node 0 is the root with all faults; parents precede their children. */
export class FlameTree {
  constructor(recording) {
    const { node_parent: parents, node_function: functions } = recording.columns;
    /** By node of the document: its node in this tree. */
    this.nodeOf = new Uint32Array(parents.length);
    const parentOf = [0];
    const functionOf = [NONE];
    const known = new Map();
    for (let node = 0; node < parents.length; node++) {
      const parent = parents[node] === NONE ? 0 : this.nodeOf[parents[node]];
      // Combines both into one number, exact below 2^53: the document has fewer than 2^22 nodes, and not more functions.
      const name = parent * 2 ** 23 + (functions[node] === NONE ? 2 ** 23 - 1 : functions[node]);
      let number = known.get(name);
      if (number === undefined) {
        number = parentOf.length;
        known.set(name, number);
        parentOf.push(parent);
        functionOf.push(functions[node]);
      }
      this.nodeOf[node] = number;
    }
    this.parent = Uint32Array.from(parentOf);
    this.function = Uint32Array.from(functionOf);
    this.depth = new Uint16Array(this.parent.length);
    for (let i = 1; i < this.parent.length; i++) this.depth[i] = Math.min(65535, this.depth[this.parent[i]] + 1);
    this.childLists();
  }

  /** Builds the list of children of each node, in ascending order. */
  childLists() {
    const count = this.parent.length;
    this.firstChild = new Uint32Array(count + 1);
    for (let i = 1; i < count; i++) this.firstChild[this.parent[i] + 1] += 1;
    for (let i = 1; i <= count; i++) this.firstChild[i] += this.firstChild[i - 1];
    const next = this.firstChild.slice();
    this.children = new Uint32Array(Math.max(0, count - 1));
    for (let i = 1; i < count; i++) this.children[next[this.parent[i]]++] = i;
  }

  /** Sums the faults below each node. A fault counts if `fails[i] & ~leaveOut` is 0; each counts as one if `weight` is null. */
  weigh(selection, weight, leaveOut) {
    const sums = new Float64Array(this.parent.length);
    const stacks = selection.recording.columns.fault_stack;
    const { list, fails } = selection;
    const mask = ~leaveOut;
    for (let i = 0; i < list.length; i++) {
      if (fails[i] & mask) continue;
      const stack = stacks[list[i]];
      sums[stack === NONE ? 0 : this.nodeOf[stack]] += weight ? weight[list[i]] : 1;
    }
    for (let node = sums.length - 1; node > 0; node--) sums[this.parent[node]] += sums[node];
    return sums;
  }

  /** By node: 1 for a node and all nodes below it. */
  below(node) {
    const inside = new Uint8Array(this.parent.length);
    inside[node] = 1;
    for (let i = node + 1; i < inside.length; i++) inside[i] = inside[this.parent[i]];
    return inside;
  }

  /** The nodes from the root to a node. */
  pathTo(node) {
    const path = [node];
    while (path[0] !== 0) path.unshift(this.parent[path[0]]);
    return path;
  }

  /** Boxes from `focus` on and the path to it: [{ node, depth, from, to }] as shares of the width; none is narrower than `least`. */
  layout(sums, focus, least) {
    const boxes = this.pathTo(focus).map((node) => ({ node, depth: this.depth[node], from: 0, to: 1 }));
    const whole = sums[focus];
    if (!(whole > 0)) return boxes;
    const pending = [boxes[boxes.length - 1]];
    while (pending.length > 0) {
      const box = pending.pop();
      const children = Array.from(this.children.subarray(this.firstChild[box.node], this.firstChild[box.node + 1]));
      children.sort((a, b) => sums[b] - sums[a]);
      let { from } = box;
      for (const node of children) {
        const width = sums[node] / whole;
        if (width < least) break;
        const child = { node, depth: box.depth + 1, from, to: from + width };
        boxes.push(child);
        pending.push(child);
        from += width;
      }
    }
    return boxes;
  }
}
