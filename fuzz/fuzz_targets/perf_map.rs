//! Perf maps made of anything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use symbols::perf_map::PerfMap;

fuzz_target!(|contents: &[u8]| {
    let map = PerfMap::parse(contents);
    for address in [0, 0x1000, 0x7f00_0000_0000, u64::MAX] {
        if let Some(symbol) = map.lookup(address) {
            assert!(symbol.start <= address && address - symbol.start < symbol.size);
        }
    }
});
