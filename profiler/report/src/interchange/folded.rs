//! Writes sums as folded stacks for flame graph tools: a line `process;main;inner WEIGHT` per stack.

use std::cmp::Reverse;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::places::{Places, Spot, harmless};
use super::sums::{Sums, Weight};
use base::intern::Interner;
use fact::Tables;

/// Marks a missing parent.
const NONE: u32 = u32::MAX;

/// A function and its caller.
#[derive(Debug, Clone, Copy)]
struct Node {
    parent: u32,
    name: u32,
    weight: u64,
}

/// Stacks as a tree of names, in which equal stacks share a node.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    children: FxHashMap<(u32, u32), u32>,
    names: Interner<String>,
    /// The names at each spot, innermost inlined function first.
    frames: FxHashMap<Spot, Vec<u32>>,
}

/// Writes the sums of a recording by the given weight. Stacks without weight are left out.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, tables: &Tables, sums: &mut Sums, weight: Weight) -> io::Result<()> {
    let places = Places::new(tables);
    let finished = sums.finish(tables);
    let mut tree = Tree::default();
    for (key, sum) in &finished {
        let process = tree.name(&places.process(key, sums));
        let mut at = tree.child(NONE, process);
        let (thread, reason) = places.path_frames(key, sums).unzip();
        if let Some(thread) = thread {
            let thread = tree.name(&thread);
            at = tree.child(at, thread);
        }
        let mut frames = places.stack(key.stack, key.cut);
        frames.reverse();
        for frame in frames {
            for name in tree.frame(&places, frame).iter().rev() {
                at = tree.child(at, *name);
            }
        }
        if let Some(reason) = reason.flatten() {
            let reason = tree.name(&reason);
            at = tree.child(at, reason);
        }
        if let Some(node) = tree.nodes.get_mut(at as usize) {
            node.weight = node.weight.saturating_add(sum.of(weight));
        }
    }
    tree.lines(out)
}

/// A name without characters that would end a frame or a line.
fn plain(name: &str) -> String {
    let name = harmless(name).trim().replace(';', ",");
    if name.is_empty() { "[unknown]".to_owned() } else { name }
}

impl Tree {
    fn name(&mut self, name: &str) -> u32 {
        self.names.number(name, usize::MAX, str::to_owned).unwrap_or(NONE)
    }

    fn frame(&mut self, places: &Places<'_>, frame: Spot) -> Vec<u32> {
        if let Some(known) = self.frames.get(&frame) {
            return known.clone();
        }
        let lines = places.lines(frame);
        let names: Vec<u32> = lines.iter().map(|line| self.name(&line.function)).collect();
        self.frames.insert(frame, names.clone());
        names
    }

    fn child(&mut self, parent: u32, name: u32) -> u32 {
        let next = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        let index = *self.children.entry((parent, name)).or_insert(next);
        if index == next {
            self.nodes.push(Node {
                parent,
                name,
                weight: 0,
            });
        }
        index
    }

    /// Writes the stacks in the order of their names, since numbers of stacks depend on when unused ones were dropped.
    fn lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let names: Vec<String> = self.names.iter().map(|name| plain(name)).collect();
        let name = |node: &Node| names.get(node.name as usize).map_or("", String::as_str);
        // By parent, the last name first; none have the greatest number.
        let mut order: Vec<u32> = (0..).take(self.nodes.len()).collect();
        order.sort_unstable_by_key(|at| {
            self.nodes
                .get(*at as usize)
                .map(|node| (node.parent, Reverse((name(node), node.name))))
        });
        let parent = |at: &u32| self.nodes.get(*at as usize).map_or(NONE, |node| node.parent);
        let children = |of: u32| {
            let start = order.partition_point(|at| parent(at) < of);
            let end = order.partition_point(|at| parent(at) <= of);
            order.get(start..end).unwrap_or_default()
        };
        // Nodes to write with their depth, the next one last.
        let mut left: Vec<(usize, u32)> = children(NONE).iter().map(|root| (0, *root)).collect();
        let mut path: Vec<&str> = Vec::new();
        while let Some((depth, at)) = left.pop() {
            let Some(node) = self.nodes.get(at as usize) else {
                continue;
            };
            path.truncate(depth);
            path.push(name(node));
            if node.weight > 0 {
                writeln!(out, "{} {}", path.join(";"), node.weight)?;
            }
            left.extend(children(at).iter().map(|child| (depth + 1, *child)));
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_order_of_names() {
        let mut tree = Tree::default();
        for (stack, weight) in [("b;c", 1), ("a", 2), ("b;a;z", 3), ("b", 4), ("a;a", 0), ("b;a;c", 5)] {
            let mut at = NONE;
            for name in stack.split(';') {
                let name = tree.name(name);
                at = tree.child(at, name);
            }
            tree.nodes[at as usize].weight += weight;
        }
        let mut out = Vec::new();
        tree.lines(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a 2\nb 4\nb;a;c 5\nb;a;z 3\nb;c 1\n");
    }
}
