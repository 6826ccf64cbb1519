//! The strings of fault markers, as indices into the string array: a million markers share them.

use std::borrow::Cow;

use crate::error::WriteError;
use crate::shared::Shared;
use fact::fault::{Access, Failure, FaultClass, FilePlace};
use fact::{FaultFact, MappedFile, MappedFileId, PagesBy, Tables};

const COUNTED: [&str; 6] = [
    "minor",
    "major",
    "failed: SIGSEGV",
    "failed: SIGBUS",
    "failed: OOM",
    "failed: other",
];
/// Notes, joined if several apply.
const REMARKS: [&str; 3] = [
    "touched by the kernel",
    "another process's memory",
    "read-around is off here",
];

/// Indices in the profile's string array.
#[derive(Debug)]
pub struct FaultNames<'a> {
    files: &'a [MappedFile],
    by_file: Vec<FileNames>,
    classes: [u32; FaultClass::ALL.len()],
    accesses: [u32; Access::ALL.len()],
    counted: [u32; COUNTED.len()],
    /// Notes, indexed by the bits of those that apply.
    remarks: [u32; 1 << REMARKS.len()],
    during: [u32; PagesBy::ALL.len()],
    /// Name of fault markers.
    pub fault: u32,
    /// Name of read markers.
    pub read: u32,
    /// Name of markers of pages that system calls mapped.
    pub populated: u32,
}

/// Names of a file.
#[derive(Debug)]
pub struct FileNames {
    /// Short name.
    pub name: u32,
    /// Path, or its substitute.
    pub path: u32,
    sections: Vec<u32>,
    symbols: Vec<u32>,
}

impl<'a> FaultNames<'a> {
    /// Adds all strings that the markers of these tables can use.
    pub fn new(tables: &'a Tables, shared: &mut Shared<'a>) -> Result<Self, WriteError> {
        let mut by_file = Vec::with_capacity(tables.files.len());
        for file in &tables.files {
            by_file.push(FileNames {
                name: shared.string(Cow::Owned(file.short_name()))?,
                path: shared.string(Cow::Owned(file.display_path()))?,
                sections: numbers(shared, file.sections.iter().map(|section| &*section.name))?,
                symbols: numbers(shared, file.symbols.iter().map(|symbol| &*symbol.name))?,
            });
        }
        let mut remarks = [0; 1 << REMARKS.len()];
        for (slot, bits) in remarks.iter_mut().zip(0usize..) {
            let apply = REMARKS.iter().zip(0..).filter(|(_, bit)| bits >> bit & 1 == 1);
            let words: Vec<&str> = apply.map(|(remark, _)| *remark).collect();
            *slot = shared.string(Cow::Owned(words.join("; ")))?;
        }
        Ok(Self {
            files: &tables.files,
            by_file,
            classes: array(shared, FaultClass::ALL.map(FaultClass::name))?,
            accesses: array(shared, Access::ALL.map(Access::name))?,
            counted: array(shared, COUNTED)?,
            remarks,
            during: array(shared, PagesBy::ALL.map(PagesBy::name))?,
            fault: shared.string(Cow::Borrowed("PageFault"))?,
            read: shared.string(Cow::Borrowed("PagesRead"))?,
            populated: shared.string(Cow::Borrowed("PagesMapped"))?,
        })
    }

    /// Names of a file; `None`: it is not in the tables.
    pub fn file(&self, file: MappedFileId) -> Option<&FileNames> {
        self.by_file.get(file.index())
    }

    /// Section and symbol at an offset.
    pub fn at(&self, place: &FilePlace) -> (Option<u32>, Option<u32>) {
        let (Some(file), Some(names)) = (self.files.get(place.file.index()), self.file(place.file)) else {
            return (None, None);
        };
        let section = file
            .section_index(place.byte)
            .and_then(|index| names.sections.get(index));
        let symbol = file.symbol_index(place.byte).and_then(|index| names.symbols.get(index));
        (section.copied(), symbol.copied())
    }

    /// Name of a fault class.
    pub fn class(&self, class: FaultClass) -> u32 {
        let found = FaultClass::ALL.iter().position(|known| *known == class);
        self.classes[found.unwrap_or(FaultClass::ALL.len() - 1)]
    }

    /// Name of an access.
    pub fn access(&self, access: Access) -> u32 {
        let found = Access::ALL.iter().position(|known| *known == access);
        self.accesses[found.unwrap_or(Access::ALL.len() - 1)]
    }

    /// Name of the counter in which the kernel counts a fault.
    pub fn counted(&self, fault: &FaultFact) -> u32 {
        self.counted[match fault.failed {
            None => usize::from(fault.major),
            Some(Failure::Segv) => 2,
            Some(Failure::Bus) => 3,
            Some(Failure::OutOfMemory) => 4,
            Some(Failure::Other) => 5,
        }]
    }

    /// Notes on a fault; `None`: there are none.
    pub fn remarks(&self, fault: &FaultFact) -> Option<u32> {
        let flags = [fault.in_kernel, fault.remote, fault.read_around_off];
        let flags = flags.into_iter().zip(0..);
        let bits = flags.fold(0, |bits, (flag, bit)| bits | usize::from(flag) << bit);
        (bits > 0).then(|| self.remarks[bits])
    }

    /// Name of a read's reason.
    pub fn during(&self, by: PagesBy) -> u32 {
        self.during[by as usize]
    }
}

fn numbers<'a>(shared: &mut Shared<'a>, names: impl Iterator<Item = &'a str>) -> Result<Vec<u32>, WriteError> {
    names.map(|name| shared.string(Cow::Borrowed(name))).collect()
}

fn array<const N: usize>(shared: &mut Shared<'_>, names: [&'static str; N]) -> Result<[u32; N], WriteError> {
    let mut found = [0; N];
    for (slot, name) in found.iter_mut().zip(names) {
        *slot = shared.string(Cow::Borrowed(name))?;
    }
    Ok(found)
}
