//! Rows are returned in order, for any memory and disk limit.

use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Pair {
    key: u64,
    number: u64,
}

impl Row for Pair {
    fn key(&self) -> u64 {
        self.key
    }
}

/// A disk with a fixed size in bytes.
#[derive(Debug)]
struct Disk {
    limit: usize,
    bytes: Mutex<Vec<u8>>,
    size: u64,
    fails_to_read: bool,
}

impl Scratch for Disk {
    fn limit(&self) -> usize {
        self.limit
    }

    fn reserve(&self, bytes: u64) -> io::Result<u64> {
        let mut all = self.bytes.lock().unwrap();
        let at = all.len();
        all.resize(at + usize::try_from(bytes).unwrap(), 0);
        Ok(at as u64)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        if at + bytes.len() as u64 > self.size {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let at = usize::try_from(at).unwrap();
        self.bytes.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        if self.fails_to_read {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let at = usize::try_from(at).unwrap();
        into.copy_from_slice(&self.bytes.lock().unwrap()[at..at + into.len()]);
        Ok(())
    }
}

fn disk(limit: usize, size: u64) -> Arc<dyn Scratch> {
    Arc::new(Disk {
        limit,
        bytes: Mutex::default(),
        size,
        fails_to_read: false,
    })
}

fn filled(mut rows: Sorted<Pair>, keys: &[u64]) -> Sorted<Pair> {
    for (key, number) in keys.iter().zip(0..) {
        assert!(rows.push(Pair { key: *key, number }));
    }
    assert_eq!(rows.len() as usize, keys.len());
    rows
}

/// Expected rows, sorted by the standard library.
fn expected(keys: &[u64]) -> Vec<Pair> {
    let mut rows: Vec<Pair> = keys
        .iter()
        .zip(0..)
        .map(|(key, number)| Pair { key: *key, number })
        .collect();
    rows.sort_by_key(|row| row.key);
    rows
}

fn all(rows: &Sorted<Pair>) -> Vec<Pair> {
    let ordered = rows.ordered();
    let all: Vec<Pair> = ordered.iter().collect();
    assert_eq!(ordered.len(), rows.len() as usize);
    assert_eq!(ordered.iter().collect::<Vec<_>>(), all, "both iterations are equal");
    all
}

proptest! {
    #[test]
    fn rows_are_the_same_in_memory_and_on_disk(
        keys in prop::collection::vec(prop_oneof![0..9_u64, any::<u64>()], 0..200),
        limit in 0..600_usize,
        size in prop_oneof![Just(u64::MAX), 0..4000_u64],
    ) {
        let known = expected(&keys);
        prop_assert_eq!(all(&filled(Sorted::default(), &keys)), known.clone());
        prop_assert_eq!(all(&filled(Sorted::beyond_memory(&disk(limit, size)), &keys)), known);
    }
}

#[test]
fn many_blocks_and_batches_are_in_order() {
    // Each key is up to a hundred places late, like facts that are emitted when they end.
    let keys: Vec<u64> = (0..3 * BLOCK as u64).map(|n| 1000 + n - n * 7919 % 100).collect();
    let known = expected(&keys);
    assert_eq!(all(&filled(Sorted::default(), &keys)), known);
    let limit = 50_000 * size_of::<Pair>();
    let rows = filled(Sorted::beyond_memory(&disk(limit, u64::MAX)), &keys);
    assert_eq!(rows.runs.len(), 1);
    assert!(rows.bytes() <= limit + BLOCK * size_of::<Pair>(), "{}", rows.bytes());
    assert_eq!(all(&rows), known);
}

#[test]
fn rows_stay_in_memory_when_the_disk_is_full() {
    let keys: Vec<u64> = (0..100).rev().collect();
    // Ten rows per run; the disk has space for three and a half runs.
    let rows = filled(Sorted::beyond_memory(&disk(160, 560)), &keys);
    assert_eq!((rows.runs.len(), rows.in_memory), (3, 70));
    assert_eq!(all(&rows), expected(&keys));
}

#[test]
fn a_disk_failure_ends_only_its_runs() {
    let scratch: Arc<dyn Scratch> = Arc::new(Disk {
        limit: 160,
        bytes: Mutex::default(),
        size: u64::MAX,
        fails_to_read: true,
    });
    let keys: Vec<u64> = (0..25).collect();
    let rows = filled(Sorted::beyond_memory(&scratch), &keys);
    let left: Vec<u64> = all(&rows).iter().map(|row| row.number).collect();
    assert_eq!(left, [20, 21, 22, 23, 24], "those in memory");
}
