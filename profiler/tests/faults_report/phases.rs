//! Phases of a process.

use profiler::fact::MarkKind;
use profiler::report::faults::View;
use profiler::report::faults::phase::Phase;

use super::collected;
use super::synthetic::{empty, fault, mark, stack};

#[test]
fn a_process_goes_through_its_phases() {
    let mut made = empty();
    let tables = &mut made.tables;
    let loader = stack(tables, &[("ld-linux-x86-64.so.2", None)]);
    let named = stack(
        tables,
        &[
            ("ld-linux-x86-64.so.2", Some(&["_dl_start"])),
            ("libx.so", Some(&["resolver"])),
        ],
    );
    let initialiser = stack(
        tables,
        &[
            ("ld-linux-x86-64.so.2", Some(&["_dl_init"])),
            ("libx.so", Some(&["setup"])),
        ],
    );
    let stripped = stack(
        tables,
        &[("demo", None), ("libc.so.6", None), ("libc.so.6", None), ("demo", None)],
    );
    let late = stack(
        tables,
        &[("demo", Some(&["main"])), ("ld-linux-x86-64.so.2", Some(&["_dl_init"]))],
    );
    let exec = MarkKind::Exec {
        path: String::new(),
        command_line: Vec::new().into(),
    };
    // The exec at 80 µs is reported once the kernel has set the program up: the fault at 71 µs,
    // without a frame, is part of it.
    made.marks = vec![
        mark(10, exec.clone()),
        mark(
            60,
            MarkKind::Program {
                text: "First paint".into(),
            },
        ),
        mark(80, exec),
    ];
    let stacks = [
        None,
        None,
        Some(loader),
        Some(named),
        Some(initialiser),
        Some(stripped),
        Some(late),
        None,
        None,
        None,
    ];
    made.faults = (0_u64..)
        .zip(stacks)
        .map(|(i, stack)| fact::FaultFact {
            stack,
            ..fault(10 * i + 1)
        })
        .collect();
    // The child has not entered a phase yet: it is in the phase of its parent at its birth, which
    // has none yet.
    made.faults.push(fact::FaultFact {
        thread: fact::ThreadId(2),
        ..fault(99)
    });
    let (tables, facts) = collected(&made);
    let view = View::new(&tables, &facts);
    let phases: Vec<Option<Phase>> = view.faults().map(|fault| view.phase(&fault)).collect();
    let expected = [
        Some(Phase::Exec),
        Some(Phase::Exec),
        Some(Phase::Loader),
        Some(Phase::Loader),
        Some(Phase::Initialisers),
        Some(Phase::Main),
        Some(Phase::Window),
        Some(Phase::Exec),
        Some(Phase::Exec),
        Some(Phase::Exec),
        None,
    ];
    assert_eq!(phases, expected);
}
