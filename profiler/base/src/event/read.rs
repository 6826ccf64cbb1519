//! Reads an event log. The log is untrusted: every length is limited, damage is skipped and
//! counted, nothing panics.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::bytes::{Bytes, Malformed};
use super::cost::{MAX_PROGRAMS, Thinning};
use super::decode::{Decoder, kernel_symbol};
use super::format::{ChunkKind, MAX_BLOB, MAX_TEXT};
use super::scan::{Chunk, Index, check_file_header, index};
use super::{Attachment, AttachmentKind, Cost, Event, Header, Module, Owners, Usage};

/// Maximum number of segments of a module: ELF's limit.
const MAX_SEGMENTS: usize = 65_535;

/// An open event log.
pub struct LogReader<R> {
    input: BufReader<R>,
    index: Index,
    header: Option<Header>,
    /// For each chunk of the index, whether its payload is damaged. Counted once, however often it
    /// is read.
    damaged: Vec<bool>,
}

impl<R: Read + Seek> LogReader<R> {
    /// Opens a log: checks its version, finds its chunks and reads its header.
    ///
    /// # Errors
    /// The input can't be read, or is not a log of a supported version
    /// ([`io::ErrorKind::InvalidData`], with the remedy). A damaged log can be opened.
    pub fn new(input: R) -> io::Result<Self> {
        let mut input = BufReader::new(input);
        input.seek(SeekFrom::Start(0))?;
        check_file_header(&mut input)?;
        let index = index(&mut input)?;
        let damaged = vec![false; index.chunks.len()];
        let mut reader = Self {
            input,
            index,
            header: None,
            damaged,
        };
        reader.header = reader.read_header()?;
        Ok(reader)
    }

    /// The header; `None` if its chunk is damaged.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Whether there is a chunk of this kind.
    pub fn has(&self, kind: ChunkKind) -> bool {
        self.index.chunks.iter().any(|chunk| chunk.frame.kind == kind as u16)
    }

    /// Size of the log in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.index.len
    }

    /// Number of damaged chunks read so far: [`profiler_common::Loss::LogDamaged`].
    pub fn damaged_chunks(&self) -> u64 {
        self.index.lost + self.damaged.iter().filter(|damaged| **damaged).count() as u64
    }

    /// Iterates over the events in chunks of these kinds, from the beginning of the log.
    pub fn events<'r>(&'r mut self, kinds: &'r [ChunkKind]) -> Events<'r, R> {
        Events {
            log: self,
            kinds,
            next: 0,
            open: None,
            payload: Vec::new(),
            decoder: Decoder::default(),
        }
    }

    fn read_header(&mut self) -> io::Result<Option<Header>> {
        let kind = ChunkKind::Header as u16;
        let Some(number) = self.index.chunks.iter().position(|chunk| chunk.frame.kind == kind) else {
            return Ok(None);
        };
        let mut payload = Vec::new();
        if !self.payload(number, &mut payload)? {
            return Ok(None);
        }
        let header = serde_json::from_slice(&payload).ok();
        self.damaged[number] = header.is_none();
        Ok(header)
    }

    /// Reads a chunk's payload; false if it is damaged.
    fn payload(&mut self, number: usize, payload: &mut Vec<u8>) -> io::Result<bool> {
        let Chunk { frame, payload: at } = self.index.chunks[number];
        payload.clear();
        payload.reserve_exact(frame.len as usize);
        self.input.seek(SeekFrom::Start(at))?;
        (&mut self.input).take(u64::from(frame.len)).read_to_end(payload)?;
        let good = payload.len() == frame.len as usize && crc32fast::hash(payload) == frame.payload_crc;
        self.damaged[number] |= !good;
        Ok(good)
    }
}

/// An iterator over the events of a log. See [`LogReader::events`].
pub struct Events<'r, R> {
    log: &'r mut LogReader<R>,
    kinds: &'r [ChunkKind],
    /// Index of the next chunk.
    next: usize,
    /// The current chunk: its kind and the read position.
    open: Option<(ChunkKind, usize)>,
    payload: Vec<u8>,
    decoder: Decoder,
}

impl<R: Read + Seek> Events<'_, R> {
    /// Position of the iterator, in bytes of [`LogReader::len_bytes`].
    pub fn position(&self) -> u64 {
        self.next
            .checked_sub(1)
            .map_or(0, |current| self.log.index.chunks[current].end())
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// The input can't be read.
    pub fn next_event(&mut self) -> io::Result<Option<Event<'static>>> {
        loop {
            let event = match self.open {
                Some((kind @ (ChunkKind::Attachment | ChunkKind::Resolved), _)) => self.blob(kind)?,
                Some((kind, at)) => self.take(kind, at).unwrap_or_else(|Malformed| self.damage()),
                None => {
                    if !self.open_next()? {
                        return Ok(None);
                    }
                    None
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Reads the next chunk of a requested kind; false at the end.
    fn open_next(&mut self) -> io::Result<bool> {
        self.open = None;
        while let Some(chunk) = self.log.index.chunks.get(self.next) {
            let kind = ChunkKind::from_number(chunk.frame.kind).filter(|kind| self.kinds.contains(kind));
            let number = self.next;
            self.next += 1;
            if let Some(kind) = kind
                && self.log.payload(number, &mut self.payload)?
            {
                self.decoder.clear();
                self.open = Some((kind, 0));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The current chunk is invalid: the rest of it is lost.
    fn damage(&mut self) -> Option<Event<'static>> {
        self.open = None;
        self.log.damaged[self.next - 1] = true;
        None
    }

    /// The next event of the current chunk; closes the chunk at its end.
    fn take(&mut self, kind: ChunkKind, at: usize) -> Result<Option<Event<'static>>, Malformed> {
        let mut bytes = Bytes(&self.payload[at..]);
        if bytes.is_empty() {
            self.open = None;
            return Ok(None);
        }
        let event = match kind {
            ChunkKind::Events => self.decoder.event(&mut bytes)?,
            ChunkKind::KernelSymbols => kernel_symbol(&mut bytes)?,
            ChunkKind::Module => Event::Module(module(std::mem::take(&mut bytes.0))?),
            ChunkKind::Cost => Event::Cost(Box::new(cost(std::mem::take(&mut bytes.0))?)),
            ChunkKind::Owners => Event::Owners(Box::new(owners(std::mem::take(&mut bytes.0))?)),
            ChunkKind::Usage => Event::Usage(Box::new(usage(std::mem::take(&mut bytes.0))?)),
            ChunkKind::Header | ChunkKind::Attachment | ChunkKind::Resolved => {
                self.open = None;
                return Ok(None);
            }
        };
        self.open = Some((kind, self.payload.len() - bytes.0.len()));
        Ok(Some(event))
    }

    /// Assembles a blob from the current chunk and the following ones; `None` if a part is missing
    /// or damaged.
    fn blob(&mut self, kind: ChunkKind) -> io::Result<Option<Event<'static>>> {
        let mut whole: Option<Part> = None;
        while self.open.is_some_and(|(open, _)| open == kind) {
            let payload = std::mem::take(&mut self.payload);
            let Some(part) = Part::parse(kind, payload).ok().filter(Part::is_possible) else {
                return Ok(self.damage());
            };
            match &mut whole {
                Some(whole) if whole.goes_on_with(&part) => whole.bytes.extend_from_slice(&part.bytes),
                // A part is lost; the next blob begins here.
                whole if part.offset == 0 => *whole = Some(part),
                // The rest of a blob whose start is lost, and was counted there.
                _ => {
                    self.open = None;
                    return Ok(None);
                }
            }
            if let Some(whole) = whole.take_if(|whole| whole.bytes.len() == whole.len) {
                self.open = None;
                return Ok(Some(match whole.head {
                    Some((kind, pid, path)) => Event::Attachment(Attachment {
                        kind,
                        pid,
                        path,
                        bytes: whole.bytes,
                    }),
                    None => Event::Resolved(whole.bytes),
                }));
            }
            self.open_next()?;
        }
        Ok(None)
    }
}

/// Properties of the whole blob, repeated in each part.
type AttachmentHead = (AttachmentKind, u32, Vec<u8>);

/// A part of a blob.
struct Part {
    head: Option<AttachmentHead>,
    /// Size of the blob in bytes.
    len: usize,
    /// Offset of this part.
    offset: usize,
    bytes: Vec<u8>,
}

impl Part {
    /// Parses a payload, which becomes the part's bytes: most files are one part of megabytes.
    fn parse(kind: ChunkKind, mut payload: Vec<u8>) -> Result<Self, Malformed> {
        let mut bytes = Bytes(&payload);
        let head = if kind == ChunkKind::Attachment {
            let kind = match bytes.byte()? {
                1 => AttachmentKind::Markers,
                2 => AttachmentKind::PerfMap,
                3 => AttachmentKind::JitDump,
                4 => AttachmentKind::Gecko,
                _ => return Err(Malformed),
            };
            Some((kind, bytes.get_u32()?, bytes.get_bytes(MAX_TEXT)?.to_vec()))
        } else {
            None
        };
        let len = bytes.get_len(MAX_BLOB)?;
        let offset = bytes.get_len(len)?;
        let rest = bytes.0.len();
        payload.drain(..payload.len() - rest);
        Ok(Self {
            head,
            len,
            offset,
            bytes: payload,
        })
    }

    /// Whether it is within the blob, and not empty unless the blob is.
    fn is_possible(&self) -> bool {
        self.bytes.len() <= self.len - self.offset && (!self.bytes.is_empty() || self.len == 0)
    }

    fn goes_on_with(&self, next: &Self) -> bool {
        self.bytes.len() == next.offset && self.len == next.len && self.head == next.head
    }
}

/// Parses a Module chunk.
fn module(payload: &[u8]) -> Result<Module, Malformed> {
    let module: Module = serde_json::from_slice(payload).map_err(|_| Malformed)?;
    let fits =
        module.path.len() <= MAX_TEXT && module.build_id.len() <= MAX_TEXT && module.segments.len() <= MAX_SEGMENTS;
    if fits { Ok(module) } else { Err(Malformed) }
}

/// Parses a Cost chunk.
fn cost(payload: &[u8]) -> Result<Cost, Malformed> {
    let cost: Cost = serde_json::from_slice(payload).map_err(|_| Malformed)?;
    let programs = cost.programs.iter().flat_map(|costs| &costs.programs);
    let names = programs
        .clone()
        .map(|program| &program.name)
        .chain(&cost.programs_refused);
    let fits = programs.count() <= MAX_PROGRAMS
        && cost.thinning.as_ref().is_none_or(Thinning::fits)
        && names.into_iter().all(|name| name.len() <= MAX_TEXT);
    if fits { Ok(cost) } else { Err(Malformed) }
}

/// Parses an Owners chunk.
fn owners(payload: &[u8]) -> Result<Owners, Malformed> {
    let owners: Owners = serde_json::from_slice(payload).map_err(|_| Malformed)?;
    if owners.fits() { Ok(owners) } else { Err(Malformed) }
}

/// Parses a Usage chunk.
fn usage(payload: &[u8]) -> Result<Usage, Malformed> {
    let usage: Usage = serde_json::from_slice(payload).map_err(|_| Malformed)?;
    if usage.fits() { Ok(usage) } else { Err(Malformed) }
}
