//! Scenarios of processes and threads with known outcomes.

use super::*;
use base::addr::FileOffset;
use base::event::{FileId, PROT_EXEC, TaskExec, TaskExit, TaskNew};

const VM: u64 = 0x100;
const THREAD: u64 = 0x10000 | VM;

fn at(time: u64, pid: u32, tid: u32) -> At {
    At {
        time: Timestamp(time),
        pid,
        tid,
    }
}

fn new(time: u64, pid: u32, tid: u32, parent: u32, clone_flags: u64, name: &[u8]) -> Event<'static> {
    let (at, name) = (at(time, pid, tid), name.to_vec());
    Event::TaskNew(TaskNew {
        at,
        parent: (parent, parent),
        existed: false,
        clone_flags,
        name,
    })
}

fn exec(time: u64, pid: u32, old_tid: u32, path: &[u8]) -> Event<'static> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    let command_line = [path, b"\0-x\0"].concat();
    Event::TaskExec(TaskExec {
        at: at(time, pid, pid),
        existed: false,
        old_tid,
        name,
        path: path.to_vec(),
        command_line,
    })
}

fn exit(time: u64, pid: u32, tid: u32, exit_code: u32) -> Event<'static> {
    Event::TaskExit(TaskExit {
        at: at(time, pid, tid),
        exit_code,
        cpu_time: 7,
        sum_exec_runtime: 9,
        ..TaskExit::default()
    })
}

fn rename(time: u64, pid: u32, tid: u32, name: &[u8]) -> Event<'static> {
    Event::TaskRename {
        at: at(time, pid, tid),
        name: name.to_vec(),
    }
}

fn map(time: u64, pid: u32, start: u64, path: &[u8]) -> Event<'static> {
    Event::Mapping(Mapping {
        at: at(time, pid, pid),
        start: Avma(start),
        len: 0x1000,
        offset: FileOffset(0),
        file: FileId {
            inode: 1,
            ..FileId::default()
        },
        protection: PROT_EXEC,
        path: path.to_vec(),
        ..Mapping::default()
    })
}

fn apply(events: &[Event<'static>]) -> (Tasks, Vec<Happening>) {
    let mut tasks = Tasks::new(Timestamp(0));
    let happenings = events.iter().filter_map(|event| tasks.apply(event)).collect();
    (tasks, happenings)
}

/// The mapping at an address of the last process with a pid.
fn path_at(tasks: &Tasks, pid: u32, address: u64) -> Option<String> {
    let region = tasks.region(tasks.process_of(pid)?, Avma(address))?;
    Some(tasks.files.get(region.file).path.to_string())
}

#[test]
fn fork_inherits_and_exec_replaces() {
    let (tasks, happenings) = apply(&[
        new(1, 10, 10, 1, 0, b"sh"),
        map(2, 10, 0x1000, b"/bin/sh"),
        new(3, 11, 11, 10, 0, b"sh"),
        map(4, 11, 0x9000, b"/lib/own"),
        rename(5, 11, 11, b"cat"),
        map(6, 11, 0x2000, b"/bin/cat"),
        exec(7, 11, 11, b"/bin/cat"),
        map(8, 11, 0x3000, b"/lib/libc"),
    ]);
    assert_eq!(path_at(&tasks, 10, 0x1800).as_deref(), Some("/bin/sh"));
    assert_eq!(path_at(&tasks, 10, 0x2000), None);
    assert_eq!(path_at(&tasks, 11, 0x1800), None);
    assert_eq!(path_at(&tasks, 11, 0x9000), None);
    assert_eq!(path_at(&tasks, 11, 0x2fff).as_deref(), Some("/bin/cat"));
    assert_eq!(path_at(&tasks, 11, 0x3000).as_deref(), Some("/lib/libc"));
    let (parent, child) = (ProcessId(0), ProcessId(1));
    assert_eq!(
        happenings,
        [
            Happening::Start(parent),
            Happening::Start(child),
            Happening::Exec(child)
        ]
    );
    let record = &tasks.processes[1];
    assert_eq!(
        (record.name.as_str(), record.path.as_str(), record.parent),
        ("cat", "/bin/cat", Some(parent))
    );
    assert_eq!(*record.command_line, ["/bin/cat", "-x"]);
    assert_eq!(tasks.threads[1].name, "cat");
    // Of the recorded threads, the first one has no creator.
    let creators: Vec<_> = tasks.threads.iter().map(|thread| thread.creator).collect();
    assert_eq!(creators, [None, Some(ThreadId(0))]);
}

#[test]
fn an_earlier_rename_does_not_keep_old_mappings() {
    let (tasks, _) = apply(&[
        new(1, 10, 10, 1, 0, b"sh"),
        rename(2, 10, 10, b"cat"),
        map(3, 10, 0x1000, b"/old"),
        rename(4, 10, 10, b"cat"),
        map(5, 10, 0x2000, b"/bin/cat"),
        exec(6, 10, 10, b"/bin/cat"),
        rename(7, 10, 10, b"other name"),
    ]);
    assert_eq!(path_at(&tasks, 10, 0x1000), None);
    assert_eq!(path_at(&tasks, 10, 0x2000).as_deref(), Some("/bin/cat"));
    assert_eq!(
        (tasks.processes[0].name.as_str(), tasks.threads[0].name.as_str()),
        ("cat", "other name")
    );
}

#[test]
fn a_lost_rename_keeps_the_new_programs_mappings() {
    let (tasks, _) = apply(&[
        new(1, 10, 10, 1, 0, b"sh"),
        map(2, 10, 0x1000, b"/bin/sh"),
        new(3, 11, 11, 10, 0, b"sh"),
        map(6, 11, 0x2000, b"/bin/cat"),
        exec(7, 11, 11, b"/bin/cat"),
    ]);
    assert_eq!(path_at(&tasks, 11, 0x1000), None);
    assert_eq!(path_at(&tasks, 11, 0x2000).as_deref(), Some("/bin/cat"));
}

#[test]
fn vfork_shares_until_exec() {
    let mut story = vec![
        new(1, 10, 10, 1, 0, b"sh"),
        map(2, 10, 0x1000, b"/bin/sh"),
        new(3, 11, 11, 10, VM, b"sh"),
        map(4, 11, 0x5000, b"/shared"),
    ];
    let (tasks, _) = apply(&story);
    for pid in [10, 11] {
        assert_eq!(path_at(&tasks, pid, 0x5000).as_deref(), Some("/shared"));
    }
    story.extend([
        rename(5, 11, 11, b"cat"),
        map(6, 11, 0x1000, b"/bin/cat"),
        exec(7, 11, 11, b"/bin/cat"),
        map(8, 10, 0x7000, b"/later"),
    ]);
    let (tasks, _) = apply(&story);
    assert_eq!(path_at(&tasks, 10, 0x1000).as_deref(), Some("/bin/sh"));
    assert_eq!(path_at(&tasks, 11, 0x1000).as_deref(), Some("/bin/cat"));
    assert_eq!(path_at(&tasks, 11, 0x5000), None);
    assert_eq!(path_at(&tasks, 11, 0x7000), None);
    assert_eq!(path_at(&tasks, 10, 0x5000).as_deref(), Some("/shared"));
}

#[test]
fn a_reused_pid_is_a_new_lifetime() {
    let (mut tasks, happenings) = apply(&[
        new(1, 10, 10, 1, 0, b"a"),
        map(2, 10, 0x1000, b"/a"),
        exit(3, 10, 10, 256),
        new(5, 10, 10, 1, 0, b"b"),
    ]);
    let lives = [ProcessId(0), ProcessId(1)];
    assert_eq!(
        happenings,
        [
            Happening::Start(lives[0]),
            Happening::Exit(lives[0]),
            Happening::Start(lives[1])
        ]
    );
    assert_eq!(
        (tasks.processes[0].end, tasks.processes[0].exit_code),
        (Some(Timestamp(3)), Some(256))
    );
    assert_eq!(tasks.processes[1].end, None);
    assert_eq!(path_at(&tasks, 10, 0x1000), None);
    assert_eq!(tasks.thread_at(&at(6, 10, 10)), ThreadId(1));
    assert_eq!(tasks.threads[0].cpu_time_after_last_sample, 7);
    assert_eq!(tasks.threads[0].sum_exec_runtime, Some(9));
}

#[test]
fn a_thread_that_outlives_the_recording_has_all_its_time_and_no_end() {
    let alive = |time, cpu_time| Event::TaskAlive {
        at: at(time, 10, 11),
        cpu_time,
    };
    let (tasks, happenings) = apply(&[new(1, 10, 10, 1, 0, b"a"), new(2, 10, 11, 10, 0, b"b"), alive(9, 70)]);
    assert_eq!(happenings, [Happening::Start(ProcessId(0))]);
    assert_eq!(
        (tasks.threads[1].cpu_time_after_last_sample, tasks.threads[1].end),
        (70, None)
    );
    let (tasks, _) = apply(&[alive(9, u64::MAX), alive(9, 1)]);
    assert_eq!(tasks.threads[0].cpu_time_after_last_sample, u64::MAX);
}

#[test]
fn a_thread_still_runs_briefly_after_its_exit() {
    let (mut tasks, _) = apply(&[new(1, 10, 10, 1, 0, b"a"), exit(3, 10, 10, 0)]);
    assert_eq!(tasks.thread_at(&at(4, 10, 10)), ThreadId(0));
    assert_eq!(tasks.threads[0].end, Some(Timestamp(4)));
    assert_eq!(tasks.threads.len(), 1);
}

#[test]
fn a_process_ends_with_its_last_thread() {
    let (tasks, happenings) = apply(&[
        new(1, 10, 10, 1, 0, b"a"),
        new(2, 10, 12, 10, THREAD, b"worker"),
        exit(3, 10, 10, 0),
        exit(4, 10, 12, 0),
    ]);
    assert_eq!(
        happenings,
        [Happening::Start(ProcessId(0)), Happening::Exit(ProcessId(0))]
    );
    assert_eq!(tasks.processes[0].end, Some(Timestamp(4)));
    assert_eq!(tasks.threads[0].end, Some(Timestamp(3)));
    assert!(tasks.threads[0].is_main && !tasks.threads[1].is_main);
}

#[test]
fn a_thread_that_execs_becomes_the_first_thread() {
    let (tasks, happenings) = apply(&[
        new(1, 10, 10, 1, 0, b"a"),
        new(2, 10, 12, 10, THREAD, b"worker"),
        exit(3, 10, 10, 0),
        rename(4, 10, 10, b"cat"),
        exec(5, 10, 12, b"/bin/cat"),
        exit(9, 10, 10, 1),
    ]);
    let process = ProcessId(0);
    assert_eq!(
        happenings,
        [
            Happening::Start(process),
            Happening::Exec(process),
            Happening::Exit(process)
        ]
    );
    assert_eq!(
        (tasks.processes[0].end, tasks.processes[0].exit_code),
        (Some(Timestamp(9)), Some(1))
    );
    assert_eq!(
        (tasks.threads[0].name.as_str(), tasks.threads[0].end),
        ("cat", Some(Timestamp(9)))
    );
    // Two threads with its id have ended.
    assert_eq!(tasks.threads[0].sum_exec_runtime, Some(18));
    assert_eq!(tasks.threads[1].end, Some(Timestamp(5)));
    assert_eq!(tasks.threads.len(), 2);
}

#[test]
fn unrecorded_threads_start_with_their_first_sample() {
    let (mut tasks, _) = apply(&[map(1, 10, 0x1000, b"/a"), map(1, 99, 0x1000, b"/never seen again")]);
    assert!(tasks.processes.is_empty());
    let thread = tasks.thread_at(&at(5, 10, 12));
    assert_eq!(tasks.threads[thread.index()].start, Timestamp(5));
    assert_eq!(path_at(&tasks, 10, 0x1000).as_deref(), Some("/a"));
    tasks.apply(&rename(6, 10, 12, b"DOM Worker"));
    assert_eq!(tasks.threads[thread.index()].name, "DOM Worker");
    assert_eq!(tasks.processes.len(), 1);
}

#[test]
fn preexisting_threads_start_with_the_recording() {
    let mut tasks = Tasks::new(Timestamp(100));
    let existed = |pid, tid, name: &[u8]| {
        Event::TaskNew(TaskNew {
            at: at(3, pid, tid),
            existed: true,
            name: name.to_vec(),
            ..TaskNew::default()
        })
    };
    assert_eq!(tasks.apply(&existed(10, 10, b"firefox")), None);
    tasks.apply(&existed(10, 11, b"Renderer"));
    tasks.apply(&map(101, 10, 0x1000, b"/usr/lib/firefox"));
    let Event::TaskExec(mut program) = exec(3, 10, 10, b"/usr/lib/firefox") else {
        unreachable!()
    };
    program.existed = true;
    assert_eq!(tasks.apply(&Event::TaskExec(program)), None);
    assert_eq!(path_at(&tasks, 10, 0x1000).as_deref(), Some("/usr/lib/firefox"));
    assert_eq!(tasks.processes[0].name, "firefox");
    assert!(tasks.processes[0].existed);
    assert!(tasks.threads.iter().all(|thread| thread.start == Timestamp(100)));
}

#[test]
fn a_program_started_through_a_descriptor_keeps_the_kernels_name() {
    let Event::TaskExec(mut program) = exec(2, 10, 10, b"/dev/fd/5") else {
        unreachable!()
    };
    program.name = b"memfd:tool".to_vec();
    let (tasks, _) = apply(&[new(1, 10, 10, 1, 0, b"a"), Event::TaskExec(program)]);
    assert_eq!(tasks.processes[0].name, "memfd:tool");
}

#[test]
fn mappings_are_counted_across_lifetimes() {
    let mut tasks = Tasks::new(Timestamp(0));
    let count = |tasks: &mut Tasks, event: &Event<'_>| {
        tasks.apply(event);
        tasks.regions
    };
    assert_eq!(count(&mut tasks, &new(1, 10, 10, 1, 0, b"sh")), 0);
    assert_eq!(count(&mut tasks, &map(2, 10, 0x1000, b"/a")), 1);
    assert_eq!(count(&mut tasks, &map(3, 10, 0x2000, b"/b")), 2);
    assert_eq!(count(&mut tasks, &map(4, 10, 0x1000, b"/c")), 2);
    assert_eq!(count(&mut tasks, &new(5, 11, 11, 10, 0, b"sh")), 4);
    assert_eq!(count(&mut tasks, &new(6, 12, 12, 10, VM, b"sh")), 4);
    assert_eq!(count(&mut tasks, &exec(7, 12, 12, b"/x")), 4);
    assert_eq!(count(&mut tasks, &exec(8, 11, 11, b"/x")), 2);
    assert_eq!(count(&mut tasks, &exit(9, 10, 10, 0)), 0);
}

#[test]
fn children_inherit_a_cgroup_that_was_not_read() {
    let mut tasks = Tasks::new(Timestamp(10));
    let cgroup = |path: &str| Some(Arc::from(path));
    tasks.know_cgroups(FxHashMap::from_iter([
        ((1, Timestamp(2)), "/a".into()),
        ((3, Timestamp(30)), "/b".into()),
        // Another process had this number before.
        ((4, Timestamp(1)), "/c".into()),
    ]));
    let born = |time, pid, parent| {
        Event::TaskNew(TaskNew {
            at: At {
                time: Timestamp(time),
                pid,
                tid: pid,
            },
            parent: (parent, parent),
            ..TaskNew::default()
        })
    };
    for event in [
        born(2, 1, 0),
        born(20, 2, 1),
        born(30, 3, 2),
        born(40, 4, 0),
        born(50, 5, 2),
    ] {
        tasks.apply(&event);
    }
    let found = tasks.processes.iter();
    let found: Vec<_> = found.map(|one| (one.cgroup.clone(), one.cgroup_inherited)).collect();
    let inherited = || (cgroup("/a"), true);
    assert_eq!(
        found,
        [
            (cgroup("/a"), false),
            inherited(),
            (cgroup("/b"), false),
            (None, false),
            inherited()
        ]
    );
}
