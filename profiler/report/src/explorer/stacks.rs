//! Stacks as a tree of functions, including inlined ones; it contains only stacks that are used, and equal nodes once.

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};

use super::container::{NONE, columns};
use super::strings::Strings;
use crate::functions::{FunctionId, Functions};
use base::intern::Interner;
use fact::{FrameId, Location, StackId, Tables};

/// A function of the program.
const PROGRAM: u8 = 0;
/// A function of the kernel.
const KERNEL: u8 = 1;
/// A placeholder for missing frames.
const MISSING: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    parent: u32,
    function: u32,
    source: u32,
    line: u32,
}

/// Builder of the tree.
#[derive(Debug)]
pub struct Stacks<'a> {
    tables: &'a Tables,
    functions_of: &'a Functions,
    /// Most nodes.
    most: usize,
    /// The node of each stack.
    nodes_of: FxHashMap<StackId, u32>,
    nodes: Interner<Node>,
    /// (name, module, kind) of each function.
    functions: Interner<(u32, u32, u8)>,
}

impl<'a> Stacks<'a> {
    /// An empty tree of at most `most` nodes.
    pub fn new(tables: &'a Tables, functions_of: &'a Functions, most: usize) -> Self {
        Self {
            tables,
            functions_of,
            most,
            nodes_of: FxHashMap::default(),
            nodes: Interner::default(),
            functions: Interner::default(),
        }
    }

    /// The number of a function of the program.
    pub fn function(&mut self, id: FunctionId, strings: &mut Strings) -> u32 {
        let Some(function) = self.functions_of.get(id) else {
            return NONE;
        };
        let module = function
            .module
            .map_or(NONE, |module| strings.id(self.tables.module_name(module)));
        let key = (strings.id(&function.name), module, PROGRAM);
        self.add_function(key)
    }

    fn add_function(&mut self, key: (u32, u32, u8)) -> u32 {
        self.functions.number(&key, usize::MAX, Clone::clone).unwrap_or(NONE)
    }

    /// The node of a stack's innermost function. If the tree is full, the innermost node that it contains.
    pub fn node(&mut self, stack: StackId, strings: &mut Strings) -> u32 {
        // Walk up to the first known stack, then add nodes on the way down.
        let tables = self.tables;
        let mut path = Vec::new();
        let mut parent = NONE;
        let mut next = Some(stack);
        while let Some(at) = next {
            if let Some(known) = self.nodes_of.get(&at) {
                parent = *known;
                break;
            }
            let Some(node) = tables.stacks.get(at.index()) else {
                break;
            };
            path.push((at, node.frame));
            next = node.parent.filter(|parent| *parent < at);
        }
        for (stack, frame) in path.into_iter().rev() {
            parent = self.frame(parent, frame, strings);
            self.nodes_of.insert(stack, parent);
        }
        parent
    }

    /// Adds a frame's functions, outermost first.
    fn frame(&mut self, mut parent: u32, frame: FrameId, strings: &mut Strings) -> u32 {
        let tables = self.tables;
        let chain = self.functions_of.of_frame(frame);
        let sources = tables.names.get(&frame).map_or(&[][..], |name| &name.inline_chain);
        for (place, id) in chain.iter().enumerate().rev() {
            let function = self.function(*id, strings);
            let source = sources.get(place);
            let file = source.and_then(|source| source.file.as_deref());
            let node = Node {
                parent,
                function,
                source: file.map_or(NONE, |file| strings.id(file)),
                line: source.and_then(|source| source.line).unwrap_or(0),
            };
            parent = self.add(node);
        }
        if chain.is_empty() {
            let location = tables.frames.get(frame.index()).map(|frame| &frame.location);
            let kind = match location {
                Some(Location::Kernel { .. }) => KERNEL,
                _ => MISSING,
            };
            let module = location
                .and_then(Location::module)
                .map_or(NONE, |module| strings.id(tables.module_name(module)));
            let name = strings.id(&tables.function_name(frame));
            let function = self.add_function((name, module, kind));
            parent = self.add(Node {
                parent,
                function,
                source: NONE,
                line: 0,
            });
        }
        parent
    }

    fn add(&mut self, node: Node) -> u32 {
        self.nodes.number(&node, self.most, Clone::clone).unwrap_or(node.parent)
    }

    /// The finished tree.
    pub fn tree(self) -> StackTree {
        let nodes = |field: fn(&Node) -> u32| -> Vec<u32> { self.nodes.iter().map(field).collect() };
        StackTree {
            node_parent: nodes(|node| node.parent),
            node_function: nodes(|node| node.function),
            node_source: nodes(|node| node.source),
            node_line: nodes(|node| node.line),
            function_name: self.functions.iter().map(|(name, ..)| *name).collect(),
            function_module: self.functions.iter().map(|(_, module, _)| *module).collect(),
            function_kind: self.functions.iter().map(|(.., kind)| *kind).collect(),
        }
    }
}

columns! {
    /// The columns of a tree. In JSON, a missing reference is null.
    #[derive(Debug, Serialize)]
    pub struct StackTree {
        #[serde(serialize_with = "references")]
        node_parent: u32 => numbers,
        node_function: u32 => numbers,
        #[serde(serialize_with = "references")]
        node_source: u32 => numbers,
        node_line: u32 => numbers,
        function_name: u32 => numbers,
        #[serde(serialize_with = "references")]
        function_module: u32 => numbers,
        function_kind: u8 => numbers,
    }
}

fn references<S: Serializer>(ids: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(|id| (*id != NONE).then_some(*id)))
}
