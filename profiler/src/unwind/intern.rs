//! Frames and stacks as facts: each distinct one is in the tables once.

use std::hash::{BuildHasher as _, Hash};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::binary::Modules;
use super::walk::{Place, RawFrame};
use crate::addr::{Avma, KernelOffset, Svma};
use crate::event::FileId;
use crate::fact::{
    Frame, FrameId, Location, Module, ModuleId, ModuleKind, ProcessId, StackId, StackNode, Tables, TruncationReason,
};
use crate::task::space::{FileKey, Files};

/// What is known about code that was made at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitFunction {
    /// Its first address.
    pub start: Avma,
    /// Which of the pieces of code that were there: see [`Location::Jit`].
    pub code: u32,
}

/// The files that frames lie in.
pub struct Known<'k, 'b> {
    /// What was opened.
    pub modules: &'k mut Modules<'b>,
    /// What was mapped.
    pub files: &'k Files,
}

/// What tells one module from another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    File(FileId, String, Vec<u8>),
    Pseudo(ModuleKind),
}

/// Puts frames and stacks into [`Tables`]. Of each it keeps the number alone: a large recording has ten million stacks.
#[derive(Debug, Default)]
pub struct Interner {
    frames: HashTable<FrameId>,
    stacks: HashTable<StackId>,
    modules: FxHashMap<Identity, ModuleId>,
    by_file: FxHashMap<FileKey, ModuleId>,
}

impl Interner {
    /// Goes on with tables that are filled already.
    pub fn of(tables: &Tables) -> Self {
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let mut interner = Self::default();
        for (frame, id) in tables.frames.iter().zip((0..).map(FrameId)) {
            let hasher = |id: &FrameId| hash_at(&tables.frames, id.index());
            interner.frames.insert_unique(hash(frame), id, hasher);
        }
        for (node, id) in tables.stacks.iter().zip((0..).map(StackId)) {
            let hasher = |id: &StackId| hash_at(&tables.stacks, id.index());
            interner.stacks.insert_unique(hash(node), id, hasher);
        }
        for (index, module) in tables.modules.iter().enumerate() {
            let identity = match module.kind {
                ModuleKind::File | ModuleKind::Vdso => {
                    Identity::File(module.file, module.path.clone(), module.build_id.clone())
                }
                kind => Identity::Pseudo(kind),
            };
            interner.modules.insert(identity, ModuleId(number(index)));
        }
        interner
    }

    /// The frame with this content.
    pub fn frame(&mut self, tables: &mut Tables, frame: Frame) -> FrameId {
        let frames = &mut tables.frames;
        let is_it = |id: &FrameId| frames.get(id.index()) == Some(&frame);
        match self.frames.entry(hash(&frame), is_it, |id| hash_at(frames, id.index())) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(room) => {
                let id = FrameId(u32::try_from(frames.len()).unwrap_or(u32::MAX));
                frames.push(frame);
                *room.insert(id).get()
            }
        }
    }

    /// The stack that `frame` makes on top of `parent`.
    pub fn stack(&mut self, tables: &mut Tables, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        let stacks = &mut tables.stacks;
        let is_it = |id: &StackId| stacks.get(id.index()) == Some(&node);
        match self.stacks.entry(hash(&node), is_it, |id| hash_at(stacks, id.index())) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(room) => {
                let id = StackId(u32::try_from(stacks.len()).unwrap_or(u32::MAX));
                stacks.push(node);
                *room.insert(id).get()
            }
        }
    }

    /// The outermost frame of a stack that is not complete.
    pub fn truncated(&mut self, tables: &mut Tables, reason: TruncationReason) -> StackId {
        let frame = Frame {
            location: Location::Truncated(reason),
            is_return_address: false,
        };
        let frame = self.frame(tables, frame);
        self.stack(tables, None, frame)
    }

    /// A frame of a user stack. `jit` is the function that covers it, if a compiler named one.
    pub fn user_frame(
        &mut self,
        tables: &mut Tables,
        known: &mut Known<'_, '_>,
        process: ProcessId,
        raw: &RawFrame,
        jit: Option<JitFunction>,
    ) -> FrameId {
        let avma = raw.address;
        let location = match (raw.place, jit) {
            (Place::Code(file, svma), _) => Location::Module {
                module: self.module(tables, known, file),
                svma,
            },
            (Place::Unreadable(file, offset), _) => Location::FileOffset {
                module: self.module(tables, known, file),
                offset,
            },
            (Place::MadeAtRunTime(_), Some(function)) => Location::Jit {
                module: self.pseudo(tables, ModuleKind::Jit),
                process,
                start: function.start,
                offset: avma.0.wrapping_sub(function.start.0),
                code: function.code,
            },
            (Place::MadeAtRunTime(_), None) => Location::Anonymous {
                module: self.pseudo(tables, ModuleKind::Anonymous),
                process,
                avma,
            },
            (Place::Unmapped, _) => Location::Unmapped { process, avma },
        };
        self.frame(
            tables,
            Frame {
                location,
                is_return_address: raw.is_return_address,
            },
        )
    }

    /// A frame in the kernel.
    pub fn kernel_frame(&mut self, tables: &mut Tables, offset: KernelOffset, is_return_address: bool) -> FrameId {
        let module = self.pseudo(tables, ModuleKind::Kernel);
        self.frame(
            tables,
            Frame {
                location: Location::Kernel { module, offset },
                is_return_address,
            },
        )
    }

    /// The module of a mapped file.
    fn module(&mut self, tables: &mut Tables, known: &mut Known<'_, '_>, key: FileKey) -> ModuleId {
        if let Some(id) = self.by_file.get(&key) {
            return *id;
        }
        let file = known.files.get(key);
        let known = known.modules.known(key, known.files);
        let problem = known.problem.clone();
        let kind = if file.is_vdso() {
            ModuleKind::Vdso
        } else {
            ModuleKind::File
        };
        let identity = Identity::File(file.file, file.path.clone(), known.build_id.clone());
        let id = *self.modules.entry(identity).or_insert_with(|| {
            tables.modules.push(Module {
                kind,
                name: base_name(&file.path).to_owned(),
                path: file.path.clone(),
                file: file.file,
                build_id: known.build_id.clone(),
                base_svma: known.base_svma,
                deleted: file.deleted,
                problem,
            });
            ModuleId(u32::try_from(tables.modules.len() - 1).unwrap_or(u32::MAX))
        });
        tables.modules[id.index()].deleted |= file.deleted;
        self.by_file.insert(key, id);
        id
    }

    /// The module that stands for code without a file.
    fn pseudo(&mut self, tables: &mut Tables, kind: ModuleKind) -> ModuleId {
        *self.modules.entry(Identity::Pseudo(kind)).or_insert_with(|| {
            let name = match kind {
                ModuleKind::Kernel => "[kernel]",
                ModuleKind::Jit => "[JIT]",
                ModuleKind::Vdso => "[vdso]",
                ModuleKind::Anonymous | ModuleKind::File => "[anonymous]",
            };
            tables.modules.push(Module {
                kind,
                name: name.to_owned(),
                path: String::new(),
                file: FileId::default(),
                build_id: Vec::new(),
                base_svma: Svma(0),
                deleted: false,
                problem: None,
            });
            ModuleId(u32::try_from(tables.modules.len() - 1).unwrap_or(u32::MAX))
        })
    }
}

fn hash(row: &impl Hash) -> u64 {
    FxBuildHasher.hash_one(row)
}

/// Of a row that is in its table.
fn hash_at<T: Hash>(rows: &[T], index: usize) -> u64 {
    rows.get(index).map_or(0, hash)
}

/// The last part of a path; the path itself if that is empty.
fn base_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}
