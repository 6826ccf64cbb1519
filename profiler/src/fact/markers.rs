//! Markers that a program wrote itself: `marker-PID.txt`, one a line, as Firefox and samply define it.
//!
//! `START END NAME`: both times are `CLOCK_MONOTONIC` in ns; the name is the rest of the line. An instant has its start twice.

use crate::addr::Timestamp;

/// Markers of one file that are kept, at most.
const LIMIT: usize = 1_000_000;
/// Bytes of a name that are kept.
const NAME_LIMIT: usize = 4096;

/// One marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramMarker {
    /// When it began.
    pub start: Timestamp,
    /// When it ended; `None`: an instant.
    pub end: Option<Timestamp>,
    /// Its text.
    pub name: String,
}

/// The markers of a file in time order, and the count of lines that are none.
pub fn parse(bytes: &[u8]) -> (Vec<ProgramMarker>, u64) {
    let mut markers = Vec::new();
    let mut bad = 0;
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        match marker(line) {
            Some(marker) if markers.len() < LIMIT => markers.push(marker),
            _ => bad += 1,
        }
    }
    markers.sort_by_key(|marker| (marker.start, marker.end));
    (markers, bad)
}

fn marker(line: &[u8]) -> Option<ProgramMarker> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let mut time = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let (start, end) = (time()?, time()?);
    let name = words.next().filter(|name| !name.is_empty())?;
    if end < start {
        return None;
    }
    let name = String::from_utf8_lossy(&name[..name.len().min(NAME_LIMIT)]).into_owned();
    Some(ProgramMarker {
        start: Timestamp(start),
        end: (end > start).then_some(Timestamp(end)),
        name,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_markers_and_garbage_is_counted() {
        let text = b"20 30 second one\n5 5 an instant\n\nx y z\n9 8 backwards\n7 8\n\xff\xfe 1 2\n1 2 \xff\n";
        let (markers, bad) = parse(text);
        let names: Vec<&str> = markers.iter().map(|marker| marker.name.as_str()).collect();
        assert_eq!(names, ["\u{fffd}", "an instant", "second one"]);
        assert_eq!((markers[1].end, markers[2].end), (None, Some(Timestamp(30))));
        assert_eq!(bad, 4);
    }

    proptest! {
        #[test]
        fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }
    }
}
