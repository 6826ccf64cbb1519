//! Input for findings from faults on known pages.

use super::*;
use crate::fault::{
    FaultClass, FaultWaits, FilePlace, Mapped, MappedFile, OtherFaults, PageRange, PagesBy, PagesReadFact,
};
use crate::{Frame, FrameId, Location, Module, ModuleId, ModuleKind, ProcessId, StackNode, fixtures};
use base::addr::{Avma, FileOffset, PAGE, Svma, Timestamp};
use base::event::FileId;

const FILE: MappedFileId = MappedFileId(0);

fn tables() -> Tables {
    let file = MappedFile {
        id: FileId {
            inode: 1,
            ..FileId::default()
        },
        ..MappedFile::default()
    };
    Tables {
        processes: vec![fixtures::process(100, "demo")],
        threads: vec![fixtures::thread(0, 100)],
        files: vec![file],
        ..Tables::default()
    }
}

fn fault(class: FaultClass, access: Access, page: u64) -> FaultFact {
    FaultFact {
        start: Timestamp(page),
        latency: Some(Duration::from_micros(2)),
        stack: Some(StackId::new(3)),
        address: Avma(page * PAGE + 5),
        access,
        class,
        place: (class == FaultClass::FileRead).then_some(FilePlace {
            file: FILE,
            offset: FileOffset(page * PAGE),
            byte: FileOffset(page * PAGE + 5),
        }),
        retries: Some(0),
        ..fixtures::fault()
    }
}

#[test]
fn zero_page_copies_are_not_blamed_on_forks() {
    let (tables, mut gather) = (tables(), Gather::default());
    gather.fault(&tables, &fault(FaultClass::ZeroPage, Access::Read, 7));
    for page in 6..9 {
        gather.fault(&tables, &fault(FaultClass::Cow, Access::Write, page));
    }
    // The second copy of page 7 is of a page of the process's own.
    gather.fault(&tables, &fault(FaultClass::Cow, Access::Write, 7));
    let inputs = gather.finish(&tables, &Pages::default());
    let copies = Copies {
        process: ProcessId(0),
        frame: None,
        pages: 3,
        counted: 0,
        time: Duration::from_micros(6),
    };
    assert_eq!(inputs.copies, [copies]);
}

#[test]
fn represented_copies_count_where_one_was_recorded() {
    let (tables, mut gather) = (writers(), Gather::default());
    let others = OtherFaults {
        count: 9,
        time: Duration::from_micros(40),
    };
    let copy = |address, stack| FaultFact {
        others,
        stack,
        address: Avma(address),
        ..fault(FaultClass::Cow, Access::Write, 0)
    };
    gather.fault(&tables, &copy(5 * PAGE, Some(StackId::new(3))));
    // Those that none represents have no address.
    gather.fault(&tables, &copy(0, None));
    let copies = gather.finish(&tables, &Pages::default()).copies;
    let sums: Vec<_> = copies.iter().map(|one| (one.frame, one.pages, one.counted)).collect();
    assert_eq!(sums, [(Some(FrameId(0)), 10, 9)]);
}

/// `main` of the program calls `memset` of the C library: stacks 3 and 4. Three processes with two names, a thread
/// each.
fn writers() -> Tables {
    let module = |name| Module::named(ModuleKind::File, name);
    let frame = |module| Frame {
        location: Location::Module {
            module: ModuleId(module),
            svma: Svma(16),
        },
        is_return_address: false,
    };
    let node = |parent: Option<u32>, frame| StackNode {
        parent: parent.map(StackId::new),
        frame: FrameId(frame),
    };
    Tables {
        processes: ["demo", "sh", "demo"].map(|name| fixtures::process(100, name)).to_vec(),
        threads: [0, 1, 2].map(|process| fixtures::thread(process, 100)).to_vec(),
        modules: vec![module("demo"), module("libc.so.6")],
        frames: vec![frame(0), frame(1)],
        stacks: vec![
            node(None, 1),
            node(Some(0), 0),
            node(None, 0),
            node(Some(1), 0),
            node(Some(3), 1),
        ],
        ..tables()
    }
}

#[test]
fn copies_are_blamed_on_the_caller_of_libc() {
    let (tables, mut gather) = (writers(), Gather::default());
    for (stack, page) in [(3, 1), (4, 2), (4, 3), (0, 4)] {
        let stack = Some(StackId::new(stack));
        let fault = fault(FaultClass::Cow, Access::Write, page);
        gather.fault(&tables, &FaultFact { stack, ..fault });
    }
    let copies = gather.finish(&tables, &Pages::default()).copies;
    let sums: Vec<_> = copies.iter().map(|one| (one.frame, one.pages)).collect();
    assert_eq!(sums, [(Some(FrameId(0)), 3), (Some(FrameId(1)), 1)]);
}

#[test]
fn copies_of_processes_that_ended_are_summed_up_by_name() {
    let (tables, mut gather) = (writers(), Gather::default());
    for thread in [2, 1, 0].map(ThreadId) {
        let fault = fault(FaultClass::Cow, Access::Write, 1);
        gather.fault(&tables, &FaultFact { thread, ..fault });
        let end = Mark {
            start: Timestamp(9),
            end: None,
            thread,
            stack: None,
            kind: MarkKind::ProcessExit { status: 0 },
        };
        gather.mark(&tables, &end);
    }
    let thread = ThreadId(1);
    gather.fault(
        &tables,
        &FaultFact {
            thread,
            ..fault(FaultClass::Cow, Access::Write, 2)
        },
    );
    let copies = gather.finish(&tables, &Pages::default()).copies;
    let sums: Vec<_> = copies.iter().map(|one| (one.process.0, one.pages)).collect();
    assert_eq!(sums, [(1, 1), (1, 1), (2, 2)]);
}

#[test]
fn code_is_counted_by_offset_and_window() {
    let (tables, mut gather) = (tables(), Gather::default());
    for page in [0, 1, 2, 9, 9, 40] {
        gather.fault(&tables, &fault(FaultClass::FileRead, Access::Execute, page));
    }
    gather.fault(&tables, &fault(FaultClass::FileRead, Access::Read, 100));
    let code = gather.finish(&tables, &Pages::default()).code;
    assert_eq!((code[0].pages, code[0].places, code[0].windows), (5, 3, 2));
    assert_eq!(code[0].time, Duration::from_micros(12));
}

#[test]
fn unused_reads_are_blamed_on_their_reader() {
    let (tables, mut gather, mut pages) = (tables(), Gather::default(), Pages::default());
    let touch = FaultFact {
        waits: FaultWaits {
            disk: Some(Duration::from_millis(3)),
            ..FaultWaits::default()
        },
        mapped: Some(Mapped::own()),
        ..fault(FaultClass::FileRead, Access::Read, 4)
    };
    let read = PagesReadFact {
        time: Timestamp(4),
        thread: ThreadId(0),
        file: FILE,
        pages: PageRange { first: 0, count: 32 },
        by: PagesBy::Fault,
        order: Some(0),
    };
    pages.read(&tables, &read);
    pages.fault(&tables, &touch);
    gather.fault(&tables, &touch);
    let inputs = gather.finish(&tables, &pages);
    let wasted = Wasted {
        file: FILE,
        stack: Some(StackId::new(3)),
        pages: 31,
        of: 32,
    };
    assert_eq!(inputs.wasted, [wasted]);
    let waits = &inputs.waits[0];
    assert_eq!((waits.faults, waits.time), (1, Duration::from_millis(3)));
}
