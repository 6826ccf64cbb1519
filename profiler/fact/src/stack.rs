//! The parts of stacks: modules, frames, and why a stack may be incomplete.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{FrameId, ModuleId, ProcessId, Tables, TruncationReason};
use base::addr::{Avma, FileOffset, KernelOffset, Svma};
use base::event::FileId;

/// Index into [`super::Tables::stacks`]. There are more of these than of anything else, mostly as `Option`, which
/// also takes four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct StackId(
    /// One more than the number.
    NonZeroU32,
);

impl StackId {
    /// The stack with this number; no table has one at `u32::MAX`, which counts as the one before.
    pub const fn new(number: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(number))
    }

    /// The stack's number.
    pub const fn number(self) -> u32 {
        self.0.get() - 1
    }

    /// The number as an index into the table.
    pub const fn index(self) -> usize {
        self.number() as usize
    }
}

impl From<u32> for StackId {
    fn from(number: u32) -> Self {
        Self::new(number)
    }
}

impl From<StackId> for u32 {
    fn from(stack: StackId) -> Self {
        stack.number()
    }
}

/// The kind of event that a stack belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A CPU sample.
    Sample,
    /// A page fault.
    Fault,
    /// A wait, a waker, or a block request: the submitter is usually the one that waits.
    Wait,
}

/// The kind of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ModuleKind {
    /// A mapped file.
    File,
    /// The kernel and its modules.
    Kernel,
    /// The kernel's `[vdso]`.
    Vdso,
    /// Code that a JIT compiler named (perf map, jitdump).
    Jit,
    /// Executable anonymous memory without names.
    Anonymous,
}

/// Something that contains code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Module {
    /// Its kind.
    pub kind: ModuleKind,
    /// Base name for display: `libxul.so`, `[kernel]`, `[vdso]`, `[JIT]`, `[anonymous]`.
    pub name: String,
    /// Path as the process sees it.
    pub path: String,
    /// Device and inode.
    pub file: FileId,
    /// Build id, empty if it has none.
    pub build_id: Vec<u8>,
    /// Address of the first loadable segment in the file's own address space: relative addresses count from here.
    pub base_svma: Svma,
    /// Whether the file was deleted or replaced while it was mapped.
    pub deleted: bool,
    /// Why it can't be unwound or symbolized.
    pub problem: Option<String>,
}

impl Module {
    /// A module with only its name known.
    pub fn named(kind: ModuleKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            path: String::new(),
            file: FileId::default(),
            build_id: Vec::new(),
            base_svma: Svma(0),
            deleted: false,
            problem: None,
        }
    }
}

/// The location of a frame's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Location {
    /// In a mapped file whose segments are known.
    Module {
        /// The file.
        module: ModuleId,
        /// Address in the file's own address space.
        svma: Svma,
    },
    /// In a mapped file that could not be read: only the offset is known.
    FileOffset {
        /// The file.
        module: ModuleId,
        /// Offset in the file.
        offset: FileOffset,
    },
    /// In the kernel.
    Kernel {
        /// The kernel module (kind [`ModuleKind::Kernel`]).
        module: ModuleId,
        /// From `_text`.
        offset: KernelOffset,
    },
    /// In code generated at run time; named by its compiler.
    Jit {
        /// Pseudo module (kind [`ModuleKind::Jit`]).
        module: ModuleId,
        /// Its process.
        process: ProcessId,
        /// Start of the function.
        start: Avma,
        /// Address within the function.
        offset: u64,
        /// Distinguishes functions that were there one after another: the function's number in its jitdump, from 1;
        /// 0 if a perf map names it, which has no times.
        code: u32,
    },
    /// In executable anonymous memory.
    Anonymous {
        /// Pseudo module (kind [`ModuleKind::Anonymous`]).
        module: ModuleId,
        /// Its process.
        process: ProcessId,
        /// Address; 0: merged code anywhere in any process.
        avma: Avma,
    },
    /// No mapping covers it.
    Unmapped {
        /// Its process.
        process: ProcessId,
        /// Address.
        avma: Avma,
    },
    /// Placeholder for missing frames: the outermost frame of an incomplete stack.
    Truncated(TruncationReason),
}

impl Location {
    /// The module that contains it.
    pub fn module(&self) -> Option<ModuleId> {
        match self {
            Self::Module { module, .. }
            | Self::FileOffset { module, .. }
            | Self::Kernel { module, .. }
            | Self::Jit { module, .. }
            | Self::Anonymous { module, .. } => Some(*module),
            Self::Unmapped { .. } | Self::Truncated(_) => None,
        }
    }

    /// The module and the process that it refers to.
    pub fn ids_mut(&mut self) -> (Option<&mut ModuleId>, Option<&mut ProcessId>) {
        match self {
            Self::Module { module, .. } | Self::FileOffset { module, .. } | Self::Kernel { module, .. } => {
                (Some(module), None)
            }
            Self::Jit { module, process, .. } | Self::Anonymous { module, process, .. } => {
                (Some(module), Some(process))
            }
            Self::Unmapped { process, .. } => (None, Some(process)),
            Self::Truncated(_) => (None, None),
        }
    }

    /// For code in anonymous memory, the location that represents all such code.
    pub fn without_anonymous_address(&self) -> Option<Self> {
        match *self {
            Self::Anonymous { module, .. } => Some(Self::Anonymous {
                module,
                // The same for whichever process is first.
                process: ProcessId(0),
                avma: Avma(0),
            }),
            _ => None,
        }
    }
}

/// A distinct frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Where its address is.
    pub location: Location,
    /// Whether the address is a return address: then look up the byte before it.
    pub is_return_address: bool,
}

/// A frame and its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StackNode {
    /// The caller; `None` for the outermost.
    pub parent: Option<StackId>,
    /// This frame.
    pub frame: FrameId,
}

/// The names at an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrameName {
    /// The symbol that covers the address, demangled.
    pub symbol: Arc<str>,
    /// The symbol's start, in the address space of the frame's location.
    pub symbol_start: u64,
    /// The symbol's size in bytes, if known.
    pub symbol_size: Option<u64>,
    /// Functions at the address, innermost inlined one first; never empty.
    pub inline_chain: Vec<SourceFrame>,
}

/// One function of an inline chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceFrame {
    /// Demangled name.
    pub function: Arc<str>,
    /// Source file as spelled in the debug information.
    pub file: Option<Arc<str>>,
    /// Line, from 1.
    pub line: Option<u32>,
}

/// The frames of a stack, innermost first; ends at an invalid parent.
pub fn upwards(tables: &Tables, stack: StackId) -> impl Iterator<Item = FrameId> {
    let mut next = Some(stack);
    std::iter::from_fn(move || {
        let at = next?;
        let node = tables.stacks.get(at.index())?;
        next = node.parent.filter(|parent| *parent < at);
        Some(node.frame)
    })
}
