//! Random events of every kind.

mod waits;

use profiler::addr::{Avma, FileOffset, KernelOffset, Timestamp};
use profiler::block_pages::BlockPages;
use profiler::event::owners::{CgroupProcesses, Container, Owners, Pod};
use profiler::event::usage::{CgroupUsage, MemoryEvents, Pressure, Usage, UsageHierarchy, UsageSample};
use profiler::event::{
    At, Attachment, AttachmentKind, Attempts, Cost, End, Event, Fault, FaultFile, FaultVma, FileId, KernelStack,
    Mapping, Module, OtherFaults, PagesPopulated, PagesRead, ProgramCost, ProgramCosts, Sample, Segment, Stacks,
    TaskExec, TaskExit, TaskNew, UserStack,
};
use profiler_common::fault::{FaultCounts, Waits};
use profiler_common::stack::{FLAG_CHECK, FLAG_USER_REGS, FLAG_WALK_COMPLETE, UserRegs};
use proptest::prelude::*;
use proptest::sample::Index;

use waits::{block, waits};

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

fn stacks() -> impl Strategy<Value = Stacks<'static>> {
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
    (any::<u32>(), regs, any::<(u64, u64)>(), stack).prop_map(|(flags, (ip, sp, fp, high), (user, kernel), stack)| {
        let sp = if high { u64::MAX - sp } else { 0x7ffd_0000_0000 + sp };
        let unfinished = flags & FLAG_WALK_COMPLETE == 0 || flags & FLAG_CHECK != 0;
        let with_regs = flags & FLAG_USER_REGS != 0 && unfinished;
        let regs = if with_regs {
            UserRegs { ip, sp, fp, lr: 0 }
        } else {
            UserRegs::default()
        };
        Stacks {
            flags,
            user,
            kernel,
            regs,
            copy: stack.into(),
        }
    })
}

fn sample() -> impl Strategy<Value = Event<'static>> {
    (at(), any::<(u16, u64)>(), stacks()).prop_map(|(at, (cpu, cpu_time), stacks)| {
        Event::Sample(Sample {
            at,
            cpu,
            cpu_time,
            stacks,
        })
    })
}

fn file() -> impl Strategy<Value = FileId> {
    any::<(u32, u32, u64, u32)>().prop_map(|(major, minor, inode, generation)| FileId {
        major,
        minor,
        inode,
        generation,
    })
}

/// Mostly the default, as in real logs.
fn rarely<T: Default + std::fmt::Debug>(some: impl Strategy<Value = T>) -> impl Strategy<Value = T> {
    prop::option::weighted(0.3, some).prop_map(Option::unwrap_or_default)
}

fn fault() -> impl Strategy<Value = Event<'static>> {
    let file = (file(), any::<(u64, u32, u32)>()).prop_map(|(file, (offset, magic, mmap_miss))| FaultFile {
        file,
        offset: FileOffset(offset),
        magic,
        mmap_miss,
    });
    let vma = (any::<u64>(), prop::option::of(file)).prop_map(|(flags, file)| FaultVma { flags, file });
    let waits = any::<(u64, u64, u64, u64, u64)>().prop_map(|(lock, disk, blocked, preempted, reclaim)| Waits {
        lock,
        disk,
        blocked,
        preempted,
        reclaim,
    });
    let attempts = any::<(u32, u32, u32, u32)>().prop_map(|(error_code, asked, returned, retries)| Attempts {
        error_code,
        asked,
        returned,
        retries,
    });
    let what = (any::<(u16, u32, u64, Option<u64>)>(), prop::option::of(vma));
    let others = any::<(u32, u64)>().prop_map(|(count, time)| OtherFaults { count, time });
    let pages = (prop::option::of(block_pages()), any::<u32>(), any::<u32>(), others);
    (at(), what, rarely(waits), rarely(attempts), rarely(pages), stacks()).prop_map(
        |(at, ((cpu, flags, address, start), vma), waits, attempts, (mapped, read, signal, others), stacks)| {
            Event::Fault(Fault {
                at,
                cpu,
                address: Avma(address),
                start: start.map(Timestamp),
                flags,
                vma,
                waits,
                attempts,
                mapped,
                read,
                signal,
                others,
                stacks,
            })
        },
    )
}

fn block_pages() -> impl Strategy<Value = BlockPages> {
    let runs = prop::collection::vec((0..512_usize, 0..80_usize), 0..5);
    runs.prop_map(|runs| runs.iter().map(|(first, count)| *first..first + count).collect())
}

fn pages_read() -> impl Strategy<Value = Event<'static>> {
    (at(), file(), any::<(u64, u64, u32, bool)>()).prop_map(|(at, file, (since, first, count, in_fault))| {
        Event::PagesRead(PagesRead {
            at,
            since: Timestamp(since),
            file,
            first,
            count,
            in_fault,
            order: (since % 3 != 0).then_some((first % 16) as u8),
        })
    })
}

fn pages_populated() -> impl Strategy<Value = Event<'static>> {
    (at(), any::<(u64, u64)>()).prop_map(|(at, (start, len))| {
        Event::PagesPopulated(PagesPopulated {
            at,
            start: Avma(start),
            len,
        })
    })
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

fn counts() -> impl Strategy<Value = Option<FaultCounts>> {
    any::<Option<(u64, u64, u64, u64, u64)>>().prop_map(|counts| {
        counts.map(|(seen, lost, filtered, failed, before)| FaultCounts {
            seen,
            lost,
            filtered,
            failed,
            before,
        })
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
        (at(), any::<(u32, u64, u64, u64, u64)>(), counts()).prop_map(|(at, (exit_code, a, b, c, d), faults)| {
            let (cpu_time, sum_exec_runtime, minor_faults, major_faults) = (a, b, c, d);
            Event::TaskExit(TaskExit {
                at,
                exit_code,
                cpu_time,
                sum_exec_runtime,
                minor_faults,
                major_faults,
                faults,
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
        prop_oneof![4 => sample(), 4 => fault(), 1 => pages_read(), 1 => pages_populated(), 4 => waits(), 3 => block(), 2 => stack(), 4 => task(),
            1 => other()],
        0..40,
    )
}

/// Events in separate chunks.
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
    let program =
        (".{0,20}", any::<(u64, u64)>()).prop_map(|(name, (runs, time_ns))| ProgramCost { name, runs, time_ns });
    let programs = prop::option::of((any::<(u64, u64)>(), prop::collection::vec(program, 0..4)));
    let cost = (programs, any::<Option<u64>>()).prop_map(|(programs, log_bytes)| {
        let programs = programs.map(|((counted_ns, of_ns), programs)| ProgramCosts {
            counted_ns,
            of_ns,
            programs,
        });
        Event::Cost(Box::new(Cost {
            programs,
            log_bytes,
            ..Cost::default()
        }))
    });
    let process = (any::<u32>(), any::<u64>()).prop_map(|(pid, time)| (pid, Timestamp(time)));
    let cgroup = (".{0,20}", prop::collection::vec(process, 0..4))
        .prop_map(|(path, processes)| CgroupProcesses { path, processes });
    let pod = (".{0,9}", ".{0,9}", ".{0,9}").prop_map(|(namespace, name, uid)| Pod { namespace, name, uid });
    let container = (".{0,20}", prop::option::of(".{0,20}"), prop::option::of(pod))
        .prop_map(|(id, name, pod)| Container { id, name, pod });
    let owners = (
        prop::collection::vec(cgroup, 0..3),
        prop::collection::vec(container, 0..3),
    )
        .prop_map(|(cgroups, containers)| Event::Owners(Box::new(Owners { cgroups, containers })));
    prop::collection::vec(prop_oneof![module, attachment, resolved, cost, owners, usage()], 0..6)
}

fn usage() -> impl Strategy<Value = Event<'static>> {
    let number = || prop::option::of(any::<u64>());
    let events = prop::option::of(any::<[u64; 4]>()).prop_map(|events| {
        events.map(|[high, max, oom, oom_kill]| MemoryEvents {
            high,
            max,
            oom,
            oom_kill,
        })
    });
    let pressure = || prop::option::of(any::<(u64, u64)>().prop_map(|(some, full)| Pressure { some, full }));
    let memory = (any::<u64>(), number(), number(), number(), number());
    let sample = (memory, events, pressure(), pressure(), pressure()).prop_map(
        |((time, memory, swap, max, high), events, cpu, memory_pressure, io)| UsageSample {
            time: Timestamp(time),
            memory,
            swap,
            max,
            high,
            events,
            cpu,
            memory_pressure,
            io,
        },
    );
    let hierarchy = prop_oneof![Just(UsageHierarchy::Version2), Just(UsageHierarchy::MemoryVersion1)];
    let cgroup = (".{0,20}", hierarchy, prop::collection::vec(sample, 0..4)).prop_map(|(path, hierarchy, samples)| {
        CgroupUsage {
            path,
            hierarchy,
            samples,
        }
    });
    (prop::collection::vec(cgroup, 0..3), any::<u64>()).prop_map(|(cgroups, left_out)| {
        Event::Usage(Box::new(Usage {
            cgroups,
            left_out,
            is_below_others: left_out % 2 == 1,
        }))
    })
}
