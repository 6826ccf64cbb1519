//! The text of `/proc/PID/maps`, whose names are the program's, made of anything; and the kernel's records of mappings.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use profiler::addr::Avma;
use profiler::capture::space::mappings;
use profiler::capture::space::maps::text::Text;
use profiler::capture::space::maps::{AddressSpace as _, BuildIds, Which};

fuzz_target!(|data: &[u8]| {
    let mut text = Text::new(1, Cursor::new(data), BuildIds::Unwanted);
    if let Ok(all) = text.mappings(Which::All) {
        assert!(all.iter().all(|mapping| mapping.path.len() <= data.len()));
        let executable = text.mappings(Which::Executable).unwrap();
        assert!(executable.len() <= all.len());
    }
    let addresses = [0, 0x1000, 0x7f00_0000_1000, u64::MAX].map(Avma);
    if let Ok(covering) = text.covering(&addresses) {
        for (address, mapping) in addresses.iter().zip(covering) {
            assert!(
                mapping.is_none_or(|mapping| mapping.start <= *address && address.0 - mapping.start.0 < mapping.len)
            );
        }
    }
    if let [kind, misc, record @ ..] = data {
        mappings::parse(u32::from(*kind), u16::from(*misc), record);
    }
});
