//! Converts ring records to events. Both sides are ours, yet every length in a record is checked.

mod block;
mod fields;
mod switch;

use std::borrow::Cow;

use profiler_common::fault::{
    Counted, FAULT_EXCEPTION, FAULT_HAS_FILE, FAULT_HAS_MAPPED, FAULT_HAS_VMA, FAULT_REST, FAULT_STARTED, FaultBody,
    FaultHead, ReadRun, SampledKind,
};
use profiler_common::sample::SampleHead;
use profiler_common::selection::{ENTERED, EXECUTING};
use profiler_common::stack::{KERNEL_KEY, StackHead, absorb, kernel_key};
use profiler_common::switch::{StackAheadHead, Wait};
use profiler_common::{RecordHeader, fault, task};

use self::fields::{at, file, name, read, stacks};
use crate::proc::kallsyms::KernelAddresses;
pub use block::request_of;
pub use switch::{Unseen, file_name, wait_of};

use base::addr::{Avma, FileOffset, KernelOffset, Timestamp};
use base::block_pages::BlockPages;
use base::event::{
    At, Attempts, Event, Fault, FaultFile, FaultVma, KernelStack, MAX_ORDER, OtherFaults, PagesPopulated, PagesRead,
    Sample, TaskExec, TaskExit, TaskNew, UserStack,
};

/// The address space that a fork or an exec created.
pub fn space_of(record: &[u8]) -> Option<u64> {
    use profiler_common::RecordKind as Kind;
    let kind = read::<RecordHeader>(record)?.kind;
    match kind {
        _ if kind == Kind::TaskNew as u16 => read::<task::TaskNew>(record).map(|record| record.space),
        _ if kind == Kind::TaskExec as u16 => read::<task::TaskExec>(record).map(|record| record.space),
        _ => None,
    }
}

/// Whether a birth is of a thread that begins to be recorded while its process executes a program.
pub fn is_executing(record: &[u8]) -> bool {
    read::<RecordHeader>(record).is_some_and(|header| header.kind == profiler_common::RecordKind::TaskNew as u16)
        && read::<task::TaskNew>(record).is_some_and(|record| record.clone_flags & EXECUTING != 0)
}

/// Where the walk of an event's stack found no mapping.
pub fn unmapped(record: &[u8]) -> Option<u64> {
    use profiler_common::RecordKind as Kind;
    let kind = read::<RecordHeader>(record)?.kind;
    let stacks = match kind {
        _ if kind == Kind::Sample as u16 => read::<SampleHead>(record)?.stacks,
        _ if kind == Kind::Fault as u16 => read::<FaultHead>(record)?.stacks,
        _ if kind == Kind::StackAhead as u16 => read::<StackAheadHead>(record)?.stacks,
        _ if kind == Kind::Wait as u16 => read::<Wait>(record)?.stacks,
        _ => return None,
    };
    (stacks.unmapped != 0).then_some(stacks.unmapped)
}

/// Converts a record of the ring of task events. `None`: not a valid record.
pub fn task_event(record: &[u8]) -> Option<Event<'static>> {
    use profiler_common::RecordKind as Kind;
    let header = read::<RecordHeader>(record)?;
    let at = at(&header);
    let is = |kind: Kind| header.kind == kind as u16;
    if is(Kind::TaskNew) {
        let record = read::<task::TaskNew>(record)?;
        Some(Event::TaskNew(TaskNew {
            at,
            parent: (record.parent_pid, record.parent_tid),
            existed: record.clone_flags & ENTERED != 0,
            clone_flags: record.clone_flags & !(ENTERED | EXECUTING),
            name: name(&record.comm),
        }))
    } else if is(Kind::TaskExec) {
        let record = read::<task::TaskExec>(record)?;
        Some(Event::TaskExec(TaskExec {
            at,
            existed: false,
            old_tid: record.old_tid,
            name: name(&record.comm),
            path: record.path.get(..record.path_len as usize)?.to_vec(),
            command_line: record.command_line.get(..record.command_line_len as usize)?.to_vec(),
        }))
    } else if is(Kind::TaskExit) {
        let record = read::<task::TaskExit>(record)?;
        Some(Event::TaskExit(TaskExit {
            at,
            exit_code: record.exit_code,
            cpu_time: record.cpu_time,
            sum_exec_runtime: record.sum_exec_runtime,
            minor_faults: record.minor_faults,
            major_faults: record.major_faults,
            faults: Some(record.faults),
        }))
    } else if is(Kind::TaskRename) {
        Some(Event::TaskRename {
            at,
            name: name(&read::<task::TaskRename>(record)?.comm),
        })
    } else {
        None
    }
}

/// Converts a record of the bulk ring. `frames` is scratch space. Without `kernel`, kernel stacks are left out.
pub fn bulk_event<'a>(
    record: &'a [u8],
    kernel: Option<&mut KernelAddresses>,
    frames: &'a mut Frames,
) -> Option<Event<'a>> {
    use profiler_common::RecordKind as Kind;
    let kind = read::<RecordHeader>(record)?.kind;
    let is = |of: Kind| kind == of as u16;
    match kind {
        _ if is(Kind::Sample) => sample(record).map(Event::Sample),
        _ if is(Kind::Fault) => fault(record).map(Event::Fault),
        _ if is(Kind::PagesRead) => pages_read(record).map(Event::PagesRead),
        _ if is(Kind::PagesPopulated) => pages_populated(record).map(Event::PagesPopulated),
        _ if is(Kind::Wait) => switch::wait(record, kernel).map(Event::Wait),
        _ if is(Kind::StackAhead) => switch::stack_ahead(record).map(Event::StackAhead),
        _ if is(Kind::CallPath) => switch::call_path(record).map(Event::CallPath),
        _ if is(Kind::Bio) => block::bio(record).map(Event::Bio),
        _ if is(Kind::Request) => block::request(record).map(Event::Request),
        _ => stack(record, kernel, frames),
    }
}

/// Converts a user or kernel stack.
fn stack<'a>(record: &[u8], kernel: Option<&mut KernelAddresses>, frames: &'a mut Frames) -> Option<Event<'a>> {
    use profiler_common::RecordKind as Kind;
    let head = read::<StackHead>(record)?;
    let words = record
        .get(size_of::<StackHead>()..)?
        .as_chunks::<8>()
        .0
        .get(..head.count as usize)?;
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    if head.header.kind == Kind::UserStack as u16 {
        frames.user.clear();
        frames.user.extend(words);
        Some(Event::UserStack(UserStack {
            key: head.key,
            end: u8::try_from(head.end).ok()?,
            frames: Cow::Borrowed(&frames.user),
        }))
    } else if head.header.kind == Kind::KernelStack as u16 {
        let kernel = kernel?;
        debug_assert_eq!(
            kernel_key(words.clone().fold(KERNEL_KEY, absorb), head.count),
            head.key,
            "a stack that has a frame of its own has a key of its own"
        );
        frames.kernel.clear();
        let offsets = words.enumerate();
        frames
            .kernel
            .extend(offsets.map(|(depth, address)| kernel.offset(address, depth > 0)));
        Some(Event::KernelStack(KernelStack {
            key: head.key,
            frames: Cow::Borrowed(&frames.kernel),
        }))
    } else {
        None
    }
}

/// Memory for the frames of one stack.
#[derive(Debug, Default)]
pub struct Frames {
    user: Vec<u64>,
    kernel: Vec<KernelOffset>,
}

fn sample(record: &[u8]) -> Option<Sample<'_>> {
    let head = read::<SampleHead>(record)?;
    Some(Sample {
        at: at(&head.header),
        cpu: head.header.cpu,
        cpu_time: head.cpu_time,
        stacks: stacks(&head.stacks, record.get(size_of::<SampleHead>()..)?)?,
    })
}

fn fault(record: &[u8]) -> Option<Fault<'_>> {
    let head = read::<FaultHead>(record)?;
    let body = &head.body;
    let is = |flag| body.flags & flag != 0;
    let file = is(FAULT_HAS_FILE).then(|| FaultFile {
        file: file(body.vma.inode, body.vma.device, body.vma.generation),
        offset: FileOffset(body.vma.offset),
        magic: body.vma.magic,
        mmap_miss: body.vma.mmap_miss,
    });
    Some(Fault {
        at: at(&head.header),
        cpu: head.header.cpu,
        address: Avma(body.address),
        start: is(FAULT_STARTED).then_some(Timestamp(body.start)),
        flags: body.flags,
        vma: is(FAULT_HAS_VMA).then_some(FaultVma {
            flags: body.vma.flags,
            file,
        }),
        waits: body.waits,
        attempts: Attempts {
            error_code: body.error_code,
            asked: body.asked,
            returned: body.returned,
            retries: body.retries,
        },
        mapped: is(FAULT_HAS_MAPPED).then(|| mapped_pages(body)),
        read: body.read,
        signal: body.signal,
        others: OtherFaults {
            count: head.others.faults,
            time: head.others.time,
        },
        stacks: stacks(&head.stacks, record.get(size_of::<FaultHead>()..)?)?,
    })
}

/// The faults of a thread that none represents: they have no stack.
pub fn rest_of(at: At, others: &[Counted; SampledKind::ALL.len()]) -> impl Iterator<Item = Fault<'static>> {
    let kinds = SampledKind::ALL.into_iter().zip(others);
    kinds.filter_map(move |(kind, others)| {
        Some(Fault {
            at,
            start: Some(at.time),
            flags: FAULT_REST | FAULT_STARTED | FAULT_EXCEPTION | FAULT_HAS_VMA,
            vma: Some(FaultVma::default()),
            attempts: Attempts {
                error_code: kind.error_code(),
                ..Attempts::default()
            },
            others: OtherFaults {
                count: others.faults.checked_sub(1)?,
                time: others.time,
            },
            ..Fault::default()
        })
    })
}

/// The pages of the fault's mapping in its block.
fn mapped_pages(body: &FaultBody) -> BlockPages {
    let mut pages = BlockPages::from_bits(body.mapped);
    if body.bounds != [0; 2] {
        let [first, end] = body.bounds.map(usize::from);
        pages.keep_range(first..end);
    }
    pages
}

fn pages_read(record: &[u8]) -> Option<PagesRead> {
    let record = read::<fault::PagesRead>(record)?;
    Some(read_run(at(&record.header), &record.run))
}

fn pages_populated(record: &[u8]) -> Option<PagesPopulated> {
    let record = read::<fault::PagesPopulated>(record)?;
    Some(PagesPopulated {
        at: at(&record.header),
        start: Avma(record.start),
        len: record.end.saturating_sub(record.start),
    })
}

/// Converts a run of adjacent pages that were read; `at` is the time of the report.
pub fn read_run(at: At, run: &ReadRun) -> PagesRead {
    PagesRead {
        at,
        since: Timestamp(run.since),
        file: file(run.inode, run.device, run.generation),
        first: run.first,
        count: run.count,
        in_fault: run.in_fault != 0,
        order: u8::try_from(run.order).ok().filter(|order| *order <= MAX_ORDER),
    }
}

#[cfg(test)]
mod tests {
    use profiler_common::RecordKind;
    use profiler_common::stack::{self, UserRegs};
    use zerocopy::IntoBytes;

    use super::*;

    fn header(kind: RecordKind) -> RecordHeader {
        RecordHeader {
            kind: kind as u16,
            cpu: 3,
            len: 0,
            time: 99,
            pid: 7,
            tid: 8,
        }
    }

    fn example(stack_len: u32) -> Vec<u8> {
        let regs = UserRegs {
            ip: 1,
            sp: 2,
            fp: 3,
            lr: 0,
        };
        let head = SampleHead {
            header: header(RecordKind::Sample),
            cpu_time: 55,
            stacks: stack::Stacks {
                user: 77,
                regs,
                flags: 1,
                copied: stack_len,
                ..stack::Stacks::default()
            },
        };
        let mut record = head.as_bytes().to_vec();
        record.extend([0xaa; 4096]);
        record
    }

    fn stack(count: u32, end: u32) -> Vec<u8> {
        let head = StackHead {
            header: header(RecordKind::UserStack),
            key: 77,
            count,
            end,
        };
        let mut record = head.as_bytes().to_vec();
        record.extend((0..3_u64).flat_map(|frame| (0x1000 + frame).to_ne_bytes()));
        record
    }

    #[test]
    fn records_are_decoded() {
        let mut frames = Frames::default();
        let record = example(64);
        let Some(Event::Sample(sample)) = bulk_event(&record, None, &mut frames) else {
            panic!("no sample")
        };
        let at = At {
            time: Timestamp(99),
            pid: 7,
            tid: 8,
        };
        assert_eq!(sample.at, at);
        assert_eq!((sample.cpu, sample.cpu_time, sample.stacks.regs.sp), (3, 55, 2));
        assert_eq!((sample.stacks.copy.len(), sample.stacks.user), (64, 77));
        let record = stack(3, 6);
        let Some(Event::UserStack(stack)) = bulk_event(&record, None, &mut frames) else {
            panic!("no stack")
        };
        assert_eq!(
            (stack.key, stack.end, &*stack.frames),
            (77, 6, &[0x1000, 0x1001, 0x1002][..])
        );
    }

    #[test]
    fn lengths_beyond_the_record_are_rejected() {
        let mut frames = Frames::default();
        for record in [
            &example(4097)[..],
            &example(u32::MAX),
            &example(0)[..80],
            &stack(4, 0),
            &stack(3, 256),
            &stack(u32::MAX, 0),
        ] {
            assert!(bulk_event(record, None, &mut frames).is_none());
        }
        let exec = task::TaskExec {
            header: header(RecordKind::TaskExec),
            old_tid: 8,
            path_len: 257,
            command_line_len: 0,
            pad: 0,
            space: 0,
            comm: *b"name\0rest\0\0\0\0\0\0\0",
            path: [0; task::PATH_LEN],
            command_line: [0; task::COMMAND_LINE_LEN],
        };
        assert!(task_event(exec.as_bytes()).is_none());
        assert!(task_event(&exec.as_bytes()[..100]).is_none());
        let good = task::TaskExec { path_len: 4, ..exec };
        let Some(Event::TaskExec(event)) = task_event(good.as_bytes()) else {
            panic!("no exec")
        };
        assert_eq!((event.name.as_slice(), event.path.len()), (&b"name"[..], 4));
    }
}
