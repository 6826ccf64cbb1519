//! Which lock a wait was for, and what locks are called.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::functions::FunctionId;
use crate::waits::View;
use base::event::LockId;
use fact::reasons::kernel_lock;
use fact::wait::Futex;
use fact::{
    KernelLock, Location, LockKind, MappedFile, MappedFileId, ProcessId, StackId, Tables, WaitFact, WaitReason,
    short_path, upwards,
};

/// The identity of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lock {
    /// A futex of a process.
    Futex(ProcessId, Futex),
    /// Futexes of a process whose addresses are unknown, by the function that waited.
    Unknown(ProcessId, Option<FunctionId>),
    /// A lock on a file.
    File(MappedFileId),
    /// The lock of a process's address space (`mmap_lock`).
    Space(ProcessId, LockKind),
    /// Another lock of a kernel that reports its locks.
    OfKernel(LockId),
    /// Locks of a kernel that does not: their kind, and the function that wanted one.
    Kernel(LockKind, Arc<str>),
}

/// What waits show about the locks of the kernel.
#[derive(Debug, Default)]
pub struct KernelLocks {
    labels: FxHashMap<LockId, (LockKind, String)>,
    /// The process whose address space a lock is of: another one's may get its memory later.
    spaces: FxHashMap<LockId, ProcessId>,
}

impl KernelLocks {
    /// The identity of the lock for which a thread of `process` waited; waits are passed by time.
    fn of(&mut self, lock: &KernelLock, process: ProcessId) -> Lock {
        if lock.is_own_mmap {
            self.spaces.insert(lock.id, process);
        }
        if let Some(process) = self.spaces.get(&lock.id) {
            return Lock::Space(*process, lock.kind);
        }
        let label = || (lock.kind, lock.label());
        self.labels.entry(lock.id).or_insert_with(label);
        Lock::OfKernel(lock.id)
    }
}

/// Finds the locks of waits.
#[derive(Debug)]
pub struct Identify<'v, 'a> {
    view: &'v View<'a>,
    /// Whether futexes that seem to be conditions count.
    conditions: bool,
    /// The locks of the kernel.
    pub known: KernelLocks,
    kernel: FxHashMap<StackId, Option<(LockKind, Arc<str>)>>,
}

impl<'v, 'a> Identify<'v, 'a> {
    /// Finds the locks of a view's waits; futexes that seem to be conditions count as locks only with `conditions`.
    pub fn new(view: &'v View<'a>, conditions: bool) -> Self {
        Self {
            view,
            conditions,
            known: KernelLocks::default(),
            kernel: FxHashMap::default(),
        }
    }

    /// The lock that a wait was for; `None` if it was for something else.
    pub fn of(&mut self, wait: &WaitFact) -> Option<Lock> {
        let is_condition = wait.reason == WaitReason::Condition && self.conditions;
        let process = self.view.tables.threads.get(wait.thread.index())?.process;
        match (wait.reason, wait.futex) {
            (WaitReason::RunQueue | WaitReason::Throttled | WaitReason::Stopped | WaitReason::Unknown, _) => None,
            _ if let Some(lock) = &wait.lock => Some(self.known.of(lock, process)),
            (WaitReason::Lock, Some(futex)) => Some(Lock::Futex(process, futex)),
            (_, Some(futex)) if is_condition => Some(Lock::Futex(process, futex)),
            (WaitReason::Lock, None) => Some(match wait.call.as_ref().and_then(|call| call.file) {
                Some(file) => Lock::File(file),
                None => Lock::Unknown(process, self.view.function(wait.stack)),
            }),
            _ => {
                let stack = wait.stack?;
                let tables = self.view.tables;
                let known = self.kernel.entry(stack).or_insert_with(|| of_kernel(tables, stack));
                known.clone().map(|(kind, taker)| Lock::Kernel(kind, taker))
            }
        }
    }
}

/// The kind of kernel lock that a stack waits for, and the function that wanted it.
pub fn of_kernel(tables: &Tables, stack: StackId) -> Option<(LockKind, Arc<str>)> {
    let is_kernel = |location: &Location| matches!(location, Location::Kernel { .. });
    let frames = upwards(tables, stack).take_while(|frame| {
        let frame = tables.frames.get(frame.index());
        frame.is_some_and(|frame| is_kernel(&frame.location))
    });
    let names = frames.map(|frame| tables.names.get(&frame).map_or("", |name| &*name.symbol));
    kernel_lock(names).map(|lock| (lock.kind, lock.taker.into()))
}

/// What a lock is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockName {
    /// `queue + 0x8 of libfoo.so`, `libfoo.so+0x40c0`, `futex in take`, `0x7f12a0000b20`, `mmap_lock of PROCESS`, `cgroup_mutex`,
    /// `mutex #3`, `mutex`, or the path of a file.
    pub text: String,
    /// `futex`, `file`, or the kind of a kernel lock.
    pub kind: &'static str,
    /// The process that it belongs to.
    pub process: Option<ProcessId>,
    /// The address of a futex.
    pub address: Option<u64>,
    /// The file in whose data it is, or that is locked.
    pub file: Option<String>,
    /// The distance from the start of that file's mappings.
    pub offset: Option<u64>,
    /// The variable there, as [`Futex::symbol`] writes it.
    pub symbol: Option<String>,
    /// The kernel's function that wanted it.
    pub taker: Option<Arc<str>>,
    /// The recording's number of a lock of the kernel that is not a variable.
    pub number: Option<u64>,
}

impl LockName {
    /// Names a lock.
    pub fn new(tables: &Tables, locks: &KernelLocks, lock: &Lock) -> Self {
        let path = |id: MappedFileId| tables.files.get(id.index()).map(MappedFile::display_path);
        match lock {
            Lock::Futex(process, futex) => {
                let place = futex.place.and_then(|(file, offset)| Some((path(file)?, offset)));
                let symbol = futex.symbol(&tables.files);
                let text = match (&place, &symbol) {
                    (Some((path, _)), Some(symbol)) => format!("{symbol} of {}", short_path(path)),
                    (Some((path, offset)), None) => format!("{}+{offset:#x}", short_path(path)),
                    (None, _) => format!("{:#x}", futex.address.0),
                };
                let (file, offset) = place.unzip();
                Self {
                    text,
                    kind: "futex",
                    process: Some(*process),
                    address: Some(futex.address.0),
                    file,
                    offset,
                    symbol,
                    ..Self::default()
                }
            }
            Lock::Unknown(process, _) => Self {
                text: "(unknown address)".to_owned(),
                kind: "futex",
                process: Some(*process),
                ..Self::default()
            },
            Lock::File(file) => Self {
                text: path(*file).unwrap_or_default(),
                kind: "file",
                file: path(*file),
                ..Self::default()
            },
            Lock::Space(id, kind) => {
                let process = tables.processes.get(id.index());
                Self {
                    text: format!("mmap_lock of {}", process.map_or("", |process| &process.name)),
                    kind: kind.name(),
                    process: Some(*id),
                    ..Self::default()
                }
            }
            Lock::OfKernel(id) => Self::of_kernel(locks, *id),
            Lock::Kernel(kind, taker) => Self {
                text: kind.name().to_owned(),
                kind: kind.name(),
                taker: Some(Arc::clone(taker)),
                ..Self::default()
            },
        }
    }

    fn of_kernel(locks: &KernelLocks, id: LockId) -> Self {
        let Some((kind, label)) = locks.labels.get(&id) else {
            return Self::default();
        };
        Self {
            text: label.clone(),
            kind: kind.name(),
            number: match id {
                LockId::Number(number) => Some(number),
                LockId::Static(_) => None,
            },
            ..Self::default()
        }
    }
}
