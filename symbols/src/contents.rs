//! An ELF file in the form for the library that reads DWARF: debug information decompressed, within
//! limits, and without the sections that mislead the library. The file stays mapped; replaced parts
//! are in memory.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use object::read::elf::FileHeader;
use object::read::{CompressionFormat, ReadRef as _};
use object::{Endianness, Object as _, ObjectSection as _, U32, U64, elf, pod};
use samply_symbols::{FileAndPathHelperResult, FileContents};

use crate::elf::{ElfBytes, ElfFile, compressed};

/// Maximum bytes of decompressed debug information for one binary and all files that it names:
/// those of a browser.
const MAX_DECOMPRESSED: u64 = 8 << 30;
/// The sections that the library reads, without the prefix `.debug_` and the suffix `.dwo`.
const READ: &[&[u8]] = &[
    b"abbrev",
    b"addr",
    b"aranges",
    b"cu_index",
    b"info",
    b"line",
    b"line_str",
    b"loc",
    b"loclists",
    b"macinfo",
    b"macro",
    b"ranges",
    b"rnglists",
    b"str",
    b"str_offsets",
    b"tu_index",
    b"types",
];

/// The remaining budget for decompression.
#[derive(Debug)]
pub(crate) struct Room(AtomicU64);

impl Room {
    /// The budget of one binary: at most a quarter of this machine's memory.
    pub(crate) fn new() -> Self {
        let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
            let kib: u64 = text.lines().next()?.split_ascii_whitespace().nth(1)?.parse().ok()?;
            kib.checked_mul(1024)
        });
        Self(AtomicU64::new(
            memory.map_or(MAX_DECOMPRESSED, |memory| (memory / 4).min(MAX_DECOMPRESSED)),
        ))
    }

    fn take(&self, bytes: u64) -> Option<()> {
        let take = |room: u64| room.checked_sub(bytes);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()
            .map(|_| ())
    }
}

/// The file, with a replaced section table.
pub(crate) struct Contents {
    file: ElfBytes,
    /// Offset of the section table in the file, and its replacement.
    table: Option<(u64, Vec<u8>)>,
    /// Decompressed sections, by the offset after the file's end that the section table assigns to
    /// them.
    sections: Vec<(u64, Vec<u8>)>,
}

/// The replacement of a section.
enum Change {
    /// It is empty.
    Hide,
    /// These bytes.
    Replace(Vec<u8>),
}

impl Contents {
    /// Prepares the file. `None`: its debug information is damaged, or its claimed size is
    /// implausible for its compressed size or exceeds the budget.
    pub(crate) fn of(elf: &ElfFile, room: &Room) -> Option<Self> {
        let hide_eh_frame = relative_and_stated_addresses_overlap(elf);
        let mut changes = Vec::new();
        for section in elf.object().ok()?.sections() {
            let name = section.name_bytes().unwrap_or_default();
            // The library fails to subtract the base address from `.eh_frame` addresses, so in a
            // large executable with fixed addresses, functions begin and end in the middle of
            // others; and it reads `.gnu_debugdata`, which contains no lines, instead of the DWARF
            // of the file.
            let is_misleading = name == b".gnu_debugdata" || (name == b".eh_frame" && hide_eh_frame);
            let Ok(stored) = section.compressed_file_range() else {
                changes.push((section.index().0, Change::Hide));
                continue;
            };
            if is_misleading {
                changes.push((section.index().0, Change::Hide));
            } else if stored.format != CompressionFormat::None {
                let change = match is_read(name) {
                    // The older compression is indicated by the name, which stays; the library
                    // decompresses no more than the header says.
                    Some(Naming::Old) => {
                        compressed::is_plausible(&stored).then(|| room.take(stored.uncompressed_size))??;
                        continue;
                    }
                    Some(Naming::New) => {
                        room.take(stored.uncompressed_size)?;
                        Change::Replace(compressed::decompress(stored, elf.bytes(), MAX_DECOMPRESSED)?)
                    }
                    None => Change::Hide,
                };
                changes.push((section.index().0, change));
            }
        }
        let mut contents = Self {
            file: elf.bytes().clone(),
            table: None,
            sections: Vec::new(),
        };
        if !changes.is_empty() {
            if elf.object().ok()?.is_64() {
                contents.change::<elf::FileHeader64<Endianness>>(changes)?;
            } else {
                contents.change::<elf::FileHeader32<Endianness>>(changes)?;
            }
        }
        (!elf.was_cut()).then_some(contents)
    }

    /// A file that is not ELF, unchanged.
    pub(crate) fn plain(file: ElfBytes) -> Self {
        Self {
            file,
            table: None,
            sections: Vec::new(),
        }
    }

    fn change<E: FileHeader<Endian = Endianness>>(&mut self, changes: Vec<(usize, Change)>) -> Option<()>
    where
        E::SectionHeader: Changed,
    {
        let file: &[u8] = &self.file;
        let header = E::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let mut headers = header.section_headers(endian, file).ok()?.to_vec();
        let mut end = file.len() as u64;
        for (index, change) in changes {
            let header = headers.get_mut(index)?;
            match change {
                Change::Hide => header.hide(endian),
                Change::Replace(bytes) => {
                    header.place(endian, end, bytes.len() as u64)?;
                    let start = end;
                    end = end.checked_add(bytes.len() as u64)?;
                    self.sections.push((start, bytes));
                }
            }
        }
        self.table = Some((header.e_shoff(endian).into(), pod::bytes_of_slice(&headers).to_vec()));
        Some(())
    }

    /// The bytes of `range`, contiguous.
    fn slice(&self, range: Range<u64>) -> Option<&[u8]> {
        let within = |start: u64, bytes: &[u8]| {
            let offset = range.start.checked_sub(start)?;
            let end = range.end.checked_sub(start)?;
            (offset <= end && end <= bytes.len() as u64).then_some((offset, end))
        };
        let part = |start: u64, bytes| {
            let (from, to) = within(start, bytes)?;
            bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
        };
        if let Some(found) = self.table.as_ref().and_then(|(start, bytes)| part(*start, bytes)) {
            return Some(found);
        }
        if range.start < self.file.len() || self.sections.is_empty() {
            return part(0, &self.file);
        }
        let behind = self.sections.partition_point(|(start, _)| *start <= range.start);
        let (start, bytes) = self.sections.get(behind.checked_sub(1)?)?;
        part(*start, bytes)
    }
}

impl FileContents for Contents {
    fn len(&self) -> u64 {
        let last = self.sections.last();
        last.map_or(self.file.len(), |(start, bytes)| start + bytes.len() as u64)
    }

    fn read_bytes_at(&self, offset: u64, size: u64) -> FileAndPathHelperResult<&[u8]> {
        let range = offset..offset.checked_add(size).ok_or("beyond any file")?;
        Ok(self.slice(range).ok_or("beyond the end of the file")?)
    }

    fn read_bytes_at_until(&self, range: Range<u64>, delimiter: u8) -> FileAndPathHelperResult<&[u8]> {
        // Names: a million of them, all in the file itself.
        if range.start < self.file.len() {
            return self.file.read_bytes_at_until(range, delimiter);
        }
        let end = range.end.min(self.len());
        let bytes = self.slice(range.start..end).ok_or("beyond the end of the file")?;
        bytes
            .read_bytes_at_until(0..bytes.len() as u64, delimiter)
            .map_err(|()| "it does not end".into())
    }

    fn read_bytes_into(&self, buffer: &mut Vec<u8>, offset: u64, size: usize) -> FileAndPathHelperResult<()> {
        buffer.extend_from_slice(self.read_bytes_at(offset, size as u64)?);
        Ok(())
    }
}

/// How a section is marked as compressed.
enum Naming {
    /// By `SHF_COMPRESSED`.
    New,
    /// By its name, such as `.zdebug_info`.
    Old,
}

fn is_read(name: &[u8]) -> Option<Naming> {
    let (rest, naming) = match name.strip_prefix(b".debug_") {
        Some(rest) => (rest, Naming::New),
        None => (name.strip_prefix(b".zdebug_")?, Naming::Old),
    };
    READ.contains(&rest.strip_suffix(b".dwo").unwrap_or(rest))
        .then_some(naming)
}

/// Whether the file extends so far above its base that a relative address can be mistaken for a
/// stated one.
fn relative_and_stated_addresses_overlap(elf: &ElfFile) -> bool {
    let segments = elf.segments().iter();
    let end = segments
        .map(|segment| segment.svma.saturating_add(segment.memory_size))
        .max();
    let base = elf.base_svma();
    base != 0 && end.is_some_and(|end| end.saturating_sub(base) > base)
}

/// A section header that can be redirected to another section.
trait Changed: pod::Pod + Clone {
    fn hide(&mut self, endian: Endianness);
    fn place(&mut self, endian: Endianness, offset: u64, size: u64) -> Option<()>;
}

impl Changed for elf::SectionHeader64<Endianness> {
    fn hide(&mut self, endian: Endianness) {
        self.sh_type.set(endian, elf::SHT_NOBITS);
    }

    fn place(&mut self, endian: Endianness, offset: u64, size: u64) -> Option<()> {
        self.sh_flags = U64::default(); // not compressed; no other flag is used
        self.sh_offset.set(endian, offset);
        self.sh_size.set(endian, size);
        Some(())
    }
}

impl Changed for elf::SectionHeader32<Endianness> {
    fn hide(&mut self, endian: Endianness) {
        self.sh_type.set(endian, elf::SHT_NOBITS);
    }

    fn place(&mut self, endian: Endianness, offset: u64, size: u64) -> Option<()> {
        self.sh_flags = U32::default(); // not compressed; no other flag is used
        self.sh_offset.set(endian, u32::try_from(offset).ok()?);
        self.sh_size.set(endian, u32::try_from(size).ok()?);
        Some(())
    }
}
