//! Limits on JSON while it is decompressed: rejects what no profile contains before it is stored.

use std::io;

/// Maximum length of a string, in bytes as written: screenshots and sources are the longest in
/// profiles.
const LONGEST_STRING: usize = 32 << 20;
/// Maximum nesting depth, which is that of `serde_json`.
const DEEPEST: u32 = 128;

/// Scans JSON byte by byte, without parsing its grammar.
#[derive(Debug, Default)]
pub struct Scan {
    /// Bytes of the current string so far.
    string: Option<usize>,
    is_escaped: bool,
    depth: u32,
}

impl Scan {
    /// Scans the next bytes.
    ///
    /// # Errors
    /// They exceed a limit (kind [`io::ErrorKind::FileTooLarge`]), or are not JSON.
    pub fn feed(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut rest = bytes.iter();
            let plain = match self.string {
                Some(_) if self.is_escaped => Some(0),
                Some(_) => rest.position(|byte| matches!(byte, b'"' | b'\\' | 0)),
                None => rest.position(|byte| matches!(byte, b'"' | b'[' | b']' | b'{' | b'}' | 0)),
            };
            let (skipped, rest) = bytes.split_at(plain.unwrap_or(bytes.len()));
            self.lengthen(skipped.len())?;
            bytes = match rest.split_first() {
                Some((mark, rest)) => {
                    self.mark(*mark)?;
                    rest
                }
                None => rest,
            };
        }
        Ok(())
    }

    /// A byte that may be significant.
    fn mark(&mut self, byte: u8) -> io::Result<()> {
        match (self.string, byte) {
            // Sparse files consist of zero bytes, and may be of any size.
            (_, 0) => {
                let why = "it contains NUL bytes, so it is not JSON";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            (Some(_), b'"') if !self.is_escaped => self.string = None,
            (Some(_), _) => {
                self.is_escaped = byte == b'\\' && !self.is_escaped;
                self.lengthen(1)?;
            }
            (None, b'"') => self.string = Some(0),
            (None, b'[' | b'{') => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(too_large(format_args!("more than {DEEPEST} levels of nesting")));
                }
            }
            (None, _) => self.depth = self.depth.saturating_sub(1),
        }
        Ok(())
    }

    /// Scans a byte within a string.
    fn lengthen(&mut self, more: usize) -> io::Result<()> {
        let Some(len) = &mut self.string else { return Ok(()) };
        *len += more;
        if *len > LONGEST_STRING {
            return Err(too_large(format_args!(
                "a string of more than {} MiB",
                LONGEST_STRING >> 20
            )));
        }
        Ok(())
    }
}

/// The error for an exceeded limit.
pub fn too_large(what: std::fmt::Arguments<'_>) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("{what}, which no profile has"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(parts: &[&[u8]]) -> io::Result<()> {
        let mut scan = Scan::default();
        parts.iter().try_for_each(|part| scan.feed(part))
    }

    #[test]
    fn strings_end_as_in_json() {
        let long = vec![b'['; LONGEST_STRING - 10];
        scan(&[br#"{"a\"b\\":["#, b"\"", &long, b"\"]}"]).unwrap();
        let error = scan(&[b"\"", &long, &[b'x'; 20]]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "a string of more than 32 MiB, which no profile has");
        // Escapes that are split between two reads.
        scan(&[b"\"\\", b"\"", b"\"", &[b'['; 128]]).unwrap();
    }

    #[test]
    fn nesting_has_a_limit_and_zeros_are_not_json() {
        scan(&[&b"[".repeat(128)]).unwrap();
        scan(&[&b"[]".repeat(1_000)]).unwrap();
        assert_eq!(
            scan(&[&b"[{".repeat(65)]).unwrap_err().to_string(),
            "more than 128 levels of nesting, which no profile has"
        );
        assert_eq!(scan(&[b"{\0"]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
