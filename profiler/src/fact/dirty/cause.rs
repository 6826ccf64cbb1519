//! Why a page was copied: the innermost frames of the program tell it, once they have names.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::fact::fault::MappedFileId;
use crate::fact::{FrameId, Location, StackId, Tables, place_of_nameless};

/// Frames of the dynamic linker that are asked what it does.
const MAX_FRAMES: usize = 8;
/// Distinct chains of frames; a cause beyond them is not told.
const MAX_CHAINS: usize = 1 << 20;

/// What a fault was for, as far as one can say before the names are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// A copy, which these frames of the program's made.
    Copied(Option<ChainId>),
    /// The kernel itself wrote, without a program: it clears the rest of the last page in exec.
    Cleared,
    /// Memory of `.bss`.
    Zeroed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Relocations,
    Data,
    Bss,
}

/// Frames that tell the cause of a copy: index into those of [`Chains`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainId(pub u32);

/// What is left of a stack without the kernel's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The program's part.
    Stack(StackId),
    /// The frames behind the kernel's are missing.
    Cut,
    /// There are no others.
    None,
}

/// The stack without the kernel's frames.
pub fn own_part(tables: &Tables, stack: StackId) -> Own {
    let mut next = Some(stack);
    while let Some(id) = next {
        let node = tables.stacks.get(id.index());
        let frame = node.and_then(|node| tables.frames.get(node.frame.index()));
        match frame.map(|frame| &frame.location) {
            Some(Location::Kernel { .. }) => next = node.and_then(|node| node.parent),
            Some(Location::Truncated(_)) | None => return Own::Cut,
            Some(_) => return Own::Stack(id),
        }
    }
    Own::None
}

/// The distinct innermost frames of copies: all that the dynamic linker has in a row, or the one that is not of it. Thousands of stacks end in each.
#[derive(Debug, Default)]
pub struct Chains {
    all: Vec<Rc<[FrameId]>>,
    known: FxHashMap<Rc<[FrameId]>, ChainId>,
    /// Room for one.
    frames: Vec<FrameId>,
}

impl Chains {
    /// Of a stack without the kernel's frames. `None`: there are too many others.
    pub fn of(&mut self, tables: &Tables, stack: StackId) -> Option<ChainId> {
        self.frames.clear();
        let mut next = Some(stack);
        while let Some(node) = next.and_then(|stack| tables.stacks.get(stack.index())) {
            let is_in_loader = is_in_loader(tables, node.frame);
            if is_in_loader || self.frames.is_empty() {
                self.frames.push(node.frame);
            }
            if !is_in_loader || self.frames.len() >= MAX_FRAMES {
                break;
            }
            next = node.parent;
        }
        if let Some(known) = self.known.get(self.frames.as_slice()) {
            return Some(*known);
        }
        let id = ChainId(
            u32::try_from(self.all.len())
                .ok()
                .filter(|_| self.all.len() < MAX_CHAINS)?,
        );
        let frames: Rc<[FrameId]> = self.frames.as_slice().into();
        self.all.push(Rc::clone(&frames));
        self.known.insert(frames, id);
        Some(id)
    }

    /// The cause of what was told about a file.
    pub fn of_why(&self, tables: &Tables, why: Why, file: MappedFileId) -> Cause {
        match why {
            Why::Zeroed | Why::Cleared => Cause::Bss,
            Why::Copied(None) => Cause::Data,
            Why::Copied(Some(chain)) => self.cause(tables, chain, file),
        }
    }

    /// What the writer was about: the innermost frames say it, as long as they are the dynamic linker's, or of the start code that
    /// relocates a program without one.
    pub fn cause(&self, tables: &Tables, chain: ChainId, file: MappedFileId) -> Cause {
        let frames = self.all.get(chain.0 as usize).map_or(&[][..], |frames| frames);
        let Some(&innermost) = frames.first() else {
            return Cause::Data;
        };
        let innermost_name = name_of(tables, innermost);
        if innermost_name.is_some_and(|name| STATIC_RELOCATION.contains(&name)) {
            return Cause::Relocations;
        }
        if !is_in_loader(tables, innermost) {
            return Cause::Data;
        }
        let clears = innermost_name.is_some_and(|name| name.trim_start_matches('_').starts_with("memset"));
        let mut is_named = false;
        for &frame in frames {
            let Some(name) = name_of(tables, frame) else { continue };
            is_named = true;
            if relocates(name) {
                return Cause::Relocations;
            }
            if MAPS.contains(&name) {
                // Pointers of its dynamic section are adjusted there too.
                return if clears { Cause::Bss } else { Cause::Relocations };
            }
        }
        // Without names: what it writes to another file, it relocates.
        let own = tables.files.get(file.index()).is_some_and(|file| is_loader(&file.path));
        if is_named || own {
            Cause::Data
        } else {
            Cause::Relocations
        }
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
    // What a compiler cut off has a suffix.
    (place_of_nameless(name).is_none()).then(|| name.split('.').next().unwrap_or(name))
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
