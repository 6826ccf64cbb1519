//! Finds the chunks of a log by their frames, without reading payloads; after damage, it continues
//! at the next frame.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use super::format::{CHUNK_MAGIC, FILE_HEADER_LEN, FILE_MAGIC, FRAME_LEN, Frame, OLDEST_VERSION, VERSION};

/// Bytes searched for a frame at once.
const WINDOW: usize = 64 << 10;

/// Location of a chunk's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its frame.
    pub frame: Frame,
    /// Offset of its payload in the file.
    pub payload: u64,
}

impl Chunk {
    /// Offset of the end of its payload.
    pub fn end(&self) -> u64 {
        self.payload + u64::from(self.frame.len)
    }
}

/// The chunks of a log.
#[derive(Debug, Default)]
pub struct Index {
    /// The chunks in file order.
    pub chunks: Vec<Chunk>,
    /// Chunks with damaged frames, or with payloads cut off by the end of the file: a lower bound.
    pub lost: u64,
    /// Size of the file in bytes.
    pub len: u64,
}

/// Checks that the input is a log of a supported version.
///
/// # Errors
/// [`ErrorKind::InvalidData`] with the remedy if it is not; other kinds if reading fails.
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

/// Reads every frame. `input` is positioned after the file header; its position afterwards is
/// unspecified.
///
/// # Errors
/// Reading fails; damage is counted in [`Index::lost`].
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
            // The number of missing chunks by sequence, if that many fit in the gap.
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

/// The frame at this offset, if there is a valid one.
fn frame_at<R: Read + Seek>(input: &mut R, at: u64) -> io::Result<Option<Frame>> {
    input.seek(SeekFrom::Start(at))?;
    let mut bytes = [0; FRAME_LEN];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(Frame::decode(&bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The first valid frame at or after `from` whose sequence can follow: a recorded stack might
/// contain the image of a frame.
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

/// End of the last complete chunk, and the sequence number of the next one.
///
/// # Errors
/// The file is not an event log of this version, or can't be read.
pub fn find_end<R: Read + Seek>(input: &mut R) -> io::Result<(u64, u64)> {
    input.seek(SeekFrom::Start(0))?;
    check_file_header(input)?;
    let index = index(input)?;
    let Some(last) = index.chunks.last() else {
        return Ok((FILE_HEADER_LEN as u64, 0));
    };
    Ok((last.end(), last.frame.sequence.saturating_add(1)))
}
