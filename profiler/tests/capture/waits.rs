//! Waits of programs with known waits: each switch is recorded once, and a thread's off-CPU time is its lifetime
//! minus its time on CPUs.

use std::path::Path;
use std::process::Command;

use profiler::capture::hooks::waits::OffCpu;
use profiler::event::{Event, Wait};
use profiler_common::Loss;
use profiler_common::stack::FLAG_USER_REGS;
use profiler_common::switch::{WAIT_BIRTH, WAIT_IN_CALL, WAIT_LIKE_EARLIER, WAIT_PREEMPTED, WAIT_WOKEN};

use crate::emulated::is_emulated;
use crate::harness::{Recording, Waiting, command, compile, record, skipped};

/// Each thread writes how often it was switched by the kernel's count, and how long its own waits took by its clock;
/// the first two wake each other `ROUNDS` times on one CPU.
const PROGRAM: &str = include_str!("waits.c");

/// The program's report on a thread: its name, its tid, how often it was switched, and the ns that it waited by its
/// own clock (the main thread for its child, the sleeper for its timeouts).
struct ThreadReport {
    name: String,
    tid: u32,
    switches: u64,
    waited: u64,
}

fn run(rounds: u32, off_cpu: OffCpu) -> Option<(Recording, Vec<ThreadReport>)> {
    if skipped() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits", PROGRAM, &["-O1"]);
    let list = folder.path().join("list");
    let waiting = Waiting::new(&program, &[&rounds.to_string(), list.to_str().unwrap()]);
    let request = command(waiting.pid()).with(|terms| {
        terms.off_cpu = off_cpu;
    });
    let recording = record(request, || assert_eq!(waiting.run(), Some(0)));
    let reports = std::fs::read_to_string(&list).unwrap();
    let reports = reports.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        ThreadReport {
            name: words[0].to_owned(),
            tid: words[1].parse().unwrap(),
            switches: words[2].parse().unwrap(),
            waited: words[3].parse().unwrap(),
        }
    });
    Some((recording, reports.collect()))
}

fn waits(recording: &Recording, tid: u32) -> Vec<&Wait> {
    let mut waits = Vec::new();
    for event in &recording.events {
        if let Event::Wait(wait) = event
            && wait.at.tid == tid
        {
            waits.push(wait);
        }
    }
    waits
}

fn count_of(recording: &Recording, which: Loss) -> u64 {
    let last = recording.events.iter().rev().find_map(|event| match event {
        Event::Loss { loss, count } if *loss == which as u32 => Some(*count),
        _ => None,
    });
    last.unwrap_or(0)
}

fn lost(recording: &Recording) -> u64 {
    count_of(recording, Loss::WaitRingFull)
}

/// Switches that the kernel did not show: observed once in a hundred thousand, while other programs attached to the
/// tracepoint and detached.
fn missed(recording: &Recording) -> u64 {
    count_of(recording, Loss::SwitchMissed)
}

/// On-CPU and off-CPU time add up to a thread's lifetime, within a thousandth.
fn check_life(recording: &Recording, thread: &ThreadReport) {
    if missed(recording) > 0 {
        return; // the loss is counted, and one wait may have any length
    }
    let time = |event: &Event<'static>| match event {
        Event::TaskNew(new) if new.at.tid == thread.tid => Some((true, new.at.time.0)),
        Event::TaskExit(exit) if exit.at.tid == thread.tid => Some((false, exit.at.time.0)),
        _ => None,
    };
    let times: Vec<(bool, u64)> = recording.events.iter().filter_map(time).collect();
    let [(true, born), (false, ended)] = times[..] else {
        panic!("{}: {times:?}", thread.name);
    };
    let on = recording.cpu_time(thread.tid);
    let off: u64 = waits(recording, thread.tid).iter().map(|wait| wait.off).sum();
    let life = ended - born;
    assert!(
        (on + off).abs_diff(life) <= life / 100_000,
        "{}: {on} on CPUs, {off} off, {life} alive",
        thread.name
    );
}

/// Maximum number of switches between the thread's own look at its count and its end, most of all on an emulated
/// machine.
const LATE: u64 = 64;

/// Recorded switches; the wait for its first CPU is not one.
fn switches_seen(recording: &Recording, thread: &ThreadReport) -> u64 {
    let all = waits(recording, thread.tid);
    let births = all.iter().filter(|wait| wait.flags & WAIT_BIRTH != 0).count() as u64;
    all.iter().map(|wait| u64::from(wait.count)).sum::<u64>() - births
}

fn check_count(recording: &Recording, thread: &ThreadReport) {
    let all = waits(recording, thread.tid);
    let seen = switches_seen(recording, thread);
    assert!(
        seen + missed(recording) >= thread.switches && seen <= thread.switches + LATE,
        "{}: {seen} waits, the kernel counted {} switches",
        thread.name,
        thread.switches
    );
    for wait in all {
        assert!(wait.out <= wait.end && wait.end <= wait.at.time, "{wait:?}");
        assert!(wait.queued <= wait.off && wait.longest <= wait.off, "{wait:?}");
        if wait.count == 1 {
            assert_eq!(wait.off, wait.end.0 - wait.out.0, "{wait:?}");
        }
    }
}

#[test]
fn each_switch_is_recorded_and_lifetimes_add_up() {
    let Some((recording, reports)) = run(200, OffCpu::default()) else {
        return;
    };
    assert_eq!(lost(&recording), 0);
    assert_eq!(reports.len(), 6);
    for thread in &reports {
        if thread.name != "main" {
            check_life(&recording, thread); // the first thread was a shell before that
        }
        if thread.name != "main" {
            check_count(&recording, thread);
        }
    }
    check_sleeps(&recording, &reports);
    // A thread woken through a futex has the other player as its waker. Which of the two waits is the scheduler's
    // choice.
    let tid = |name: &str| reports.iter().find(|thread| thread.name == name).unwrap().tid;
    let mut woken = 0;
    for (player, other) in [("ping", "pong"), ("pong", "ping")] {
        let futex = waits(&recording, tid(player))
            .into_iter()
            .filter(|wait| wait.flags & WAIT_PREEMPTED == 0 && wait.call.is_some_and(|call| is_futex(call.number)));
        let wakers: Vec<Option<u32>> = futex.map(|wait| wait.waker.map(|waker| waker.tid)).collect();
        let unknown = wakers.iter().filter(|waker| waker.is_none()).count() as u64;
        assert!(
            unknown <= count_of(&recording, Loss::ProgramMissed),
            "{player}: {wakers:?}"
        );
        assert!(
            wakers.iter().flatten().all(|waker| *waker == tid(other)),
            "{player}: {wakers:?}"
        );
        woken += wakers.len();
    }
    assert!(woken >= 10, "{woken}");
    // The main thread waited in read(2) for the child's write, which came 30 ms after it went to sleep: a pipe.
    let read = waits(&recording, tid("main"));
    let read = read
        .iter()
        .filter(|wait| wait.call.is_some_and(|call| is_read(call.number)))
        .max_by_key(|wait| wait.off)
        .unwrap();
    let waited = reports.iter().find(|thread| thread.name == "main").unwrap().waited;
    assert!((30_000_000..=waited).contains(&read.off), "{read:?} of {waited}");
    assert_eq!(read.call.unwrap().file.unwrap().mode & 0o170_000, 0o010_000, "{read:?}");
    assert_eq!(read.waker.unwrap().tid, tid("child"));
}

/// Five sleeps of 20 ms, which together are no longer than the program reports.
fn check_sleeps(recording: &Recording, reports: &[ThreadReport]) {
    let sleeper = reports.iter().find(|thread| thread.name == "sleeper").unwrap();
    let slept: Vec<_> = waits(recording, sleeper.tid)
        .into_iter()
        .filter(|wait| wait.flags & WAIT_PREEMPTED == 0 && wait.call.is_some_and(|call| is_sleep(call.number)))
        .collect();
    // Five, except for one that timed out before the busy machine let it go to sleep; `check_count` has counted them.
    assert!((3..=5).contains(&slept.len()), "{slept:?}");
    let sum: u64 = slept.iter().map(|wait| wait.off).sum();
    assert!(sum <= sleeper.waited, "{sum} of {}", sleeper.waited);
    // A sleep's clock starts before the switch-out: on a busy machine the others are shorter by the wait for a CPU
    // in between.
    assert!(slept.iter().any(|wait| wait.off >= 20_000_000), "{slept:?}");
    for wait in slept {
        assert_eq!(
            wait.flags & (WAIT_IN_CALL | WAIT_WOKEN),
            WAIT_IN_CALL | WAIT_WOKEN,
            "{wait:?}"
        );
        assert_ne!((wait.stacks.user, wait.stacks.kernel), (0, 0));
    }
}

#[test]
fn a_storm_is_aggregated_without_loss() {
    let Some((recording, reports)) = run(60_000, OffCpu::default()) else {
        return;
    };
    let lost = lost(&recording);
    // An emulated recorder may be overrun: then every missing wait must be counted.
    if lost > 0 {
        assert!(is_emulated(), "{lost} lost");
        let all: Vec<&ThreadReport> = reports.iter().filter(|thread| thread.name != "main").collect();
        let seen: u64 = all.iter().map(|thread| switches_seen(&recording, thread)).sum();
        let switches: u64 = all.iter().map(|thread| thread.switches).sum();
        let counted = seen + lost + missed(&recording);
        assert!(counted >= switches, "{seen} seen, {lost} lost, {switches} switches");
        return;
    }
    for name in ["ping", "pong"] {
        let thread = reports.iter().find(|thread| thread.name == name).unwrap();
        assert!(thread.switches > 50_000, "{name}: {}", thread.switches);
        check_count(&recording, thread);
        check_life(&recording, thread);
        let all = waits(&recording, thread.tid);
        assert!(
            all.iter()
                .any(|wait| wait.count > 1 && wait.flags & WAIT_LIKE_EARLIER != 0)
        );
        // Every waiter has a stack, even those with a reused one; a thread that exits may have released its memory
        // (7.2 preempts it there).
        let none = all
            .iter()
            .filter(|wait| {
                wait.stacks.user == 0 && wait.flags & WAIT_BIRTH == 0 && wait.stacks.flags & FLAG_USER_REGS != 0
            })
            .count();
        assert_eq!(none, 0, "{name}");
    }
}

#[test]
fn waits_that_are_too_short_are_only_counted() {
    let Some((recording, reports)) = run(500, OffCpu::AtLeast(10_000_000)) else {
        return;
    };
    for thread in reports.iter().filter(|thread| thread.name != "main") {
        check_count(&recording, thread);
        check_life(&recording, thread);
        for wait in waits(&recording, thread.tid) {
            assert!(
                wait.count > 1 || wait.off >= 10_000_000 || wait.longest < 10_000_000,
                "{wait:?}"
            );
        }
    }
}

#[test]
fn no_waits_are_recorded_when_off() {
    let Some((recording, _)) = run(10, OffCpu::Off) else {
        return;
    };
    assert!(!recording.events.iter().any(|event| matches!(event, Event::Wait(_))));
}

/// perf counts the same switches.
#[test]
fn perf_agrees() {
    if skipped() || !Path::new("/usr/bin/perf").exists() {
        println!("skipped: needs root and perf");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "waits", PROGRAM, &["-O1"]);
    let list = folder.path().join("list");
    let counts = folder.path().join("counts");
    let script = folder.path().join("run");
    let text = format!(
        "#!/bin/sh\nexec perf stat -x, -e context-switches -o {} {} 2000 {}\n",
        counts.display(),
        program.display(),
        list.display()
    );
    std::fs::write(&script, text).unwrap();
    let made = Command::new("chmod").arg("+x").arg(&script).status().unwrap();
    assert!(made.success());
    let waiting = Waiting::new(&script, &[]);
    let recording = record(command(waiting.pid()), || assert_eq!(waiting.run(), Some(0)));
    let counts = std::fs::read_to_string(counts).unwrap();
    let line = counts.lines().find(|line| line.contains("context-switches")).unwrap();
    let perf: u64 = line.split(',').next().unwrap().parse().unwrap();
    let reports = std::fs::read_to_string(&list).unwrap();
    let program = reports
        .lines()
        .find_map(|line| line.strip_prefix("main ")?.split(' ').next()?.parse::<u32>().ok())
        .unwrap();
    let begins = |event: &Event<'static>| match event {
        Event::TaskExec(exec) if exec.at.pid == program => Some(exec.at.time),
        _ => None,
    };
    let begun = recording.events.iter().filter_map(begins).max().unwrap();
    let of_program = |event: &Event<'static>| match event {
        // perf's count excludes what happened before exec, and the wait for the first CPU.
        Event::Wait(wait) if wait.flags & WAIT_BIRTH == 0 => {
            (wait.at.pid >= program && wait.end > begun).then_some(u64::from(wait.count))
        }
        _ => None,
    };
    let ours: u64 = recording.events.iter().filter_map(of_program).sum();
    let overrun = lost(&recording);
    assert!(overrun == 0 || is_emulated(), "{overrun} lost");
    // perf counts each thread's last switch too.
    assert!(
        ours <= perf + 16 && ours + overrun + missed(&recording) + 16 >= perf,
        "{ours} here and {overrun} lost, {perf} by perf"
    );
}

fn is_sleep(number: u32) -> bool {
    let sleeps = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep];
    sleeps.contains(&libc::c_long::from(number))
}

fn is_read(number: u32) -> bool {
    libc::c_long::from(number) == libc::SYS_read
}

fn is_futex(number: u32) -> bool {
    libc::c_long::from(number) == libc::SYS_futex
}
