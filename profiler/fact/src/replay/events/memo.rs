//! Stacks that were walked before: the same walk through the same code is the same stack, and takes one lookup.
//!
//! What is remembered depends on events alone, and not on what can be opened on this machine: what a kept log says
//! about one event's stack holds for others like it.

use std::ops::Range;

use profiler_common::stack::INTERRUPTED;
use rustc_hash::FxHashMap;

use crate::{FrameId, ProcessId, StackId};
use base::addr::Avma;
use task::Tasks;
use unwind::Walked;

/// Maximum number of remembered user parts, and of frames, some 20 MiB each; then it starts again. At one more the
/// tables would double: they are filled to seven eighths.
const MAX: usize = 7 << 16;
/// Whole stacks: forgetting one costs only its few kernel frames.
const MAX_WHOLE: usize = MAX / 2;

/// What identifies a stack: its process, and the keys of its two parts; key 0: no such part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoKey {
    /// `None` if it has no user part.
    pub process: Option<ProcessId>,
    /// Key of the user stack.
    pub user: u64,
    /// Key of the kernel stack.
    pub kernel: u64,
}

impl MemoKey {
    fn of_user(self) -> Self {
        Self { kernel: 0, ..self }
    }
}

/// A frame of a walk: the mapped code, and the frame as the kernel side sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot {
    code: u64,
    address: u64,
    is_return_address: bool,
}

impl Spot {
    /// The frame at this depth of a walk in a process with this [`Tasks::code_of`].
    pub const fn new(code: u64, depth: usize, frame: u64) -> Self {
        Self {
            code,
            address: frame & !INTERRUPTED,
            is_return_address: depth > 0 && frame & INTERRUPTED == 0,
        }
    }

    /// An address within its instruction.
    fn instruction(self) -> Avma {
        Avma(self.address.wrapping_sub(u64::from(self.is_return_address)))
    }
}

/// Stacks by key, and frames by location.
#[derive(Debug, Default)]
pub struct Memo {
    stacks: Stacks,
    /// User parts alone, each of which occurs with many kernel parts: keys without these.
    user_parts: Stacks,
    frames: FxHashMap<Spot, FrameId>,
}

impl Memo {
    /// The stack, if it was remembered while the process had the same code mapped.
    #[expect(clippy::option_option, reason = "the absence of a stack is remembered too")]
    pub fn get(&self, tasks: &Tasks, key: MemoKey) -> Option<Option<StackId>> {
        get(&self.stacks, tasks, key)
    }

    /// Its user part, likewise.
    #[expect(clippy::option_option, reason = "as above")]
    pub fn user_part(&self, tasks: &Tasks, key: MemoKey) -> Option<Option<StackId>> {
        get(&self.user_parts, tasks, key.of_user())
    }

    /// Remembers a stack that [`lasts`].
    pub fn put(&mut self, tasks: &Tasks, key: MemoKey, stack: Option<StackId>) {
        put((&mut self.stacks, MAX_WHOLE), tasks, key, stack);
    }

    /// Remembers the user part of a stack that [`lasts`].
    pub fn put_user_part(&mut self, tasks: &Tasks, key: MemoKey, stack: Option<StackId>) {
        put((&mut self.user_parts, MAX), tasks, key.of_user(), stack);
    }

    /// The frame there.
    pub fn frame(&self, spot: Spot) -> Option<FrameId> {
        self.frames.get(&spot).copied()
    }

    /// Remembers a frame, if it is in a file's code.
    pub fn put_frame(&mut self, tasks: &Tasks, process: ProcessId, spot: Spot, frame: FrameId) {
        if tasks.code_of_file(process, spot.instruction()).is_none() {
            return;
        }
        if self.frames.len() >= MAX {
            self.frames.clear();
        }
        self.frames.insert(spot, frame);
    }

    /// Stacks and frames have new numbers.
    pub fn forget(&mut self) {
        self.clear();
        self.frames.clear();
    }

    /// Keys have a new meaning from now on.
    pub fn clear(&mut self) {
        self.stacks.clear();
        self.user_parts.clear();
    }
}

/// Stacks, and the code mapped at that time.
type Stacks = FxHashMap<MemoKey, (u64, Option<StackId>)>;

#[expect(clippy::option_option, reason = "as in `Memo::get`")]
fn get(stacks: &Stacks, tasks: &Tasks, key: MemoKey) -> Option<Option<StackId>> {
    let (code, stack) = stacks.get(&key)?;
    (code_of(tasks, key)? == *code).then_some(*stack)
}

fn put((stacks, most): (&mut Stacks, usize), tasks: &Tasks, key: MemoKey, stack: Option<StackId>) {
    let Some(code) = code_of(tasks, key) else { return };
    if stacks.len() >= most {
        stacks.clear();
    }
    stacks.insert(key, (code, stack));
}

/// Whether each address of the walk stays valid while its code is mapped.
pub fn lasts(tasks: &Tasks, key: MemoKey, walked: Option<&Walked>, lasting: Lasting) -> bool {
    match (key.process, walked) {
        (Some(process), Some(walked)) => all_last(tasks, process, walked, lasting),
        _ => true,
    }
}

fn code_of(tasks: &Tasks, key: MemoKey) -> Option<u64> {
    key.process.map_or(Some(0), |process| tasks.code_of(process))
}

fn all_last(tasks: &Tasks, process: ProcessId, walked: &Walked, mut lasting: Lasting) -> bool {
    let Some(code) = tasks.code_of(process) else {
        return false;
    };
    let spot = |(depth, frame): (usize, &u64)| Spot::new(code, depth, *frame);
    let mut spots = walked.frames.iter().enumerate().map(spot);
    spots.all(|spot| lasting.has(tasks, process, spot))
}

/// Determines which frames of a walk stay valid while their code is mapped.
#[derive(Debug)]
pub struct Lasting {
    /// Whether code generated at run time is identified by its address alone, or by a table for all times; otherwise
    /// it may be replaced in place.
    made: bool,
    /// Range of the last frame: most frames are in the same code as the one before.
    range: Range<Avma>,
}

impl Lasting {
    /// For a process with or without a jitdump that records when its code was replaced.
    pub const fn new(has_dump: bool) -> Self {
        Self {
            made: !has_dump,
            range: Avma(0)..Avma(0),
        }
    }

    /// Whether this frame stays valid.
    pub fn has(&mut self, tasks: &Tasks, process: ProcessId, spot: Spot) -> bool {
        let at = spot.instruction();
        if self.range.contains(&at) {
            return true;
        }
        let around = if self.made {
            tasks.code_around(process, at)
        } else {
            tasks.code_of_file(process, at)
        };
        around.map(|around| self.range = around).is_some()
    }
}

#[cfg(test)]
mod tests {
    use profiler_common::unwind::WalkEnd;

    use super::*;
    use base::addr::{FileOffset, Timestamp};
    use base::event::{At, Event, FileId, Mapping, PROT_EXEC, TaskNew};
    use unwind::End;

    const CODE: u64 = 0x40_0000;
    const MADE: u64 = 0x80_0000;
    const HEAP: u64 = 0xc0_0000;

    fn map(tasks: &mut Tasks, start: u64, path: &str, inode: u64, protection: u32) {
        let at = At {
            time: Timestamp(2),
            pid: 7,
            tid: 7,
        };
        tasks.apply(&Event::Mapping(Mapping {
            at,
            start: Avma(start),
            len: 0x1000,
            offset: FileOffset(0),
            file: FileId {
                inode,
                ..FileId::default()
            },
            protection,
            path: path.into(),
            ..Mapping::default()
        }));
    }

    fn process() -> (Tasks, ProcessId) {
        let mut tasks = Tasks::new(Timestamp(0));
        tasks.apply(&Event::TaskNew(TaskNew {
            at: At {
                time: Timestamp(1),
                pid: 7,
                tid: 7,
            },
            ..TaskNew::default()
        }));
        map(&mut tasks, CODE, "/bin/a", 5, PROT_EXEC);
        map(&mut tasks, MADE, "//anon", 0, PROT_EXEC);
        let process = tasks.process_of(7).unwrap();
        (tasks, process)
    }

    fn walked(frames: &[u64]) -> Walked {
        Walked {
            frames: frames.into(),
            end: End(Some(WalkEnd::Complete)),
        }
    }

    fn key(process: ProcessId, user: u64) -> MemoKey {
        MemoKey {
            process: Some(process),
            user,
            kernel: 3,
        }
    }

    /// Stores as a replay does.
    fn put(memo: &mut Memo, tasks: &Tasks, key: MemoKey, frames: &[u64], stack: Option<StackId>) {
        put_of(true, memo, tasks, key, frames, stack);
    }

    fn put_of(has_dump: bool, memo: &mut Memo, tasks: &Tasks, key: MemoKey, frames: &[u64], stack: Option<StackId>) {
        if lasts(tasks, key, Some(&walked(frames)), Lasting::new(has_dump)) {
            memo.put(tasks, key, stack);
        }
    }

    #[test]
    fn a_stack_is_the_same_until_other_code_is_mapped() {
        let (mut tasks, process) = process();
        let (mut memo, key) = (Memo::default(), key(process, 1));
        let stack = Some(StackId::new(9));
        put(&mut memo, &tasks, key, &[CODE, CODE + 8], stack);
        assert_eq!(memo.get(&tasks, key), Some(stack));
        map(&mut tasks, HEAP, "[heap]", 0, 3);
        assert_eq!(memo.get(&tasks, key), Some(stack), "memory is not code");
        map(&mut tasks, CODE, "[heap]", 0, 3);
        assert_eq!(memo.get(&tasks, key), None, "the code is gone");
        put(&mut memo, &tasks, key, &[CODE, CODE + 8], stack);
        assert_eq!(memo.get(&tasks, key), None, "and no longer counts as code");
    }

    #[test]
    fn a_user_part_is_the_same_under_any_kernel_stack() {
        let (mut tasks, process) = process();
        let (mut memo, key) = (Memo::default(), key(process, 1));
        memo.put_user_part(&tasks, key, Some(StackId::new(4)));
        let other = MemoKey { kernel: 77, ..key };
        assert_eq!(memo.user_part(&tasks, other), Some(Some(StackId::new(4))));
        assert_eq!(memo.get(&tasks, other), None, "its kernel part was not seen");
        assert_eq!(memo.user_part(&tasks, MemoKey { user: 2, ..key }), None);
        map(&mut tasks, CODE, "[heap]", 0, 3);
        assert_eq!(memo.user_part(&tasks, key), None, "the code is gone");
    }

    #[test]
    fn jitdump_code_is_not_memoized() {
        let (mut tasks, process) = process();
        let (mut memo, key) = (Memo::default(), key(process, 2));
        put(&mut memo, &tasks, key, &[CODE, MADE + 8], Some(StackId::new(9)));
        assert_eq!(memo.get(&tasks, key), None);
        put_of(false, &mut memo, &tasks, key, &[CODE, HEAP], Some(StackId::new(9)));
        assert_eq!(memo.get(&tasks, key), None, "no code");
        put_of(false, &mut memo, &tasks, key, &[CODE, MADE + 8], Some(StackId::new(9)));
        assert_eq!(memo.get(&tasks, key), Some(Some(StackId::new(9))));
        map(&mut tasks, MADE, "//anon", 0, PROT_EXEC);
        assert_eq!(memo.get(&tasks, key), None, "other code");
        // A return address right behind the file's code belongs to its last call, not to what follows.
        put(&mut memo, &tasks, key, &[CODE, CODE + 0x1000], None);
        assert_eq!(memo.get(&tasks, key), Some(None));
        let code = tasks.code_of(process).unwrap();
        let spot = |frame| Spot::new(code, 1, frame);
        memo.put_frame(&tasks, process, spot(MADE + 8), FrameId(4));
        memo.put_frame(&tasks, process, spot(CODE + 8), FrameId(5));
        assert_eq!(memo.frame(spot(MADE + 8)), None);
        assert_eq!(memo.frame(spot(CODE + 8)), Some(FrameId(5)));
        // The same address as an instruction pointer is another frame.
        assert_eq!(memo.frame(spot((CODE + 8) | INTERRUPTED)), None);
    }
}
