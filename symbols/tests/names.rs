//! Names from symbol tables and `.eh_frame`, compared with the output of `nm` before stripping.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use build::{Build, request, symbolicator};
use symbols::{AddressName, BinaryRequest, SymbolError};

const C_SOURCE: &str = include_str!("programs/functions.c");
const LIBRARY: &[&str] = &["-O1", "-shared", "-fPIC"];

/// The name at each address, or `-` if there is none.
fn functions(names: &[Option<AddressName>]) -> Vec<&str> {
    names
        .iter()
        .map(|name| name.as_ref().map_or("-", |name| name.symbol.as_str()))
        .collect()
}

#[track_caller]
fn assert_named(build: &Build, symbol: &str, expected: &str) {
    let names = build.resolve(&build.symbol(symbol).probes()).unwrap();
    assert_eq!(functions(&names), [expected; 3], "{symbol}");
}

#[test]
fn symbol_table() {
    let build = Build::new("symtab", "c", C_SOURCE, &["-O1"]);
    for name in [
        "exported_first",
        "private_middle",
        "exported_last",
        "_underscored",
        "main",
    ] {
        assert_named(&build, name, name);
    }
    let symbol = build.symbol("exported_first");
    let names = build.resolve(&[symbol.start]).unwrap();
    let name = names[0].as_ref().unwrap();
    assert_eq!((name.symbol_start, name.symbol_size), (symbol.start, Some(symbol.size)));
    assert_eq!(name.inline_chain.len(), 1);
    assert_eq!(
        (name.inline_chain[0].function.as_str(), &name.inline_chain[0].file),
        ("exported_first", &None)
    );
}

#[test]
fn addresses_outside_of_every_function_have_no_name() {
    let build = Build::new("outside", "c", C_SOURCE, &["-O1", "-fno-asynchronous-unwind-tables"]);
    let main = build.symbol("main");
    let names = build.resolve(&[0, 0x40, main.end() + 0x10_0000, u32::MAX]).unwrap();
    assert_eq!(functions(&names), ["-"; 4]);
}

#[test]
fn a_private_function_never_gets_the_exported_neighbours_name() {
    let build = Build::new("library.so", "c", C_SOURCE, LIBRARY);
    let private = build.symbol("private_middle");
    build.tool("strip", &["--strip-all", "library.so"]);
    assert_named(&build, "exported_first", "exported_first");
    assert_named(&build, "exported_last", "exported_last");
    assert_named(&build, "private_middle", &format!("fun_{:x}", private.start));
    let name = build.resolve(&[private.start + 1]).unwrap().remove(0).unwrap();
    assert_eq!(
        (name.symbol_start, name.symbol_size),
        (private.start, Some(private.size))
    );
}

#[test]
fn without_unwind_tables_gaps_between_functions_are_one() {
    let arguments = ["-O1", "-shared", "-fPIC", "-fno-asynchronous-unwind-tables"];
    let build = Build::new("library.so", "c", C_SOURCE, &arguments);
    build.tool("strip", &["--strip-all", "library.so"]);
    assert_named(&build, "exported_last", "exported_last");
    let first = build.symbol("exported_first");
    assert_named(&build, "private_middle", &format!("fun_{:x}", first.end()));
}

#[test]
fn without_the_search_table_unwind_tables_are_read_through() {
    let build = Build::new(
        "library.so",
        "c",
        C_SOURCE,
        &["-O1", "-shared", "-fPIC", "-Wl,--no-eh-frame-hdr"],
    );
    build.tool("strip", &["--strip-all", "library.so"]);
    let private = build.symbol("private_middle");
    assert_named(&build, "private_middle", &format!("fun_{:x}", private.start));
}

#[test]
fn fixed_addresses() {
    let build = Build::new("fixed", "c", C_SOURCE, &["-O1", "-no-pie"]);
    assert_eq!(build.base(), 0x40_0000);
    let private = build.symbol("private_middle");
    assert_named(&build, "private_middle", "private_middle");
    build.tool("strip", &["--strip-all", "fixed"]);
    assert_named(
        &build,
        "private_middle",
        &format!("fun_{:x}", build.base() + u64::from(private.start)),
    );
}

#[test]
fn an_unsized_symbol_of_a_library_is_not_stretched() {
    let source = r#"
        __asm__(".text\n.globl from_assembly\n.type from_assembly,@function\nfrom_assembly:\n nop\n ret\n"
                ".skip 64, 0x90\n.type hidden,@function\nhidden:\n nop\n ret\n");
        int other(void) { return 1; }"#;
    let build = Build::new("assembly.so", "c", source, LIBRARY);
    let listing = Command::new("nm").arg(&build.binary).output().unwrap().stdout;
    let listing = String::from_utf8(listing).unwrap();
    let address = |name: &str| {
        let line = listing
            .lines()
            .find(|line| line.ends_with(&format!(" {name}")))
            .unwrap();
        u32::from_str_radix(&line[..16], 16).unwrap()
    };
    let (from_assembly, hidden) = (address("from_assembly"), address("hidden"));
    let names = build.resolve(&[from_assembly, hidden, hidden + 1]).unwrap();
    assert_eq!(
        functions(&names),
        ["from_assembly", "hidden", "hidden"],
        "the complete table contains the next one"
    );
    build.tool("strip", &["--strip-all", "assembly.so"]);
    let unknown = format!("fun_{from_assembly:x}");
    assert_eq!(
        functions(&build.resolve(&[hidden, hidden + 1]).unwrap()),
        [&unknown, &unknown]
    );
}

#[test]
fn aliases_get_the_plain_exported_name() {
    let source = r#"
        int __internal_work(int n) { return n * 3; }
        int work(int n) __attribute__((alias("__internal_work")));
        int main(int argc, char **argv) { return work(argc); }"#;
    let build = Build::new("aliases", "c", source, &["-O1"]);
    assert_named(&build, "__internal_work", "work");
}

#[test]
fn debug_link_next_to_the_binary() {
    let build = Build::new("linked", "c", C_SOURCE, &["-O1"]);
    build.tool("objcopy", &["--only-keep-debug", "linked", "linked.debug"]);
    build.tool("strip", &["--strip-all", "linked"]);
    assert_named(&build, "main", &format!("fun_{:x}", build.symbol("main").start));
    build.tool("objcopy", &["--add-gnu-debuglink=linked.debug", "linked"]);
    for name in ["private_middle", "main"] {
        assert_named(&build, name, name);
    }
    // In the subdirectory .debug.
    fs::create_dir(build.path(".debug")).unwrap();
    fs::rename(build.path("linked.debug"), build.path(".debug/linked.debug")).unwrap();
    assert_named(&build, "main", "main");
    // Opened through a descriptor, as the recorder does.
    let file = fs::File::open(&build.binary).unwrap();
    let open_path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    let through_descriptor = BinaryRequest {
        open_path,
        ..build.request()
    };
    let names = symbolicator()
        .resolve(&through_descriptor, &[build.symbol("main").start])
        .unwrap();
    assert_eq!(functions(&names), ["main"]);
}

#[test]
fn a_debug_link_to_another_build_is_not_followed() {
    let build = Build::new("linked", "c", C_SOURCE, &["-O1"]);
    build.tool("objcopy", &["--only-keep-debug", "linked", "linked.debug"]);
    build.tool(
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=linked.debug", "linked"],
    );
    let other = Build::new("other", "c", "int main(void) { return 5; }", &["-O1"]);
    fs::copy(&other.binary, build.path("linked.debug")).unwrap();
    assert_named(&build, "main", &format!("fun_{:x}", build.symbol("main").start));
}

#[test]
fn without_a_build_id_the_checksum_decides() {
    let build = Build::new("linked", "c", C_SOURCE, &["-O1", "-Wl,--build-id=none"]);
    assert!(build.request().build_id.is_empty());
    build.tool("objcopy", &["--only-keep-debug", "linked", "linked.debug"]);
    build.tool(
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=linked.debug", "linked"],
    );
    assert_named(&build, "main", "main");
    let mut damaged = fs::read(build.path("linked.debug")).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(build.path("linked.debug"), damaged).unwrap();
    assert_named(&build, "main", &format!("fun_{:x}", build.symbol("main").start));
}

#[test]
fn mini_debug_info() {
    let build = Build::new("library.so", "c", C_SOURCE, LIBRARY);
    // As Fedora's find-debuginfo does: the functions that .dynsym does not have.
    fs::write(build.path("keep"), "private_middle\n").unwrap();
    build.tool("objcopy", &["--only-keep-debug", "library.so", "debug"]);
    let sections = [
        "-S",
        "--remove-section=.comment",
        "--keep-symbols=keep",
        "debug",
        "mini",
    ];
    build.tool("objcopy", &sections);
    build.tool("strip", &["--strip-all", "-R", ".comment", "library.so"]);
    build.tool("xz", &["mini"]);
    build.tool("objcopy", &["--add-section", ".gnu_debugdata=mini.xz", "library.so"]);
    for name in ["exported_first", "private_middle", "exported_last"] {
        assert_named(&build, name, name);
    }
}

#[test]
fn damaged_mini_debug_info_costs_only_its_names() {
    let build = Build::new("library.so", "c", C_SOURCE, LIBRARY);
    build.tool("strip", &["--strip-all", "library.so"]);
    // Four hundred megabytes of zeros in 60 kilobytes, and a truncated stream.
    build.tool(
        "sh",
        &[
            "-c",
            "head -c 400000000 /dev/zero | xz -1 > bomb.xz; head -c 100 bomb.xz > cut.xz",
        ],
    );
    for contents in ["bomb.xz", "cut.xz"] {
        build.tool("objcopy", &["--remove-section", ".gnu_debugdata", "library.so"]);
        build.tool(
            "objcopy",
            &["--add-section", &format!(".gnu_debugdata={contents}"), "library.so"],
        );
        assert_named(&build, "exported_last", "exported_last");
        assert_named(
            &build,
            "private_middle",
            &format!("fun_{:x}", build.symbol("private_middle").start),
        );
    }
}

#[test]
fn another_build_id_is_refused() {
    let build = Build::new("mismatch", "c", C_SOURCE, &[]);
    let mut request = build.request();
    request.build_id[0] ^= 1;
    let error = symbolicator().resolve(&request, &[0]).unwrap_err();
    assert!(matches!(error, SymbolError::BuildIdMismatch { .. }), "{error}");
    assert!(error.to_string().contains("record again"), "{error}");
    request.open_path = build.path("nothing here");
    assert!(matches!(
        symbolicator().resolve(&request, &[0]).unwrap_err(),
        SymbolError::Open { .. }
    ));
}

#[test]
fn odd_paths() {
    let build = Build::new("plain", "c", C_SOURCE, &["-O1", "-g"]);
    let symbol = build.symbol("private_middle");
    for name in [
        &b"with space"[..],
        b"with\nnewline",
        b"not \xff utf-8",
        b"[vdso]",
        b"%s;$(x)",
    ] {
        let directory = build.path(OsStr::from_bytes(name));
        fs::create_dir(&directory).unwrap();
        let binary = directory.join(OsStr::from_bytes(name));
        fs::copy(&build.binary, &binary).unwrap();
        let names = symbolicator().resolve(&request(&binary), &[symbol.start]).unwrap();
        let name = names[0].as_ref().unwrap();
        assert_eq!(name.symbol, "private_middle");
        assert!(name.inline_chain[0].line.is_some(), "lines of {binary:?}");
    }
}

/// The C library of this machine, compared with `nm` and `readelf`.
#[test]
fn system_library() {
    let library = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    if !library.exists() {
        println!("skipped: no {}", library.display());
        return;
    }
    // Without its build id, because an installed debug file would know more than this test.
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("library.so");
    build::run(
        Command::new("objcopy")
            .args(["--remove-section=.note.gnu.build-id"])
            .arg(library)
            .arg(&copy),
    );
    let request = request(&copy);
    assert!(request.build_id.is_empty());
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).arg(library).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let hex = |text: &str| u32::from_str_radix(text, 16).unwrap();
    let mut exported: BTreeMap<u32, (u32, Vec<String>)> = BTreeMap::new();
    for line in output("nm", &["-D", "-S", "--without-symbol-versions", "--defined-only"]).lines() {
        let words: Vec<_> = line.split(' ').collect();
        if let [start, size, "T" | "t" | "W" | "w" | "i", name] = words[..] {
            let entry = exported.entry(hex(start)).or_default();
            entry.0 = entry.0.max(hex(size));
            entry.1.push(name.to_owned());
        }
    }
    let frames: Vec<(u32, u32)> = output("readelf", &["-W", "--debug-dump=frames"])
        .lines()
        .filter_map(|line| line.split_once(" pc=")?.1.split_once(".."))
        .map(|(start, end)| (hex(start), hex(end)))
        .collect();
    let mut probes: Vec<u32> = frames.iter().flat_map(|(start, end)| [*start, end - 1, *end]).collect();
    probes.extend(
        exported
            .iter()
            .flat_map(|(start, (size, _))| [*start, start + size.saturating_sub(1), start + size]),
    );
    let names = symbolicator().resolve(&request, &probes).unwrap();
    let mut placeholders = 0;
    let mut signal_returns = BTreeSet::new();
    for (probe, name) in probes.iter().zip(&names) {
        let covering: Vec<_> = exported
            .range(..=probe)
            .filter(|(start, (size, _))| probe - *start < *size)
            .collect();
        let symbol = name.as_ref().map(|name| name.symbol.as_str());
        if let Some(symbol) = symbol.filter(|symbol| !symbol.starts_with("fun_")) {
            let known = covering
                .iter()
                .any(|(_, (_, aliases))| aliases.iter().any(|alias| alias == symbol));
            assert!(known, "{probe:#x} is not in {symbol}");
        } else {
            assert!(covering.is_empty(), "{probe:#x} is in {covering:?}, not {symbol:?}");
            let frame = frames.iter().find(|(start, end)| (*start..*end).contains(probe));
            match (frame, name) {
                (Some((start, _)), _) => {
                    // The entry of `__restore_rt` begins before it.
                    let is_its = symbol == Some(format!("fun_{start:x}").as_str());
                    if !is_its {
                        assert_eq!(symbol, Some(format!("fun_{:x}", start + 1).as_str()), "{probe:#x}");
                        signal_returns.insert(*start);
                    }
                }
                // Nothing is known between there and the probe.
                (None, Some(name)) => assert!(
                    !frames
                        .iter()
                        .any(|(start, _)| (name.symbol_start + 1..=*probe).contains(start))
                ),
                (None, None) => {}
            }
            placeholders += 1;
        }
    }
    assert!(signal_returns.len() <= 1, "{signal_returns:x?}");
    assert!(
        placeholders > 1000 && names.len() - placeholders > 1000,
        "{placeholders} of {}",
        names.len()
    );
}
