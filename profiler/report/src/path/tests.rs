//! Each rule on lanes that are written down, and the invariants on random ones.

use proptest::prelude::*;

use super::lanes::{EndedBy, Lane, LaneRead, LaneRequest, LaneSample, LaneWait, Lanes};
use super::walk::{Kind, Piece, Window, walk};
use super::what_if::Replay;
use base::addr::{Timestamp, ns};
use fact::{DeviceId, MappedFileId, StackId, ThreadId, WaitReason};

const RUN: WaitReason = WaitReason::RunQueue;
const RUN_QUEUE: Kind = Kind::Wait(RUN);

fn wait(start: u64, woken: u64, end: u64, reason: WaitReason, ended_by: EndedBy) -> LaneWait {
    LaneWait {
        start: Timestamp(start),
        woken: Timestamp(woken),
        end: Timestamp(end),
        reason,
        in_fault: false,
        ended_by,
        stack: None,
        file: None,
        request: None,
        cpu: Some(0),
        priority: None,
    }
}

fn by(thread: u32) -> EndedBy {
    EndedBy::Thread(ThreadId(thread))
}

fn lane(born: u64, waits: &[LaneWait]) -> Lane {
    Lane::new(Timestamp(born), waits.to_vec(), Vec::new())
}

fn window(start: u64, end: u64) -> Window {
    Window {
        start: Timestamp(start),
        end: Timestamp(end),
    }
}

/// The path of the first lane from 0 to 100, as (start, end, thread, kind).
fn path(lanes: Vec<Lane>) -> Vec<(u64, u64, u32, Kind)> {
    let pieces = walk(&Lanes::new(lanes), ThreadId(0), window(0, 100));
    let shown = pieces
        .iter()
        .map(|piece| (piece.start.0, piece.end.0, piece.spent.thread.0, piece.spent.kind));
    shown.collect()
}

mod vain;
mod what_if;

#[test]
fn a_thread_that_only_runs_is_its_own_path() {
    assert_eq!(path(vec![lane(0, &[])]), [(0, 100, 0, Kind::Cpu)]);
    assert_eq!(walk(&Lanes::default(), ThreadId(0), window(5, 5)), []);
}

#[test]
fn a_wait_is_replaced_by_what_its_waker_did() {
    let waiting = lane(0, &[wait(10, 80, 80, WaitReason::Lock, by(1))]);
    // The waker was itself waiting for a pipe when the first thread began to.
    let holder = lane(0, &[wait(5, 30, 30, WaitReason::Pipe, by(2))]);
    let expected = [
        (0, 10, 0, Kind::Cpu),
        (10, 30, 2, Kind::Cpu),
        (30, 80, 1, Kind::Cpu),
        (80, 100, 0, Kind::Cpu),
    ];
    let lanes = vec![waiting, holder, lane(0, &[])];
    assert_eq!(path(lanes.clone()), expected);
    let via: Vec<_> = walk(&Lanes::new(lanes), ThreadId(0), window(0, 100))
        .iter()
        .map(|piece| piece.via)
        .collect();
    assert_eq!(via, [None, Some(WaitReason::Pipe), Some(WaitReason::Lock), None]);
}

#[test]
fn a_span_that_ends_within_waits_leads_to_what_ends_the_first_of_them() {
    // At 50, thread 0 waits for 1, which waits for 2, which waits for a CPU that 3 has; 4 waits for 0.
    let on_cpu = |cpu, wait: LaneWait| LaneWait { cpu, ..wait };
    let lanes = vec![
        lane(0, &[wait(10, 90, 90, WaitReason::Lock, by(1))]),
        lane(0, &[wait(20, 80, 80, WaitReason::Pipe, by(2))]),
        lane(0, &[on_cpu(Some(1), wait(40, 40, 60, RUN, EndedBy::Unknown))]),
        lane(0, &[on_cpu(Some(1), wait(38, 38, 40, RUN, EndedBy::Unknown))]),
        lane(0, &[wait(5, 95, 95, WaitReason::Socket, by(0))]),
    ];
    let lanes = Lanes::new(lanes);
    let (span, thread) = (window(0, 50), ThreadId(0));
    let pieces = walk(&lanes, thread, span);
    let shown: Vec<_> = pieces
        .iter()
        .map(|piece| (piece.start.0, piece.end.0, piece.lane.0, piece.spent.kind))
        .collect();
    let expected = [
        (0, 10, 0, Kind::Cpu),
        (10, 20, 1, Kind::Cpu),
        (20, 40, 2, Kind::Cpu),
        (40, 50, 2, RUN_QUEUE),
    ];
    assert_eq!(shown, expected);
    let replay = Replay::new(&lanes, thread, span);
    // What the first two did before they waited, thread 2 did not wait for; but a lock is waited for no longer by whoever
    // comes earlier.
    for (lane, saves) in [(0, 10), (1, 0), (2, 30)] {
        assert_eq!(replay.saved(pieces.iter().filter(|piece| piece.lane.0 == lane)), saves);
    }
    // In a circle nothing is known: neither wait ends first.
    let lock = |waker| lane(0, &[wait(10, 90, 90, WaitReason::Lock, by(waker))]);
    let pieces = walk(&Lanes::new(vec![lock(1), lock(0)]), thread, span);
    assert_eq!(
        pieces.last().map(|piece| piece.spent.kind),
        Some(Kind::Wait(WaitReason::Lock))
    );
}

#[test]
fn an_unknown_waker_leaves_the_wait() {
    for ended_by in [
        EndedBy::Unknown,
        EndedBy::Interrupt,
        EndedBy::Unrecorded(7),
        // Itself, one that does not exist, and one that did not run.
        by(0),
        by(9),
        by(1),
    ] {
        let lanes = vec![
            lane(0, &[wait(10, 80, 80, WaitReason::Socket, ended_by)]),
            lane(0, &[wait(5, 90, 90, WaitReason::Sleep, EndedBy::Interrupt)]),
        ];
        let socket = (10, 80, 0, Kind::Wait(WaitReason::Socket));
        assert_eq!(path(lanes), [(0, 10, 0, Kind::Cpu), socket, (80, 100, 0, Kind::Cpu)]);
    }
}

#[test]
fn time_in_the_run_queue_is_of_whichever_thread_had_the_cpu() {
    let on = |cpu, wait: LaneWait| LaneWait { cpu, ..wait };
    let ran_before = |end| wait(end - 1, end - 1, end, WaitReason::RunQueue, EndedBy::Unknown);
    let slept = |start| wait(start, 90, 95, WaitReason::Sleep, EndedBy::Interrupt);
    // Woken at 20. The CPU went from thread 1 to one that is not recorded at 40, to 2 at 45, and to this one at 70.
    // Thread 3 was on another CPU.
    let waiting = wait(10, 20, 70, WaitReason::Sleep, EndedBy::Interrupt);
    let lanes = vec![
        lane(0, &[waiting]),
        lane(0, &[ran_before(5), slept(40)]),
        lane(0, &[ran_before(45)]).ended(Some(Timestamp(70))),
        lane(0, &[on(Some(1), ran_before(15)), slept(71)]),
    ];
    let expected = [
        (0, 10, 0, Kind::Cpu),
        (10, 20, 0, Kind::Wait(WaitReason::Sleep)),
        (20, 40, 1, RUN_QUEUE),
        (40, 45, 0, RUN_QUEUE),
        (45, 70, 2, RUN_QUEUE),
        (70, 100, 0, Kind::Cpu),
    ];
    assert_eq!(path(lanes.clone()), expected);
    // The CPU is unknown, or no recorded thread was ever there.
    for cpu in [None, Some(7)] {
        let mut lanes = lanes.clone();
        lanes[0] = lane(0, &[on(cpu, waiting)]);
        assert_eq!(path(lanes)[2], (20, 70, 0, RUN_QUEUE));
    }
}

#[test]
fn a_request_is_the_disk_and_before_it_the_thread_that_submitted_it() {
    let read = |by: Option<u32>| LaneWait {
        in_fault: true,
        request: Some(LaneRequest {
            start: Timestamp(40),
            by: by.map(ThreadId),
            device: DeviceId(3),
            file: Some(MappedFileId(4)),
        }),
        ..wait(10, 80, 80, WaitReason::Disk, EndedBy::Interrupt)
    };
    let submitter = || lane(0, &[wait(50, 90, 90, WaitReason::Sleep, EndedBy::Interrupt)]);
    let cpu = |start, end, thread| (start, end, thread, Kind::Cpu);
    let others = path(vec![lane(0, &[read(Some(1))]), submitter()]);
    assert_eq!(
        others,
        [cpu(0, 10, 0), cpu(10, 40, 1), (40, 80, 0, Kind::Fault), cpu(80, 100, 0)]
    );
    let own = path(vec![lane(0, &[read(None)]), submitter()]);
    assert_eq!(own, [cpu(0, 10, 0), (10, 80, 0, Kind::Fault), cpu(80, 100, 0)]);
    let pieces = walk(&Lanes::new(vec![lane(0, &[read(None)])]), ThreadId(0), window(0, 100));
    assert_eq!(
        (pieces[1].spent.device, pieces[1].spent.file),
        (Some(DeviceId(3)), Some(MappedFileId(4)))
    );
}

#[test]
fn before_its_birth_a_thread_was_its_creators_work() {
    let waiting = lane(0, &[wait(10, 80, 80, WaitReason::Condition, by(2))]);
    let creator = lane(0, &[wait(60, 90, 90, WaitReason::Sleep, EndedBy::Interrupt)]);
    let newborn = lane(50, &[wait(50, 50, 55, WaitReason::RunQueue, EndedBy::Unknown)]);
    let expected = [
        (0, 10, 0, Kind::Cpu),
        (10, 50, 1, Kind::Cpu),
        (50, 55, 2, RUN_QUEUE),
        (55, 80, 2, Kind::Cpu),
        (80, 100, 0, Kind::Cpu),
    ];
    let mut lanes = vec![waiting, creator, newborn];
    assert_eq!(path(lanes.clone()), expected);
    // Two may have created it, or it is known.
    lanes.push(lane(0, &[]));
    assert_eq!(path(lanes.clone())[1], (10, 50, 0, Kind::Wait(WaitReason::Condition)));
    lanes[2] = lanes[2].clone().created_by(Some(ThreadId(1)));
    assert_eq!(path(lanes), expected);
}

#[test]
fn samples_divide_time_on_a_cpu() {
    let sample = |time, stack| LaneSample {
        time: Timestamp(time),
        stack: Some(StackId::new(stack)),
    };
    let samples = vec![sample(10, 1), sample(20, 1), sample(30, 2), sample(75, 3)];
    let waits = vec![
        LaneWait {
            stack: Some(StackId::new(8)),
            ..wait(50, 60, 60, WaitReason::Sleep, EndedBy::Interrupt)
        },
        LaneWait {
            stack: Some(StackId::new(9)),
            ..wait(70, 72, 72, WaitReason::Sleep, EndedBy::Interrupt)
        },
    ];
    let lanes = Lanes::new(vec![Lane::new(Timestamp(0), waits, samples)]);
    let pieces = walk(&lanes, ThreadId(0), window(15, 90));
    let cpu: Vec<_> = pieces.iter().filter(|piece| piece.spent.kind == Kind::Cpu).collect();
    let shown = cpu.iter().map(|piece| {
        let stack = piece.spent.stack.map(StackId::number);
        (piece.start.0, piece.end.0, stack)
    });
    let expected = [
        (15, 20, Some(1)),
        (20, 50, Some(2)),
        (60, 70, Some(9)),
        (72, 90, Some(3)),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

fn read(start: u64, end: u64, file: u32) -> LaneRead {
    LaneRead {
        start: Timestamp(start),
        end: Timestamp(end),
        file: MappedFileId(file),
    }
}

#[test]
fn time_on_a_cpu_within_a_fault_is_that_of_the_file_that_it_read() {
    let disk = LaneWait {
        in_fault: true,
        file: Some(MappedFileId(3)),
        ..wait(20, 50, 50, WaitReason::Disk, EndedBy::Interrupt)
    };
    // The second fault begins within the first, and the third one, which did not wait, has no length.
    let reads = vec![read(90, 99, 4), read(10, 60, 3), read(15, 40, 5), read(70, 70, 5)];
    let lanes = Lanes::new(vec![lane(0, &[disk]).with_reads(reads)]);
    let pieces = walk(&lanes, ThreadId(0), window(0, 95));
    let shown = pieces.iter().map(|piece| {
        let file = piece.spent.file.map(|file| file.0);
        (piece.start.0, piece.end.0, piece.spent.kind, file)
    });
    let expected = [
        (0, 10, Kind::Cpu, None),
        (10, 20, Kind::Cpu, Some(3)),
        (20, 50, Kind::Fault, Some(3)),
        (50, 60, Kind::Cpu, Some(3)),
        (60, 90, Kind::Cpu, None),
        (90, 95, Kind::Cpu, Some(4)),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

/// Four threads hand a token around: a million waits, each woken by the thread before.
fn relay(waits: u64) -> Lanes {
    let lane_of = |thread: u64| {
        let turns = (0..waits / 4).map(|round| {
            let turn = (4 * round + thread) * 100;
            let waker = u32::try_from((thread + 3) % 4).unwrap_or(0);
            // Since the end of its last turn; it runs 10 ns after it is woken.
            wait(turn.saturating_sub(300), turn, turn + 10, WaitReason::Pipe, by(waker))
        });
        lane(0, &turns.collect::<Vec<_>>())
    };
    Lanes::new((0..4).map(lane_of).collect())
}

#[test]
fn a_million_waits_are_a_path_of_as_many_pieces() {
    let waits = 1_000_000;
    let lanes = relay(waits);
    let span = window(0, waits * 100);
    let pieces = walk(&lanes, ThreadId(0), span);
    assert_eq!(total(&pieces), waits * 100);
    let count = pieces.len() as u64;
    assert!(count >= waits && count <= 3 * waits, "{count} pieces");
    let replay = Replay::new(&lanes, ThreadId(0), span);
    for thread in 0..4 {
        let removed = || pieces.iter().filter(|piece| piece.spent.thread.0 == thread);
        // A relay has no second path.
        assert_eq!(replay.saved(removed()), total(removed()));
    }
}

prop_compose! {
    /// Any lanes: waits that overlap, end before they begin, or wait for each other.
    fn any_lane(threads: u32)(
        born in 0..40_u64,
        parent in prop::option::of(0..3_usize),
        process in 0..3_usize,
        waits in prop::collection::vec((0..120_u64, 0..30_u64, 0..30_u64, 0..5_usize, 0..=threads, any::<bool>(), 0..120_u64), 0..12),
        samples in prop::collection::vec((0..120_u64, 0..4_u32), 0..6),
        reads in prop::collection::vec((0..120_u64, 0..30_u64, 0..3_u32), 0..4),
    ) -> Lane {
        let waits = waits.into_iter().map(|(start, blocked, queued, reason, waker, is_read, read)| {
            let reason = WaitReason::ALL[reason];
            let ended_by = if waker < threads { by(waker) } else { EndedBy::Unknown };
            let request = LaneRequest { start: Timestamp(read), by: Some(ThreadId(waker)), device: DeviceId(0), file: None };
            LaneWait { request: is_read.then_some(request), ..wait(start, start + blocked, start + blocked + queued, reason, ended_by) }
        });
        let samples = samples.into_iter().map(|(time, stack)| LaneSample { time: Timestamp(time), stack: Some(StackId::new(stack)) });
        let reads = reads.into_iter().map(|(start, took, file)| read(start, start + took, file));
        let lane = Lane::new(Timestamp(born), waits.collect(), samples.collect()).with_reads(reads.collect());
        lane.of_process(process, parent)
    }
}

fn total<'p>(pieces: impl IntoIterator<Item = &'p Piece>) -> u64 {
    pieces.into_iter().map(|piece| ns(piece.end.since(piece.start))).sum()
}

proptest! {
    #[test]
    fn the_pieces_partition_the_span(
        lanes in prop::collection::vec(any_lane(6), 1..6),
        start in 0..60_u64,
        length in 0..90_u64,
    ) {
        let span = window(start, start + length);
        let most = |lane: &Lane| 4 * lane.waits().len() + lane.samples().len() + 2 * lane.reads().len() + 3;
        let limit: usize = lanes.iter().map(most).sum();
        let lanes = Lanes::new(lanes);
        for thread in 0..7 {
            let pieces = walk(&lanes, ThreadId(thread), span);
            let mut at = span.start;
            for piece in &pieces {
                prop_assert_eq!(piece.start, at);
                prop_assert!(piece.end > piece.start);
                at = piece.end;
            }
            prop_assert_eq!(at, span.end);
            prop_assert!(pieces.len() <= limit, "{} pieces", pieces.len());
        }
    }

    #[test]
    fn no_more_is_saved_than_removed(lanes in prop::collection::vec(any_lane(6), 1..6), start in 0..60_u64) {
        let span = window(start, start + 60);
        let lanes = Lanes::new(lanes);
        let pieces = walk(&lanes, ThreadId(0), span);
        let replay = Replay::new(&lanes, ThreadId(0), span);
        prop_assert_eq!(replay.saved(std::iter::empty::<&Piece>()), 0);
        for thread in 0..6 {
            let removed = || pieces.iter().filter(|piece| piece.spent.thread.0 == thread);
            prop_assert!(replay.saved(removed()) <= total(removed()));
        }
        prop_assert!(replay.saved(pieces.iter()) <= total(&pieces));
    }
}
