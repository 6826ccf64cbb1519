//! Interns frames and stacks as facts: each distinct one is in the tables once.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxHashMap;

use crate::{
    Frame, FrameId, Location, Module, ModuleId, ModuleKind, ProcessId, StackId, StackNode, Tables, TruncationReason,
};
use base::addr::{Avma, KernelOffset};
use base::event::FileId;
use base::hash::hash;
use task::space::{FileKey, MappedFiles};
use unwind::{FramePlace, Modules, RawFrame};

/// A function generated at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitFunction {
    /// Its first address.
    pub start: Avma,
    /// Index among the functions at this address: see [`Location::Jit`].
    pub code: u32,
}

/// The files of frames.
pub struct FrameFiles<'k, 'b> {
    /// Opened files.
    pub modules: &'k mut Modules<'b>,
    /// Mapped files.
    pub files: &'k MappedFiles,
}

/// Identity of a module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    File(FileId, String, Vec<u8>),
    Pseudo(ModuleKind),
}

/// Rows of a table by content. It stores only the numbers of rows: a large recording has ten
/// million stacks.
#[derive(Debug, Default)]
struct Numbers(HashTable<u32>);

impl Numbers {
    fn of<T: Hash>(rows: &[T]) -> Self {
        let mut numbers = HashTable::with_capacity(rows.len());
        for (row, number) in rows.iter().zip(0..) {
            numbers.insert_unique(hash(row), number, |&number| hash_at(rows, number));
        }
        Self(numbers)
    }

    /// The number of a row, which is added if it is new.
    fn number<T: Hash + Eq>(&mut self, rows: &mut Vec<T>, row: T) -> u32 {
        let is_it = |&number: &u32| rows.get(number as usize) == Some(&row);
        match self.0.entry(hash(&row), is_it, |&number| hash_at(rows, number)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(room) => {
                let number = u32::try_from(rows.len()).unwrap_or(u32::MAX);
                rows.push(row);
                *room.insert(number).get()
            }
        }
    }
}

/// Adds frames and stacks to [`Tables`].
#[derive(Debug, Default)]
pub struct Interner {
    frames: Numbers,
    stacks: Numbers,
    modules: FxHashMap<Identity, ModuleId>,
    by_file: FxHashMap<FileKey, ModuleId>,
    /// Whether all code in anonymous memory is one frame.
    merges: bool,
    /// The number of that frame.
    merged: Option<FrameId>,
}

impl Interner {
    /// Continues with existing tables.
    pub fn of(tables: &Tables) -> Self {
        let mut interner = Self {
            frames: Numbers::of(&tables.frames),
            stacks: Numbers::of(&tables.stacks),
            ..Self::default()
        };
        for (module, number) in tables.modules.iter().zip(0..) {
            let identity = match module.kind {
                ModuleKind::File | ModuleKind::Vdso => {
                    Identity::File(module.file, module.path.clone(), module.build_id.clone())
                }
                kind => Identity::Pseudo(kind),
            };
            interner.modules.insert(identity, ModuleId(number));
        }
        interner
    }

    /// Call [`Self::number`] after stacks and frames of the tables get new numbers.
    pub fn forget_numbers(&mut self) {
        (self.frames, self.stacks) = (Numbers::default(), Numbers::default());
        self.merged = None;
    }

    /// From now on, all unnamed code in anonymous memory is one frame in all stacks: its address
    /// differs between processes, and stacks that differ only in that are the majority in a
    /// recording of many browsers.
    pub fn merge_anonymous(&mut self) {
        self.merges = true;
    }

    /// Whether this is enabled.
    pub fn merges_anonymous(&self) -> bool {
        self.merges
    }

    /// Indexes the frames of the tables.
    pub fn number_frames(&mut self, tables: &Tables) {
        self.frames = Numbers::of(&tables.frames);
    }

    /// Indexes the stacks and frames of the tables.
    pub fn number(&mut self, tables: &Tables) {
        self.number_frames(tables);
        self.stacks = Numbers::of(&tables.stacks);
    }

    /// The frame with this content.
    pub fn frame(&mut self, tables: &mut Tables, frame: Frame) -> FrameId {
        FrameId(self.frames.number(&mut tables.frames, frame))
    }

    /// The stack of `frame` on top of `parent`.
    pub fn stack(&mut self, tables: &mut Tables, parent: Option<StackId>, frame: FrameId) -> StackId {
        let frame = if self.merges { self.merged(tables, frame) } else { frame };
        StackId::new(self.stacks.number(&mut tables.stacks, StackNode { parent, frame }))
    }

    fn merged(&mut self, tables: &mut Tables, frame: FrameId) -> FrameId {
        let location = tables.frames.get(frame.index()).map(|frame| &frame.location);
        let Some(merged) = location.and_then(Location::without_anonymous_address) else {
            return frame;
        };
        if let Some(known) = self.merged {
            return known;
        }
        let merged = Frame {
            location: merged,
            is_return_address: false,
        };
        let merged = self.frame(tables, merged);
        *self.merged.insert(merged)
    }

    /// The outermost frame of an incomplete stack.
    pub fn truncated(&mut self, tables: &mut Tables, reason: TruncationReason) -> StackId {
        let frame = Frame {
            location: Location::Truncated(reason),
            is_return_address: false,
        };
        let frame = self.frame(tables, frame);
        self.stack(tables, None, frame)
    }

    /// A frame of a user stack. `jit` is the function that covers it, if a JIT compiler named one.
    pub fn user_frame(
        &mut self,
        tables: &mut Tables,
        known: &mut FrameFiles<'_, '_>,
        process: ProcessId,
        raw: &RawFrame,
        jit: Option<JitFunction>,
    ) -> FrameId {
        let avma = raw.address;
        let location = match (raw.place, jit) {
            (FramePlace::Code(file, svma), _) => Location::Module {
                module: self.module(tables, known, file),
                svma,
            },
            (FramePlace::Unreadable(file, offset), _) => Location::FileOffset {
                module: self.module(tables, known, file),
                offset,
            },
            (FramePlace::MadeAtRunTime(_), Some(function)) => Location::Jit {
                module: self.pseudo(tables, ModuleKind::Jit),
                process,
                start: function.start,
                offset: avma.0.wrapping_sub(function.start.0),
                code: function.code,
            },
            (FramePlace::MadeAtRunTime(_), None) => Location::Anonymous {
                module: self.pseudo(tables, ModuleKind::Anonymous),
                process,
                avma,
            },
            (FramePlace::Unmapped, _) => Location::Unmapped { process, avma },
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
    fn module(&mut self, tables: &mut Tables, known: &mut FrameFiles<'_, '_>, key: FileKey) -> ModuleId {
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
        let identity = Identity::File(file.file, file.path.to_string(), known.build_id.clone());
        let id = *self.modules.entry(identity).or_insert_with(|| {
            tables.modules.push(Module {
                kind,
                name: base_name(&file.path).to_owned(),
                path: file.path.to_string(),
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

    /// The module for code without a file.
    fn pseudo(&mut self, tables: &mut Tables, kind: ModuleKind) -> ModuleId {
        *self.modules.entry(Identity::Pseudo(kind)).or_insert_with(|| {
            let name = match kind {
                ModuleKind::Kernel => "[kernel]",
                ModuleKind::Jit => "[JIT]",
                ModuleKind::Vdso => "[vdso]",
                ModuleKind::Anonymous | ModuleKind::File => "[anonymous]",
            };
            tables.modules.push(Module::named(kind, name));
            ModuleId(u32::try_from(tables.modules.len() - 1).unwrap_or(u32::MAX))
        })
    }
}

/// The number of a row that is in its table.
fn hash_at<T: Hash>(rows: &[T], number: u32) -> u64 {
    rows.get(number as usize).map_or(0, hash)
}

/// The last part of a path; the path itself if that is empty.
fn base_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}
