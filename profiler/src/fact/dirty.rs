//! Who made a process's own copies of a library's pages: relocations, writes to its data, zeroing of `.bss`.
//!
//! Hand in every fault in the order of a replay, and ask when the names are known. docs/page-faults.md has the rules.

use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::fault::{FaultClass, FaultFact, FilePlace, MappedFileId, PageRange};
use super::pages::{PageSet, innermost};
use super::{FrameId, Location, ProcessId, StackId, Tables, ThreadId};
use crate::addr::{PAGE, Timestamp};

/// Distinct stacks of copies that are told apart; later ones count as writes to data.
const MAX_STACKS: usize = 1 << 20;
/// Files of processes whose pages are kept.
const MAX_FILES: usize = 1 << 18;
/// Frames of the dynamic linker that are asked what it does.
const MAX_FRAMES: usize = 8;
/// Copies that are kept one by one.
const MAX_COPIES: usize = 1 << 20;

/// Pages, faults and time of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    /// Distinct pages of the process.
    pub pages: u64,
    /// Faults: more than pages, if a page was given back or shared by a fork meanwhile.
    pub faults: u64,
    /// Their time, as far as it is known.
    pub time: Duration,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.pages = self.pages.saturating_add(other.pages);
        self.faults = self.faults.saturating_add(other.faults);
        self.time = self.time.saturating_add(other.time);
    }
}

/// What a library's own pages cost a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryCost {
    /// Whose pages.
    pub process: ProcessId,
    /// Of which file.
    pub file: MappedFileId,
    /// Copied by the dynamic linker's relocations, lazy ones too.
    pub relocations: Cost,
    /// Copied by other writes.
    pub data: Cost,
    /// Zeroed: `.bss`.
    pub bss: Cost,
}

/// A copy of a page that the process did not have yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstCopy {
    /// When the fault began.
    pub time: Timestamp,
    /// Whose.
    pub thread: ThreadId,
    /// The innermost of the program's own frames.
    pub stack: StackId,
    /// The byte that was written to.
    pub place: FilePlace,
}

/// What a fault was for, as far as one can say before the names are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Why {
    /// A copy, made with this stack of the program's.
    Copied(Option<StackId>),
    /// The kernel itself wrote, without a program: it clears the rest of the last page in exec.
    Cleared,
    /// Memory of `.bss`.
    Zeroed,
}

/// Gathers the faults that made pages a process's own.
#[derive(Debug, Default)]
pub struct Dirtied {
    costs: FxHashMap<(ProcessId, MappedFileId, Why), Cost>,
    pages: FxHashMap<(ProcessId, MappedFileId), PageSet>,
    copies: Vec<FirstCopy>,
    copies_left_out: u64,
}

impl Dirtied {
    /// Takes a fault.
    pub fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        let Some(place) = fault
            .place
            .filter(|_| fault.class == FaultClass::FileCow && !fault.remote)
        else {
            return;
        };
        let why = fault.stack.map_or(Why::Copied(None), |stack| why(tables, stack));
        self.note(tables, fault, place.file, why);
    }

    /// Takes a fault in the zeroed memory behind a library's data.
    pub fn bss(&mut self, tables: &Tables, fault: &FaultFact, file: MappedFileId) {
        if matches!(fault.class, FaultClass::Anonymous | FaultClass::Cow) {
            self.note(tables, fault, file, Why::Zeroed);
        }
    }

    fn note(&mut self, tables: &Tables, fault: &FaultFact, file: MappedFileId, why: Why) {
        let Some(process) = tables.threads.get(fault.thread.index()).map(|thread| thread.process) else {
            return;
        };
        // By address: a page of the file that two segments share is mapped, and copied, twice.
        let page = fault.address.0 / PAGE;
        let mut key = (process, file, why);
        if self.costs.len() >= MAX_STACKS && !self.costs.contains_key(&key) {
            key.2 = Why::Copied(None);
        }
        let room = self.pages.len() < MAX_FILES || self.pages.contains_key(&(process, file));
        let new = room
            && self
                .pages
                .entry((process, file))
                .or_default()
                .insert_range(PageRange { first: page, count: 1 })
                > 0;
        if let (true, Why::Copied(Some(stack)), Some(place)) = (new, key.2, fault.place) {
            if self.copies.len() < MAX_COPIES {
                self.copies.push(FirstCopy {
                    time: fault.start,
                    thread: fault.thread,
                    stack,
                    place,
                });
            } else {
                self.copies_left_out += 1;
            }
        }
        self.costs.entry(key).or_default().add(Cost {
            pages: u64::from(new),
            faults: 1,
            time: fault.time(),
        });
    }

    /// The pages that relocations copied, one by one; as many as [`Self::finish`] counts, unless [`Self::copies_left_out`].
    pub fn relocated(&self, tables: &Tables) -> impl Iterator<Item = &FirstCopy> {
        let mut causes: FxHashMap<(StackId, MappedFileId), Cause> = FxHashMap::default();
        self.copies.iter().filter(move |copy| {
            let key = (copy.stack, copy.place.file);
            *causes.entry(key).or_insert_with(|| cause(tables, key.0, key.1)) == Cause::Relocations
        })
    }

    /// Copies that are not kept one by one: of more than a million.
    pub fn copies_left_out(&self) -> u64 {
        self.copies_left_out
    }

    /// The costs of each process and file, the dearest first.
    pub fn finish(&self, tables: &Tables) -> Vec<LibraryCost> {
        let mut libraries: FxHashMap<(ProcessId, MappedFileId), LibraryCost> = FxHashMap::default();
        let mut causes: FxHashMap<(StackId, MappedFileId), Cause> = FxHashMap::default();
        for ((process, file, why), cost) in &self.costs {
            let cause = match why {
                Why::Zeroed | Why::Cleared => Cause::Bss,
                Why::Copied(None) => Cause::Data,
                Why::Copied(Some(stack)) => *causes
                    .entry((*stack, *file))
                    .or_insert_with(|| cause(tables, *stack, *file)),
            };
            let library = libraries.entry((*process, *file)).or_insert(LibraryCost {
                process: *process,
                file: *file,
                relocations: Cost::default(),
                data: Cost::default(),
                bss: Cost::default(),
            });
            match cause {
                Cause::Relocations => library.relocations.add(*cost),
                Cause::Data => library.data.add(*cost),
                Cause::Bss => library.bss.add(*cost),
            }
        }
        let mut libraries: Vec<LibraryCost> = libraries.into_values().collect();
        let time = |library: &LibraryCost| library.relocations.time + library.data.time + library.bss.time;
        let pages = |library: &LibraryCost| library.relocations.pages + library.data.pages + library.bss.pages;
        libraries.sort_by(|a, b| {
            (time(b), pages(b))
                .cmp(&(time(a), pages(a)))
                .then((a.process, a.file).cmp(&(b.process, b.file)))
        });
        libraries
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Relocations,
    Data,
    Bss,
}

/// The stack without the kernel's frames, if any other is left.
fn why(tables: &Tables, stack: StackId) -> Why {
    let mut next = Some(stack);
    while let Some(id) = next {
        let node = tables.stacks.get(id.index());
        let frame = node.and_then(|node| tables.frames.get(node.frame.index()));
        match frame.map(|frame| &frame.location) {
            Some(Location::Kernel { .. }) => next = node.and_then(|node| node.parent),
            Some(Location::Truncated(_)) | None => return Why::Copied(None),
            Some(_) => return Why::Copied(Some(id)),
        }
    }
    Why::Cleared
}

/// What the writer was about: the innermost frames say it, as long as they are the dynamic linker's, or of the start code that
/// relocates a program without one.
fn cause(tables: &Tables, stack: StackId, file: MappedFileId) -> Cause {
    let Some(innermost) = innermost(tables, stack) else {
        return Cause::Data;
    };
    if name_of(tables, innermost).is_some_and(|name| STATIC_RELOCATION.contains(&name)) {
        return Cause::Relocations;
    }
    let clears = name_of(tables, innermost).is_some_and(|name| name.trim_start_matches('_').starts_with("memset"));
    let (mut next, mut named) = (Some(stack), false);
    for _ in 0..MAX_FRAMES {
        let Some(node) = next.and_then(|stack| tables.stacks.get(stack.index())) else {
            break;
        };
        if !is_in_loader(tables, node.frame) {
            break;
        }
        let name = name_of(tables, node.frame);
        named |= name.is_some();
        match name {
            Some(name) if relocates(name) => return Cause::Relocations,
            // Pointers of its dynamic section are adjusted there too.
            Some(name) if MAPS.contains(&name) && clears => return Cause::Bss,
            Some(name) if MAPS.contains(&name) => return Cause::Relocations,
            _ => next = node.parent,
        }
    }
    let by_loader = next != Some(stack);
    // Without names: what it writes to another file, it relocates.
    let own = tables.files.get(file.index()).is_some_and(|file| is_loader(&file.path));
    if by_loader && !named && !own {
        Cause::Relocations
    } else {
        Cause::Data
    }
}

/// Of glibc, in programs that are linked statically.
const STATIC_RELOCATION: [&str; 3] = ["_dl_relocate_static_pie", "apply_irel", "do_relocs"];
/// Functions that map a library, adjust its dynamic section, and clear what its data does not fill of its last page.
const MAPS: [&str; 4] = [
    "_dl_map_segments",
    "_dl_map_object_from_fd",
    "_dl_map_segment",
    "map_library",
];

/// Functions of glibc's and musl's dynamic linkers that relocate: all at once, or at the first call.
fn relocates(name: &str) -> bool {
    let begins = [
        "_dl_relocate",
        "elf_machine_rel",
        "elf_dynamic_do_",
        "_dl_runtime_resolve",
        "elf_get_dynamic_info",
    ];
    let is = [
        "_dl_fixup",
        "_dl_start",
        "do_relocs",
        "do_relr_relocs",
        "reloc_all",
        "__dls2",
    ];
    begins.iter().any(|start| name.starts_with(start)) || is.contains(&name)
}

fn name_of(tables: &Tables, frame: FrameId) -> Option<&str> {
    let name = &*tables.names.get(&frame)?.symbol;
    // Functions that only `.eh_frame` knows of have a number instead of a name; what a compiler cut off has a suffix.
    (!name.starts_with("fun_")).then(|| name.split('.').next().unwrap_or(name))
}

fn is_in_loader(tables: &Tables, frame: FrameId) -> bool {
    let location = tables.frames.get(frame.index()).map(|frame| &frame.location);
    let module = location.and_then(Location::module);
    module
        .and_then(|module| tables.modules.get(module.index()))
        .is_some_and(|module| is_loader(&module.path))
}

/// The file is a dynamic linker, by its name.
fn is_loader(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["ld-linux", "ld-musl", "ld64.so", "ld.so", "ld-2."]
        .iter()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests;
