//! Locks of known waits: identity, sums, rows, and hostile names.

use std::time::Duration;

use profiler::addr::{Avma, ns};
use profiler::event::LockId;
use profiler::fact::wait::{Futex, WaitCall, WakerFact};
use profiler::fact::{
    FactSink as _, KernelLock, LockHolder, LockKind, MappedFileId, StackId, Tables, ThreadId, WaitFact, WaitReason,
};
use profiler::report::export::{csv_head, csv_row, json_row};
use profiler::report::grid::Measure as _;
use profiler::report::locks::export::{COLUMNS, Exporter};
use profiler::report::locks::tally::HolderTally;
use profiler::report::locks::{LockFacts, LockReport, LockView, text};
use profiler::report::waits::tally::WaitTally;
use profiler::report::waits::{Selection, Selector, View};

use crate::made::{at, numbered, tables};

/// Waits for four futexes, a locked file and an unknown futex, in turn, by three threads of two processes; every tenth one
/// stands for several.
fn wait(i: u64, stacks: &[StackId]) -> WaitFact {
    let wait = numbered(i, stacks);
    let index = |modulus: u64| usize::try_from(i % modulus).unwrap();
    // Each of the three threads waits for each lock.
    let kind = usize::try_from(i / 3 % 6).unwrap();
    let place = Some((MappedFileId(0), 0x40c0));
    let futexes = [
        (0x40c0, place),
        (0x7f00_0000, None),
        (u64::MAX, None),
        (0x40c0, Some((MappedFileId(7), 1))),
    ];
    let futex = futexes.get(kind).map(|(address, place)| Futex {
        address: Avma(*address),
        place: *place,
    });
    let thread = ThreadId(u32::try_from(i % 4).unwrap());
    let waker = WakerFact {
        time: at(3 * i + i % 500),
        pid: 100,
        tid: 101,
        thread: (!i.is_multiple_of(7)).then_some(thread),
        stack: Some(stacks[index(4)]),
        by_interrupt: Some(i.is_multiple_of(11)),
    };
    WaitFact {
        count: if i.is_multiple_of(10) { 3 } else { 1 },
        reason: WaitReason::Lock,
        call: (kind == 4).then(|| WaitCall {
            number: 73,
            name: "flock".into(),
            file: Some(MappedFileId(0)),
            path: None,
        }),
        waker: (!i.is_multiple_of(5)).then_some(waker),
        futex,
        lock: None,
        ..wait
    }
}

fn facts(n: u64) -> (Tables, LockFacts) {
    let (tables, stacks) = tables();
    let mut facts = LockFacts::default();
    for i in (0..n).rev() {
        facts.wait(&tables, &wait(i, &stacks));
    }
    (tables, facts)
}

fn with_view<T>(n: u64, selection: &Selection, then: impl FnOnce(&LockView<'_, '_>) -> T) -> T {
    let (tables, facts) = facts(n);
    let view = View::new(&tables, &facts.waits);
    let selector = Selector::new(&view, selection).unwrap();
    then(&LockView::new(&view, facts.lanes.lanes(&tables), &selector, false))
}

#[test]
fn every_lock_adds_up() {
    let selection = Selection {
        threads: vec!["demo".into(), "101".into()],
        from: Some(Duration::from_micros(500)),
        ..Selection::default()
    };
    for selection in [Selection::default(), selection] {
        with_view(3000, &selection, |view| {
            let report = LockReport::new(view);
            assert!(report.locks.len() >= 6, "{}", report.locks.len());
            let mut totals = WaitTally::default();
            for lock in &report.locks {
                totals.merge(&lock.totals);
                let details = lock.details.as_ref().unwrap();
                assert_eq!(details.held.blocked_ns, lock.totals.blocked_ns, "{lock:?}");
                for table in [&details.by_holder, &details.by_release] {
                    let mut held = HolderTally::default();
                    for row in &table.rows {
                        held.merge(&row.tally);
                    }
                    assert_eq!(held, details.held, "{}", table.key);
                }
                let held = &details.held;
                let parts = held.cpu_ns + held.fault_ns + held.disk_ns + held.queue_ns + held.other_ns;
                assert_eq!(parts + held.hand_over_ns + held.unknown_ns, held.blocked_ns);
                let preempted: u64 = details.preempted_by.iter().map(|by| by.time_ns).sum();
                assert_eq!((preempted, details.preempted_ns), (held.queue_ns, held.queue_ns));
                let mut waits = WaitTally::default();
                let waiters = &details.by_waiter.rows;
                for row in waiters {
                    waits.merge(&row.tally);
                }
                assert_eq!((waits, waiters.len() as u64), (lock.totals, lock.waiters));
            }
            assert_eq!(totals, report.totals);
        });
    }
}

#[test]
fn a_lock_is_what_its_address_or_file_says() {
    with_view(3000, &Selection::default(), |view| {
        let report = LockReport::new(view);
        let find = |name: &str| report.locks.iter().filter(|lock| lock.lock == name).count();
        // Of two processes each.
        assert_eq!((find("demo.db+0x40c0"), find("/var/lib/demo.db")), (2, 1));
        let in_heap = |address| {
            report
                .locks
                .iter()
                .filter(move |lock| lock.address.as_deref() == Some(address))
        };
        for address in ["0x7f000000", "0xffffffffffffffff"] {
            assert_eq!(in_heap(address).count(), 2);
            assert!(in_heap(address).all(|lock| lock.lock.starts_with("futex ") && lock.file.is_none()));
        }
        let locked = report.locks.iter().find(|lock| lock.kind == "file").unwrap();
        assert_eq!((locked.pid, locked.file.as_deref()), (None, Some("/var/lib/demo.db")));
        let futex = report.locks.iter().find(|lock| lock.lock == "demo.db+0x40c0").unwrap();
        assert_eq!((futex.address.as_deref(), futex.offset), (Some("0x40c0"), Some(0x40c0)));
    });
}

/// Waits of thread 0 for addresses in the heap, one after the other: the address, and the stacks of the waiting and of
/// the releasing thread. Returns address, name and waits of each lock.
fn in_heap(waits: &[(u64, Option<usize>, Option<usize>)]) -> Vec<(String, String, u64)> {
    let (tables, stacks) = tables();
    let mut facts = LockFacts::default();
    for (i, (address, waited, released)) in (100..).zip(waits) {
        let waker = WakerFact {
            time: at(3 * i + i % 1000),
            pid: 100,
            tid: 101,
            thread: Some(ThreadId(1)),
            stack: released.map(|place| stacks[place]),
            by_interrupt: Some(false),
        };
        let futex = Futex {
            address: Avma(*address),
            place: None,
        };
        facts.wait(
            &tables,
            &WaitFact {
                start: at(1000 * i),
                end: at(1000 * i + 100),
                off: Duration::from_micros(100),
                thread: ThreadId(0),
                reason: WaitReason::Lock,
                count: 1,
                stack: waited.map(|place| stacks[place]),
                waker: Some(waker),
                futex: Some(futex),
                lock: None,
                ..numbered(i, &stacks)
            },
        );
    }
    let view = View::new(&tables, &facts.waits);
    let locks = LockView::new(&view, facts.lanes.lanes(&tables), &Selector::default(), false);
    let named = LockReport::new(&locks).locks.into_iter();
    let mut named: Vec<_> = named
        .map(|lock| (lock.address.unwrap(), lock.lock, lock.totals.waits))
        .collect();
    named.sort();
    named
}

#[test]
fn locks_in_the_heap_are_called_after_their_functions() {
    let named = |waits: &[_]| {
        let named = in_heap(waits).into_iter();
        named
            .map(|(address, name, waits)| format!("{address} {name} {waits}"))
            .collect::<Vec<_>>()
    };
    let (load, work, nameless) = (Some(0), Some(1), None);
    assert_eq!(named(&[(16, load, work), (16, load, work)]), ["0x10 futex in load 2"]);
    assert_eq!(named(&[(16, nameless, work)]), ["0x10 0x10 1"]);
    // One address, with other functions later; the thread is called from the same function only in the other case.
    assert_eq!(
        named(&[(16, load, nameless), (16, work, nameless)]),
        ["0x10 futex in load 2"]
    );
    // Two are distinguished by the function that released them, if it does, else their order.
    let released = [(16, load, load), (32, load, work)];
    assert_eq!(
        named(&released),
        [
            "0x10 futex in load released in load 1",
            "0x20 futex in load released in work 1"
        ]
    );
    let alike = [(32, work, work), (16, work, work), (48, work, load)];
    assert_eq!(
        named(&alike),
        [
            "0x10 futex #2 in work 1",
            "0x20 futex #1 in work 1",
            "0x30 futex in work released in load 1"
        ]
    );
}

#[test]
fn other_waits_are_not_for_locks() {
    let (tables, stacks) = tables();
    let mut facts = LockFacts::default();
    let all = (0..).zip(WaitReason::ALL);
    for (i, reason) in all {
        let futex = (reason == WaitReason::Condition).then_some(Futex {
            address: Avma(64),
            place: None,
        });
        let stack = Some(stacks[0]);
        facts.wait(
            &tables,
            &WaitFact {
                reason,
                futex,
                lock: None,
                stack,
                ..numbered(i, &stacks)
            },
        );
    }
    let view = View::new(&tables, &facts.waits);
    let lanes = || LockFacts::default().lanes.lanes(&tables);
    let of = |conditions| {
        LockView::new(&view, lanes(), &Selector::default(), conditions)
            .locks
            .len()
    };
    // `lock`, and with conditions the futex.
    assert_eq!((of(false), of(true)), (1, 2));
}

#[test]
fn text_fits_eighty_columns_whatever_the_names_are() {
    for n in [1, 30, 3000] {
        let mut out = Vec::new();
        let report = with_view(n, &Selection::default(), LockReport::new);
        text::write(&mut out, &report, 10, true).unwrap();
        let text = String::from_utf8(out).unwrap();
        let styles = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[33m"];
        let text = styles.iter().fold(text, |text, style| text.replace(style, ""));
        assert!(!text.contains('\u{1b}'));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn rows_add_up_to_the_single_waits() {
    with_view(3000, &Selection::default(), |view| {
        let exporter = Exporter::new(view);
        let rows = exporter.rows();
        let (mut csv, mut json) = (Vec::new(), Vec::new());
        csv_head(&mut csv, &COLUMNS).unwrap();
        for row in &rows {
            csv_row(&mut csv, &exporter.row(row)).unwrap();
            json_row(&mut json, &COLUMNS, &exporter.row(row)).unwrap();
        }
        let (csv, json) = (String::from_utf8(csv).unwrap(), String::from_utf8(json).unwrap());
        assert_eq!(csv.lines().count(), rows.len() + 1);
        assert!(!csv.contains('\u{1b}') && !json.contains('\u{1b}'));
        let rows: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let number = |row: &serde_json::Value, key: &str| row[key].as_u64().unwrap();
        let (_, stacks) = tables();
        let singles = (0..3000).map(|i| wait(i, &stacks)).filter(|wait| wait.count == 1);
        let blocked: u64 = singles.map(|wait| ns(wait.blocked())).sum();
        assert_eq!(rows.iter().map(|row| number(row, "blocked_ns")).sum::<u64>(), blocked);
        assert!(rows.is_sorted_by_key(|row| number(row, "time_ns")));
        for row in &rows {
            let (start, end) = (number(row, "time_ns"), number(row, "end_ns"));
            assert!(end > start && number(row, "blocked_ns") <= (end - start) * number(row, "waiters"));
        }
    });
}

#[test]
fn locks_of_the_kernel_have_names_and_the_holder_that_the_kernel_showed() {
    let (tables, stacks) = tables();
    let mut facts = LockFacts::default();
    let lock = |number, is_own_mmap| KernelLock {
        id: LockId::Number(number),
        kind: LockKind::Rwsem,
        is_read: true,
        is_own_mmap,
        name: None,
        holder: Some(LockHolder {
            pid: 100,
            tid: 101,
            thread: Some(ThreadId(1)),
            is_reader: false,
        }),
    };
    // Once a thread waited for the lock of its own address space, later waits for it are for that.
    let locks = [lock(1, false), lock(2, true), lock(2, false), lock(2, false)];
    for (i, lock) in (100..).zip(locks) {
        let wait = WaitFact {
            reason: WaitReason::Memory,
            thread: ThreadId(0),
            count: 1,
            futex: None,
            lock: Some(Box::new(lock)),
            waker: None,
            ..numbered(i, &stacks)
        };
        facts.wait(&tables, &wait);
    }
    let view = View::new(&tables, &facts.waits);
    let locks = LockView::new(&view, facts.lanes.lanes(&tables), &Selector::default(), false);
    let report = LockReport::new(&locks);
    let mut found: Vec<_> = report
        .locks
        .iter()
        .map(|lock| (lock.lock.as_str(), lock.number, lock.totals.waits))
        .collect();
    found.sort_unstable();
    let process = &tables.processes[tables.threads[0].process.index()];
    let space = format!("mmap_lock of {}", process.name);
    assert_eq!(found, [(space.as_str(), None, 3), ("rwsem #1", Some(1), 1)]);
    for lock in &report.locks {
        assert_eq!(lock.kind, "rwsem");
        // The last wait began when this thread had the lock, and nothing released it.
        let details = lock.details.as_ref().unwrap();
        let holder = details.by_holder.rows.iter().find(|row| row.number("tid") == Some(101));
        assert!(holder.is_some_and(|row| row.tally.blocked_ns > 0), "{lock:?}");
    }
}
