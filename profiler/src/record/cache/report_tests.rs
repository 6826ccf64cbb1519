//! The report that a person reads.

use std::path::PathBuf;

use super::super::holders::Holders;
use super::super::system::Memory;
use super::*;

const MIB: u64 = 1 << 20;

fn entry(path: &str, len: u64, before: u64, after: u64, why: Option<Why>) -> Entry {
    Entry {
        path: PathBuf::from(path),
        id: (0, 0),
        len,
        starts: false,
        before: Some(before),
        after: Some(after),
        is_sampled: false,
        unreadable: false,
        why,
    }
}

fn mapped(count: u32, name: &str) -> Why {
    Why::Mapped(Holders {
        count,
        is_all: true,
        pid: 4_194_303,
        name: name.to_owned(),
    })
}

fn lines(wanted: Wanted, entries: &[Entry]) -> Vec<String> {
    let report = Report {
        wanted,
        entries,
        notes: &[],
        dropped: None,
    };
    report.lines()
}

#[track_caller]
fn fits(lines: &[String]) {
    assert!(lines[0].chars().count() + INDENT <= WIDTH, "{lines:#?}");
    assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:#?}");
}

#[test]
fn the_largest_remainders_are_named_with_their_reasons() {
    let mut entries = vec![
        entry("/l/libxul.so", 131 * MIB, 131 * MIB, 0, None),
        entry("/l/libc.so.6", 2 * MIB, 2 * MIB, 2 * MIB, Some(mapped(41, "init"))),
        entry(
            "/dev/shm/model",
            30 * MIB,
            30 * MIB,
            30 * MIB,
            Some(Why::Memory("tmpfs")),
        ),
        entry("/l/one", MIB, MIB, MIB / 2, Some(mapped(1, "firefox-esr-123"))),
    ];
    for number in 0..3 {
        entries.push(entry(&format!("/l/{number}"), 4096, 4096, 4096, Some(mapped(2, "x"))));
    }
    let lines = lines(Wanted::Cold, &entries);
    assert_eq!(
        lines,
        [
            "cold: 7 files, 164 MiB: 132 MiB evicted, 32.5 MiB (19.8 %) left in memory:",
            "       30.0 MiB of  30.0 MiB  model      in memory (tmpfs)",
            "        2.0 MiB of   2.0 MiB  libc.so.6  mapped by 41 processes",
            "        512 KiB of   1.0 MiB  one        mapped by firefox-esr-123 (4194303)",
            "        4.0 KiB of   4.0 KiB  0          mapped by 2 processes",
            "        8.0 KiB in 2 more files, all mapped by processes",
        ]
    );
    fits(&lines);
}

#[test]
fn all_cold_is_one_line() {
    let lines = lines(Wanted::Cold, &[entry("/l/a", MIB, MIB, 0, None)]);
    assert_eq!(
        lines,
        ["cold: 1 file, 1.0 MiB: 1.0 MiB evicted, nothing left in memory"]
    );
}

#[test]
fn pages_missing_after_reading_are_named() {
    let entries = [
        entry("/l/a", MIB, 0, MIB, None),
        entry("/l/huge", 4096 * MIB, 0, 0, Some(Why::NoRoom)),
    ];
    assert_eq!(
        lines(Wanted::Warm, &entries),
        [
            "warm: 2 files, 4.0 GiB: 1.0 MiB read, 4.0 GiB (100.0 %) missing:",
            "        4.0 GiB of   4.0 GiB  huge  not enough free memory",
        ]
    );
    let all = lines(Wanted::Warm, &entries[..1]);
    assert_eq!(all, ["warm: 1 file, 1.0 MiB: 1.0 MiB read, all in memory"]);
}

#[test]
fn unknown_state_is_not_claimed() {
    let mut sampled = entry("/l/a", MIB, 0, MIB / 2, Some(Why::Hidden));
    (sampled.before, sampled.is_sampled) = (None, true);
    let mut unknown = entry("/l/b", MIB, 0, 0, None);
    (unknown.before, unknown.after) = (None, None);
    let mut closed = entry("/l/secret", MIB, 0, 0, None);
    closed.unreadable = true;
    let lines = lines(Wanted::Cold, &[sampled, unknown, closed]);
    assert!(!lines[0].contains("evicted"), "{lines:#?}");
    assert!(
        lines[1].contains("~512 KiB") && lines[1].contains("maybe mapped by others"),
        "{lines:#?}"
    );
    let text = lines.join(" ");
    for words in [
        "1 file of other owners checked by sampling",
        "does not report",
        "/l/secret",
    ] {
        assert!(text.contains(words), "{words}: {lines:#?}");
    }
    fits(&lines);
}

#[test]
fn output_has_no_control_characters_and_fits() {
    let odd = "/l/\u{1b}[31mred\n".to_owned() + &"x".repeat(200);
    let lines = lines(
        Wanted::Cold,
        &[entry(
            &odd,
            999 << 30,
            0,
            999 << 30,
            Some(mapped(1, "a name of some length")),
        )],
    );
    fits(&lines);
    assert!(!lines.join("").contains(|c: char| c.is_control()), "{lines:#?}");
}

#[test]
fn sparse_files_of_any_size_are_counted() {
    let huge = entry("/l/a", u64::MAX - 1, u64::MAX - 1, u64::MAX - 1, None);
    assert!(lines(Wanted::Cold, &[huge.clone(), huge]).len() == 3);
}

#[test]
fn the_whole_machine_is_reported_before_and_after() {
    let memory = |pages, metadata| Memory {
        pages,
        metadata,
        available: 0,
    };
    let report = Report {
        wanted: Wanted::ColdSystem,
        entries: &[],
        notes: &[],
        dropped: Some(Ok(Dropped {
            before: memory(5 << 30, 300 * MIB),
            after: memory(200 * MIB, 20 * MIB),
        })),
    };
    let text = report.lines()[1..].join(" ");
    assert!(
        text.contains("5.0 GiB → 200 MiB") && text.contains("300 MiB → 20.0 MiB"),
        "{text}"
    );
}

#[test]
fn unforeseen_files_are_counted_by_folder() {
    let many: Vec<PathBuf> = (0..9)
        .map(|number| PathBuf::from(format!("/lib/{}/{number}", number % 7)))
        .collect();
    let many: Vec<&Path> = many.iter().map(PathBuf::as_path).collect();
    let lines = missed(&many, false, true);
    assert!(
        lines[0].contains("9 files") && lines.last().unwrap().contains("remembered"),
        "{lines:#?}"
    );
    assert_eq!(lines[1].trim(), "2 in /lib/0");
    assert_eq!(lines[5].trim(), "3 elsewhere");
    fits(&lines);
}

#[test]
fn bytes_have_three_digits() {
    for (count, text) in [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (100 << 10, "100 KiB"),
        (1023 << 10, "1.0 MiB"),
        (u64::MAX, "16777216 TiB"),
    ] {
        assert_eq!(bytes(count), text);
    }
}
