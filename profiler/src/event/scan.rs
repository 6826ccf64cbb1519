//! Finds the chunks of a log by their frames alone, without reading payloads; behind damage it goes on at the next frame.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use super::format::{CHUNK_MAGIC, FILE_HEADER_LEN, FILE_MAGIC, FRAME_LEN, Frame, OLDEST_VERSION, VERSION};

/// Bytes that are searched for a frame at a time.
const WINDOW: usize = 64 << 10;

/// Where a chunk's payload lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its frame.
    pub frame: Frame,
    /// Offset of its payload in the file.
    pub payload: u64,
}

impl Chunk {
    /// Offset of the byte behind its payload.
    pub fn end(&self) -> u64 {
        self.payload + u64::from(self.frame.len)
    }
}

/// The chunks of a log.
#[derive(Debug, Default)]
pub struct Index {
    /// In the order of the file.
    pub chunks: Vec<Chunk>,
    /// Chunks whose frames are damaged or whose payload ends with the file: at least so many.
    pub lost: u64,
    /// Bytes of the file.
    pub len: u64,
}

/// Checks that a log begins here, and that this version can read it.
///
/// # Errors
/// [`ErrorKind::InvalidData`] with the remedy when it can't; others when reading fails.
pub fn check_file_header(input: &mut impl Read) -> io::Result<()> {
    let mut bytes = [0; FILE_HEADER_LEN];
    let invalid = |text: String| Err(io::Error::new(ErrorKind::InvalidData, text));
    match input.read_exact(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return invalid("not an event log: too short; name a file that `ngmi record --keep-events` wrote".into());
        }
        result => result?,
    }
    if bytes[..8] != FILE_MAGIC {
        return invalid("not an event log; name a file that `ngmi record --keep-events` wrote".into());
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if (OLDEST_VERSION..=VERSION).contains(&version) {
        return Ok(());
    }
    let which = if version > VERSION { "a newer" } else { "an older" };
    invalid(format!(
        "this event log has format version {version}, and this ngmi reads versions {OLDEST_VERSION} to {VERSION}; \
         convert it with {which} ngmi, or record again"
    ))
}

/// Reads every frame. `input` stands behind the file header; where it stands afterwards is undefined.
///
/// # Errors
/// When reading fails; damage is counted in [`Index::lost`].
pub fn index<R: Read + Seek>(input: &mut R) -> io::Result<Index> {
    let len = input.seek(SeekFrom::End(0))?;
    let mut index = Index {
        len,
        ..Index::default()
    };
    let mut at = FILE_HEADER_LEN as u64;
    let mut expected = 0;
    while at < len {
        let frame = frame_at(input, at)?;
        let (frame, start) = if let Some(frame) = frame {
            (frame, at)
        } else {
            let Some((frame, start)) = resynchronise(input, at + 1, len, expected)? else {
                index.lost += 1;
                break;
            };
            // As many as the sequence says are missing, if so many can have been there.
            let room = (start - at) / FRAME_LEN as u64;
            index.lost += frame.sequence.saturating_sub(expected).clamp(1, room.max(1));
            (frame, start)
        };
        let chunk = Chunk {
            frame,
            payload: start + FRAME_LEN as u64,
        };
        expected = frame.sequence.saturating_add(1);
        at = chunk.end();
        if at > len {
            index.lost += 1;
        } else {
            index.chunks.push(chunk);
        }
    }
    Ok(index)
}

/// The frame at this offset, if a good one is there.
fn frame_at<R: Read + Seek>(input: &mut R, at: u64) -> io::Result<Option<Frame>> {
    input.seek(SeekFrom::Start(at))?;
    let mut bytes = [0; FRAME_LEN];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(Frame::decode(&bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The first good frame at or behind `from` whose sequence can follow: a recorded stack might hold the image of a frame.
fn resynchronise<R: Read + Seek>(
    input: &mut R,
    from: u64,
    len: u64,
    expected: u64,
) -> io::Result<Option<(Frame, u64)>> {
    let mut window = Vec::with_capacity(WINDOW + FRAME_LEN);
    let mut at = from;
    while at + FRAME_LEN as u64 <= len {
        window.clear();
        input.seek(SeekFrom::Start(at))?;
        input.take((WINDOW + FRAME_LEN - 1) as u64).read_to_end(&mut window)?;
        let starts = window.len().saturating_sub(FRAME_LEN - 1);
        for start in (0..starts).filter(|start| window[*start..].starts_with(&CHUNK_MAGIC)) {
            let Some(frame) = Frame::decode(&window[start..]) else {
                continue;
            };
            let place = at + start as u64;
            let most = expected.saturating_add((place - from) / FRAME_LEN as u64 + 1);
            if (expected..=most).contains(&frame.sequence) {
                return Ok(Some((frame, place)));
            }
        }
        at += WINDOW as u64;
    }
    Ok(None)
}

/// End of the last whole chunk, and the sequence number that the next one gets.
///
/// # Errors
/// When the file is no event log of this version, or can't be read.
pub fn find_end<R: Read + Seek>(input: &mut R) -> io::Result<(u64, u64)> {
    input.seek(SeekFrom::Start(0))?;
    check_file_header(input)?;
    let index = index(input)?;
    let Some(last) = index.chunks.last() else {
        return Ok((FILE_HEADER_LEN as u64, 0));
    };
    Ok((last.end(), last.frame.sequence.saturating_add(1)))
}
