//! Parses `PERF_RECORD_MMAP2` and related records. The kernel writes them; the path in them is chosen by the program.

use base::addr::{Avma, FileOffset, Timestamp};
use base::event::{At, FileId, Mapping};

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_THROTTLE: u32 = 5;
const PERF_RECORD_MMAP2: u32 = 10;
/// `PERF_RECORD_MISC_MMAP_BUILD_ID`: a build id in place of device and inode. We never request it.
const MISC_BUILD_ID: u16 = 1 << 14;

/// A perf record of one of the kinds that are used.
#[derive(Debug, PartialEq, Eq)]
pub enum Record {
    /// A new mapping.
    Mapping(Mapping),
    /// This many records did not fit into the ring.
    Lost(u64),
    /// The sampling event was stopped for the rest of a tick.
    Throttled,
}

/// Parses what follows a record's header. `None`: another kind, or too short.
pub fn parse(kind: u32, misc: u16, record: &[u8]) -> Option<Record> {
    match kind {
        PERF_RECORD_LOST => number(record, 8).map(Record::Lost),
        PERF_RECORD_THROTTLE => Some(Record::Throttled),
        PERF_RECORD_MMAP2 if misc & MISC_BUILD_ID == 0 => mapping(record).map(Record::Mapping),
        _ => None,
    }
}

/// pid, tid: u32; address, length, page offset: u64; major, minor: u32; inode, generation: u64; protection, flags: u32;
/// path, NUL-padded to 8 bytes; then, as `sample_id_all`: pid, tid: u32; time: u64.
fn mapping(record: &[u8]) -> Option<Mapping> {
    const FIXED: usize = 64;
    const TRAILER: usize = 16;
    let end = record.len().checked_sub(TRAILER)?;
    let path = record.get(FIXED..end)?.split(|&byte| byte == 0).next()?;
    Some(Mapping {
        at: At {
            time: Timestamp(number(record, end + 8)?),
            pid: word(record, 0)?,
            tid: word(record, 4)?,
        },
        start: Avma(number(record, 8)?),
        len: number(record, 16)?,
        offset: FileOffset(number(record, 24)?),
        file: FileId {
            major: word(record, 32)?,
            minor: word(record, 36)?,
            inode: number(record, 40)?,
            generation: word(record, 48)?,
        },
        protection: word(record, 56)?,
        flags: word(record, 60)?,
        path: path.to_vec(),
        build_id: Vec::new(),
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_mapping() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let numbers = |numbers: &[u64]| {
            numbers
                .iter()
                .flat_map(|number| number.to_ne_bytes())
                .collect::<Vec<u8>>()
        };
        let record = [
            words(&[10, 11]),
            numbers(&[0x7000, 0x2000, 0x1000]),
            words(&[8, 1]),
            numbers(&[77, 9]),
            words(&[5, 2]),
            b"/tmp/a\nb\0\0\0\0\0\0\0\0".to_vec(),
            words(&[10, 11]),
            numbers(&[123_456]),
        ]
        .concat();
        let expected = Mapping {
            at: At {
                time: Timestamp(123_456),
                pid: 10,
                tid: 11,
            },
            start: Avma(0x7000),
            len: 0x2000,
            offset: FileOffset(0x1000),
            file: FileId {
                major: 8,
                minor: 1,
                inode: 77,
                generation: 9,
            },
            protection: 5,
            flags: 2,
            path: b"/tmp/a\nb".to_vec(),
            build_id: Vec::new(),
        };
        assert_eq!(parse(PERF_RECORD_MMAP2, 0, &record), Some(Record::Mapping(expected)));
        for len in 0..80 {
            assert_eq!(parse(PERF_RECORD_MMAP2, 0, &record[..len]), None);
        }
        assert_eq!(parse(PERF_RECORD_LOST, 0, &numbers(&[1, 42])), Some(Record::Lost(42)));
    }
}
