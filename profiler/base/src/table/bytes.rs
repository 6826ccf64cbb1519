//! The serialized form of a table: in the cache, and in the memory that the recorder passes to the
//! privileged helper.
//!
//! A header of 128 bytes, the pages as u32, zeros up to a multiple of 8, the rows. All integers are
//! little endian. The input is untrusted: [`TableView::from_bytes`] checks every invariant that the
//! eBPF programs rely on.

use std::io::{self, Write};

use profiler_common::unwind::{Arch, Row, TABLE_PAGE};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Digest, Stats, Table, TableView};

/// First bytes of every table; the byte above 127 distinguishes it from plain text.
const MAGIC: [u8; 8] = *b"\x91ngmirow";
/// Incremented with every change of the layout, or of the compiler's output for the same file.
pub const VERSION: u32 = 5;
/// Maximum number of rows of a table: ten times those of libxul.so.
pub const MAX_ROWS: usize = 1 << 24;
/// Maximum number of pages of a table: 2 GiB of text, the range of a call instruction.
pub const MAX_TABLE_PAGES: usize = 1 << 22;
/// The checksum covers everything after it.
const CHECKED_FROM: usize = 16;
/// Pages of a 64-bit address space.
const ALL_PAGES: u64 = u64::MAX / TABLE_PAGE;

const _: () = assert!(
    cfg!(target_endian = "little"),
    "rows are mapped in the layout of the file"
);
const _: () = assert!(size_of::<Header>() == 128 && size_of::<Row>() == 8);

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
struct Header {
    magic: [u8; 8],
    version: U32,
    /// CRC-32 of everything after it.
    checksum: U32,
    /// 1: x86-64; 2: arm64.
    arch: U32,
    zero: [u8; 4],
    first_page: U64,
    /// Number of entries of `pages`: one more than the number of pages.
    pages: U32,
    rows: U32,
    functions: U32,
    unsupported_rows: U32,
    overlapping: U32,
    damaged: U32,
    source: Digest,
    zeros: [u8; 40],
}

/// Why bytes are not a valid table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TableBytesError {
    /// Too short for a header, or not a table.
    #[error("these are not the bytes of an unwind table")]
    NotATable,
    /// Written by another version.
    #[error("an unwind table of version {0}, not {VERSION}; it will be rebuilt")]
    Version(u32),
    /// The checksum does not match.
    #[error("an unwind table that was damaged; it will be rebuilt")]
    Checksum,
    /// The bytes do not start at a multiple of 8.
    #[error("the address of an unwind table is not a multiple of 8")]
    Misaligned,
    /// A violated invariant.
    #[error("an unwind table that is inconsistent: {0}")]
    Invalid(&'static str),
}

impl Table {
    /// Serializes the table for [`TableView::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.serialized_size());
        let _ = self.write(&mut bytes); // a vector takes all
        bytes
    }

    /// Writes the output of [`Table::to_bytes`], without a copy of it in memory.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        // The compiler never exceeds the limits, so no count is truncated.
        let count = |len: usize| U32::new(u32::try_from(len).unwrap_or(u32::MAX));
        let mut header = Header {
            magic: MAGIC,
            version: VERSION.into(),
            checksum: 0.into(),
            arch: number(self.arch).into(),
            zero: [0; 4],
            first_page: self.first_page.into(),
            pages: count(self.pages.len()),
            rows: count(self.rows.len()),
            functions: self.stats.functions.into(),
            unsupported_rows: self.stats.unsupported_rows.into(),
            overlapping: self.stats.overlapping.into(),
            damaged: self.stats.damaged.into(),
            source: self.source,
            zeros: [0; 40],
        };
        let pages = self.pages.as_bytes();
        let padding = &[0; 8][..pages.len().next_multiple_of(8) - pages.len()];
        let parts = [pages, padding, self.rows.as_bytes()];
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&header.as_bytes()[CHECKED_FROM..]);
        for part in parts {
            checksum.update(part);
        }
        header.checksum = checksum.finalize().into();
        out.write_all(header.as_bytes())?;
        parts.iter().try_for_each(|part| out.write_all(part))
    }

    /// Bytes of the output of [`Table::to_bytes`].
    pub fn serialized_size(&self) -> usize {
        size_of::<Header>() + (self.pages.len() * 4).next_multiple_of(8) + size_of_val(self.rows.as_slice())
    }

    /// Reads the output of [`Table::to_bytes`].
    ///
    /// # Errors
    /// See [`TableView::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TableBytesError> {
        let view = TableView::from_bytes(bytes)?;
        Ok(Self {
            arch: view.arch,
            source: *view.source,
            first_page: view.first_page,
            pages: view.pages.iter().map(|index| index.get()).collect(),
            rows: view.rows.to_vec(),
            stats: view.stats,
        })
    }
}

impl<'b> TableView<'b> {
    /// Checks all invariants without copying. `bytes` start at a multiple of 8, like a mapping.
    ///
    /// Afterwards: the pages are contiguous, from 0 to the number of rows; the first has a row at
    /// its first byte; rows ascend within their page and stay in it; every rule is valid. The check
    /// is meaningless for bytes that another process can still change: map a sealed memory file.
    ///
    /// # Errors
    /// Every [`TableBytesError`].
    pub fn from_bytes(bytes: &'b [u8]) -> Result<Self, TableBytesError> {
        use TableBytesError::Invalid;
        let (header, rest) = Header::ref_from_prefix(bytes).map_err(|_| TableBytesError::NotATable)?;
        if header.magic != MAGIC {
            return Err(TableBytesError::NotATable);
        }
        if header.version != VERSION {
            return Err(TableBytesError::Version(header.version.get()));
        }
        let (page_count, row_count) = (header.pages.get() as usize, header.rows.get() as usize);
        if !(2..=MAX_TABLE_PAGES + 1).contains(&page_count) {
            return Err(Invalid("the number of pages"));
        }
        if !(1..=MAX_ROWS).contains(&row_count) {
            return Err(Invalid("the number of rows"));
        }
        let rows_at = (page_count * 4).next_multiple_of(8);
        if rest.len() != rows_at + row_count * size_of::<Row>() {
            return Err(Invalid("its length"));
        }
        if crc32fast::hash(&bytes[CHECKED_FROM..]) != header.checksum.get() {
            return Err(TableBytesError::Checksum);
        }
        let (pages, _) = <[U32]>::ref_from_prefix_with_elems(rest, page_count).map_err(|_| Invalid("its length"))?;
        let rows = <[Row]>::ref_from_bytes(&rest[rows_at..]).map_err(|_| TableBytesError::Misaligned)?;
        check_rows(pages, rows)?;
        let first_page = header.first_page.get();
        if first_page > ALL_PAGES - MAX_TABLE_PAGES as u64 {
            return Err(Invalid("its first page"));
        }
        Ok(Self {
            arch: arch(header.arch.get()).ok_or(Invalid("its processor"))?,
            source: &header.source,
            first_page,
            pages,
            rows,
            stats: Stats {
                functions: header.functions.get(),
                unsupported_rows: header.unsupported_rows.get(),
                overlapping: header.overlapping.get(),
                damaged: header.damaged.get(),
            },
        })
    }
}

fn check_rows(pages: &[U32], rows: &[Row]) -> Result<(), TableBytesError> {
    use TableBytesError::Invalid;
    if pages.first().is_none_or(|first| *first != 0)
        || pages.last().is_none_or(|last| last.get() as usize != rows.len())
    {
        return Err(Invalid("its pages do not hold all rows"));
    }
    if pages.get(1).is_none_or(|end| *end == 0) || rows.first().is_none_or(|row| row.pc != 0) {
        return Err(Invalid("no row at its start"));
    }
    for page in pages.array_windows::<2>() {
        let [start, end] = page.map(|index| index.get() as usize);
        let rows = rows.get(start..end).ok_or(Invalid("the order of its pages"))?;
        if rows.array_windows().any(|[one, next]| one.pc >= next.pc) {
            return Err(Invalid("the order of its rows"));
        }
        if rows.last().is_some_and(|row| u64::from(row.pc) >= TABLE_PAGE) {
            return Err(Invalid("a row beyond its page"));
        }
    }
    if !rows.iter().all(|row| row.is_valid()) {
        return Err(Invalid("a rule that does not exist"));
    }
    Ok(())
}

fn number(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 1,
        Arch::Aarch64 => 2,
    }
}

fn arch(number: u32) -> Option<Arch> {
    [Arch::X86_64, Arch::Aarch64]
        .into_iter()
        .find(|arch| self::number(*arch) == number)
}
