//! Names as people write them.

use symbolic_demangle::{Demangle as _, DemangleOptions};
use symbolic_common::{Language, Name, NameMangling};

/// Longer names are cut off before anything looks at them.
const MAX_NAME: usize = 16 << 10;

/// The readable form of a C++ or Rust symbol name, without hash and return type; other names as they are.
pub fn demangle(name: &str) -> String {
    let end = name.floor_char_boundary(MAX_NAME);
    let name = name.get(..end).unwrap_or(name);
    let options = DemangleOptions::complete().return_type(false);
    Name::new(name, NameMangling::Unknown, Language::Unknown).try_demangle(options).into_owned()
}

/// [`demangle`] for the bytes of a string table, in which anything can stand.
pub(crate) fn demangle_bytes(name: &[u8]) -> String {
    demangle(&String::from_utf8_lossy(name.get(..MAX_NAME).unwrap_or(name)))
}
