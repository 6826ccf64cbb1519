//! The log's outer format: file header, chunk frames, and the limits that every reader enforces.

use profiler_common::numbered;

/// First bytes of every log.
pub const FILE_MAGIC: [u8; 8] = *b"ngmi-log";
/// Incremented with every change that an older reader would misread.
pub const VERSION: u32 = 10;
/// The oldest supported version: it has no name numbers. Before version 6, reads have no folio
/// order; before version 7, faults do not show which pages they mapped; before version 8, each represents
/// only itself; before version 9, waits have neither locks of the kernel nor priorities; before version 10, pages that system
/// calls map are not recorded.
pub const OLDEST_VERSION: u32 = 4;
/// Bytes of the file header: magic, version, four zero bytes.
pub const FILE_HEADER_LEN: usize = 16;

/// First bytes of every chunk; the byte above 127 distinguishes it from plain text.
pub const CHUNK_MAGIC: [u8; 8] = *b"\x91ngmi\r\n\x1a";
/// Size of a chunk's frame in bytes.
pub const FRAME_LEN: usize = 32;

/// A chunk of events is written when its payload reaches this size in bytes.
pub const CHUNK_TARGET: usize = 2 << 20;
/// Maximum payload of a chunk, in bytes.
pub const MAX_PAYLOAD: usize = 32 << 20;
/// Maximum part of a blob (attachment, resolved names) in one chunk, in bytes.
pub const BLOB_PART: usize = 8 << 20;
/// Maximum size of a blob, in bytes.
pub const MAX_BLOB: usize = 1 << 30;
/// Maximum length of a name, path or command line, in bytes.
pub const MAX_TEXT: usize = 64 << 10;
/// Maximum stack copy, in bytes.
pub const MAX_STACK: usize = 1 << 20;
/// Maximum number of frames of a stack.
pub const MAX_FRAMES: usize = 4096;

numbered! {
    /// Kinds of chunks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ChunkKind: u16 {
        /// JSON of [`super::Header`]; the first chunk.
        Header = 1,
        /// Events in the order in which they were drained.
        Events = 2,
        /// Names of kernel functions.
        KernelSymbols = 3,
        /// JSON of one [`super::Module`].
        Module = 4,
        /// A part of an [`super::Attachment`].
        Attachment = 5,
        /// A part of the content of [`super::Event::Resolved`].
        Resolved = 6,
        /// JSON of one [`super::Cost`].
        Cost = 7,
        /// JSON of one [`super::Owners`].
        Owners = 8,
        /// JSON of one [`super::Usage`].
        Usage = 9,
    }
}

/// The frame before each payload. All integers are little endian.
///
/// Magic (8), kind (u16), zero (u16), payload length (u32), sequence (u64), CRC-32 of the payload (u32), CRC-32 of the
/// 28 bytes before it (u32).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Number of a [`ChunkKind`]; an unknown one is skipped, so that later versions can add kinds.
    pub kind: u16,
    /// Payload length in bytes.
    pub len: u32,
    /// Increments by one from 0.
    pub sequence: u64,
    /// CRC-32 of the payload.
    pub payload_crc: u32,
}

impl Frame {
    /// Encodes the frame.
    pub fn encode(self) -> [u8; FRAME_LEN] {
        let mut bytes = [0; FRAME_LEN];
        bytes[..8].copy_from_slice(&CHUNK_MAGIC);
        bytes[8..10].copy_from_slice(&self.kind.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a frame; `None` if the bytes are not a frame or are damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<FRAME_LEN>()?;
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..8] != CHUNK_MAGIC || u32_at(28) != crc32fast::hash(&bytes[..28]) {
            return None;
        }
        let len = u32_at(12);
        if len as usize > MAX_PAYLOAD {
            return None;
        }
        Some(Self {
            kind: u16::from_le_bytes([bytes[8], bytes[9]]),
            len,
            sequence: u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32,
            payload_crc: u32_at(24),
        })
    }

    /// Builds the frame of a payload.
    pub fn of(kind: ChunkKind, sequence: u64, payload: &[u8]) -> Self {
        debug_assert!(payload.len() <= MAX_PAYLOAD);
        Self {
            kind: kind as u16,
            len: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            sequence,
            payload_crc: crc32fast::hash(payload),
        }
    }
}

/// The file header of this version.
pub fn file_header() -> [u8; FILE_HEADER_LEN] {
    let mut bytes = [0; FILE_HEADER_LEN];
    bytes[..8].copy_from_slice(&FILE_MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}
