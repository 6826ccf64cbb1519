//! Why a page was copied: determined by the innermost user frames, once they have names.

use std::rc::Rc;

use base::intern::Interner;
use fact::fault::MappedFileId;
use fact::{FrameId, Location, StackId, Tables, place_of_nameless};

/// Maximum number of dynamic linker frames to examine.
const MAX_FRAMES: usize = 8;
/// Maximum number of distinct chains of frames; causes beyond them are unknown.
const MAX_CHAINS: usize = 1 << 20;

/// What a fault was for, as far as it is known before the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// A copy made by these user frames.
    Copied(Option<ChainId>),
    /// The kernel itself wrote, without a program: exec clears the rest of the last page.
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

/// Frames that determine the cause of a copy: index into [`Chains`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainId(pub u32);

/// The rest of a stack without the kernel's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The user part.
    Stack(StackId),
    /// The frames outside the kernel's are missing.
    Cut,
    /// There are no user frames.
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

/// The distinct innermost frames of copies: consecutive dynamic linker frames, or the first frame outside it.
/// Thousands of stacks end in each.
#[derive(Debug, Default)]
pub struct Chains {
    all: Interner<Rc<[FrameId]>>,
    /// Reused buffer.
    frames: Vec<FrameId>,
}

impl Chains {
    /// Chain of a stack without kernel frames; `None` if there are too many chains.
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
        let number = self
            .all
            .number(self.frames.as_slice(), MAX_CHAINS, |frames| frames.into());
        number.map(ChainId)
    }

    /// The cause of a fault on a file's page.
    pub fn of_why(&self, tables: &Tables, why: Why, file: MappedFileId) -> Cause {
        match why {
            Why::Zeroed | Why::Cleared => Cause::Bss,
            Why::Copied(None) => Cause::Data,
            Why::Copied(Some(chain)) => self.cause(tables, chain, file),
        }
    }

    /// What the writer was doing, according to the innermost frames, while they belong to the dynamic linker or to
    /// the start code of a program that relocates itself.
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
                // Pointers in its dynamic section are adjusted there too.
                return if clears { Cause::Bss } else { Cause::Relocations };
            }
        }
        // Without names: writing to another file counts as relocating it.
        let own = tables.files.get(file.index()).is_some_and(|file| is_loader(&file.path));
        if is_named || own {
            Cause::Data
        } else {
            Cause::Relocations
        }
    }
}

/// In glibc, for statically linked programs.
const STATIC_RELOCATION: [&str; 3] = ["_dl_relocate_static_pie", "apply_irel", "do_relocs"];
/// Functions that map a library, adjust its dynamic section, and clear the unused rest of its last data page.
const MAPS: [&str; 4] = [
    "_dl_map_segments",
    "_dl_map_object_from_fd",
    "_dl_map_segment",
    "map_library",
];

/// Functions of the dynamic linkers of glibc and musl that relocate, either all at once or on the first call.
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
    // Functions split off by a compiler have a suffix.
    (place_of_nameless(name).is_none()).then(|| name.split('.').next().unwrap_or(name))
}

fn is_in_loader(tables: &Tables, frame: FrameId) -> bool {
    let location = tables.frames.get(frame.index()).map(|frame| &frame.location);
    let module = location.and_then(Location::module);
    module
        .and_then(|module| tables.modules.get(module.index()))
        .is_some_and(|module| is_loader(&module.path))
}

/// Whether the file is a dynamic linker, by its name.
fn is_loader(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["ld-linux", "ld-musl", "ld64.so", "ld.so", "ld-2."]
        .iter()
        .any(|start| name.starts_with(start))
}
