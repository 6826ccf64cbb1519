//! jitdump files made of anything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use symbols::jitdump::JitDump;

fuzz_target!(|contents: &[u8]| {
    let Ok(dump) = JitDump::parse(contents) else { return };
    for time in [0, 100, u64::MAX] {
        for address in [0, 0x1000, 0x2000, u64::MAX] {
            if let Some(symbol) = dump.lookup(time, address) {
                assert!(symbol.start <= address && address - symbol.start < symbol.size);
            }
        }
    }
    assert!(dump.truncated_bytes() <= contents.len() as u64);
});
