//! Demangles names.

use symbolic_common::{Language, Name, NameMangling};
use symbolic_demangle::{Demangle as _, DemangleOptions};

/// Longer names are truncated before any processing.
const MAX_NAME: usize = 16 << 10;

/// The readable form of a C++ or Rust symbol name, without hash and return type; other names
/// unchanged.
pub fn demangle(name: &str) -> String {
    let end = name.floor_char_boundary(MAX_NAME);
    let name = name.get(..end).unwrap_or(name);
    let options = DemangleOptions::complete().return_type(false);
    Name::new(name, NameMangling::Unknown, Language::Unknown)
        .try_demangle(options)
        .into_owned()
}

/// Like [`demangle`], for the bytes of a string table, which may contain anything.
pub(crate) fn demangle_bytes(name: &[u8]) -> String {
    demangle(&String::from_utf8_lossy(name.get(..MAX_NAME).unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn languages() {
        assert_eq!(
            demangle("_ZN6shapes5outerERKNS_3BoxEi"),
            "shapes::outer(shapes::Box const&, int)"
        );
        assert_eq!(demangle("_ZN6shapes4leafIiEET_S1_"), "shapes::leaf<int>(int)");
        assert_eq!(
            demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
    }

    #[test]
    fn other_names_are_unchanged() {
        for name in [
            "",
            "main",
            "_start",
            "__libc_start_main",
            "_Z",
            "_R",
            "_ZN",
            "memcpy@plt",
            "café",
            "?what@@",
        ] {
            assert_eq!(demangle(name), name);
        }
        assert_eq!(demangle_bytes(b"caf\xe9"), "caf\u{fffd}");
    }

    #[test]
    fn overlong_names_are_truncated() {
        assert_eq!(demangle(&"é".repeat(100_000)).len(), MAX_NAME);
        // Each substitution doubles the text.
        let bomb = format!("_Z1f{}", "S_".repeat(4000));
        assert!(demangle(&bomb).len() <= MAX_NAME);
        let deep = format!("_Z1f{}i", "P".repeat(16_000));
        assert!(demangle(&deep).len() <= MAX_NAME);
    }

    proptest! {
        #[test]
        fn any_name(name in "(_Z|_R|__ZN|)[A-Za-z0-9_$.@]{0,200}") {
            demangle(&name);
        }

        #[test]
        fn any_bytes(name in prop::collection::vec(any::<u8>(), 0..200)) {
            demangle_bytes(&name);
        }
    }
}
