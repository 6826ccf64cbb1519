//! Requests survive being packed into rows and unpacked.

use proptest::prelude::*;

use super::*;
use crate::io::Facts;
use fact::BioFact;

prop_compose! {
    fn request()(
        // Many start at the same time.
        (start, end, sector) in (0..4_u64, 4..8_u64, 0..3_u64),
        (device, bytes, depth, requeues, error) in (0..2_u32, any::<u32>(), any::<u32>(), any::<u32>(), any::<i32>()),
        (operation, coverage) in (0..Operation::ALL.len(), 0..RequestCoverage::ALL.len()),
        [scheduled, bio_only, read_ahead, sync, metadata, fua] in any::<[bool; 6]>(),
        times in any::<(Option<u64>, Option<u64>)>(),
        bios in prop::collection::vec(bio(), 0..4),
    ) -> RequestFact {
        RequestFact {
            start: Timestamp(start),
            end: Timestamp(end),
            device: DeviceId(device),
            sector, bytes,
            operation: Operation::ALL[operation],
            kind: RequestKind { read_ahead, sync, metadata, fua },
            queued: times.0.map(Duration::from_nanos),
            service: times.1.map(Duration::from_nanos),
            scheduled, depth, error, requeues,
            coverage: RequestCoverage::ALL[coverage],
            bio_only, bios,
        }
    }
}

prop_compose! {
    fn bio()(
        (time, sector) in any::<(u64, u64)>(),
        (pid, tid, bytes, in_fault) in any::<(u32, u32, u32, bool)>(),
        name in "[ab]{0,2}",
        [thread, stack, file, call] in prop::array::uniform4(prop::option::of(0..NONE)),
        offset in any::<Option<u64>>(),
        source in 0..BioSource::ALL.len(),
    ) -> BioFact {
        BioFact {
            time: Timestamp(time),
            pid, tid, name, bytes, sector, offset, in_fault, call,
            thread: thread.map(ThreadId),
            stack: stack.map(StackId::new),
            file: file.map(MappedFileId),
            source: BioSource::ALL[source],
        }
    }
}

/// Turns a request read back into the original fact, with the names of its parts.
fn restored(facts: &Facts, asked: Asked) -> RequestFact {
    let bio = |part: Part| BioFact {
        time: part.time,
        pid: part.pid,
        tid: part.tid,
        name: facts.names[part.name as usize].clone(),
        thread: part.thread,
        stack: part.stack,
        sector: 0,
        bytes: part.bytes,
        file: part.file,
        offset: part.offset,
        source: part.source,
        in_fault: part.in_fault,
        call: part.call,
    };
    RequestFact {
        bios: asked.parts.into_iter().map(bio).collect(),
        ..asked.request
    }
}

proptest! {
    #[test]
    fn kept_requests_round_trip(requests in prop::collection::vec(request(), 1..20)) {
        use fact::{FactSink as _, Tables};
        let mut facts = Facts::default();
        let mut requests = requests;
        for request in &requests {
            facts.request(&Tables::default(), request);
        }
        // No report needs a part's own sector.
        requests.iter_mut().flat_map(|request| &mut request.bios).for_each(|bio| bio.sector = 0);
        requests.sort_by_key(|request| request.start);
        let ordered = facts.ordered();
        let kept: Vec<RequestFact> = ordered.iter().map(|asked| restored(&facts, asked)).collect();
        prop_assert_eq!(kept, requests);
    }
}

#[test]
fn row_size_matches_the_documentation() {
    assert_eq!(
        (size_of::<RequestRow>(), size_of::<PartRow>(), size_of::<WaitedRow>()),
        (72, 64, 40)
    );
}
