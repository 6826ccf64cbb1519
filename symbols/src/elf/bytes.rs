//! Bytes of an ELF file that can be cloned and kept: slices of a mapping or of memory.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::{Advice, Mmap};

use super::guard::Guard;

/// Bytes that the kernel is asked to read at once: rarely more than it reads per request (`mm/readahead.c`:
/// `force_page_cache_ra`).
const PIECE: usize = 128 << 10;

/// What a mapping reads of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// What the kernel expects to be needed: up to the disk's read-ahead, around each page.
    Around,
    /// The pages that are used.
    Only,
}

/// Some bytes of an ELF file. Cheap to clone; keeps the mapping alive.
#[derive(Clone)]
pub struct ElfBytes {
    backing: Arc<Backing>,
    range: Range<usize>,
}

enum Backing {
    /// The guard is dropped before the memory.
    Mapped(Guard, Mmap),
    Shared(Arc<[u8]>),
    Owned(Vec<u8>),
}

impl Backing {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(_, map) => map,
            Self::Shared(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl ElfBytes {
    /// Maps the whole of `file`.
    #[allow(unsafe_code)]
    pub(super) fn map(file: &File, reading: Reading) -> io::Result<Self> {
        // SAFETY: `Mmap` requires that the file is not changed meanwhile, which cannot be
        // guaranteed for the files of other programs. The map is private and read-only, and every
        // reader treats the bytes as untrusted: each length and offset is checked against the map
        // on each use, so a change in place results in a wrong name or an error. A part that is cut
        // off reads as zeros, because of the guard.
        let map = unsafe { Mmap::map(file)? };
        if reading == Reading::Only {
            // For a mapping, POSIX_FADV_RANDOM changes nothing (`mm/filemap.c`: `do_sync_mmap_readahead`).
            map.advise(Advice::Random)?;
        }
        Ok(Self {
            range: 0..map.len(),
            backing: Arc::new(Backing::Mapped(Guard::new(&map)?, map)),
        })
    }

    /// The bytes of `range`, relative to the start of these bytes; `None` if they do not all exist.
    pub(crate) fn slice(&self, range: Range<u64>) -> Option<Self> {
        let start = self.range.start.checked_add(usize::try_from(range.start).ok()?)?;
        let end = self.range.start.checked_add(usize::try_from(range.end).ok()?)?;
        (start <= end && end <= self.range.end).then(|| Self {
            backing: Arc::clone(&self.backing),
            range: start..end,
        })
    }

    /// A copy. All of it is read from the file, and nothing around it if the mapping reads [`Reading::Only`] what is
    /// used.
    pub fn to_owned_bytes(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.len());
        for (index, piece) in self.chunks(PIECE).enumerate() {
            if let Backing::Mapped(_, map) = &*self.backing {
                // Otherwise each page would be a request of its own.
                let _ = map.advise_range(Advice::WillNeed, self.range.start + index * PIECE, piece.len());
            }
            copy.extend_from_slice(piece);
        }
        copy
    }

    /// Whether the bytes are shared.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.backing) > 1
    }

    /// Whether the file was cut off while it was read: results from its bytes may be wrong.
    pub fn was_cut(&self) -> bool {
        matches!(&*self.backing, Backing::Mapped(guard, _) if guard.was_cut())
    }
}

impl From<Backing> for ElfBytes {
    fn from(backing: Backing) -> Self {
        Self {
            range: 0..backing.as_slice().len(),
            backing: Arc::new(backing),
        }
    }
}

impl From<Arc<[u8]>> for ElfBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Backing::Shared(bytes).into()
    }
}

impl From<Vec<u8>> for ElfBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Backing::Owned(bytes).into()
    }
}

impl Deref for ElfBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.backing.as_slice().get(self.range.clone()).unwrap_or_default()
    }
}

impl std::fmt::Debug for ElfBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ElfBytes({} bytes)", self.len())
    }
}
