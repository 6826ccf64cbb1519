//! Waits for disks, and the requests that ended them.

use crate::emulated::is_emulated;
use crate::harness::skip::{needs_capture, skip};
use crate::run::{Request, Run, Wait, record};

/// Asserts that the wait was caused by a request for that offset of that file.
#[track_caller]
fn expect_cause(wait: &Wait, file: Option<&str>, offset: Option<u64>) {
    assert_eq!(wait.cause.as_deref(), Some("request"), "{wait:?}");
    assert_eq!(wait.cause_file.as_deref(), file, "{wait:?}");
    if offset.is_some() {
        assert_eq!(wait.cause_offset, offset, "{wait:?}");
    }
}

/// Bytes read from the file by requests with this source.
fn read_of(requests: &[Request], file: Option<&str>, source: &str) -> u64 {
    let of_it = |request: &&Request| {
        request.operation == "read" && request.file.as_deref() == file && request.source.as_deref() == Some(source)
    };
    requests.iter().filter(of_it).map(|request| request.bytes).sum()
}

#[test]
fn direct_buffered_and_in_memory() {
    needs_capture!();
    let Some(run) = record("disk") else { return };
    let Some(requests) = run.requests() else { return };
    for (name, source) in [("direct", "direct"), ("buffered", "cache")] {
        run.expect_times(name);
        let file = run.episodes(name)[0].file.as_deref();
        for (episode, wait) in run.expect_waits(name, &["disk"], &["pread64"]) {
            assert_eq!(wait.file, episode.file, "{wait:?}");
            // A direct read consists of several requests: the last one ended the wait.
            expect_cause(wait, file, (name == "buffered").then_some(episode.offset));
        }
        expect_requests_of(&run, &requests, name, source);
        let asked: u64 = run.episodes(name).iter().map(|episode| episode.bytes).sum();
        assert_eq!(read_of(&requests, file, source), asked, "{name}");
    }
    // Data in memory causes no wait.
    run.expect_times("hit");
    for episode in run.episodes("hit") {
        assert_eq!(episode.switches, 0, "{episode:?}");
    }
    run.expect_waits("hit", &["disk"], &[]);
}

#[test]
fn two_threads_that_wait_for_one_page() {
    needs_capture!();
    let Some(run) = record("together") else { return };
    if run.requests().is_none() {
        return;
    }
    let waits = ["one", "other"].map(|name| {
        run.expect_times(name);
        run.expect_waits(name, &["disk"], &["pread64"])
    });
    let tids = ["one", "other"].map(|name| run.episodes(name)[0].tid);
    let (mut both, mut late) = (0, 0);
    for (episode, one) in &waits[0] {
        let Some((_, other)) = waits[1].iter().find(|(other, _)| other.is_same_page(episode)) else {
            continue;
        };
        both += 1;
        // While a CPU is stopped, by an emulator or by a busy host, an interrupt takes longer from the request's end to the wakeup
        // than the rule allows for another thread's request.
        if [one, other].iter().any(|wait| wait.cause.is_none()) {
            late += 1;
            continue;
        }
        for wait in [one, other] {
            expect_cause(wait, episode.file.as_deref(), Some(episode.offset));
            assert!(tids.map(Some).contains(&wait.cause_tid), "{wait:?}");
        }
        assert_eq!(one.cause_sector, other.cause_sector, "{one:?}\n{other:?}");
        assert_eq!(one.cause_tid, other.cause_tid, "{one:?}\n{other:?}");
    }
    let may_be_late = if is_emulated() { both / 4 } else { 1 };
    assert!(late <= may_be_late, "{late} of {both} pairs of waits have no request");
    if both == 0 {
        skip("no page found both threads waiting for it");
    }
}

#[test]
fn io_uring() {
    needs_capture!();
    let Some(run) = record("uring") else { return };
    let Some(requests) = run.requests() else { return };
    for name in ["direct", "direct by a worker", "buffered"] {
        run.expect_times(name);
        // The thread may have to wait for memory for a request before it waits for the request's end.
        run.expect_waits(name, &["poll", "disk"], &["io_uring_enter"]);
    }
    let asked = |name: &str| run.episodes(name).iter().map(|episode| episode.bytes).sum::<u64>();
    let file = run.episodes("buffered")[0].file.as_deref();
    assert_eq!(read_of(&requests, file, "cache"), asked("buffered"));
    expect_requests_of(&run, &requests, "buffered", "cache");
    // Direct requests have their file as well, although no system call has its descriptor, and a kernel worker may queue them.
    let file = run.episodes("direct")[0].file.as_deref();
    let both = asked("direct") + asked("direct by a worker");
    assert_eq!(read_of(&requests, file, "direct"), both);
    for name in ["direct", "direct by a worker"] {
        expect_requests_of(&run, &requests, name, "direct");
    }
}

#[test]
fn memory_swapped_out_and_in() {
    needs_capture!();
    let Some(run) = record("swap") else { return };
    let Some(requests) = run.requests() else { return };
    // Regardless of the submitter, as the kernel counts too.
    for (operation, name) in [("write", "out"), ("read", "in")] {
        let of_swap = requests
            .iter()
            .filter(|one| one.operation == operation && one.source.as_deref() == Some("swap"))
            .inspect(|one| assert_eq!((&one.file, one.offset), (&None, None), "{one:?}"));
        let bytes: u64 = of_swap.map(|one| one.bytes).sum();
        assert_eq!(bytes, run.episodes(name)[0].bytes, "{operation}");
    }
}

/// Asserts that the requests for the reads of the episodes with that name belong to the recorded process, are at the offsets that
/// the program read, and cover everything it read.
fn expect_requests_of(run: &Run, requests: &[Request], name: &str, source: &str) {
    for episode in run.episodes(name) {
        let range = episode.offset..episode.offset + episode.bytes;
        let of_it = requests.iter().filter(|request| {
            request.operation == "read"
                && request.file == episode.file
                && request.source.as_deref() == Some(source)
                && request.offset.is_some_and(|offset| range.contains(&offset))
        });
        let mut bytes = 0;
        for request in of_it {
            assert_eq!(request.pid, Some(episode.pid), "{request:?}");
            assert!(request.end_ns.is_some_and(|end| end > request.time_ns), "{request:?}");
            assert!(request.offset.unwrap() + request.bytes <= range.end, "{request:?}");
            bytes += request.bytes;
        }
        assert_eq!(bytes, episode.bytes, "{episode:?}");
    }
}
