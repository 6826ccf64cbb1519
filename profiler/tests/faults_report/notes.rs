//! What is reported in addition to the tables: aggregated faults, functions at which fault-around
//! stopped, and what a profile can't know.

use std::time::Duration;

use profiler::fact::fault::FaultClass;
use profiler::fact::{FaultFact, FoldedFaults, ThreadId};
use profiler::report::faults::{FaultReport, Selection, Selector, View};

use super::synthetic::{STACKS, empty, numbered, place};
use super::{collected, text};

#[test]
fn notes_cover_what_tables_omit() {
    let mut made = empty();
    made.tables.recording.folded_faults = [(true, 5, 1_000_000), (false, 1_200, 2_000_000)]
        .map(|(major, faults, time)| FoldedFaults {
            thread: ThreadId(0),
            class: FaultClass::FileRead,
            major,
            faults,
            time,
            pages_read: 7,
        })
        .to_vec();
    made.faults = (0..3)
        .map(|i| FaultFact {
            class: FaultClass::FileCow,
            failed: None,
            place: place(0, i),
            stack: STACKS[usize::from(i == 1)],
            latency: Some(Duration::from_millis(1)),
            read_around_off: true,
            pages_read: 4,
            ..numbered(i)
        })
        .collect();
    let (tables, mut facts) = collected(&made);
    facts.is_without_mappings = true;
    let view = View::new(&tables, &facts);
    let report = FaultReport::new(&view, &Selector::new(&view, &Selection::default()).unwrap());
    let printed = text(&report, 10);
    assert!(
        printed.contains("folded:  1,205 more, 5 major, 3.00 ms in all, 14 pages read,"),
        "{printed}"
    );
    assert!(printed.contains("bss: only"), "{printed}");
    let [first, second] = &report.read_around_spots[..] else {
        panic!("{:?}", report.read_around_spots)
    };
    let function = first.function.as_deref().unwrap();
    assert!(["inlined", "outer"].contains(&function), "{function}");
    assert_eq!((first.faults, first.pages_read, first.time_ns), (2, 8, 2_000_000));
    assert_eq!((first.first_offset, first.last_offset, second.faults), (0, 2 * 4096, 1));
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(&format!("faults in libdemo.so (3, most in {function})")),
        "{printed}"
    );

    facts.is_without_mappings = false;
    let view = View::new(&tables, &facts);
    let report = FaultReport::new(&view, &Selector::new(&view, &Selection::default()).unwrap());
    assert!(!text(&report, 10).contains("bss: only"));
}
