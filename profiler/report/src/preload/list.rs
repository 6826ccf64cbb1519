//! The preload list file. One command writes it and another reads it; it may be edited by hand, or hostile. docs/preload.md
//! has the format.

use std::io::{self, Write};

use crate::text::{escaped, fit};
use base::hex::hex;

/// First line of a list.
const MAGIC: &str = "ngmi-preload 1";
/// Maximum size of a list in bytes.
pub const MAX_BYTES: u64 = 16 << 20;
/// Maximum number of files.
const MAX_FILES: usize = 1 << 16;
/// Maximum number of ranges.
const MAX_READS: usize = super::plan::MAX_RANGES;
/// Maximum length of a path in bytes, as the kernel's `PATH_MAX`.
const MAX_PATH: usize = 4096;
/// Maximum length of a build ID in bytes.
const MAX_BUILD_ID: usize = 64;
/// Encodes a missing build ID.
const NONE: &str = "-";

/// Files and the ranges to read from them, in reading order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// Files that ranges refer to.
    pub files: Vec<Listed>,
    /// Ranges, in the order to read them.
    pub reads: Vec<Read>,
}

/// A file, with attributes that detect a replaced or changed file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// Absolute path.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time: seconds since 1970, and ns.
    pub changed: (i64, u32),
    /// Build ID; empty if there is none. A file with the same build ID is an acceptable replacement.
    pub build_id: Vec<u8>,
}

/// A range of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Index into [`List::files`].
    pub file: u32,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes; the range ends within the file.
    pub len: u64,
}

/// Why a list can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The first line is not that of a list.
    #[error(
        "not a preload list, or written by another version of ngmi: the first line is not `{MAGIC}`; create one with `ngmi preload PROFILE`"
    )]
    NotAList,
    /// A line is malformed or has impossible values.
    #[error("line {line}: {what}; create the list again with `ngmi preload PROFILE`")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Description of the problem.
        what: String,
    },
}

impl List {
    /// Total length of all ranges, in bytes.
    pub fn bytes(&self) -> u64 {
        self.reads.iter().fold(0, |sum: u64, read| sum.saturating_add(read.len))
    }

    /// Writes the list, with each of `comments` as a comment line.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&self, out: &mut dyn Write, comments: &[String]) -> io::Result<()> {
        writeln!(out, "{MAGIC}")?;
        for comment in comments {
            writeln!(out, "# {}", escaped(comment.as_bytes()))?;
        }
        for file in &self.files {
            let build_id = if file.build_id.is_empty() {
                NONE.to_owned()
            } else {
                hex(&file.build_id)
            };
            let (seconds, ns) = file.changed;
            let path = escaped(&file.path);
            writeln!(out, "file {} {seconds}.{ns:09} {build_id} {path}", file.size)?;
        }
        for read in &self.reads {
            writeln!(out, "read {} {} {}", read.file, read.offset, read.len)?;
        }
        Ok(())
    }

    /// Parses a list.
    ///
    /// # Errors
    /// When the text is not a list or a line is invalid; such a list is rejected as a whole.
    pub fn parse(text: &[u8]) -> Result<Self, ListError> {
        let mut lines = text.split(|byte| *byte == b'\n');
        if lines.next() != Some(MAGIC.as_bytes()) {
            return Err(ListError::NotAList);
        }
        let mut list = Self::default();
        for (number, line) in (2..).zip(lines) {
            list.line(line).map_err(|what| ListError::Line { line: number, what })?;
        }
        Ok(list)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        let text = std::str::from_utf8(line).map_err(|_| "invalid UTF-8".to_owned())?;
        match text.split_once(' ') {
            Some(("file", rest)) if self.files.len() < MAX_FILES => {
                let file = file(rest).ok_or_else(|| format!("invalid file: `{}`", fit(text, 60)))?;
                self.files.push(file);
            }
            Some(("read", rest)) if self.reads.len() < MAX_READS => {
                let read = read(rest, &self.files);
                let read =
                    read.ok_or_else(|| format!("invalid range, or its file is not listed above: `{}`", fit(text, 60)))?;
                self.reads.push(read);
            }
            Some(("file" | "read", _)) => {
                return Err(format!("more than {MAX_FILES} files or {MAX_READS} ranges"));
            }
            _ => return Err(format!("expected a file or a range: `{}`", fit(text, 60))),
        }
        Ok(())
    }
}

/// Parses `SIZE SECONDS.NS BUILDID PATH`.
fn file(text: &str) -> Option<Listed> {
    let mut words = text.splitn(4, ' ');
    let size = words.next()?.parse().ok()?;
    let (seconds, ns) = words.next()?.split_once('.')?;
    let changed = (seconds.parse().ok()?, ns.parse().ok().filter(|ns| *ns < 1_000_000_000)?);
    let build_id = match words.next()? {
        NONE => Vec::new(),
        digits => bytes_of(digits)?,
    };
    let path = unescaped(words.next()?)?;
    let is_path = path.starts_with(b"/") && path.len() < MAX_PATH && !path.contains(&0);
    is_path.then_some(Listed {
        path,
        size,
        changed,
        build_id,
    })
}

/// Parses `FILE OFFSET LENGTH`.
fn read(text: &str, files: &[Listed]) -> Option<Read> {
    let mut words = text.split(' ');
    let read = Read {
        file: words.next()?.parse().ok()?,
        offset: words.next()?.parse().ok()?,
        len: words.next()?.parse().ok()?,
    };
    let size = files.get(read.file as usize)?.size;
    let is_within = read.len > 0 && read.offset.checked_add(read.len)? <= size;
    (is_within && words.next().is_none()).then_some(read)
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let is_fit = digits.len().is_multiple_of(2) && (1..=MAX_BUILD_ID * 2).contains(&digits.len());
    let pairs = digits.as_bytes().chunks(2).filter(|_| is_fit);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    bytes.filter(|bytes| !bytes.is_empty())
}

/// Reverses [`escaped`].
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let mut after = rest[at + 1..].chars();
        let kind = after.next()?;
        rest = after.as_str();
        match kind {
            '\\' => bytes.push(b'\\'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            'r' => bytes.push(b'\r'),
            'x' => {
                bytes.push(u8::from_str_radix(rest.get(..2)?, 16).ok()?);
                rest = rest.get(2..)?;
            }
            'u' => {
                let (digits, behind) = rest.strip_prefix('{')?.split_once('}')?;
                let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = behind;
            }
            _ => return None,
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(lines: &str) -> Result<List, ListError> {
        List::parse(format!("{MAGIC}\n{lines}").as_bytes())
    }

    #[test]
    fn a_handwritten_list_is_read() {
        let list = parse("# for the demo\n\nfile 8192 5.000000001 - /a b\\n\\\\\nread 0 4096 4096\n").unwrap();
        let file = Listed {
            path: b"/a b\n\\".to_vec(),
            size: 8192,
            changed: (5, 1),
            build_id: Vec::new(),
        };
        assert_eq!(list.files, [file]);
        let read = Read {
            file: 0,
            offset: 4096,
            len: 4096,
        };
        assert_eq!(list.reads, [read]);
    }

    #[test]
    fn errors_have_their_line() {
        let good = "file 8192 5.0 - /a\n";
        for bad in [
            "file 8192 5.0 - a",
            "file 8192 5.0 -",
            "file -1 5.0 - /a",
            "file 8192 5 - /a",
            "file 8192 5.1000000000 - /a",
            "file 8192 5.0 xyz /a",
            "file 8192 5.0 é1 /a",
            "file 8192 5.0 - /a\\x00",
            "file 8192 5.0 - /a\\x",
            "file 8192 5.0 - /a\\u{d800}",
            "read 1 0 1",
            "read 0 0 0",
            "read 0 8192 1",
            "read 0 18446744073709551615 2",
            "read 0 0 1 1",
            "write 0 0 1",
            "read",
        ] {
            let error = parse(&format!("{good}{bad}\n")).unwrap_err();
            assert!(matches!(error, ListError::Line { line: 3, .. }), "{bad}: {error}");
        }
        assert_eq!(List::parse(b"ngmi-preload 2\n"), Err(ListError::NotAList));
        assert_eq!(List::parse(b""), Err(ListError::NotAList));
    }

    #[test]
    fn the_size_is_limited() {
        let many = "file 1 0.0 - /a\n".repeat(MAX_FILES + 1);
        assert!(parse(&many).unwrap_err().to_string().contains("more than"));
    }

    proptest! {
        #[test]
        fn written_entries_read_back(
            path in proptest::collection::vec(1u8..=255, 0..30),
            size in 1u64..,
            changed in (any::<i64>(), 0u32..1_000_000_000),
            build_id in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let path = [b"/", &*path].concat();
            let list = List {
                files: vec![Listed { path, size, changed, build_id }],
                reads: vec![Read { file: 0, offset: size - 1, len: 1 }],
            };
            let mut text = Vec::new();
            list.write(&mut text, &["made of \n a name".to_owned()]).unwrap();
            prop_assert_eq!(List::parse(&text).unwrap(), list);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, line in "(file|read) [0-9. -]{0,20}/\\PC{0,20}") {
            let _ = List::parse(&bytes);
            let _ = parse(&line);
        }
    }
}
