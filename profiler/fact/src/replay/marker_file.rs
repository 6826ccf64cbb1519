//! Markers that a program wrote: `marker-PID.txt` or `marker-PID-TID.txt`, in the format that Firefox writes and
//! samply reads.
//!
//! One marker per line: start and end (`CLOCK_MONOTONIC` in ns) and its text, separated by one space each.

use base::addr::Timestamp;
use base::event::Attachment;

/// Longest text of a marker, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// One marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramMarker {
    /// When it began or happened.
    pub start: Timestamp,
    /// When it ended; `None` for an instant.
    pub end: Option<Timestamp>,
    /// The process that wrote it.
    pub pid: u32,
    /// The thread that it belongs to; `None` for the process's first one.
    pub tid: Option<u32>,
    /// The text.
    pub text: String,
}

/// Parses a marker file. Also returns the number of malformed lines.
pub fn parse(attachment: &Attachment) -> (Vec<ProgramMarker>, u64) {
    let tid = thread_of(&attachment.path);
    let (mut markers, mut bad) = (Vec::new(), 0);
    for line in attachment
        .bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        match parse_line(line) {
            Some((start, end, text)) => markers.push(ProgramMarker {
                start,
                end,
                pid: attachment.pid,
                tid,
                text,
            }),
            None => bad += 1,
        }
    }
    (markers, bad)
}

fn parse_line(line: &[u8]) -> Option<(Timestamp, Option<Timestamp>, String)> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let (start, end) = (number(words.next()?)?, number(words.next()?)?);
    let text = words.next()?.trim_ascii();
    if text.is_empty() || end < start {
        return None;
    }
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_TEXT)]).into_owned();
    Some((start, (end > start).then_some(end), text))
}

fn number(word: &[u8]) -> Option<Timestamp> {
    let digits = std::str::from_utf8(word)
        .ok()
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().map(Timestamp)
}

/// The thread in `marker-PID-TID.txt`.
fn thread_of(path: &[u8]) -> Option<u32> {
    let path = std::str::from_utf8(path).ok()?.trim_end_matches(" (deleted)");
    let name = path.rsplit('/').next()?.strip_prefix("marker-")?.strip_suffix(".txt")?;
    name.split_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::AttachmentKind;

    fn file(path: &str, bytes: &[u8]) -> Attachment {
        Attachment {
            kind: AttachmentKind::Markers,
            pid: 7,
            path: path.into(),
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn lines_become_markers() {
        let (markers, bad) = parse(&file(
            "/x/marker-7.txt",
            b"100 200 NotifyObservers profile-do-change\n150 150 Click \xff\n",
        ));
        let marker = |start, end, text: &str| ProgramMarker {
            start,
            end,
            pid: 7,
            tid: None,
            text: text.to_owned(),
        };
        assert_eq!(bad, 0);
        assert_eq!(
            markers,
            [
                marker(
                    Timestamp(100),
                    Some(Timestamp(200)),
                    "NotifyObservers profile-do-change"
                ),
                marker(Timestamp(150), None, "Click \u{fffd}"),
            ]
        );
    }

    #[test]
    fn the_file_name_may_contain_the_thread() {
        assert_eq!(parse(&file("/x/marker-7-12.txt", b"1 2 x")).0[0].tid, Some(12));
        assert_eq!(
            parse(&file("/x/marker-7-12.txt (deleted)", b"1 2 x")).0[0].tid,
            Some(12)
        );
        assert_eq!(parse(&file("/x/marker-7-x.txt", b"1 2 x")).0[0].tid, None);
    }

    #[test]
    fn garbage_is_counted() {
        let bad = b"x\n1 2\n1 2 \n2 1 backwards\n-1 2 sign\n99999999999999999999 99999999999999999999 wide\n1  2 two spaces\n";
        assert_eq!(parse(&file("m", bad)), (Vec::new(), 7));
    }
}
