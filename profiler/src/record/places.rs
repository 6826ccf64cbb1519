//! Sections and symbols at the file offsets that faults touched, and variables that contain futexes, for files that are
//! ELF.

use std::path::PathBuf;

use symbols::elf::SectionPlace;
use symbols::{AddressName, BinaryRequest};

use super::binaries::OpenBinaries;
use crate::addr::{FileOffset, PAGE};
use crate::event::FileId;
use crate::fact::fault::{FileSection, FileSymbol, FileVariable, MappedFileId};
use crate::fact::replay::files::{FileIndex, is_on_disk};
use crate::fact::{MappedFile, Tables};
use crate::unwind::Binaries as _;

/// The offsets and futexes of one file that need a symbol.
pub struct Places {
    /// The index of the file.
    pub file: MappedFileId,
    /// The file's id in mappings.
    pub mapped_as: FileId,
    /// Where to search for symbols.
    pub request: BinaryRequest,
    /// Offsets in the file, ascending, and their addresses relative to its base.
    pub bytes: Vec<(FileOffset, u32)>,
    /// Distances of futexes from the start of the file's mappings, ascending, and the same addresses.
    pub futexes: Vec<(u64, u32)>,
}

impl Places {
    /// The addresses to look up, relative to the file's base: those of the offsets, then those of the futexes.
    pub fn addresses(&self) -> impl Iterator<Item = u32> {
        let bytes = self.bytes.iter().map(|(_, address)| *address);
        bytes.chain(self.futexes.iter().map(|(_, address)| *address))
    }
}

/// Adds the sections of every ELF file, and returns which offsets and futexes in them need a symbol.
pub fn sections(tables: &mut Tables, index: &FileIndex, binaries: &OpenBinaries) -> Vec<Places> {
    let mut wanted = Vec::new();
    for (id, known) in (0u32..).map(MappedFileId).zip(&mut tables.files) {
        let (touched, futexes) = (index.touched(id), index.futexes(id));
        let is_needed = !touched.is_empty() || !futexes.is_empty();
        if !is_on_disk(&known.path) || !is_needed || !known.sections.is_empty() {
            continue;
        }
        let mapped_as = index.mapped_as.get(id.index()).copied().unwrap_or(known.id);
        let Ok(elf) = binaries.elf(mapped_as, &known.path, &known.build_id) else {
            continue;
        };
        if known.build_id.is_empty() {
            known.build_id = elf.build_id().to_vec();
        }
        let sections = elf.section_places();
        let base = elf.base_svma();
        let relative = |byte: &FileOffset| {
            let address = svma_of(&sections, byte.0)?.checked_sub(base)?;
            Some((*byte, u32::try_from(address).ok()?))
        };
        // The first mapping begins with the page of the first segment.
        let start = base - base % PAGE;
        let of_futex = |distance: &u64| {
            let address = start.checked_add(*distance)?.checked_sub(base)?;
            Some((*distance, u32::try_from(address).ok()?))
        };
        wanted.push(Places {
            file: id,
            mapped_as,
            request: BinaryRequest {
                open_path: binaries.open_path(mapped_as, &known.path, &known.build_id),
                path: PathBuf::from(&*known.path),
                build_id: known.build_id.clone(),
            },
            bytes: touched.iter().filter_map(relative).collect(),
            futexes: futexes.iter().filter_map(of_futex).collect(),
        });
        known.sections = sections.into_iter().map(section).collect();
    }
    wanted
}

/// Sections in the form of facts.
pub fn section(place: SectionPlace) -> FileSection {
    FileSection {
        name: place.name,
        offset: place.offset,
        size: place.size,
        svma: place.svma,
    }
}

/// The stated address of a byte.
fn svma_of(sections: &[SectionPlace], byte: u64) -> Option<u64> {
    let index = sections
        .partition_point(|section| section.offset <= byte)
        .checked_sub(1)?;
    let section = sections.get(index)?;
    let place = byte - section.offset;
    (section.loaded && place < section.size).then(|| section.svma.wrapping_add(place))
}

/// Records the variables found at `futexes`.
pub fn note_variables(file: &mut MappedFile, futexes: &[(u64, u32)], names: Vec<Option<AddressName>>) {
    let found = futexes.iter().zip(names).filter_map(|((distance, address), name)| {
        let name = name.filter(|name| !name.is_nameless)?;
        Some(FileVariable {
            start: distance.checked_sub(u64::from(address.checked_sub(name.symbol_start)?))?,
            size: name.symbol_size?.into(),
            name: name.symbol,
        })
    });
    file.variables = found.collect();
    file.variables.sort_by_key(|variable| variable.start);
    file.variables.dedup();
}

/// Records the symbols found at `bytes`: a look-up at each of them returns its own.
pub fn note(file: &mut MappedFile, bytes: &[(FileOffset, u32)], names: Vec<Option<AddressName>>) {
    let mut symbols: Vec<FileSymbol> = Vec::new();
    let mut open: Option<(u32, String)> = None;
    let mut behind_last = 0;
    for ((FileOffset(byte), address), name) in bytes.iter().zip(names) {
        let end_of_byte = byte.saturating_add(1);
        match name {
            None => {
                if let Some(symbol) = symbols.last_mut() {
                    symbol.size = symbol.size.min(byte - symbol.offset);
                }
                open = None;
            }
            Some(name) if open.as_ref() == Some(&(name.symbol_start, name.symbol.clone())) => {
                if let Some(symbol) = symbols.last_mut() {
                    symbol.size = symbol.size.max(end_of_byte - symbol.offset);
                }
            }
            Some(name) => {
                // A symbol that contains another one continues after it.
                let start = byte.saturating_sub(u64::from(address.saturating_sub(name.symbol_start)));
                let end = start.saturating_add(name.symbol_size.map_or(0, u64::from));
                let offset = start.max(behind_last);
                symbols.push(FileSymbol {
                    name: name.symbol.clone(),
                    offset,
                    size: end.max(end_of_byte) - offset,
                });
                open = Some((name.symbol_start, name.symbol));
            }
        }
        behind_last = end_of_byte;
    }
    file.symbols = symbols;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Symbols as (start, size), possibly nested; the innermost one covers a byte.
    fn name_at(symbols: &[(u32, u32)], at: u32) -> Option<AddressName> {
        let covering = symbols
            .iter()
            .enumerate()
            .filter(|(_, (start, size))| at.checked_sub(*start).is_some_and(|place| place < *size));
        let (number, (start, size)) = covering.min_by_key(|(_, (_, size))| *size)?;
        Some(AddressName {
            is_nameless: false,
            symbol: format!("symbol {number}"),
            symbol_start: *start,
            symbol_size: (number % 3 > 0).then_some(*size),
            inline_chain: Vec::new(),
        })
    }

    proptest! {
        #[test]
        fn each_offset_finds_its_own_symbol(
            symbols in prop::collection::vec((0..100u32, 1..60u32), 0..8),
            touched in prop::collection::btree_set(0..160u32, 0..30),
        ) {
            let bytes: Vec<_> = touched.iter().map(|at| (FileOffset(u64::from(*at) + 0x3000), *at)).collect();
            let names: Vec<_> = touched.iter().map(|at| name_at(&symbols, *at)).collect();
            let mut file = MappedFile::default();
            note(&mut file, &bytes, names.clone());
            for ((byte, _), name) in bytes.iter().zip(&names) {
                prop_assert_eq!(file.symbol(*byte), name.as_ref().map(|name| &*name.symbol), "at {:?} in {:?}", byte, file.symbols);
            }
        }

        #[test]
        fn each_futex_finds_its_own_variable(
            sizes in prop::collection::vec((1..60u32, 0..20u32), 1..8),
            futexes in prop::collection::btree_set(0..400u32, 0..30),
        ) {
            // Variables with gaps, from address 0; the first segment is at 0x1000.
            let mut variables = Vec::new();
            let mut end = 0;
            for (size, gap) in sizes {
                variables.push((end, size));
                end += size + gap;
            }
            let futexes: Vec<_> = futexes.iter().map(|at| (u64::from(*at) + 0x1000, *at)).collect();
            let name = |at: u32| name_at(&variables, at).map(|name| AddressName {
                symbol_size: variables.iter().find(|(start, _)| *start == name.symbol_start).map(|(_, size)| *size),
                ..name
            });
            let mut file = MappedFile::default();
            note_variables(&mut file, &futexes, futexes.iter().map(|(_, at)| name(*at)).collect());
            for (distance, at) in futexes {
                let found = file.variable(distance).map(|found| (found.name.clone(), distance - found.start));
                prop_assert_eq!(found, name(at).map(|name| (name.symbol, u64::from(at - name.symbol_start))));
            }
        }

        #[test]
        fn hostile_answers_never_panic(bytes in prop::collection::btree_map(any::<u64>(), any::<(u32, u32, Option<u32>)>(), 0..20)) {
            let name = |(_, symbol_start, symbol_size): &(u32, u32, Option<u32>)| AddressName {
                is_nameless: false,
                symbol: "x".into(),
                symbol_start: *symbol_start,
                symbol_size: *symbol_size,
                inline_chain: Vec::new(),
            };
            let names: Vec<_> = bytes.values().map(|values| Some(name(values))).collect();
            let places: Vec<_> = bytes.iter().map(|(byte, values)| (FileOffset(*byte), values.0)).collect();
            let futexes: Vec<_> = bytes.iter().map(|(byte, values)| (*byte, values.0)).collect();
            note_variables(&mut MappedFile::default(), &futexes, names.clone());
            note(&mut MappedFile::default(), &places, names);
        }
    }
}
