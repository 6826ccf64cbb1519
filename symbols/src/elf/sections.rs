//! The sections of a file by offset: they identify a byte of the file, wherever it is mapped.

use object::{Object as _, ObjectSection as _, SectionFlags};

use super::ElfFile;

const SHF_ALLOC: u64 = 2;
/// Maximum number of sections: a file has about forty.
const MAX_SECTIONS: usize = 4096;
/// Maximum length of a name.
const MAX_NAME: usize = 256;
const PAGE: u64 = 4096;

/// The part of the file that a section occupies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionPlace {
    /// Its name.
    pub name: String,
    /// Offset in the file.
    pub offset: u64,
    /// Size in the file in bytes.
    pub size: u64,
    /// Stated address of the first byte; 0 if it is not loaded.
    pub svma: u64,
    /// Whether it is loaded when the file runs.
    pub loaded: bool,
}

impl SectionPlace {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

impl ElfFile {
    /// The sections, sorted by offset, without overlaps.
    ///
    /// Memory without bytes in the file begins in the middle of a page, and so in the file's last
    /// page of that segment: those bytes count as `.bss`, which they are in memory, and not as the
    /// section that they belong to in the file, which is not loaded.
    pub fn section_places(&self) -> Vec<SectionPlace> {
        let Ok(object) = self.object() else { return Vec::new() };
        let places: Vec<SectionPlace> = object
            .sections()
            .take(MAX_SECTIONS)
            .filter_map(|section| {
                let (offset, size) = section.file_range().filter(|(_, size)| *size > 0)?;
                let loaded =
                    matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_ALLOC != 0);
                let name = section.name_bytes().ok()?;
                Some(SectionPlace {
                    name: String::from_utf8_lossy(name.get(..MAX_NAME).unwrap_or(name)).into_owned(),
                    offset,
                    size,
                    svma: if loaded { section.address() } else { 0 },
                    loaded,
                })
            })
            .collect();
        if self.was_cut() {
            return Vec::new();
        }
        // Of several at one place, loaded ones have precedence, and those with bytes over those
        // without: two segments may map the same page of the file. A damaged file may contain any
        // number of them.
        let (mut loaded, mut others): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| place.loaded);
        loaded.sort_by_key(|place| (place.offset, place.size));
        others.sort_by_key(|place| (place.offset, place.size));
        let places = loaded.into_iter().chain(self.zeroed()).chain(others);
        let mut accepted: Vec<SectionPlace> = Vec::new();
        for mut place in places {
            let next = accepted.partition_point(|other| other.offset <= place.offset);
            let before = next
                .checked_sub(1)
                .and_then(|last| accepted.get(last))
                .map_or(0, SectionPlace::end);
            let behind = accepted.get(next).map_or(u64::MAX, |other| other.offset);
            let (start, end) = (place.offset.max(before), place.end().min(behind));
            if start < end {
                place.svma = if place.loaded {
                    place.svma.wrapping_add(start - place.offset)
                } else {
                    0
                };
                (place.offset, place.size) = (start, end - start);
                accepted.insert(next, place);
            }
        }
        accepted
    }

    /// The first bytes of `.bss`, which share a page with the last bytes of the file.
    fn zeroed(&self) -> impl Iterator<Item = SectionPlace> + '_ {
        self.segments().iter().filter_map(|segment| {
            let offset = segment.file_offset.checked_add(segment.file_size)?;
            let zeroed = segment.memory_size.checked_sub(segment.file_size)?;
            let size = zeroed.min(offset.checked_next_multiple_of(PAGE)? - offset);
            (segment.writable && segment.file_size > 0 && size > 0).then_some(SectionPlace {
                name: ".bss".to_owned(),
                offset,
                size,
                svma: segment.svma.wrapping_add(segment.file_size),
                loaded: true,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn sections_of_this_program_are_where_its_segments_are() {
        let elf = ElfFile::open(File::open(std::env::current_exe().unwrap()).unwrap()).unwrap();
        let places = elf.section_places();
        assert!(places.windows(2).all(|two| two[0].end() <= two[1].offset));
        let named = |name: &str| places.iter().find(|place| place.name == name);
        let text = named(".text").unwrap();
        let whole = elf.section(".text").unwrap();
        assert_eq!(
            (text.svma, text.size),
            (whole.svma.start, whole.svma.end - whole.svma.start)
        );
        assert!(!named(".symtab").unwrap().loaded, "tests are not stripped");
        for place in places.iter().filter(|place| place.loaded) {
            let segment = elf.segments().iter().find(|segment| {
                segment.file_offset <= place.offset && place.svma.wrapping_sub(segment.svma) < segment.memory_size
            });
            let segment = segment.unwrap_or_else(|| panic!("{place:?} in no segment"));
            assert_eq!(
                place.offset - segment.file_offset,
                place.svma - segment.svma,
                "{place:?}"
            );
        }
        let data = named(".data").unwrap();
        let bss = named(".bss").unwrap();
        assert_eq!(data.end(), bss.offset, "there is nothing between data and zeroed data");
        assert!(bss.end().is_multiple_of(PAGE) || bss.size < PAGE);
    }
}
