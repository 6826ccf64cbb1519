//! Checks a Breakpad symbol file while it arrives: it is for the requested build, whole, and
//! nothing in it costs more than its size to read.
//! <https://chromium.googlesource.com/breakpad/breakpad/+/HEAD/docs/symbol_files.md>

use std::io::{self, Write};

use samply_symbols::debugid::DebugId;

/// Larger files are not used: that of a browser's largest library is a quarter of it.
pub(super) const MAX_BYTES: u64 = 4 << 30;
/// Longest line.
const MAX_LINE: u64 = 1 << 20;
/// Maximum bytes of one function's lines, which are read together.
const MAX_FUNCTION: u64 = 64 << 20;
/// Deepest inlining.
const MAX_DEPTH: u32 = 1000;
/// Bytes of each line that are looked at.
const HEAD: usize = 256;

/// Passes the bytes of a symbol file on to `out`, as long as they are in order.
pub(super) struct Checked<W> {
    out: W,
    id: DebugId,
    bytes: u64,
    lines: u64,
    /// The start of the current line, and its length.
    head: Vec<u8>,
    line: u64,
    /// Bytes since the last line that starts a symbol.
    function: u64,
}

impl<W: Write> Checked<W> {
    pub(super) fn new(out: W, id: DebugId) -> Self {
        Self {
            out,
            id,
            bytes: 0,
            lines: 0,
            head: Vec::with_capacity(HEAD),
            line: 0,
            function: 0,
        }
    }

    /// The output, if the file is complete.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`]: it is empty, or its last line is cut off.
    pub(super) fn finish(self) -> io::Result<W> {
        if self.lines == 0 || self.line > 0 {
            return Err(invalid("it is cut off"));
        }
        Ok(self.out)
    }

    fn take(&mut self, part: &[u8]) -> io::Result<()> {
        let room = HEAD.saturating_sub(self.head.len()).min(part.len());
        self.head.extend_from_slice(&part[..room]);
        self.line += part.len() as u64;
        self.function += part.len() as u64;
        if self.lines == 0 && !(self.head.starts_with(b"MODULE ") || b"MODULE ".starts_with(&self.head)) {
            let is_page = self.head.trim_ascii_start().starts_with(b"<");
            return Err(invalid(if is_page {
                "it is a web page, not a symbol file"
            } else {
                "it is not a Breakpad symbol file"
            }));
        }
        if self.line > MAX_LINE || self.function > MAX_FUNCTION {
            return Err(invalid("one of its lines or functions is implausibly long"));
        }
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        let head = self.head.trim_ascii_end();
        if self.lines == 0 && module_id(head) != Some(self.id) {
            return Err(invalid("it is for another build"));
        }
        if [&b"FUNC "[..], b"PUBLIC ", b"STACK ", b"INFO "]
            .iter()
            .any(|word| head.starts_with(word))
        {
            self.function = self.line;
        }
        if inline_depth(head).is_some_and(|depth| depth > MAX_DEPTH) {
            return Err(invalid("its functions are inlined implausibly deep"));
        }
        self.lines += 1;
        self.line = 0;
        self.head.clear();
        Ok(())
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > MAX_BYTES {
            return Err(invalid("it is larger than 4 GiB"));
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.take(part)?;
            if part.ends_with(b"\n") {
                self.end_line()?;
            }
        }
        self.out.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The id in `MODULE OS ARCH ID NAME`.
fn module_id(line: &[u8]) -> Option<DebugId> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    if words.next() != Some("MODULE") {
        return None;
    }
    DebugId::from_breakpad(words.nth(2)?).ok()
}

/// The depth in `INLINE DEPTH …`.
fn inline_depth(line: &[u8]) -> Option<u32> {
    let rest = line.strip_prefix(b"INLINE ")?;
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    let digits = std::str::from_utf8(&rest[..end]).ok()?;
    Some(digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "817F6551EB8BADB25136D5E617B0F2BA0";

    fn check(text: &[u8], piece: usize) -> Result<Vec<u8>, String> {
        let mut checked = Checked::new(Vec::new(), DebugId::from_breakpad(ID).unwrap());
        for piece in text.chunks(piece) {
            checked.write_all(piece).map_err(|error| error.to_string())?;
        }
        checked.finish().map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_file_passes_unchanged_in_any_pieces() {
        let text = format!("MODULE Linux x86_64 {ID} libx.so\r\nINFO CODE_ID 51\nFUNC 10 4 0 f()\n10 4 1 0\n");
        for piece in [1, 2, 7, 1000] {
            assert_eq!(check(text.as_bytes(), piece).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn bad_files_are_refused() {
        let first = format!("MODULE Linux x86_64 {ID} libx.so\n");
        let other = first.replace('8', "9");
        let deep = format!("{first}FUNC 0 1 0 f\nINLINE 99999999999 1 0 0 0 1\n");
        let long = format!("{first}FUNC 0 1 0 {}\n", "x".repeat(2 << 20));
        let large = format!("{first}FUNC 0 1 0 f\n{}", "0 1 1 0\n".repeat(9 << 20));
        for (text, why) in [
            (first.trim_end(), "cut off"),
            ("", "cut off"),
            (&format!("{first}FUNC 10 4 0 fun")[..], "cut off"),
            (&other, "another build"),
            ("MODULE\n", "not a Breakpad symbol file"),
            ("<!DOCTYPE html>\n<html>", "web page"),
            ("\n\n  <html>", "not a Breakpad symbol file"),
            ("hello\n", "not a Breakpad symbol file"),
            (&deep, "implausibly deep"),
            (&long, "implausibly long"),
            (&large, "implausibly long"),
        ] {
            let error = check(text.as_bytes(), 4096).unwrap_err();
            assert!(error.contains(why), "{error}, not {why}");
        }
    }
}
