//! Modules as the profiler's libraries: the symbol server finds files by these ids.

use debugid::DebugId;
use fxprof_processed_profile::LibraryInfo;
use serde_json::{Value, json};

use base::hex::hex;
use fact::Module;

/// A module as an entry of `libs`. `arch` is the recording's.
pub fn library(module: &Module, arch: &str) -> LibraryInfo {
    LibraryInfo {
        name: module.name.clone(),
        debug_name: module.name.clone(),
        path: module.path.clone(),
        debug_path: module.path.clone(),
        debug_id: debug_id(&module.build_id),
        code_id: (!module.build_id.is_empty()).then(|| hex(&module.build_id)),
        arch: Some(arch.to_owned()),
        symbol_table: None,
    }
}

/// The entry for functions with names, when those of others are left to symbol servers: it has no
/// id that they are asked for (`shared/left.rs`).
pub fn alias(module: &Module, arch: &str) -> Value {
    let mut library = json!(library(module, arch));
    library["debugName"] = json!(hex(&module.build_id));
    library["breakpadId"] = json!("");
    library
}

/// The first 16 bytes of a build id, padded with zeros and read as a little-endian GUID, as
/// Breakpad does.
fn debug_id(build_id: &[u8]) -> DebugId {
    let mut guid = [0; 16];
    let len = build_id.len().min(guid.len());
    guid[..len].copy_from_slice(&build_id[..len]);
    DebugId::from_guid_age(&guid, 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_becomes_the_breakpad_id_that_symbol_servers_use() {
        // The first three fields of a GUID are little-endian, the rest are bytes; the rest of the
        // build id is dropped.
        let build_id = [
            0x51, 0x65, 0x7f, 0x81, 0x8b, 0xeb, 0xb2, 0xad, 0x51, 0x36, 0xd5, 0xe6, 0x17, 0xb0, 0xf2, 0xba, 0x01, 0x02,
            0x03, 0x04,
        ];
        assert_eq!(
            debug_id(&build_id).breakpad().to_string(),
            "817F6551EB8BADB25136D5E617B0F2BA0"
        );
        assert_eq!(hex(&build_id), "51657f818bebb2ad5136d5e617b0f2ba01020304");
        assert_eq!(
            debug_id(&[]).breakpad().to_string(),
            "000000000000000000000000000000000"
        );
    }
}
