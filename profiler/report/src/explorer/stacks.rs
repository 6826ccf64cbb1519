//! Stacks as a tree of functions, including inlined ones; it contains only stacks that are used, and equal nodes once.

use rustc_hash::FxHashMap;

use super::container::{Container, NONE};
use super::limits;
use super::strings::Strings;
use crate::faults::View;
use crate::functions::FunctionId;
use fact::{FrameId, Location, StackId};

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
    view: &'a View<'a>,
    /// The node of each stack.
    nodes_of: FxHashMap<StackId, u32>,
    nodes: Vec<Node>,
    known: FxHashMap<Node, u32>,
    /// (name, module, kind) of each function, by number.
    functions: Vec<(u32, u32, u8)>,
    known_functions: FxHashMap<(u32, u32, u8), u32>,
}

impl<'a> Stacks<'a> {
    /// An empty tree.
    pub fn new(view: &'a View<'a>) -> Self {
        Self {
            view,
            nodes_of: FxHashMap::default(),
            nodes: Vec::new(),
            known: FxHashMap::default(),
            functions: Vec::new(),
            known_functions: FxHashMap::default(),
        }
    }

    /// The number of a function of the program.
    pub fn function(&mut self, id: FunctionId, strings: &mut Strings) -> u32 {
        let Some(function) = self.view.functions.get(id) else {
            return NONE;
        };
        let module = function
            .module
            .map_or(NONE, |module| strings.id(self.view.tables.module_name(module)));
        let key = (strings.id(&function.name), module, PROGRAM);
        self.add_function(key)
    }

    fn add_function(&mut self, key: (u32, u32, u8)) -> u32 {
        let next = u32::try_from(self.functions.len()).unwrap_or(NONE);
        *self.known_functions.entry(key).or_insert_with(|| {
            self.functions.push(key);
            next
        })
    }

    /// The node of a stack's innermost function. If the tree is full, the innermost node that it contains.
    pub fn node(&mut self, stack: StackId, strings: &mut Strings) -> u32 {
        // Walk up to the first known stack, then add nodes on the way down.
        let tables = self.view.tables;
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
        let tables = self.view.tables;
        let chain = self.view.functions.of_frame(frame);
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
        if let Some(known) = self.known.get(&node) {
            return *known;
        }
        if self.nodes.len() >= limits::NODES {
            return node.parent;
        }
        let id = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        self.nodes.push(node);
        self.known.insert(node, id);
        id
    }

    /// Adds the columns of the tree.
    pub fn columns(self, container: &mut Container) {
        let nodes = |field: fn(&Node) -> u32| -> Vec<u32> { self.nodes.iter().map(field).collect() };
        container.u32("node_parent", &nodes(|node| node.parent));
        container.u32("node_function", &nodes(|node| node.function));
        container.u32("node_source", &nodes(|node| node.source));
        container.u32("node_line", &nodes(|node| node.line));
        let names: Vec<u32> = self.functions.iter().map(|(name, ..)| *name).collect();
        let modules: Vec<u32> = self.functions.iter().map(|(_, module, _)| *module).collect();
        container.u32("function_name", &names);
        container.u32("function_module", &modules);
        container.u8("function_kind", self.functions.iter().map(|(.., kind)| *kind).collect());
    }
}
