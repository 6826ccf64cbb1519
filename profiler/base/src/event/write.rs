//! Writes an event log: collects events in chunks, each of which can be read independently.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};

use super::bytes::{put, put_bytes};
use super::encode::{Encoder, kernel_symbol};
use super::format::{
    BLOB_PART, CHUNK_TARGET, ChunkKind, FILE_HEADER_LEN, FRAME_LEN, Frame, MAX_BLOB, MAX_PAYLOAD, MAX_TEXT, file_header,
};
use super::{Event, Header};

/// Kernel symbols are collected up to this size, in bytes.
const SYMBOLS_TARGET: usize = 256 << 10;

/// Writes an event log to `W`, which should not buffer: every chunk is one `write_all`.
pub struct LogWriter<W: Write> {
    out: W,
    /// Frame and payload of the current Events chunk.
    events: Vec<u8>,
    /// Frame and payload of the current chunk of kernel symbols.
    symbols: Vec<u8>,
    encoder: Encoder,
    sequence: u64,
    good_bytes: u64,
    failed: bool,
}

impl<W: Write> LogWriter<W> {
    /// Creates a log and writes its header.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        out.write_all(&file_header())?;
        let mut writer = Self::at(out, FILE_HEADER_LEN as u64, 0);
        writer.chunk(ChunkKind::Header, &serde_json::to_vec(header)?)?;
        Ok(writer)
    }

    fn at(out: W, good_bytes: u64, sequence: u64) -> Self {
        Self {
            out,
            events: vec![0; FRAME_LEN],
            symbols: vec![0; FRAME_LEN],
            encoder: Encoder::default(),
            sequence,
            good_bytes,
            failed: false,
        }
    }

    /// Adds an event. It is in the log after the next [`Self::flush_chunk`], or earlier.
    ///
    /// Texts longer than 64 KiB and stack copies longer than 1 MiB are truncated.
    ///
    /// # Errors
    /// A chunk could not be written: its events are lost, the log is valid up to
    /// [`Self::good_bytes`], and this writer accepts no more events. An attachment longer than 1
    /// GiB is rejected ([`ErrorKind::InvalidInput`]) without other effects.
    pub fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.check()?;
        match event {
            Event::Module(module) => self.chunk(ChunkKind::Module, &serde_json::to_vec(module)?),
            Event::Cost(cost) => self.chunk(ChunkKind::Cost, &serde_json::to_vec(cost)?),
            Event::Owners(owners) => self.chunk(ChunkKind::Owners, &serde_json::to_vec(owners)?),
            Event::Usage(usage) => self.chunk(ChunkKind::Usage, &serde_json::to_vec(usage)?),
            Event::Attachment(attachment) => {
                let mut head = vec![attachment.kind as u8];
                put(&mut head, u64::from(attachment.pid));
                put_bytes(&mut head, &attachment.path, MAX_TEXT);
                self.blob(ChunkKind::Attachment, &head, &attachment.bytes)
            }
            Event::Resolved(bytes) => self.blob(ChunkKind::Resolved, &[], bytes),
            Event::KernelSymbol { offset, start, name } => {
                kernel_symbol(&mut self.symbols, *offset, *start, name);
                if self.symbols.len() >= SYMBOLS_TARGET {
                    self.flush_symbols()
                } else {
                    Ok(())
                }
            }
            event => {
                if !self.encoder.has_room(event) {
                    self.flush_events()?;
                }
                self.encoder.event(&mut self.events, event).map_err(io::Error::other)?;
                if self.events.len() >= CHUNK_TARGET {
                    self.flush_events()
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Writes the collected events, so a reader (or a successor after a crash) finds them.
    ///
    /// # Errors
    /// As [`Self::event`].
    pub fn flush_chunk(&mut self) -> io::Result<()> {
        self.check()?;
        self.flush_events()?;
        self.flush_symbols()
    }

    /// Size of the log so far in bytes, including events that are not yet written.
    pub fn bytes_written(&self) -> u64 {
        let gathered = self.events.len() + self.symbols.len() - 2 * FRAME_LEN;
        self.good_bytes + gathered as u64
    }

    /// End of the last complete chunk, in bytes: after an error, truncate the log to this.
    pub fn good_bytes(&self) -> u64 {
        self.good_bytes
    }

    /// Writes the collected events and returns the output.
    ///
    /// # Errors
    /// As [`Self::event`].
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_chunk()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn check(&self) -> io::Result<()> {
        if self.failed {
            Err(io::Error::other(
                "writing the event log failed earlier; it accepts no more events",
            ))
        } else {
            Ok(())
        }
    }

    fn flush_events(&mut self) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let result = self.framed(ChunkKind::Events, &mut events);
        self.events = events;
        self.encoder.clear();
        result
    }

    fn flush_symbols(&mut self) -> io::Result<()> {
        let mut symbols = std::mem::take(&mut self.symbols);
        let result = self.framed(ChunkKind::KernelSymbols, &mut symbols);
        self.symbols = symbols;
        result
    }

    /// Fills in the reserved frame, writes the chunk and starts an empty one.
    fn framed(&mut self, kind: ChunkKind, chunk: &mut Vec<u8>) -> io::Result<()> {
        if chunk.len() == FRAME_LEN {
            return Ok(());
        }
        let frame = Frame::of(kind, self.sequence, &chunk[FRAME_LEN..]).encode();
        chunk[..FRAME_LEN].copy_from_slice(&frame);
        let result = self.write(chunk);
        chunk.truncate(FRAME_LEN);
        result
    }

    fn chunk(&mut self, kind: ChunkKind, payload: &[u8]) -> io::Result<()> {
        if payload.len() > MAX_PAYLOAD {
            return Err(io::Error::new(ErrorKind::InvalidInput, "too long for the event log"));
        }
        let mut chunk = vec![0; FRAME_LEN];
        chunk.extend_from_slice(payload);
        self.framed(kind, &mut chunk)
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        match self.out.write_all(chunk) {
            Ok(()) => {
                self.sequence += 1;
                self.good_bytes += chunk.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }

    /// Writes `bytes` in parts: each contains the blob's head, its total length and its offset in
    /// the blob.
    fn blob(&mut self, kind: ChunkKind, head: &[u8], bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > MAX_BLOB {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "longer than the event log's limit of 1 GiB",
            ));
        }
        let empty: &[u8] = &[];
        let parts = if bytes.is_empty() {
            Cow::from(vec![empty])
        } else {
            bytes.chunks(BLOB_PART).collect()
        };
        for (number, part) in parts.iter().enumerate() {
            let mut chunk = vec![0; FRAME_LEN];
            chunk.extend_from_slice(head);
            put(&mut chunk, bytes.len() as u64);
            put(&mut chunk, (number * BLOB_PART) as u64);
            chunk.extend_from_slice(part);
            self.framed(kind, &mut chunk)?;
        }
        Ok(())
    }
}

impl<F: Read + Write + Seek> LogWriter<F> {
    /// Continues at the end of an existing log; an incomplete chunk of an interrupted writer is
    /// overwritten (truncate the file to [`Self::good_bytes`] to remove a longer rest).
    ///
    /// # Errors
    /// The file is not an event log of this version, or can't be read.
    pub fn append(mut file: F) -> io::Result<Self> {
        let (end, sequence) = super::scan::find_end(&mut file)?;
        file.seek(SeekFrom::Start(end))?;
        Ok(Self::at(file, end, sequence))
    }
}
