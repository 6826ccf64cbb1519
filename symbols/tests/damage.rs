//! Damaged ELF files: an error or fewer names, never a panic and never a wrong name.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use std::fs;
use std::sync::Arc;

use build::{Build, request, symbolicator};
use symbols::elf::{Arch, ElfError, ElfFile};
use symbols::{BinaryRequest, SymbolError};

const C_SOURCE: &str = include_str!("programs/functions.c");

#[test]
fn the_contents_of_an_elf_file() {
    let build = Build::new(
        "library.so",
        "c",
        C_SOURCE,
        &["-O1", "-g", "-gz", "-shared", "-fPIC", "-Wl,-soname,libfunctions.so.1"],
    );
    let elf = ElfFile::open(fs::File::open(&build.binary).unwrap()).unwrap();
    assert_eq!(elf.dynamic().soname.as_deref(), Some("libfunctions.so.1".as_ref()));
    assert_eq!(elf.build_id().len(), 20);
    assert_eq!(elf.base_svma(), 0);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(elf.arch(), Arch::X86_64);
    }
    let text = elf.section(".text").unwrap();
    let symbol = build.symbol("exported_first");
    assert!(text.svma.contains(&u64::from(symbol.start)));
    assert_eq!(text.bytes.len() as u64, text.svma.end - text.svma.start);
    let executable: Vec<_> = elf.segments().iter().filter(|segment| segment.executable).collect();
    assert_eq!(executable.len(), 1);
    assert!(!executable[0].writable);
    let offset = executable[0].file_offset + (u64::from(symbol.start) - executable[0].svma);
    let function_in_file =
        &fs::read(&build.binary).unwrap()[usize::try_from(offset).unwrap()..][..symbol.size as usize];
    let start = usize::try_from(u64::from(symbol.start) - text.svma.start).unwrap();
    assert_eq!(&text.bytes[start..][..symbol.size as usize], function_in_file);
    // Compressed in the file, plain here: a unit's header starts with its length and version 5.
    let info = elf.section(".debug_info").unwrap();
    assert_eq!(&info.bytes[4..6], &[5, 0]);
    assert!(elf.section(".no_such_section").is_none());
    // The bytes outlive the file.
    drop(elf);
    assert_eq!(&text.bytes.clone()[start..][..symbol.size as usize], function_in_file);
}

#[test]
fn fixed_addresses_have_a_base_and_an_entry() {
    let build = Build::new("fixed", "c", C_SOURCE, &["-no-pie"]);
    let elf = ElfFile::open(fs::File::open(&build.binary).unwrap()).unwrap();
    assert_eq!(elf.base_svma(), 0x40_0000);
    assert_eq!(elf.entry(), 0x40_0000 + u64::from(build.symbol("_start").start));
}

#[test]
fn other_files_are_refused() {
    let open = |path: &str| ElfFile::open(fs::File::open(path).unwrap()).unwrap_err();
    assert!(matches!(open("/"), ElfError::NotAFile));
    assert!(matches!(open("/dev/null"), ElfError::NotAFile));
    assert!(matches!(open("/etc/passwd"), ElfError::NotElf));
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert!(matches!(open(empty.to_str().unwrap()), ElfError::Truncated { .. }));
    let huge = directory.path().join("huge");
    fs::File::create(&huge).unwrap().set_len((16 << 30) + 1).unwrap();
    assert!(matches!(open(huge.to_str().unwrap()), ElfError::TooLarge { .. }));
}

#[test]
fn a_truncated_file_reports_what_is_missing() {
    let build = Build::new("whole", "c", C_SOURCE, &["-O1", "-g"]);
    let contents = fs::read(&build.binary).unwrap();
    fs::write(build.path("half"), &contents[..contents.len() / 2]).unwrap();
    let request = BinaryRequest {
        open_path: build.path("half"),
        ..build.request()
    };
    let error = symbolicator().resolve(&request, &[0]).unwrap_err();
    assert!(
        matches!(
            error,
            SymbolError::Elf {
                source: ElfError::Truncated { .. },
                ..
            }
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("section header table") && text.contains("install the package again"),
        "{text}"
    );
}

/// For a file without section headers, such as the output of `sstrip`, the segments must be
/// complete.
#[test]
fn truncated_at_every_sixteenth() {
    let build = Build::new("whole", "c", C_SOURCE, &["-O1", "-g"]);
    let whole = fs::read(&build.binary).unwrap();
    let mut headless = whole.clone();
    headless[0x28..0x30].fill(0); // e_shoff
    headless[0x3a..0x40].fill(0); // e_shentsize, e_shnum, e_shstrndx
    let symbol = build.symbol("private_middle");
    for contents in [whole, headless] {
        for sixteenth in 0..=16 {
            let length = contents.len() * sixteenth / 16;
            let path = build.path(format!("cut{sixteenth}"));
            fs::write(&path, &contents[..length]).unwrap();
            let opened = ElfFile::open(fs::File::open(&path).unwrap());
            let memory = ElfFile::from_bytes(Arc::from(&contents[..length]));
            assert_eq!(opened.is_ok(), memory.is_ok());
            let Ok(elf) = opened else { continue };
            let request = BinaryRequest {
                open_path: path.clone(),
                path,
                build_id: elf.build_id().to_vec(),
            };
            for name in symbolicator()
                .resolve(&request, &symbol.probes())
                .unwrap()
                .into_iter()
                .flatten()
            {
                assert_eq!(name.symbol, "private_middle");
            }
        }
    }
}

#[test]
fn a_damaged_debug_file_costs_only_its_names() {
    let build = Build::new("linked", "c", C_SOURCE, &["-O1", "-g"]);
    build.tool("objcopy", &["--only-keep-debug", "linked", "linked.debug"]);
    build.tool(
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=linked.debug", "linked"],
    );
    let contents = fs::read(build.path("linked.debug")).unwrap();
    let symbol = build.symbol("main");
    for sixteenth in 0..=16 {
        fs::write(build.path("linked.debug"), &contents[..contents.len() * sixteenth / 16]).unwrap();
        let names = build.resolve(&[symbol.start]).unwrap();
        let expected = if sixteenth == 16 {
            "main".to_owned()
        } else {
            format!("fun_{:x}", symbol.start)
        };
        assert_eq!(names[0].as_ref().unwrap().symbol, expected);
    }
}

/// Many single bytes set to other values: there is always some answer.
#[test]
fn flipped_bytes() {
    let build = Build::new("whole", "c", C_SOURCE, &["-O1", "-g"]);
    let contents = fs::read(&build.binary).unwrap();
    let symbol = build.symbol("private_middle");
    let path = build.path("flipped");
    let symbolicator = symbolicator();
    // The headers densely, the rest sparsely; the steps are prime so that they hit every field.
    let places = (0..64)
        .chain((64..contents.len()).step_by(97))
        .chain(contents.len() - 2400..contents.len());
    for (count, place) in places.enumerate() {
        let mut flipped = contents.clone();
        flipped[place] = [0xff, 0x00, 0x80, flipped[place] ^ 1][count % 4];
        fs::write(&path, &flipped).unwrap();
        let Ok(elf) = ElfFile::open(fs::File::open(&path).unwrap()) else {
            continue;
        };
        for section in [".text", ".eh_frame", ".eh_frame_hdr", ".debug_info"] {
            elf.section(section);
        }
        let request = BinaryRequest {
            build_id: elf.build_id().to_vec(),
            ..request_at(&path)
        };
        match symbolicator.resolve(&request, &symbol.probes()) {
            Ok(names) => assert_eq!(names.len(), 3),
            Err(SymbolError::Crashed { reason, .. }) => println!("byte {place:#x}: the library gave up: {reason}"),
            Err(_) => {}
        }
    }
}

fn request_at(path: &std::path::Path) -> BinaryRequest {
    BinaryRequest {
        open_path: path.to_path_buf(),
        path: path.to_path_buf(),
        build_id: Vec::new(),
    }
}

#[test]
fn one_bad_file_among_many() {
    let build = Build::new("good", "c", C_SOURCE, &["-O1"]);
    fs::write(build.path("bad"), "not an ELF file").unwrap();
    let address = vec![build.symbol("main").start];
    let jobs: Vec<_> = (0..20)
        .map(|index| {
            (
                if index % 2 == 0 {
                    request(&build.binary)
                } else {
                    request_at(&build.path("bad"))
                },
                address.clone(),
            )
        })
        .collect();
    let progress = std::sync::Mutex::new(Vec::new());
    let results = symbolicator().resolve_many(&jobs, |done| progress.lock().unwrap().push(done));
    for (index, result) in results.iter().enumerate() {
        match result {
            Ok(names) => assert_eq!((index % 2, names[0].as_ref().unwrap().symbol.as_str()), (0, "main")),
            Err(error) => assert!(index % 2 == 1 && matches!(error, SymbolError::Elf { .. }), "{error}"),
        }
    }
    let mut progress = progress.into_inner().unwrap();
    progress.sort_unstable();
    assert_eq!(progress, (1..=20).collect::<Vec<_>>());
}

#[test]
fn inside_an_async_runtime() {
    let build = Build::new("inside", "c", C_SOURCE, &["-O1", "-g"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let names = runtime.block_on(async { build.resolve(&[build.symbol("main").start]).unwrap() });
    assert!(names[0].as_ref().unwrap().inline_chain[0].line.is_some());
}

/// The search table claims that the unwind entries are before their section.
#[test]
fn a_misleading_search_table_costs_only_placeholders() {
    let build = Build::new("library.so", "c", C_SOURCE, &["-O1", "-shared", "-fPIC"]);
    build.tool("strip", &["--strip-all", "library.so"]);
    let elf = ElfFile::open(fs::File::open(&build.binary).unwrap()).unwrap();
    let table = elf.section(".eh_frame_hdr").unwrap().bytes;
    let mut contents = fs::read(&build.binary).unwrap();
    let start = contents
        .windows(table.len())
        .position(|bytes| *bytes == *table)
        .unwrap();
    for row in (start + 12..start + table.len()).step_by(8) {
        contents[row + 4..row + 8].copy_from_slice(&i32::MIN.to_le_bytes());
    }
    fs::write(&build.binary, contents).unwrap();
    let exported = build.resolve(&build.symbol("exported_first").probes()).unwrap();
    assert!(exported.iter().flatten().all(|name| name.symbol == "exported_first") && exported.len() == 3);
    let private = build.resolve(&build.symbol("private_middle").probes()).unwrap();
    assert!(private.iter().flatten().all(|name| name.is_nameless) && private.len() == 3);
}
