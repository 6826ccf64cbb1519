//! Mappings and addresses as text for a terminal of 80 columns.

use anyhow::Result;

use super::lookup::{Mapped, Place};
use super::name;
use crate::capture::space::maps::Way;
use crate::event::Mapping;
use crate::hex::hex;
use crate::plural::counted;
use crate::report::text::{WIDTH, escaped, fit_end};
use crate::terminal::{out, plain};

/// Columns before the file name.
const FIXED: usize = 49;

/// Prints one row per mapping, and how they were read.
///
/// # Errors
/// Those of standard output.
pub fn mappings(way: Way, mappings: &[Mapping]) -> Result<()> {
    let bold = anstyle::Style::new().bold();
    out(format_args!(
        "{bold}{:<26}{:>6} {:<4} {:>10} file{bold:#}",
        "addresses", "size", "perm", "offset"
    ))?;
    for mapping in mappings {
        out(row(mapping))?;
    }
    let total = mappings
        .iter()
        .fold(0_u64, |sum, mapping| sum.saturating_add(mapping.len));
    let number = counted(mappings.len() as u64, "mapping");
    out(format_args!("{number}, {}; read by {}", size(total), name(way)))
}

fn row(mapping: &Mapping) -> String {
    let range = format!(
        "{:x}-{:x}",
        mapping.start.0,
        mapping.start.0.saturating_add(mapping.len)
    );
    let offset = if mapping.file.inode == 0 {
        String::new()
    } else {
        format!("{:x}", mapping.offset.0)
    };
    let start = format!(
        "{range:<26}{:>6} {} {offset:>10}",
        size(mapping.len),
        permissions(mapping)
    );
    let room = WIDTH.saturating_sub(start.chars().count().max(FIXED - 1) + 1);
    let path = fit_end(&escaped(&mapping.path), room);
    format!("{start} {path}").trim_end().to_owned()
}

/// The permissions as in `/proc/PID/maps`: `r-xp`, `rw-s`.
pub fn permissions(mapping: &Mapping) -> String {
    let letter = |bit: u32, letter: char| if mapping.protection & bit != 0 { letter } else { '-' };
    let shared = mapping.flags & libc::MAP_SHARED.unsigned_abs() != 0;
    let shared = if shared { 's' } else { 'p' };
    [letter(1, 'r'), letter(2, 'w'), letter(4, 'x'), shared]
        .iter()
        .collect()
}

/// Formats bytes in powers of 1024 in at most five characters: `4K`, `1.5M`, `1020G`.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "";
    for next in ["K", "M", "G", "T", "P", "E"] {
        if value < 1023.5 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let decimals = usize::from(value < 9.95 && value.fract() >= 0.05);
    format!("{value:.decimals$}{unit}")
}

/// Prints what is mapped at an address.
///
/// # Errors
/// Those of standard output.
pub fn place(place: &Place) -> Result<()> {
    let bold = anstyle::Style::new().bold();
    match &place.mapped {
        Some(mapped) => lines(place.address.0, mapped).iter().try_for_each(out),
        None => out(format_args!("{bold}{:#x}{bold:#}  no mapping", place.address.0)),
    }
}

fn lines(address: u64, mapped: &Mapped) -> Vec<String> {
    let bold = anstyle::Style::new().bold();
    let path = match &*mapped.mapping.path {
        b"" if mapped.offset.is_some() => "(a name longer than any path)".to_owned(),
        b"" => "(anonymous memory)".to_owned(),
        path => escaped(path),
    };
    let mut lines = vec![format!("{bold}{address:#x}{bold:#}  {path}")];
    let mut line = |what: &str, value: String| lines.push(format!("    {what:<12} {value}"));
    if !mapped.build_id.is_empty() {
        line("build id", hex(&mapped.build_id));
    }
    match &mapped.svma {
        Ok(svma) => line("svma", format!("{:#x}", svma.0)),
        Err(_) if mapped.offset.is_none() => {}
        Err(why) => line("svma", format!("unknown: {}", plain(why))),
    }
    match mapped.offset {
        Some(offset) => line("file offset", format!("{:#x}", offset.0)),
        None => line(
            "in mapping",
            format!(
                "{:#x} + {:#x}",
                mapped.mapping.start.0,
                address.saturating_sub(mapped.mapping.start.0)
            ),
        ),
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::addr::{Avma, FileOffset};
    use crate::event::FileId;

    fn mapping(path: &[u8]) -> Mapping {
        Mapping {
            start: Avma(0x7f12_a0b3_c000),
            len: 0x0b1f_e000,
            offset: FileOffset(0x0123_4000),
            file: FileId {
                inode: 7,
                ..FileId::default()
            },
            protection: 5,
            flags: 2,
            path: path.to_vec(),
            ..Mapping::default()
        }
    }

    #[test]
    fn a_row() {
        assert_eq!(
            row(&mapping(b"/usr/lib/firefox-esr/a\nlong\x1b[2J/folder/libxul.so")),
            "7f12a0b3c000-7f12abd3a000   178M r-xp    1234000 …/folder/libxul.so"
        );
        let anonymous = Mapping {
            file: FileId::default(),
            protection: 3,
            flags: 1,
            ..mapping(b"")
        };
        assert_eq!(row(&anonymous), "7f12a0b3c000-7f12abd3a000   178M rw-s");
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [
            0,
            4096,
            1536,
            135_168,
            1 << 20,
            1_572_864,
            10_433_331,
            1_045_000,
            u64::MAX,
        ];
        let texts = ["0", "4K", "1.5K", "132K", "1M", "1.5M", "9.9M", "1021K", "16E"];
        assert_eq!(sizes.map(size), texts);
    }

    proptest! {
        #[test]
        fn every_row_fits(
            start: u64, len: u64, offset in 0_u64..1 << 40, path in prop::collection::vec(any::<u8>(), 0..200), protection in 0_u32..8,
        ) {
            let mapping = Mapping { start: Avma(start), len, offset: FileOffset(offset), protection, ..mapping(&path) };
            let row = row(&mapping);
            prop_assert!(report::text::columns(&row) <= WIDTH, "{}", row);
            prop_assert!(!row.chars().any(char::is_control));
            prop_assert!(size(len).len() <= 5);
        }
    }
}
