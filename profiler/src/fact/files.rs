//! The files that faults, reads, waits and requests touched: the kernel's word for which file it is, the mappings' for its name, and the
//! kernel's again for files that nobody mapped.

use rustc_hash::{FxHashMap, FxHashSet};

use super::fault::{FilePlace, MappedFile, MappedFileId};
use crate::addr::{Avma, FileOffset, PAGE};
use crate::event::{FaultFile, FileId};
use crate::task::space::{FileKey, Files, Region};

/// Most files; places in later ones are not told.
const MAX_FILES: usize = 1 << 20;
/// Most places of one file, and of all, whose symbols are looked up.
const MAX_PLACES: usize = 1 << 20;
const MAX_PLACES_IN_ALL: usize = 1 << 22;

/// A file under a name: a file of two names is two.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Name {
    file: FileId,
    path: String,
}

/// Gives each file its [`MappedFileId`].
#[derive(Debug, Default, Clone)]
pub struct FileIndex {
    /// Answers that were given.
    known: FxHashMap<(FileId, FileKey), MappedFileId>,
    by_name: FxHashMap<Name, MappedFileId>,
    /// The first name of each file, which reads go to.
    first: FxHashMap<FileId, MappedFileId>,
    /// As which file the mappings know it: of an overlay, they may name the file above, and the fault the one below.
    pub mapped_as: Vec<FileId>,
    /// The bytes that were touched, by file.
    touched: Vec<FxHashSet<u64>>,
    places: usize,
    /// Names that the kernel side told.
    told: FxHashMap<FileId, String>,
}

impl FileIndex {
    /// Goes on with files that are known already: their ids stay.
    pub fn of(files: &[MappedFile], mapped_as: &[FileId]) -> Self {
        let mut index = Self::default();
        for (number, file) in (0u32..).zip(files) {
            let id = MappedFileId(number);
            let path = file.path.clone();
            index.by_name.entry(Name { file: file.id, path }).or_insert(id);
            index.first.entry(file.id).or_insert(id);
            index
                .mapped_as
                .push(mapped_as.get(id.index()).copied().unwrap_or(file.id));
        }
        index
    }

    /// The place that a fault's own record names. `region` is what the time line has at the address.
    pub fn place(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &Files,
        file: &FaultFile,
        address: Avma,
        region: Option<&Region>,
    ) -> Option<FilePlace> {
        let key = region
            .filter(|region| shows(files, region, file, address))
            .map(|region| region.file)
            .or_else(|| files.of(file.file));
        let id = self.id(list, files, file.file, key)?;
        let byte = FileOffset(file.offset.0.wrapping_add(address.0 % PAGE));
        Some(self.touch(id, file.offset, byte))
    }

    /// The place that the time line names.
    pub fn place_in_region(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &Files,
        address: Avma,
        region: &Region,
    ) -> Option<FilePlace> {
        let mapped = files.get(region.file);
        if mapped.file.inode == 0 {
            return None;
        }
        let id = self.id(list, files, mapped.file, Some(region.file))?;
        let byte = region.file_offset(address);
        Some(self.touch(id, FileOffset(byte.0 - byte.0 % PAGE), byte))
    }

    /// The file of a mapping.
    pub fn of_region(&mut self, list: &mut Vec<MappedFile>, files: &Files, region: &Region) -> Option<MappedFileId> {
        self.id(list, files, files.get(region.file).file, Some(region.file))
    }

    /// Takes the name that the kernel side knows a file by; the last one counts, and what a mapping says beats it.
    pub fn name(&mut self, file: FileId, path: &[u8]) {
        if self.told.len() < MAX_FILES || self.told.contains_key(&file) {
            self.told.insert(file, String::from_utf8_lossy(path).into_owned());
        }
    }

    /// A name was told for the file.
    pub fn has_name(&self, file: FileId) -> bool {
        self.told.get(&file).is_some_and(|path| !path.is_empty())
    }

    /// The file that pages were read of, that a descriptor refers to, or that is between the program and a device.
    pub fn of_file(&mut self, list: &mut Vec<MappedFile>, files: &Files, file: FileId) -> Option<MappedFileId> {
        match self.first.get(&file) {
            Some(id) => Some(*id),
            None => self.id(list, files, file, files.of(file)),
        }
    }

    /// Names for what had none when it was touched: a mapping may have come later, or a name.
    pub fn finish(&mut self, list: &mut [MappedFile], files: &Files) {
        for (known, mapped_as) in list.iter_mut().zip(&mut self.mapped_as) {
            if !known.path.is_empty() {
                continue;
            }
            if let Some(key) = files.of(known.id) {
                *mapped_as = describe(known, files, key);
            }
            if known.path.is_empty()
                && let Some(path) = self.told.get(&known.id)
            {
                known.path.clone_from(path);
            }
        }
    }

    /// The bytes of a file that were touched, ascending.
    pub fn touched(&self, id: MappedFileId) -> Vec<FileOffset> {
        let mut bytes: Vec<FileOffset> = self
            .touched
            .get(id.index())
            .into_iter()
            .flatten()
            .copied()
            .map(FileOffset)
            .collect();
        bytes.sort_unstable();
        bytes
    }

    fn touch(&mut self, file: MappedFileId, offset: FileOffset, byte: FileOffset) -> FilePlace {
        if self.touched.len() <= file.index() {
            self.touched.resize_with(file.index() + 1, FxHashSet::default);
        }
        let places = &mut self.touched[file.index()];
        if places.len() < MAX_PLACES && self.places < MAX_PLACES_IN_ALL && places.insert(byte.0) {
            self.places += 1;
        }
        FilePlace { file, offset, byte }
    }

    fn id(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &Files,
        file: FileId,
        key: Option<FileKey>,
    ) -> Option<MappedFileId> {
        let Some(key) = key else {
            return match self.first.get(&file) {
                Some(id) => Some(*id),
                None => self.add(list, file, self.told.get(&file).cloned().unwrap_or_default()),
            };
        };
        if let Some(id) = self.known.get(&(file, key)) {
            return Some(*id);
        }
        let path = files.get(key).path.clone();
        let name = Name { file, path };
        let nameless = || {
            self.first
                .get(&file)
                .copied()
                .filter(|id| list.get(id.index()).is_some_and(|known| known.path.is_empty()))
        };
        let id = match self.by_name.get(&name).copied().or_else(nameless) {
            Some(id) => id,
            None => self.add(list, file, name.path.clone())?,
        };
        self.by_name.entry(name).or_insert(id);
        if let (Some(known), Some(mapped_as)) = (list.get_mut(id.index()), self.mapped_as.get_mut(id.index())) {
            *mapped_as = describe(known, files, key);
        }
        // What only the time line places is named by the mapping's own number.
        let mapped_as = files.get(key).file;
        self.first.entry(mapped_as).or_insert(id);
        let path = files.get(key).path.clone();
        self.by_name.entry(Name { file: mapped_as, path }).or_insert(id);
        self.known.insert((file, key), id);
        Some(id)
    }

    fn add(&mut self, list: &mut Vec<MappedFile>, file: FileId, path: String) -> Option<MappedFileId> {
        if list.len() >= MAX_FILES {
            return None;
        }
        let id = MappedFileId(u32::try_from(list.len()).ok()?);
        self.by_name.insert(
            Name {
                file,
                path: path.clone(),
            },
            id,
        );
        self.first.entry(file).or_insert(id);
        self.mapped_as.push(file);
        list.push(MappedFile {
            id: file,
            path,
            ..MappedFile::default()
        });
        Some(id)
    }
}

/// The region is the mapping that the fault was in: of the same file, or of a file above it, at the same place. Regions whose mapping
/// moved or is gone do not agree.
fn shows(files: &Files, region: &Region, file: &FaultFile, address: Avma) -> bool {
    let mapped = files.get(region.file).file;
    if mapped == file.file {
        return true;
    }
    // Stacked file systems have no device of their own.
    let page = Avma(address.0 - address.0 % PAGE);
    mapped.inode != 0 && mapped.major == 0 && region.start <= page && region.file_offset(page) == file.offset
}

/// Takes over what a mapping says, and returns its number for the file.
fn describe(known: &mut MappedFile, files: &Files, key: FileKey) -> FileId {
    let mapped = files.get(key);
    known.path.clone_from(&mapped.path);
    known.deleted |= mapped.deleted;
    if known.build_id.is_empty() {
        known.build_id.clone_from(&mapped.build_id);
    }
    mapped.file
}

#[cfg(test)]
mod tests;
