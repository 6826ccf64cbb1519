//! Causes of a library's private pages, with and without names.

use super::*;
use base::addr::{Avma, FileOffset, KernelOffset, Svma};
use fact::fault::{Access, FilePlace, MappedFile};
use fact::fixtures;
use fact::{Frame, FrameId, FrameName, Location, Module, ModuleId, ModuleKind, StackNode, Thread, TruncationReason};

const LOADER: ModuleId = ModuleId(0);
const LIBRARY: ModuleId = ModuleId(1);
const KERNEL: ModuleId = ModuleId(2);
const LOADER_FILE: MappedFileId = MappedFileId(0);
const LIBRARY_FILE: MappedFileId = MappedFileId(1);

fn tables() -> Tables {
    let module = |kind, path: &str| Module {
        path: path.into(),
        ..Module::named(kind, path)
    };
    let file = |path: &str| MappedFile {
        path: path.into(),
        ..MappedFile::default()
    };
    let (loader, library) = ("/lib64/ld-linux-x86-64.so.2", "/lib/libx.so");
    let thread = Thread {
        is_main: true,
        ..fixtures::thread(0, 1)
    };
    Tables {
        modules: vec![
            module(ModuleKind::File, loader),
            module(ModuleKind::File, library),
            module(ModuleKind::Kernel, "[kernel]"),
        ],
        files: vec![file(loader), file(library)],
        threads: vec![thread],
        ..Tables::default()
    }
}

/// A stack of these functions, outermost first; an empty name stays unknown.
fn stack(tables: &mut Tables, functions: &[(ModuleId, &str)]) -> StackId {
    let mut parent = None;
    for (module, name) in functions {
        let at = tables.frames.len() as u64;
        let location = match *module {
            KERNEL => Location::Kernel {
                module: KERNEL,
                offset: KernelOffset(at),
            },
            module => Location::Module { module, svma: Svma(at) },
        };
        parent = Some(push(tables, parent, location, name));
    }
    parent.unwrap()
}

fn push(tables: &mut Tables, parent: Option<StackId>, location: Location, name: &str) -> StackId {
    let frame = FrameId(u32::try_from(tables.frames.len()).unwrap());
    tables.frames.push(Frame {
        location,
        is_return_address: false,
    });
    tables.stacks.push(StackNode { parent, frame });
    if !name.is_empty() {
        let symbol = name.to_owned();
        tables.names.insert(
            frame,
            FrameName {
                symbol: symbol.into(),
                ..FrameName::default()
            },
        );
    }
    StackId::new(u32::try_from(tables.stacks.len()).unwrap() - 1)
}

fn copied(stack: Option<StackId>, file: MappedFileId, page: u64) -> FaultFact {
    FaultFact {
        latency: Some(Duration::from_nanos(100)),
        stack,
        address: Avma(page * 4096),
        access: Access::Write,
        class: FaultClass::FileCow,
        place: Some(FilePlace {
            file,
            offset: FileOffset(page * 4096),
            byte: FileOffset(page * 4096),
        }),
        ..fixtures::fault()
    }
}

/// The pages of (relocations, data, bss) for one copy with this stack.
fn cause_of(functions: &[(ModuleId, &str)], file: MappedFileId) -> (u64, u64, u64) {
    let mut tables = tables();
    let stack = stack(&mut tables, functions);
    let mut dirtied = Dirtied::default();
    dirtied.fault(&tables, &copied(Some(stack), file, 3));
    let [cost] = dirtied.finish(&tables).try_into().unwrap();
    (cost.relocations.pages, cost.data.pages, cost.bss.pages)
}

#[test]
fn the_dynamic_linkers_function_gives_the_cause() {
    let start = (LOADER, "_dl_start_user");
    let relocated = (1, 0, 0);
    for function in [
        "_dl_relocate_object",
        "_dl_relocate_object_no_relro.part.0",
        "_dl_fixup",
        "elf_machine_rela",
    ] {
        assert_eq!(
            cause_of(&[start, (LOADER, function)], LIBRARY_FILE),
            relocated,
            "{function}"
        );
    }
    let lazy = [
        (LIBRARY, "main"),
        (LOADER, "_dl_runtime_resolve_xsavec"),
        (LOADER, "_dl_fixup"),
        (LOADER, "memcpy"),
    ];
    assert_eq!(cause_of(&lazy, LIBRARY_FILE), relocated);
    let mapping = [
        start,
        (LOADER, "dl_main"),
        (LOADER, "_dl_map_object_from_fd"),
        (LOADER, "memset"),
    ];
    assert_eq!(cause_of(&mapping, LIBRARY_FILE), (0, 0, 1));
    assert_eq!(cause_of(&mapping[..3], LIBRARY_FILE), relocated, "its dynamic section");
    assert_eq!(
        cause_of(&[start, (LOADER, "_dl_start")], LOADER_FILE),
        relocated,
        "itself"
    );
    assert_eq!(
        cause_of(&[start, (LOADER, "_dl_new_object")], LOADER_FILE),
        (0, 1, 0),
        "its own data"
    );
    let initialiser = [start, (LOADER, "call_init"), (LIBRARY, "init")];
    assert_eq!(cause_of(&initialiser, LIBRARY_FILE), (0, 1, 0));
    // A program function with such a name relocates nothing.
    assert_eq!(cause_of(&[(LIBRARY, "_dl_relocate_object")], LIBRARY_FILE), (0, 1, 0));
    assert_eq!(
        cause_of(
            &[(LIBRARY, "_start"), (LIBRARY, "_dl_relocate_static_pie")],
            LIBRARY_FILE
        ),
        relocated
    );
}

#[test]
fn without_names_another_files_pages_are_relocated() {
    let nameless = [(LOADER, ""), (LOADER, "ld.so + 0x1f00")];
    assert_eq!(cause_of(&nameless, LIBRARY_FILE), (1, 0, 0));
    assert_eq!(cause_of(&nameless, LOADER_FILE), (0, 1, 0));
    let kernel_on_top = [(LIBRARY, "main"), (KERNEL, "copy_to_user")];
    assert_eq!(cause_of(&kernel_on_top, LIBRARY_FILE), (0, 1, 0), "read() into .data");
    assert_eq!(
        cause_of(&[(KERNEL, "load_elf_binary")], LIBRARY_FILE),
        (0, 0, 1),
        "exec clears the last page"
    );
}

#[test]
fn a_truncated_stack_is_not_an_exec() {
    let mut tables = tables();
    let cut = push(
        &mut tables,
        None,
        Location::Truncated(TruncationReason::NotCaptured),
        "",
    );
    let location = Location::Kernel {
        module: KERNEL,
        offset: KernelOffset(1),
    };
    let stack = push(&mut tables, Some(cut), location, "");
    let mut dirtied = Dirtied::default();
    dirtied.fault(&tables, &copied(Some(stack), LIBRARY_FILE, 1));
    assert_eq!(dirtied.finish(&tables)[0].data.pages, 1);
}

#[test]
fn pages_count_once_and_faults_each_time() {
    let mut tables = tables();
    let stack = stack(&mut tables, &[(LOADER, "_dl_relocate_object")]);
    let mut dirtied = Dirtied::default();
    for page in [1, 2, 2, 3] {
        dirtied.fault(&tables, &copied(Some(stack), LIBRARY_FILE, page));
    }
    // The next segment begins in the page of the file in which the last one ended.
    let again = FaultFact {
        address: Avma(4 * 4096),
        ..copied(Some(stack), LIBRARY_FILE, 3)
    };
    dirtied.fault(&tables, &again);
    let mut zeroed = copied(None, LIBRARY_FILE, 2);
    (zeroed.place, zeroed.class, zeroed.address) = (None, FaultClass::Anonymous, Avma(5 * 4096));
    dirtied.bss(&tables, &zeroed, LIBRARY_FILE);
    zeroed.class = FaultClass::ZeroPage;
    dirtied.bss(&tables, &zeroed, LIBRARY_FILE);
    let read = FaultFact {
        class: FaultClass::FileRead,
        ..copied(Some(stack), LIBRARY_FILE, 9)
    };
    dirtied.fault(&tables, &read);
    let [cost] = dirtied.finish(&tables).try_into().unwrap();
    let of = |pages, faults| Cost {
        pages,
        faults,
        time: Duration::from_nanos(faults * 100),
    };
    assert_eq!(
        (cost.relocations, cost.bss, cost.data),
        (of(4, 5), of(1, 1), Cost::default())
    );
}

/// A process that ran the program again copies its pages again; the sums of an ended process stay.
#[test]
fn copies_of_ended_processes_stay_in_the_sums() {
    let mut tables = tables();
    tables.threads.push(fixtures::thread(1, 2));
    let stack = stack(&mut tables, &[(LOADER, "_dl_relocate_object")]);
    let mut dirtied = Dirtied::default();
    let copy = |thread, page| FaultFact {
        thread: ThreadId(thread),
        ..copied(Some(stack), LIBRARY_FILE, page)
    };
    for page in [1, 2] {
        let first = dirtied.fault(&tables, &copy(0, page)).unwrap();
        assert!(dirtied.is_relocation(&tables, &first));
        assert_eq!((first.thread, first.place.byte.0), (ThreadId(0), page * 4096));
        assert!(dirtied.fault(&tables, &copy(0, page)).is_none(), "it has the page");
    }
    assert_eq!(dirtied.sets, 1);
    dirtied.process_ended(ProcessId(0));
    dirtied.process_ended(ProcessId(0));
    assert_eq!((dirtied.sets, dirtied.pages.len()), (0, 0));
    assert!(dirtied.fault(&tables, &copy(1, 2)).is_some());
    let [cost] = dirtied.finish(&tables).try_into().unwrap();
    assert_eq!((cost.relocations.pages, cost.relocations.faults), (3, 5));
}

/// Thousands of stacks end in the same few frames, which determine the cause.
#[test]
fn stacks_that_end_alike_have_one_cause() {
    let mut tables = tables();
    let frame = |at| Location::Module {
        module: LIBRARY,
        svma: Svma(at),
    };
    let writer = push(&mut tables, None, frame(1), "write");
    let frame_of_writer = tables.stacks[writer.index()].frame;
    let mut dirtied = Dirtied::default();
    for caller in 0..50 {
        let parent = push(&mut tables, None, frame(caller + 2), "caller");
        tables.stacks.push(StackNode {
            parent: Some(parent),
            frame: frame_of_writer,
        });
        let stack = StackId::new(u32::try_from(tables.stacks.len()).unwrap() - 1);
        dirtied.fault(&tables, &copied(Some(stack), LIBRARY_FILE, caller));
    }
    assert_eq!(dirtied.costs.len(), 1);
    assert_eq!(dirtied.finish(&tables)[0].data.pages, 50);
}
