//! Bios and requests with a relation known by construction.

use proptest::prelude::*;

use super::*;
use crate::request::BioSource;
use base::event::At;

const DISK: Device = Device { major: 254, minor: 0 };
const OTHER: Device = Device { major: 254, minor: 16 };

/// A bio of which only time, sector and submitter matter; file offsets are a thousand above disk offsets.
fn bio(time: u64, tid: u32, sector: u64, sectors: u32) -> BioFact {
    BioFact {
        time: Timestamp(time),
        pid: tid,
        tid,
        name: String::new(),
        thread: None,
        stack: None,
        sector,
        bytes: sectors * 512,
        file: None,
        offset: Some((sector + 1000) * 512),
        source: BioSource::Cache,
        in_fault: false,
        call: None,
    }
}

fn request(end: u64, sector: u64, sectors: u32) -> Request {
    Request {
        at: At {
            time: Timestamp(end),
            ..At::default()
        },
        device: DISK,
        sector,
        bytes: sectors * 512,
        ..Request::default()
    }
}

/// Which submitter has which sectors of the request.
fn taken(blocks: &mut Blocks, request: &Request) -> Vec<(u32, u64, u32)> {
    let bios = blocks.complete(request);
    for bio in &bios {
        assert!(bio.bytes == 0 || bio.offset == Some((bio.sector + 1000) * 512));
    }
    bios.iter().map(|bio| (bio.tid, bio.sector, bio.bytes / 512)).collect()
}

#[test]
fn one_in_one() {
    let mut blocks = Blocks::default();
    blocks.bio(DISK, operation::READ | operation::READ_AHEAD, bio(1, 7, 100, 8));
    let elsewhere = Request {
        device: OTHER,
        ..request(5, 100, 8)
    };
    assert_eq!(taken(&mut blocks, &elsewhere), []);
    let write = Request {
        operation: operation::WRITE,
        ..request(5, 100, 8)
    };
    assert_eq!(taken(&mut blocks, &write), []);
    assert_eq!(taken(&mut blocks, &request(5, 100, 8)), [(7, 100, 8)]);
    assert_eq!(taken(&mut blocks, &request(6, 100, 8)), [], "it is used up");
    assert!(blocks.finish().is_empty());
}

#[test]
fn merged_at_both_ends() {
    let mut blocks = Blocks::default();
    blocks.bio(DISK, 0, bio(1, 1, 108, 8));
    blocks.bio(DISK, 0, bio(2, 2, 116, 16));
    blocks.bio(DISK, 0, bio(3, 3, 100, 8));
    let all = [(3, 100, 8), (1, 108, 8), (2, 116, 16)];
    assert_eq!(taken(&mut blocks, &request(9, 100, 32)), all);
}

#[test]
fn split_over_three() {
    let mut blocks = Blocks::default();
    blocks.bio(DISK, 0, bio(1, 1, 0, 2560));
    assert_eq!(taken(&mut blocks, &request(5, 1024, 1024)), [(1, 1024, 1024)]);
    assert_eq!(taken(&mut blocks, &request(6, 0, 1024)), [(1, 0, 1024)]);
    let [rest] = blocks.finish().try_into().unwrap();
    assert_eq!((rest.bio.sector, rest.bio.bytes, rest.device), (2048, 512 * 512, DISK));
}

#[test]
fn the_older_of_two_requests_at_one_sector_is_first() {
    let mut blocks = Blocks::default();
    blocks.bio(DISK, 0, bio(1, 1, 64, 8));
    blocks.bio(DISK, 0, bio(4, 2, 64, 8));
    let first = Request {
        issued: Some(Timestamp(2)),
        ..request(9, 64, 8)
    };
    assert_eq!(taken(&mut blocks, &first), [(1, 64, 8)]);
    assert_eq!(taken(&mut blocks, &request(10, 64, 8)), [(2, 64, 8)]);
    // A bio queued after the issue can't be in the request.
    blocks.bio(DISK, 0, bio(20, 3, 64, 8));
    let early = Request {
        issued: Some(Timestamp(19)),
        ..request(21, 64, 8)
    };
    assert_eq!(taken(&mut blocks, &early), []);
}

#[test]
fn a_lost_request_does_not_take_the_next_one() {
    let mut blocks = Blocks::default();
    blocks.bio(DISK, 0, bio(1, 1, 64, 8));
    blocks.bio(DISK, 0, bio(50, 2, 64, 8));
    let second = Request {
        queued: Some(Timestamp(50)),
        ..request(60, 64, 8)
    };
    assert_eq!(taken(&mut blocks, &second), [(2, 64, 8)]);
    let [lost] = blocks.finish().try_into().unwrap();
    assert_eq!(lost.bio.tid, 1);
}

#[test]
fn a_smaller_one_inside_belongs_to_the_smaller_request() {
    let mut blocks = Blocks::default();
    blocks.bio(DISK, 0, bio(1, 1, 0, 64));
    blocks.bio(DISK, 0, bio(2, 2, 32, 8));
    assert_eq!(taken(&mut blocks, &request(8, 32, 8)), [(2, 32, 8)]);
    assert_eq!(taken(&mut blocks, &request(9, 0, 64)), [(1, 0, 64)]);
}

#[test]
fn a_flush_completes_all_earlier_waiters() {
    let mut blocks = Blocks::default();
    let preflush = operation::WRITE | operation::PREFLUSH;
    blocks.bio(DISK, preflush, bio(1, 1, 0, 0));
    blocks.bio(DISK, operation::FLUSH, bio(2, 2, 0, 0));
    blocks.bio(DISK, preflush, bio(5, 3, 0, 0));
    let flush = |issued, end| Request {
        operation: operation::FLUSH,
        issued: Some(Timestamp(issued)),
        ..request(end, 0, 0)
    };
    assert_eq!(taken(&mut blocks, &flush(3, 6)), [(1, 0, 0), (2, 0, 0)]);
    assert_eq!(taken(&mut blocks, &flush(6, 9)), [(3, 0, 0)]);
    // Data behind a flush: the flush belongs to its submitter, the data follows in a separate request.
    blocks.bio(DISK, preflush | operation::FUA, bio(10, 4, 800, 8));
    assert_eq!(taken(&mut blocks, &flush(11, 12)), [(4, 800, 0)]);
    let write = Request {
        operation: operation::WRITE,
        ..request(20, 800, 8)
    };
    assert_eq!(taken(&mut blocks, &write), [(4, 800, 8)]);
}

#[test]
fn memory_is_bounded() {
    let mut blocks = Blocks::default();
    let many = MAX_WAITING as u64 + 5;
    for number in 0..many {
        blocks.bio(DISK, 0, bio(number, 1, number * 8, 8));
    }
    assert_eq!(blocks.forgotten(), 5);
    assert_eq!(taken(&mut blocks, &request(many, 0, 8)), [], "the oldest gave way");
    assert_eq!(taken(&mut blocks, &request(many, 40, 8)), [(1, 40, 8)]);
    assert_eq!(blocks.finish().len(), MAX_WAITING - 1);
}

/// Two rounds at the same sectors: adjacent bios, queued in some order, and requests that cut the range elsewhere.
#[derive(Debug, Clone)]
struct Round {
    bios: Vec<u32>,
    requests: Vec<u32>,
    order: Vec<u64>,
}

fn round() -> impl Strategy<Value = Round> {
    let lengths = || prop::collection::vec(1..40_u32, 1..12);
    (lengths(), lengths(), prop::collection::vec(any::<u64>(), 40)).prop_map(|(bios, mut requests, order)| {
        // Both cover the same range.
        let total: u32 = bios.iter().sum();
        let mut sum = 0;
        requests.retain_mut(|length| {
            *length = (*length).min(total - sum);
            sum += *length;
            *length > 0
        });
        if sum < total {
            requests.push(total - sum);
        }
        Round { bios, requests, order }
    })
}

/// Lengths as ranges, in the order of randomly drawn numbers.
fn placed(lengths: &[u32], order: &[u64]) -> Vec<(u64, u32)> {
    let mut sector = 5000;
    let mut placed: Vec<(u64, u64, u32)> = Vec::new();
    for (length, lot) in lengths.iter().zip(order) {
        placed.push((*lot, sector, *length));
        sector += u64::from(*length);
    }
    placed.sort_unstable();
    placed.into_iter().map(|(_, sector, length)| (sector, length)).collect()
}

proptest! {
    #[test]
    fn every_sector_has_one_correct_requester(rounds in prop::collection::vec(round(), 1..4)) {
        let mut blocks = Blocks::default();
        let mut time = 0;
        for round in &rounds {
            let mut who = std::collections::HashMap::new();
            for (tid, (sector, length)) in (0..).zip(placed(&round.bios, &round.order)) {
                time += 1;
                blocks.bio(DISK, 0, bio(time, tid, sector, length));
                who.extend((sector..sector + u64::from(length)).map(|sector| (sector, tid)));
            }
            let reversed: Vec<u64> = round.order.iter().rev().copied().collect();
            for (sector, length) in placed(&round.requests, &reversed) {
                time += 1;
                let mut next = sector;
                for (tid, sector, length) in taken(&mut blocks, &request(time, sector, length)) {
                    prop_assert_eq!(sector, next, "neither a gap nor an overlap");
                    next += u64::from(length);
                    for sector in sector..next {
                        prop_assert_eq!(who.remove(&sector), Some(tid));
                    }
                }
                prop_assert_eq!(next, sector + u64::from(length));
            }
            prop_assert!(who.is_empty());
        }
        prop_assert!(blocks.finish().is_empty());
    }

    #[test]
    fn hostile_numbers_never_panic(
        steps in prop::collection::vec((any::<bool>(), any::<u64>(), 0..40_u64, any::<u32>(), any::<u32>()), 0..60),
    ) {
        let mut blocks = Blocks::default();
        for (is_bio, far, near, bytes, kind) in steps {
            let sector = if kind & 256 == 0 { near } else { far };
            let operation = kind & 0x1003;
            if is_bio {
                blocks.bio(DISK, operation, BioFact { bytes, sector, offset: Some(far), ..bio(near, 1, 0, 0) });
            } else {
                let issued = Some(Timestamp(far));
                blocks.complete(&Request { sector, bytes, operation, issued, ..request(near, 0, 0) });
            }
        }
        blocks.finish();
    }
}
