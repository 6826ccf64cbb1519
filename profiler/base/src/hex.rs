//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

/// Formats bytes as lower-case hexadecimal digits, the usual form of build ids.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // writing to a string can't fail
    }
    text
}
