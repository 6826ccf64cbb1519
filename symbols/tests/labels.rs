//! Code without typed symbols: assembler labels and the entry point.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use std::fs;
use std::process::Command;

use build::Build;
use symbols::AddressName;

const LIBRARY: &[&str] = &["-O1", "-shared", "-fPIC"];

/// The name at each address.
fn functions(names: &[Option<AddressName>]) -> Vec<&str> {
    names
        .iter()
        .map(|name| name.as_ref().unwrap().symbol.as_str())
        .collect()
}

/// Labels in handwritten assembly: without a type and a size, some with unwind information.
const LABELS: &str = r#"
    __asm__(".text\nplain:\n nop\n ret\n.globl seen\nseen:\n nop\nseen.loop:\n nop\n.Lmark:\n ret\n"
            ".globl described\ndescribed:\n.cfi_startproc\n nop\ninner:\n nop\n ret\n.cfi_endproc\n"
            ".cfi_startproc\n nop\nlate:\n nop\n ret\n.cfi_endproc\n nop\n");
    int other(void) { return 1; }"#;

#[test]
fn labels_without_a_type_name_their_code() {
    let build = Build::new("labels.so", "c", LABELS, LIBRARY);
    let listing = Command::new("nm").arg(&build.binary).output().unwrap().stdout;
    let listing = String::from_utf8(listing).unwrap();
    let address = |name: &str| {
        let line = listing.lines().find(|line| line.split(' ').nth(2) == Some(name));
        u32::from_str_radix(&line.unwrap()[..16], 16).unwrap()
    };
    let (plain, seen, described, late) = (address("plain"), address("seen"), address("described"), address("late"));
    // Two bytes each, except `seen`, which has three, and the last two, whose labels are at their
    // second byte.
    let probes = [
        plain,
        plain + 1,
        seen,
        seen + 1,
        seen + 2,
        described,
        described + 1,
        described + 2,
        late - 1,
        late,
        late + 1,
        late + 2,
    ];
    let nameless = format!("fun_{:x}", late - 1);
    let behind = format!("fun_{:x}", late + 2);
    let names = build.resolve(&probes).unwrap();
    assert_eq!(
        functions(&names),
        [
            "plain",
            "plain",
            "seen",
            "seen",
            "seen",
            "described",
            "described",
            "described",
            &nameless,
            &nameless,
            &nameless,
            &behind
        ]
    );
    build.tool("strip", &["--strip-all", "labels.so"]);
    let names = build.resolve(&probes[5..]).unwrap();
    assert_eq!(functions(&names)[..3], ["described"; 3]);
}

/// The loader's first instructions have no symbol and no unwind information.
#[test]
fn code_at_the_entry_point_is_one_function() {
    let source = "__asm__(\".globl _start\\n.hidden middle\\nmiddle: nop\\n_start: nop\\n nop\\n ret\\n\");";
    let build = Build::new("entry", "c", source, &["-nostdlib", "-static"]);
    let entry = symbols::elf::ElfFile::open(fs::File::open(&build.binary).unwrap())
        .unwrap()
        .entry();
    let start = u32::try_from(entry - build.base()).unwrap();
    build.tool("strip", &["--strip-all", "entry"]);
    let names = build.resolve(&[start - 1, start, start + 2]).unwrap();
    let (before, own) = (format!("fun_{:x}", entry - 1), format!("fun_{entry:x}"));
    assert_eq!(functions(&names), [&before, &own, &own]);
    assert!(names.iter().flatten().all(|name| name.is_nameless));
}

/// As glibc describes `__restore_rt`: unwinders look before its first byte, which the handler
/// returns to.
#[test]
fn the_signal_return_code_is_named_from_its_entry() {
    let source = r#"
        __asm__(".text\n.type before,@function\nbefore:\n nop\n ret\n nop\n.cfi_startproc\n.cfi_signal_frame\n nop\n"
                ".type restore,@function\nrestore:\n nop\n nop\n.cfi_endproc\n");
        int other(void) { return 1; }"#;
    let build = Build::new("signal.so", "c", source, LIBRARY);
    let listing = Command::new("nm").arg(&build.binary).output().unwrap().stdout;
    let listing = String::from_utf8(listing).unwrap();
    let line = listing.lines().find(|line| line.ends_with(" restore")).unwrap();
    let restore = u32::from_str_radix(&line[..16], 16).unwrap();
    let probes = [restore - 1, restore, restore + 1];
    assert_eq!(functions(&build.resolve(&probes).unwrap()), ["restore"; 3]);
    build.tool("strip", &["--strip-all", "signal.so"]);
    let nameless = format!("fun_{restore:x}");
    assert_eq!(functions(&build.resolve(&probes).unwrap()), [&nameless; 3]);
}
