//! The functions on the stacks of faults: the program's innermost one, and all of its callers.

use rustc_hash::{FxHashMap, FxHashSet};

use super::grid::GroupName;
use base::intern::Interner;
use fact::{FrameId, Location, ModuleId, StackId, Tables, place_of_nameless, upwards};

/// Marks a missing id.
const NONE: u32 = u32::MAX;

/// A function, identified by its module and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// The module that contains it.
    pub module: Option<ModuleId>,
    /// Its name, or `module + 0xaddress` if it has none.
    pub name: String,
    /// It has a symbol name.
    pub is_named: bool,
    /// Its bounds are known, at least from unwind information.
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
    /// Each frame's range in `chain`, innermost inlined function first; empty for kernel and missing frames.
    frames: Vec<(u32, u32)>,
    chain: Vec<FunctionId>,
    /// For each stack, the function that a fault there is attributed to.
    innermost: Vec<u32>,
    /// Names that functions of several modules have.
    ambiguous: FxHashSet<String>,
}

impl Functions {
    /// Resolves the functions of every stack in `tables`.
    pub fn new(tables: &Tables) -> Self {
        let mut functions = Self::default();
        let mut all = Interner::default();
        for id in 0..u32::try_from(tables.frames.len()).unwrap_or(NONE) {
            let range = functions.frame(tables, FrameId(id), &mut all);
            functions.frames.push(range);
        }
        functions.all = all.into_values();
        functions.ambiguous = ambiguous(&functions.all);
        for (index, node) in tables.stacks.iter().enumerate() {
            // Parents precede their children: ignore any other parent.
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

    fn frame(&mut self, tables: &Tables, id: FrameId, all: &mut Interner<Function>) -> (u32, u32) {
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
                let id = all.number(&function, usize::MAX, Clone::clone);
                self.chain.push(FunctionId(id.unwrap_or(NONE)));
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

    /// The functions of a frame, innermost inlined function first.
    pub fn of_frame(&self, frame: FrameId) -> &[FunctionId] {
        let range = self.frames.get(frame.index());
        range
            .and_then(|&(start, end)| self.chain.get(start as usize..end as usize))
            .unwrap_or_default()
    }

    /// The program's innermost known function on the stack, or its innermost address if none is known. `None` if the stack has no
    /// frame of the program.
    pub fn innermost(&self, stack: Option<StackId>) -> Option<FunctionId> {
        let id = *self.innermost.get(stack?.index())?;
        (id != NONE).then_some(FunctionId(id))
    }

    /// Names the row of a function.
    pub(crate) fn group_name(&self, tables: &Tables, id: Option<FunctionId>) -> GroupName {
        let function = id.and_then(|id| self.get(id));
        let module = function.and_then(|function| Some(tables.module_name(function.module?).to_owned()));
        let name = function.map(|function| function.name.clone());
        let label = match (&name, &module) {
            (Some(name), Some(module)) if self.ambiguous.contains(name) => format!("{name} in {module}"),
            (Some(name), _) => name.clone(),
            (None, _) => "(no function of the program)".to_owned(),
        };
        GroupName::new(label).field("function", name).field("module", module)
    }

    /// Looks up a function by its id.
    pub fn get(&self, id: FunctionId) -> Option<&Function> {
        self.all.get(id.0 as usize)
    }
}

fn ambiguous(all: &[Function]) -> FxHashSet<String> {
    let mut modules = FxHashMap::default();
    let of_several = all.iter().filter(|function| {
        let first = *modules.entry(&function.name).or_insert(function.module);
        first != function.module
    });
    of_several.map(|function| function.name.clone()).collect()
}

/// The names of a stack's frames, outermost first and joined by `;` as flame graph tools expect; a `;` in a name becomes `,`.
pub fn outermost_first(tables: &Tables, stack: StackId) -> String {
    let names = upwards(tables, stack).map(|frame| tables.function_name(frame).replace(';', ","));
    let mut names: Vec<String> = names.collect();
    names.reverse();
    names.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_modules_are_ambiguous() {
        let function = |module: Option<u32>, name: &str| Function {
            module: module.map(ModuleId),
            name: name.to_owned(),
            is_named: true,
            is_known: true,
        };
        let all = [
            function(Some(1), "main"),
            function(Some(1), "malloc"),
            function(Some(2), "malloc"),
            function(None, "main"),
            function(Some(3), "free"),
        ];
        let mut found: Vec<String> = ambiguous(&all).into_iter().collect();
        found.sort();
        assert_eq!(found, ["main", "malloc"]);
    }
}
