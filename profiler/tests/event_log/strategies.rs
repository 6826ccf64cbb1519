//! Events of every kind, made at random.

use profiler::addr::{Avma, FileOffset, KernelOffset, Timestamp};
use profiler::event::{
    At, Attachment, AttachmentKind, End, Event, FileId, KernelStack, Mapping, Module, Sample, Segment, TaskExec,
    TaskExit, TaskNew, UserStack,
};
use profiler_common::sample::{FLAG_CHECK, FLAG_USER_REGS, FLAG_WALK_COMPLETE, UserRegs};
use proptest::prelude::*;
use proptest::sample::Index;

fn at() -> impl Strategy<Value = At> {
    (any::<u64>(), 0..4u32, 0..4u32).prop_map(|(time, pid, tid)| At {
        time: Timestamp(time),
        pid,
        tid,
    })
}

/// Bytes of a name.
pub fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn sample() -> impl Strategy<Value = Event<'static>> {
    let stack = (
        0..40_000usize,
        prop::collection::vec((any::<Index>(), any::<u8>()), 0..5),
    )
        .prop_map(|(len, changes)| {
            let mut stack: Vec<u8> = (0..len).map(|at| (at / 100) as u8).collect();
            for (at, value) in changes.iter().filter(|_| len > 0) {
                stack[at.index(len)] = *value;
            }
            stack
        });
    let regs = (any::<u64>(), 0..10_000u64, any::<u64>(), any::<bool>());
    (
        at(),
        any::<(u16, u64)>(),
        any::<u32>(),
        regs,
        any::<(u64, u64)>(),
        stack,
    )
        .prop_map(
            |(at, (cpu, cpu_time), flags, (ip, sp, fp, high), (user_stack, kernel_stack), stack)| {
                let sp = if high { u64::MAX - sp } else { 0x7ffd_0000_0000 + sp };
                let unfinished = flags & FLAG_WALK_COMPLETE == 0 || flags & FLAG_CHECK != 0;
                let with_regs = flags & FLAG_USER_REGS != 0 && unfinished;
                let regs = if with_regs {
                    UserRegs { ip, sp, fp, lr: 0 }
                } else {
                    UserRegs::default()
                };
                Event::Sample(Sample {
                    at,
                    cpu,
                    cpu_time,
                    flags,
                    user_stack,
                    kernel_stack,
                    regs,
                    stack: stack.into(),
                })
            },
        )
}

fn stack() -> impl Strategy<Value = Event<'static>> {
    let frames = prop::collection::vec(any::<u64>(), 0..128);
    (any::<u64>(), any::<Option<u8>>(), frames).prop_map(|(key, end, frames)| {
        if let Some(end) = end {
            let frames = frames.into();
            return Event::UserStack(UserStack { key, end, frames });
        }
        let frames: Vec<KernelOffset> = frames.into_iter().map(KernelOffset).collect();
        let frames = frames.into();
        Event::KernelStack(KernelStack { key, frames })
    })
}

fn task() -> impl Strategy<Value = Event<'static>> {
    prop_oneof![
        (at(), any::<(u32, u32, bool, u64)>(), text()).prop_map(|(at, (pid, tid, existed, clone_flags), name)| {
            Event::TaskNew(TaskNew {
                at,
                parent: (pid, tid),
                existed,
                clone_flags,
                name,
            })
        }),
        (at(), any::<(bool, u32)>(), text(), text(), text()).prop_map(
            |(at, (existed, old_tid), name, path, command_line)| {
                Event::TaskExec(TaskExec {
                    at,
                    existed,
                    old_tid,
                    name,
                    path,
                    command_line,
                })
            }
        ),
        (at(), any::<(u32, u64, u64, u64, u64)>()).prop_map(|(at, (exit_code, a, b, c, d))| {
            let (cpu_time, sum_exec_runtime, minor_faults, major_faults) = (a, b, c, d);
            Event::TaskExit(TaskExit {
                at,
                exit_code,
                cpu_time,
                sum_exec_runtime,
                minor_faults,
                major_faults,
            })
        }),
        (at(), any::<u64>()).prop_map(|(at, cpu_time)| Event::TaskAlive { at, cpu_time }),
        (at(), text()).prop_map(|(at, name)| Event::TaskRename { at, name }),
        (
            at(),
            any::<(u64, u64, u64, u64)>(),
            any::<(u32, u32, u32, u32)>(),
            text(),
            text()
        )
            .prop_map(
                |(at, (start, len, offset, inode), (major, minor, protection, flags), path, build_id)| {
                    let file = FileId {
                        major,
                        minor,
                        inode,
                        generation: flags >> 30,
                    };
                    let (start, offset) = (Avma(start), FileOffset(offset));
                    Event::Mapping(Mapping {
                        at,
                        start,
                        len,
                        offset,
                        file,
                        protection,
                        flags,
                        path,
                        build_id,
                    })
                }
            ),
    ]
}

fn other() -> impl Strategy<Value = Event<'static>> {
    prop_oneof![
        any::<(u32, u64)>().prop_map(|(loss, count)| Event::Loss { loss, count }),
        any::<u64>().prop_map(|time| Event::Watermark(Timestamp(time))),
        (any::<u64>(), ".{0,20}", any::<Option<i32>>()).prop_map(|(time, reason, status)| Event::End(End {
            time: Timestamp(time),
            reason,
            status
        })),
    ]
}

/// Events of the main stream.
pub fn stream() -> impl Strategy<Value = Vec<Event<'static>>> {
    prop::collection::vec(
        prop_oneof![4 => sample(), 2 => stack(), 4 => task(), 1 => other()],
        0..40,
    )
}

/// Events with chunks of their own.
pub fn extras() -> impl Strategy<Value = Vec<Event<'static>>> {
    let segment = any::<(u64, u64, u64)>().prop_map(|(offset, svma, file_size)| Segment {
        offset,
        svma,
        file_size,
    });
    let module = (".{0,20}", text(), prop::collection::vec(segment, 0..4), any::<u64>()).prop_map(
        |(path, build_id, segments, entry)| {
            Event::Module(Module {
                file: FileId::default(),
                path,
                build_id,
                segments,
                entry,
                problem: None,
            })
        },
    );
    let kind = prop::sample::select(vec![
        AttachmentKind::Markers,
        AttachmentKind::PerfMap,
        AttachmentKind::JitDump,
    ]);
    let attachment = (kind, any::<u32>(), text(), text())
        .prop_map(|(kind, pid, path, bytes)| Event::Attachment(Attachment { kind, pid, path, bytes }));
    let resolved = text().prop_map(Event::Resolved);
    prop::collection::vec(prop_oneof![module, attachment, resolved], 0..6)
}
