//! The kernel's types made of anything, and looked up: a line that names a field, then the types.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler::capture::hooks::btf::{Btf, locate};
use profiler_common::config::Config;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (path, bytes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(types) = Btf::parse(bytes.to_vec()) else { return };
    let path = String::from_utf8_lossy(path);
    types.offset(&path);
    types.enumerator(&path);
    types.function(&path);
    if let Some((_, mask)) = types.bit(&path) {
        assert!(mask.is_power_of_two() && mask < 256);
    }
    locate(&types, &mut Config::NOTHING.clone());
});
