//! Writes sums as folded stacks for flame graph tools: a line `process;main;inner WEIGHT` per stack.

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

    fn lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let names: Vec<String> = self.names.iter().map(|name| plain(name)).collect();
        let mut path = Vec::new();
        for node in self.nodes.iter().filter(|node| node.weight > 0) {
            path.clear();
            let mut at = Some(node);
            while let Some(node) = at {
                path.push(node.name);
                at = self.nodes.get(node.parent as usize);
            }
            for (place, name) in path.iter().rev().enumerate() {
                let separator = if place > 0 { ";" } else { "" };
                let name = names.get(*name as usize).map_or("", String::as_str);
                write!(out, "{separator}{name}")?;
            }
            writeln!(out, " {}", node.weight)?;
        }
        out.flush()
    }
}
