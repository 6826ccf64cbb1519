//! Names of programs compiled here, against what their source says.

mod build;

use build::Build;
use symbols::{AddressName, SymbolError};

const C_SOURCE: &str = include_str!("programs/functions.c");

fn functions(names: &[Option<AddressName>]) -> Vec<Option<&str>> {
    names.iter().map(|name| name.as_ref().map(|name| name.symbol.as_str())).collect()
}

#[test]
fn symbol_table() {
    let build = Build::new("symtab", "c", C_SOURCE, &["-O1"]);
    let exported = build.symbol("exported_first");
    let private = build.symbol("private_middle");
    let names = build.resolve(&[exported.start, exported.end() - 1, private.start, private.end() - 1]).unwrap();
    let expected = ["exported_first", "exported_first", "private_middle", "private_middle"].map(Some);
    assert_eq!(functions(&names), expected);
    let first = names[0].as_ref().unwrap();
    assert_eq!(first.symbol_start, exported.start);
    assert_eq!(first.symbol_size, Some(exported.size));
    assert_eq!(first.inline_chain.len(), 1);
    assert_eq!(first.inline_chain[0].function, "exported_first");
    assert_eq!(first.inline_chain[0].file, None);
}

#[test]
fn another_build_id_is_refused() {
    let build = Build::new("mismatch", "c", C_SOURCE, &[]);
    let mut request = build.request();
    request.build_id[0] ^= 1;
    let error = build::symbolicator().resolve(&request, &[0]).unwrap_err();
    assert!(matches!(error, SymbolError::BuildIdMismatch { .. }), "{error}");
    assert!(error.to_string().contains("record again"), "{error}");
}
