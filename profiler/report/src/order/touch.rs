//! Finds the functions of a file that ran, and when each ran first: those with a fault, and those on any stack.

use rustc_hash::{FxHashMap, FxHashSet};
use symbols::elf::{FunctionSymbol, Segment};

use base::addr::{FileOffset, Timestamp};
use fact::fault::Access;
use fact::{FactSink, FaultFact, Location, MappedFileId, Mark, ModuleId, SampleFact, StackId, Tables, WaitFact};

/// Limit of fault places and pages that are kept.
const MAX_PLACES: usize = 1 << 22;

/// Collects from a recording when code first ran.
#[derive(Debug, Default)]
pub struct Touches {
    /// By stack: when it was first recorded.
    stacks: Vec<Option<Timestamp>>,
    /// File offsets that faults executed, and the first time of each.
    places: FxHashMap<(MappedFileId, FileOffset), Timestamp>,
    /// Offsets of pages of files that were faulted in.
    pages: FxHashSet<(MappedFileId, FileOffset)>,
    faults: u64,
}

/// A function that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// Index among the functions of the file.
    pub function: usize,
    /// When it ran first, as far as recorded.
    pub time: Timestamp,
}

/// The selected file of a recording.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Its IDs in faults.
    pub files: Vec<MappedFileId>,
    /// Its IDs in stacks.
    pub modules: Vec<ModuleId>,
}

impl Touches {
    /// Number of faults in any file.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// The functions that ran, by first time; `functions` must be sorted by address.
    pub fn functions(
        &self,
        tables: &Tables,
        chosen: &Chosen,
        functions: &[FunctionSymbol],
        segments: &[Segment],
    ) -> Vec<Touched> {
        let mut first: FxHashMap<usize, Timestamp> = FxHashMap::default();
        let mut note = |svma: u64, time: Timestamp| {
            if let Some(function) = function_at(functions, svma) {
                let known = first.entry(function).or_insert(time);
                *known = (*known).min(time);
            }
        };
        for ((file, byte), time) in &self.places {
            if chosen.files.contains(file)
                && let Some(svma) = svma_of(segments, byte.0)
            {
                note(svma, *time);
            }
        }
        for (stack, time) in self.stacks_with_callers(tables) {
            let frame = tables
                .stacks
                .get(stack)
                .and_then(|node| tables.frames.get(node.frame.index()));
            let Some(frame) = frame else { continue };
            if let Location::Module { module, svma } = &frame.location
                && chosen.modules.contains(module)
            {
                // A call may be the last instruction of its function.
                note(svma.0.saturating_sub(u64::from(frame.is_return_address)), time);
            }
        }
        let mut touched: Vec<Touched> = (first.into_iter())
            .map(|(function, time)| Touched { function, time })
            .collect();
        touched.sort_by_key(|touched| (touched.time, touched.function));
        touched
    }

    /// Number of pages of the file, of `page` bytes, that were faulted in within this byte range.
    pub fn pages(&self, chosen: &Chosen, bytes: (u64, u64), page: u64) -> u64 {
        let within = |(file, offset): &&(MappedFileId, FileOffset)| {
            chosen.files.contains(file) && offset.0 / page >= bytes.0 / page && offset.0 < bytes.1
        };
        let pages = self.pages.iter().filter(within);
        pages
            .map(|(file, offset)| (*file, offset.0 / page))
            .collect::<FxHashSet<_>>()
            .len() as u64
    }

    /// Every recorded stack and its callers, with the earliest time of each.
    fn stacks_with_callers(&self, tables: &Tables) -> Vec<(usize, Timestamp)> {
        let mut first = self.stacks.clone();
        first.resize(tables.stacks.len(), None);
        // A parent precedes its children: any other index is invalid.
        for index in (0..first.len()).rev() {
            let parent = tables.stacks.get(index).and_then(|node| node.parent);
            if let (Some(time), Some(parent)) = (first[index], parent.map(StackId::index))
                && parent < index
            {
                time.keep_earliest(&mut first[parent]);
            }
        }
        let seen = first.into_iter().enumerate();
        seen.filter_map(|(stack, time)| Some((stack, time?))).collect()
    }

    fn stack(&mut self, tables: &Tables, stack: Option<StackId>, time: Timestamp) {
        let Some(stack) = stack.filter(|stack| stack.index() < tables.stacks.len()) else {
            return;
        };
        if self.stacks.len() <= stack.index() {
            self.stacks.resize(tables.stacks.len(), None);
        }
        time.keep_earliest(&mut self.stacks[stack.index()]);
    }
}

/// Index of the innermost function that covers an address; `functions` must be sorted by address.
fn function_at(functions: &[FunctionSymbol], svma: u64) -> Option<usize> {
    let after = functions.partition_point(|function| function.svma <= svma);
    // A part of a function may have a separate name; deeper nesting is corrupt input.
    let before = functions.get(after.saturating_sub(8)..after)?;
    let covers = |function: &&FunctionSymbol| svma - function.svma < function.size;
    let found = before.iter().rev().position(|function| covers(&function))?;
    Some(after - 1 - found)
}

/// Stated virtual address of a byte of the file; `None` outside code.
fn svma_of(segments: &[Segment], byte: u64) -> Option<u64> {
    let mut code = segments.iter().filter(|segment| segment.executable);
    code.find_map(|segment| {
        let at = byte
            .checked_sub(segment.file_offset)
            .filter(|at| *at < segment.file_size)?;
        segment.svma.checked_add(at)
    })
}

impl FactSink for Touches {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        self.stack(tables, sample.stack, sample.time);
    }

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        self.stack(tables, mark.stack, mark.start);
    }

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.stack(tables, wait.stack, wait.start);
    }

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.faults += 1;
        self.stack(tables, fault.stack, fault.start);
        let Some(place) = fault.place.filter(|_| fault.failed.is_none()) else {
            return;
        };
        if self.pages.len() < MAX_PLACES {
            self.pages.insert((place.file, place.offset));
        }
        // A read where code is may be of a table. If the access is unknown, it is usually code.
        let runs = matches!(fault.access, Access::Execute | Access::Unknown);
        let key = (place.file, place.byte);
        if runs && (self.places.len() < MAX_PLACES || self.places.contains_key(&key)) {
            let known = self.places.entry(key).or_insert(fault.start);
            *known = (*known).min(fault.start);
        }
    }
}

/// Number of names of touched functions that several functions share: a linker can't distinguish these.
pub fn ambiguous(functions: &[FunctionSymbol], touched: &[Touched]) -> usize {
    let mut known: FxHashMap<&str, u32> = FxHashMap::default();
    for function in functions {
        *known.entry(&function.name).or_default() += 1;
    }
    let names = touched.iter().filter_map(|touched| functions.get(touched.function));
    let mut shared: Vec<&str> = names
        .filter(|function| known.get(&*function.name).is_some_and(|count| *count > 1))
        .map(|function| &*function.name)
        .collect();
    shared.sort_unstable();
    shared.dedup();
    shared.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(svma: u64, size: u64) -> FunctionSymbol {
        FunctionSymbol {
            svma,
            size,
            name: format!("f{svma}"),
            local: false,
            aliases: 0,
        }
    }

    #[test]
    fn an_address_belongs_to_the_innermost_function() {
        let functions = [function(100, 50), function(120, 10), function(200, 1)];
        let found: Vec<Option<usize>> = [99, 100, 120, 129, 130, 149, 150, 200, 201, u64::MAX]
            .map(|svma| function_at(&functions, svma))
            .to_vec();
        let expected = [
            None,
            Some(0),
            Some(1),
            Some(1),
            Some(0),
            Some(0),
            None,
            Some(2),
            None,
            None,
        ];
        assert_eq!(found, expected);
        assert_eq!(function_at(&[], 5), None);
    }
}
