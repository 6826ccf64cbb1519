//! Records of the rings become events. Both sides are ours, yet every length in a record is checked.

use std::borrow::Cow;

use profiler_common::sample::{MAX_KERNEL_FRAMES, SampleHead};
use profiler_common::{RecordHeader, task};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::kallsyms::KernelAddresses;
use crate::addr::{KernelOffset, Timestamp};
use crate::event::{At, Event, Sample, TaskExec, TaskExit, TaskNew};

/// A record of the ring of task events. `None`: none of ours.
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
            existed: false,
            clone_flags: record.clone_flags,
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

/// A record of the bulk ring. `frames` is scratch space. Without `kernel`, kernel frames are left out.
pub fn sample<'a>(
    record: &'a [u8],
    kernel: Option<&mut KernelAddresses>,
    frames: &'a mut Vec<KernelOffset>,
) -> Option<Sample<'a>> {
    let head = read::<SampleHead>(record)?;
    if head.header.kind != profiler_common::RecordKind::Sample as u16 {
        return None;
    }
    let (addresses, stack) = record
        .get(size_of::<SampleHead>()..)?
        .split_at_checked(MAX_KERNEL_FRAMES * 8)?;
    let stack = stack.get(..head.stack_len as usize)?;
    frames.clear();
    if let Some(kernel) = kernel {
        let addresses = addresses.as_chunks::<8>().0.get(..head.kernel_frames as usize)?;
        let offsets = addresses.iter().enumerate();
        frames.extend(offsets.map(|(depth, address)| kernel.offset(u64::from_ne_bytes(*address), depth > 0)));
    }
    Some(Sample {
        at: at(&head.header),
        cpu: head.header.cpu,
        cpu_time: head.cpu_time,
        flags: head.flags,
        regs: head.regs,
        kernel: Cow::Borrowed(frames),
        stack: Cow::Borrowed(stack),
    })
}

fn read<T: FromBytes + KnownLayout + Immutable>(record: &[u8]) -> Option<T> {
    T::read_from_prefix(record).ok().map(|(record, _)| record)
}

fn at(header: &RecordHeader) -> At {
    At {
        time: Timestamp(header.time),
        pid: header.pid,
        tid: header.tid,
    }
}

/// Up to the first NUL.
fn name(comm: &[u8]) -> Vec<u8> {
    comm.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use profiler_common::RecordKind;
    use profiler_common::sample::UserRegs;
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

    fn example(kernel_frames: u32, stack_len: u32) -> Vec<u8> {
        let regs = UserRegs {
            ip: 1,
            sp: 2,
            fp: 3,
            lr: 0,
        };
        let head = SampleHead {
            header: header(RecordKind::Sample),
            cpu_time: 55,
            regs,
            flags: 1,
            kernel_frames,
            stack_len,
            pad: 0,
        };
        let mut record = head.as_bytes().to_vec();
        record.extend((0..127_u64).flat_map(|frame| (0x1000 + frame).to_ne_bytes()));
        record.extend([0xaa; 4096]);
        record
    }

    #[test]
    fn a_sample_has_what_its_record_says() {
        let (record, mut frames) = (example(2, 64), Vec::new());
        let sample = sample(&record, None, &mut frames).unwrap();
        assert_eq!(
            sample.at,
            At {
                time: Timestamp(99),
                pid: 7,
                tid: 8
            }
        );
        assert_eq!((sample.cpu, sample.cpu_time, sample.regs.sp), (3, 55, 2));
        assert_eq!((sample.stack.len(), sample.kernel.len()), (64, 0));
    }

    #[test]
    fn lengths_over_the_record_are_refused() {
        let mut frames = Vec::new();
        assert!(sample(&example(0, 4097), None, &mut frames).is_none());
        assert!(sample(&example(0, u32::MAX), None, &mut frames).is_none());
        assert!(sample(&example(0, 0)[..900], None, &mut frames).is_none());
        let exec = task::TaskExec {
            header: header(RecordKind::TaskExec),
            old_tid: 8,
            path_len: 257,
            command_line_len: 0,
            pad: 0,
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
