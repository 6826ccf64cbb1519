//! jitdump files written by the tests, record by record, in both byte orders.

use super::*;
use proptest::prelude::*;

/// Writes jitdump records.
struct Writer {
    big: bool,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(big: bool) -> Self {
        let mut writer = Self {
            big,
            bytes: if big { b"JiTD".to_vec() } else { b"DTiJ".to_vec() },
        };
        // version, size of the header, machine, padding, pid
        for number in [1, 40, 62, 0, 4321] {
            writer.u32(number);
        }
        writer.u64(5); // creation time of the file
        writer.u64(0); // flags
        writer
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend(if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend(if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }

    fn record(&mut self, kind: u32, time: u64, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.u32(kind);
        self.u32(0);
        self.u64(time);
        body(self);
        let size = u32::try_from(self.bytes.len() - start).unwrap();
        let size = if self.big {
            size.to_be_bytes()
        } else {
            size.to_le_bytes()
        };
        self.bytes[start + 4..start + 8].copy_from_slice(&size);
    }

    fn load(&mut self, time: u64, index: u64, start: u64, size: usize, name: &[u8]) {
        self.record(0, time, |writer| {
            writer.u32(4321);
            writer.u32(4322);
            for number in [start, start, size as u64, index] {
                writer.u64(number);
            }
            writer.bytes.extend(name);
            writer.bytes.push(0);
            writer.bytes.extend(std::iter::repeat_n(0x90, size));
        });
    }

    fn move_code(&mut self, time: u64, index: u64, from: u64, to: u64, size: u64) {
        self.record(1, time, |writer| {
            writer.u32(4321);
            writer.u32(4322);
            for number in [to, from, to, size, index] {
                writer.u64(number);
            }
        });
    }

    fn debug_info(&mut self, time: u64, code: u64, count: u64, lines: &[(u64, u32, &str)]) {
        self.record(2, time, |writer| {
            writer.u64(code);
            writer.u64(count);
            for (address, line, file) in lines {
                writer.u64(*address);
                writer.u32(*line);
                writer.u32(0);
                writer.bytes.extend(file.as_bytes());
                writer.bytes.push(0);
            }
        });
    }
}

fn name(dump: &JitDump, time: u64, address: u64) -> Option<&str> {
    dump.lookup(time, address).map(|symbol| symbol.name)
}

#[test]
fn loads_moves_and_replacements_count_from_their_time_on() {
    for big in [false, true] {
        let mut writer = Writer::new(big);
        writer.load(100, 1, 0x1000, 0x80, b"first");
        writer.load(200, 2, 0x1040, 0x40, b"second");
        writer.move_code(300, 2, 0x1040, 0x9000, 0x40);
        writer.load(400, 3, 0x1000, 0x20, b"third");
        writer.record(3, 500, |_| {});
        let dump = JitDump::parse(&writer.bytes).unwrap();
        assert_eq!(dump.pid(), 4321);
        assert_eq!((dump.bad_records(), dump.truncated_bytes()), (0, 0));
        assert_eq!(name(&dump, 99, 0x1000), None, "not yet loaded");
        assert_eq!(name(&dump, 100, 0x107f), Some("first"));
        assert_eq!(name(&dump, 100, 0x1080), None);
        assert_eq!(name(&dump, 200, 0x1040), Some("second"), "replaces the second half");
        assert_eq!(name(&dump, 200, 0x103f), Some("first"));
        assert_eq!(name(&dump, 299, 0x9000), None, "not yet moved");
        assert_eq!(name(&dump, 300, 0x903f), Some("second"));
        assert_eq!(name(&dump, 300, 0x1040), None, "moved away");
        assert_eq!(name(&dump, 299, 0x1040), Some("second"), "as it was before");
        assert_eq!(name(&dump, 400, 0x101f), Some("third"));
        assert_eq!(name(&dump, 400, 0x1020), Some("first"));
        let moved = dump.lookup(600, 0x9010).unwrap();
        assert_eq!((moved.start, moved.size), (0x9000, 0x40));
    }
}

#[test]
fn debug_info_gives_lines_and_follows_moves() {
    for big in [false, true] {
        let mut writer = Writer::new(big);
        writer.debug_info(10, 0x1000, 2, &[(0x1000, 7, "a.js"), (0x1010, 9, "b c.js")]);
        writer.load(10, 1, 0x1000, 0x20, b"f");
        writer.load(11, 2, 0x2000, 0x20, b"g");
        writer.move_code(20, 1, 0x1000, 0x5000, 0x20);
        let dump = JitDump::parse(&writer.bytes).unwrap();
        let place = |time, address| {
            dump.lookup(time, address)
                .map(|symbol| (symbol.file, symbol.line))
                .unwrap()
        };
        assert_eq!(place(10, 0x100f), (Some("a.js"), Some(7)));
        assert_eq!(place(10, 0x1010), (Some("b c.js"), Some(9)));
        assert_eq!(place(20, 0x501f), (Some("b c.js"), Some(9)));
        assert_eq!(place(11, 0x2000), (None, None));
    }
}

#[test]
fn truncation_keeps_earlier_entries() {
    let mut writer = Writer::new(false);
    writer.load(100, 1, 0x1000, 0x10, b"first");
    let first_end = writer.bytes.len();
    writer.load(200, 2, 0x2000, 0x10, b"second");
    for length in 0..writer.bytes.len() {
        match JitDump::parse(&writer.bytes[..length]) {
            Ok(dump) => {
                assert!(length >= 40);
                assert_eq!(name(&dump, 300, 0x1000), (length >= first_end).then_some("first"));
                assert_eq!(name(&dump, 300, 0x2000), None);
                let complete = if length >= first_end { first_end } else { 40 };
                assert_eq!(dump.truncated_bytes(), (length - complete) as u64);
            }
            Err(_) => assert!(length < 40),
        }
    }
}

#[test]
fn damage_is_counted() {
    let mut writer = Writer::new(false);
    writer.debug_info(10, 0x1000, u64::MAX, &[(0x1000, 7, "a.js")]);
    writer.move_code(10, 77, 0, 0, 10);
    writer.load(10, 1, u64::MAX - 2, 0x10, b"beyond the last address");
    writer.load(10, 1, 0x1000, 0, b"empty");
    writer.record(0, 10, |_| {});
    writer.record(4, 10, |_| {});
    writer.record(999, 10, |_| {});
    writer.load(10, 1, 0x1000, 0x10, b"caf\xe9");
    writer.move_code(11, 1, 0x1000, u64::MAX, 0x10);
    let good = writer.bytes.len();
    writer.u32(0);
    writer.u32(3); // a record shorter than its header
    writer.u64(0);
    let dump = JitDump::parse(&writer.bytes).unwrap();
    assert_eq!(dump.bad_records(), 6);
    assert_eq!(dump.truncated_bytes(), (writer.bytes.len() - good) as u64);
    assert_eq!(name(&dump, 20, 0x1000), Some("caf\u{fffd}"));
}

#[test]
fn other_formats_and_clocks_are_refused() {
    assert!(matches!(
        JitDump::parse(b"\x7fELF and so on, and on, and on, and on, and on"),
        Err(JitDumpError::Header(_))
    ));
    let mut cycles = Writer::new(false).bytes;
    cycles[32] = 1;
    let error = JitDump::parse(&cycles).unwrap_err();
    assert!(error.to_string().contains("CLOCK_MONOTONIC"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes(mut contents in prop::collection::vec(any::<u8>(), 0..600), big: bool, time: u64, address: u64) {
        let mut file = Writer::new(big).bytes;
        file.append(&mut contents);
        if let Ok(dump) = JitDump::parse(&file) {
            dump.lookup(time, address);
        }
    }

    #[test]
    fn any_header(contents in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = JitDump::parse(&contents);
        let _ = JitDump::parse(&[b"JiTD", &*contents].concat());
        let _ = JitDump::parse(&[b"DTiJ", &*contents].concat());
    }

    #[test]
    fn flipped_bytes(at in 40_usize..300, value: u8) {
        let mut writer = Writer::new(false);
        writer.debug_info(10, 0x1000, 1, &[(0x1000, 7, "a.js")]);
        writer.load(10, 1, 0x1000, 0x10, b"first");
        writer.move_code(20, 1, 0x1000, 0x2000, 0x10);
        let at = at.min(writer.bytes.len() - 1);
        writer.bytes[at] = value;
        if let Ok(dump) = JitDump::parse(&writer.bytes) {
            dump.lookup(20, 0x2000);
        }
    }
}
