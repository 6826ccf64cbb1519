//! Which functions the stacks of faults go through: the innermost one of the program, and all above it.

use rustc_hash::FxHashMap;

use crate::fact::{FrameId, Location, ModuleId, StackId, Tables, place_of_nameless, upwards};

/// Stands for nothing.
const NONE: u32 = u32::MAX;

/// A function, told apart by its module and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Where it is.
    pub module: Option<ModuleId>,
    /// Its name, or `module + 0xaddress` where it has none.
    pub name: String,
    /// It has a name of its own.
    pub is_named: bool,
    /// Where it begins and ends is known, if only from unwind information.
    pub is_known: bool,
}

/// Index into [`Functions::all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// The functions of all stacks.
#[derive(Debug, Default)]
pub struct Functions {
    /// Functions by id.
    pub all: Vec<Function>,
    /// By frame: its functions in `chain`, innermost inlined one first; none for frames of the kernel and missing ones.
    frames: Vec<(u32, u32)>,
    chain: Vec<FunctionId>,
    /// By stack: the function that a fault there belongs to.
    innermost: Vec<u32>,
}

impl Functions {
    /// Of every stack in the tables.
    pub fn new(tables: &Tables) -> Self {
        let mut functions = Self::default();
        let mut known = FxHashMap::default();
        for id in 0..u32::try_from(tables.frames.len()).unwrap_or(NONE) {
            let range = functions.frame(tables, FrameId(id), &mut known);
            functions.frames.push(range);
        }
        for (index, node) in tables.stacks.iter().enumerate() {
            // A parent comes before its children: anything else is no parent.
            let parent = node.parent.map(StackId::index).filter(|&parent| parent < index);
            let above = parent.map_or(NONE, |parent| functions.innermost[parent]);
            let own = functions.of_frame(node.frame).first().map_or(NONE, |own| own.0);
            let known = |id: u32| functions.all.get(id as usize).is_some_and(|function| function.is_known);
            let innermost = if own == NONE || (known(above) && !known(own)) {
                above
            } else {
                own
            };
            functions.innermost.push(innermost);
        }
        functions
    }

    fn frame(&mut self, tables: &Tables, id: FrameId, known: &mut FxHashMap<Function, FunctionId>) -> (u32, u32) {
        let start = self.chain.len();
        let location = tables.frames.get(id.index()).map(|frame| &frame.location);
        if let Some(location) = location
            && !matches!(location, Location::Kernel { .. } | Location::Truncated(_))
        {
            let module = location.module();
            let mut add = |name: &str, is_known| {
                let function = Function {
                    module,
                    name: name.to_owned(),
                    is_named: is_known && place_of_nameless(name).is_none(),
                    is_known,
                };
                let next = FunctionId(u32::try_from(self.all.len()).unwrap_or(NONE));
                let id = *known.entry(function).or_insert_with_key(|function| {
                    self.all.push(function.clone());
                    next
                });
                self.chain.push(id);
            };
            match tables.names.get(&id) {
                Some(name) if !name.inline_chain.is_empty() => {
                    name.inline_chain.iter().for_each(|inner| add(&inner.function, true));
                }
                Some(name) => add(&name.symbol, true),
                None => add(&tables.address_name(location), false),
            }
        }
        let place = |len| u32::try_from(len).unwrap_or(NONE);
        (place(start), place(self.chain.len()))
    }

    /// The functions of a frame, innermost inlined one first.
    pub fn of_frame(&self, frame: FrameId) -> &[FunctionId] {
        let range = self.frames.get(frame.index());
        range
            .and_then(|&(start, end)| self.chain.get(start as usize..end as usize))
            .unwrap_or_default()
    }

    /// The innermost function of the program that is known; if none is, the innermost address. `None`: the stack has no frame of
    /// the program.
    pub fn innermost(&self, stack: Option<StackId>) -> Option<FunctionId> {
        let id = *self.innermost.get(stack?.index())?;
        (id != NONE).then_some(FunctionId(id))
    }

    /// A function by its id.
    pub fn get(&self, id: FunctionId) -> Option<&Function> {
        self.all.get(id.0 as usize)
    }
}

/// The names of a stack's frames, outermost first, as flame graphs take them: a `;` in a name is a `,` there.
pub fn outermost_first(tables: &Tables, stack: StackId) -> String {
    let names = upwards(tables, stack).map(|frame| tables.function_name(frame).replace(';', ","));
    let mut names: Vec<String> = names.collect();
    names.reverse();
    names.join(";")
}
