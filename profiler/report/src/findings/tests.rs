//! Findings from synthetic data.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::time::Duration;

use super::*;
use base::addr::{Svma, Timestamp};
use fact::fault::{FileSection, MappedFile};
use fact::reduce::finding_inputs::{Code, Copies, ReadWaits, Wasted};
use fact::{
    Frame, FrameId, FrameName, Location, Module, ModuleId, ModuleKind, ProcessId, Recording, StackNode, ThreadId,
    fixtures,
};

/// `main` and `lookup` of the program, and `memset` of the C library: stacks 0, 1 and 2, each the parent of the next.
fn tables() -> Tables {
    let module = |name| Module::named(ModuleKind::File, name);
    let frame = |module, svma| Frame {
        location: Location::Module {
            module: ModuleId(module),
            svma: Svma(svma),
        },
        is_return_address: false,
    };
    let name = |(index, name): (u32, &str)| {
        let symbol = name.to_owned();
        (
            FrameId(index),
            FrameName {
                symbol: symbol.into(),
                ..FrameName::default()
            },
        )
    };
    let node = |parent: Option<u32>, frame| StackNode {
        parent: parent.map(StackId::new),
        frame: FrameId(frame),
    };
    let text = FileSection {
        name: ".text".into(),
        offset: 0,
        size: 1 << 20,
        svma: 0,
    };
    let file = |path: &str, sections| MappedFile {
        path: path.into(),
        sections,
        ..MappedFile::default()
    };
    let mut process = fixtures::process(100, "demo");
    process.main_thread = Some(ThreadId(0));
    Tables {
        recording: Recording {
            scope: "command".into(),
            end: Timestamp(1_000_000_000),
            ..Recording::default()
        },
        processes: vec![process],
        threads: vec![fixtures::thread(0, 100)],
        modules: vec![module("demo"), module("libc.so.6")],
        frames: vec![frame(0, 0), frame(0, 16), frame(1, 0)],
        stacks: vec![node(None, 0), node(Some(0), 1), node(Some(1), 2)],
        files: vec![
            file("/data/table.bin", Vec::new()),
            file("/usr/lib/libdemo.so", vec![text]),
        ],
        names: (0..).zip(["main", "lookup", "memset"]).map(name).collect(),
        ..Tables::default()
    }
}

fn copies(frame: u32, pages: u64) -> Copies {
    Copies {
        process: ProcessId(0),
        frame: Some(FrameId(frame)),
        pages,
        counted: 0,
        time: Duration::from_micros(pages),
    }
}

fn wasted(file: u32, stack: u32, pages: u64, of: u64) -> Wasted {
    Wasted {
        file: MappedFileId(file),
        stack: Some(StackId::new(stack)),
        pages,
        of,
    }
}

fn code(pages: u64, places: u64, windows: u64) -> Code {
    Code {
        file: MappedFileId(1),
        pages,
        places,
        windows,
        time: Duration::from_millis(5),
    }
}

fn lines(inputs: &FindingInputs) -> Vec<String> {
    find(&tables(), inputs).iter().map(Finding::line).collect()
}

#[test]
fn copies_are_summed_up_by_function() {
    let inputs = FindingInputs {
        copies: vec![copies(0, 100), copies(1, 2000), copies(1, 1000)],
        ..FindingInputs::default()
    };
    let found = find(&tables(), &inputs);
    assert_eq!(found[0].function.as_deref(), Some("lookup"));
    assert_eq!((found[0].bytes, found[0].time_ns), (3000 * 4096, 3_000_000));
    assert_eq!(
        found[0].line(),
        "copied:  3,000 pages (12.3 MB) after a fork, by lookup in demo"
    );
    let counted = FindingInputs {
        copies: vec![Copies {
            counted: 900,
            ..copies(1, 1000)
        }],
        ..FindingInputs::default()
    };
    assert_eq!(
        lines(&counted)[0],
        "copied:  about 1,000 pages (4.10 MB) after a fork, by lookup in demo"
    );
    let few = FindingInputs {
        copies: vec![copies(1, 255)],
        ..FindingInputs::default()
    };
    assert_eq!(lines(&few), [""; 0]);
}

#[test]
fn a_mostly_wasted_file_is_reported_with_its_reader() {
    let inputs = FindingInputs {
        wasted: vec![
            wasted(0, 0, 10, 1000),
            wasted(0, 2, 700, 1000),
            wasted(1, 1, 1000, 8000),
        ],
        ..FindingInputs::default()
    };
    let found = find(&tables(), &inputs);
    assert_eq!(found.len(), 1, "an eighth of a library is not reported: {found:?}");
    assert_eq!(
        found[0].line(),
        "wasted:  2.91 MB of 4.10 MB read of table.bin by lookup, never mapped"
    );
    assert!(found[0].lines().join(" ").contains("MADV_RANDOM"));
}

#[test]
fn nothing_is_called_wasted_when_faults_were_lost() {
    let inputs = FindingInputs {
        wasted: vec![wasted(0, 2, 700, 1000)],
        ..FindingInputs::default()
    };
    let mut tables = tables();
    assert_eq!(find(&tables, &inputs).len(), 1);
    tables.recording.losses = vec![("fault ring full".to_owned(), 1)];
    assert!(find(&tables, &inputs).is_empty());
}

#[test]
fn names_are_shortened_and_the_words_around_them_are_not() {
    let mut tables = tables();
    tables.files[0].path = format!("/data/{}.npy", "w".repeat(40)).into();
    let name = tables.names.get_mut(&FrameId(1)).unwrap();
    let function = format!("{}::sum", "n".repeat(60));
    (name.symbol, name.inline_chain) = (function.into(), Vec::new());
    let inputs = FindingInputs {
        wasted: vec![wasted(0, 1, 70_000, 70_000)],
        ..FindingInputs::default()
    };
    let line = find(&tables, &inputs)[0].line();
    assert!(
        line.contains("w.npy by nnn") && line.ends_with("n::sum, never mapped"),
        "{line}"
    );
    assert!(line.contains('…') && columns(&line) <= 80, "{line}");
}

#[test]
fn scattered_code_is_reported_only_with_exact_pages() {
    let of = |one| {
        lines(&FindingInputs {
            code: vec![one],
            ..FindingInputs::default()
        })
    };
    let expected = "scatter: code of libdemo.so ran on 577 pages in 250 places; see `ngmi order`";
    assert_eq!(of(code(577, 250, 60)), [expected]);
    // Contiguous; few; one fault per window, which leaves the pages around it unknown.
    for quiet in [code(577, 5, 60), code(60, 60, 10), code(577, 500, 400)] {
        assert_eq!(of(quiet), [""; 0], "{quiet:?}");
    }
}

#[test]
fn reads_that_the_main_thread_waited_for_come_last() {
    let wait = |thread, ms| ReadWaits {
        thread: ThreadId(thread),
        file: Some(MappedFileId(1)),
        faults: 9,
        time: Duration::from_millis(ms),
    };
    let inputs = |ms| FindingInputs {
        copies: vec![copies(1, 2000)],
        waits: vec![wait(0, ms), wait(1, 900)],
        ..FindingInputs::default()
    };
    let found = find(&tables(), &inputs(250));
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[1].line(),
        "disk:    250 ms (25.0 %) for reads, mostly from libdemo.so; see `ngmi preload`"
    );
    assert_eq!(find(&tables(), &inputs(150)).len(), 1);
}

#[test]
fn lines_fit_whatever_the_names_are() {
    let mut tables = tables();
    for name in tables.names.values_mut() {
        name.symbol = "\x1b[2Jn".repeat(500).into();
    }
    tables.processes[0].name = "p".repeat(500);
    tables.files[0].path = format!("/{}", "f".repeat(500)).into();
    let inputs = FindingInputs {
        copies: vec![copies(1, u64::MAX), copies(0, u64::MAX)],
        wasted: vec![wasted(0, 0, u64::MAX, u64::MAX), wasted(9, 9, u64::MAX, 0)],
        code: vec![code(u64::MAX, u64::MAX, 0)],
        ..FindingInputs::default()
    };
    for line in find(&tables, &inputs)
        .iter()
        .flat_map(|one| [vec![one.line()], one.lines()].concat())
    {
        assert!(
            columns(&line) <= WIDTH && !line.chars().any(char::is_control),
            "{line:?}"
        );
    }
}
