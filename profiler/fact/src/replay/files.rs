//! Files that faults, reads, waits and requests touched: the kernel identifies the file, the mappings name it, and the
//! kernel also names files that are not mapped.

use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::fault::{FilePlace, MappedFile, MappedFileId};
use base::addr::{Avma, FileOffset, PAGE};
use base::event::{FaultFile, FileId, FileName};
use base::hash::hash;
use task::space::{FileKey, MappedFiles, Region};

/// Maximum number of files; offsets in later ones are not recorded.
const MAX_FILES: usize = 1 << 20;
/// Maximum number of offsets of one file, and of all, with symbol lookup.
const MAX_PLACES: usize = 1 << 20;
const MAX_PLACES_IN_ALL: usize = 1 << 22;
/// Maximum number of futexes, of all files, whose variables are searched.
const MAX_FUTEXES: usize = 1 << 16;

/// Pseudo files: opening them reads nothing that belongs to the program, and may have side effects.
const NO_FILES: [&str; 5] = ["/dev/", "/proc/", "/sys/", "/memfd:", "/SYSV"];

/// Whether the path may name a file on a disk, with sections and symbols.
pub fn is_on_disk(path: &str) -> bool {
    path.starts_with('/') && !NO_FILES.iter().any(|start| path.starts_with(start))
}

/// Assigns each file its [`MappedFileId`]: a file with two names has two.
#[derive(Debug, Default, Clone)]
pub struct FileIndex {
    /// Cached answers, for files that are what their mapping says.
    known: FxHashMap<FileKey, MappedFileId>,
    /// The same for files below the mapped one.
    below: FxHashMap<(FileId, FileKey), MappedFileId>,
    /// The id of each file's first name, which reads use, where it is listed as this file. The key is omitted: there
    /// are hundreds of thousands.
    first: HashTable<MappedFileId>,
    /// The same for files that are listed as another one.
    first_as: FxHashMap<FileId, MappedFileId>,
    /// Further names, of the few files that have any.
    others: FxHashMap<FileId, Vec<MappedFileId>>,
    /// File id in the mappings: in an overlay, they may name the upper file and the fault the lower one.
    pub mapped_as: Vec<FileId>,
    /// Touched bytes, by file.
    touched: FxHashMap<MappedFileId, FxHashSet<u64>>,
    places: usize,
    /// Distances of futexes from the start of the mappings, by file.
    futexes: FxHashMap<MappedFileId, FxHashSet<u64>>,
    futex_count: usize,
    /// Names that the kernel side sent for files that have none yet.
    pending_names: FxHashMap<FileId, String>,
    /// Names by the number that events use.
    names: FxHashMap<u64, Arc<str>>,
    /// For files with several names: the name that an event used last.
    last: FxHashMap<FileId, MappedFileId>,
    /// Files that the kernel side has named so far. A kept log knows all names from the beginning; this set grows as
    /// it did in the recording.
    named: FxHashSet<FileId>,
}

impl FileIndex {
    /// Continues with known files: their ids stay.
    pub fn of(files: &[MappedFile], mapped_as: &[FileId]) -> Self {
        let mut index = Self::default();
        for (number, file) in (0u32..).zip(files) {
            let id = MappedFileId(number);
            index.is_also(files, file.id, id);
            index
                .mapped_as
                .push(mapped_as.get(id.index()).copied().unwrap_or(file.id));
        }
        index
    }

    /// The page that a fault's own record names. `region` is the time line's mapping of the address.
    pub fn place(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &MappedFiles,
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
        Some(self.touch(list, id, file.offset, byte))
    }

    /// The page that the time line names.
    pub fn place_in_region(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &MappedFiles,
        address: Avma,
        region: &Region,
    ) -> Option<FilePlace> {
        let mapped = files.get(region.file);
        if mapped.file.inode == 0 {
            return None;
        }
        let id = self.id(list, files, mapped.file, Some(region.file))?;
        let byte = region.file_offset(address);
        Some(self.touch(list, id, FileOffset(byte.0 - byte.0 % PAGE), byte))
    }

    /// The file of a mapping.
    pub fn of_region(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &MappedFiles,
        region: &Region,
    ) -> Option<MappedFileId> {
        self.id(list, files, files.get(region.file).file, Some(region.file))
    }

    /// Adds a name that the kernel side knows. A known name takes precedence, except for events that use this one.
    pub fn name(&mut self, list: &[MappedFile], name: &FileName) {
        let file = name.file;
        if !name.path.is_empty() && self.named.len() < MAX_FILES {
            self.named.insert(file);
        }
        let path = String::from_utf8_lossy(&name.path);
        if name.number != 0 && !path.is_empty() && self.names.len() < MAX_FILES {
            self.names.insert(name.number, Arc::from(&*path));
        }
        let has_room = !self.is_listed(list, file);
        if has_room && (self.pending_names.len() < MAX_FILES || self.pending_names.contains_key(&file)) {
            self.pending_names.insert(file, path.into_owned());
        }
    }

    /// The kernel side has named the file.
    pub fn has_name(&self, file: FileId) -> bool {
        self.named.contains(&file)
    }

    /// Whether the file is listed under a name.
    fn is_listed(&self, list: &[MappedFile], file: FileId) -> bool {
        let known = self.first(list, file).and_then(|id| list.get(id.index()));
        known.is_some_and(|known| !known.path.is_empty())
    }

    /// The file that pages were read from, that a descriptor refers to, or that is between the program and a device;
    /// with the number of its name at that time, or 0.
    pub fn of_file(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &MappedFiles,
        (file, name): (FileId, u64),
    ) -> Option<MappedFileId> {
        if let Some(path) = self.names.get(&name).cloned() {
            return self.called(list, files, file, path);
        }
        let known = self.last.get(&file).copied().or_else(|| self.first(list, file));
        known.or_else(|| self.id(list, files, file, files.of(file)))
    }

    /// The file under the name that an event uses.
    fn called(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &MappedFiles,
        file: FileId,
        path: Arc<str>,
    ) -> Option<MappedFileId> {
        let mapped = files.of(file).filter(|key| files.get(*key).path == path);
        let first = self.first(list, file);
        let id = match self.under(list, file, &path) {
            Some(id) => id,
            None if mapped.is_some() => self.id(list, files, file, mapped)?,
            None => match first.filter(|_| !self.is_listed(list, file)) {
                // Its pages were read before any event named it.
                Some(nameless) => {
                    list.get_mut(nameless.index())?.path = path;
                    nameless
                }
                None => self.add(list, file, path)?,
            },
        };
        self.pending_names.remove(&file);
        if first.is_some_and(|first| first != id) || self.last.contains_key(&file) {
            self.last.insert(file, id);
        }
        Some(id)
    }

    /// Adds names for files without one when they were touched: a mapping or a name may have arrived later.
    pub fn finish(&mut self, list: &mut [MappedFile], files: &MappedFiles) {
        for (known, mapped_as) in list.iter_mut().zip(&mut self.mapped_as) {
            if !known.path.is_empty() {
                continue;
            }
            if let Some(key) = files.of(known.id) {
                *mapped_as = describe(known, files, key);
            }
            if known.path.is_empty()
                && let Some(path) = self.pending_names.get(&known.id)
            {
                known.path = path.as_str().into();
            }
        }
    }

    /// Touched bytes of a file, ascending.
    pub fn touched(&self, id: MappedFileId) -> Vec<FileOffset> {
        let mut bytes: Vec<FileOffset> = self
            .touched
            .get(&id)
            .into_iter()
            .flatten()
            .copied()
            .map(FileOffset)
            .collect();
        bytes.sort_unstable();
        bytes
    }

    /// Notes that a futex is in the file's data, at this distance from the start of its mappings.
    pub fn has_futex(&mut self, file: MappedFileId, distance: u64) {
        if self.futex_count < MAX_FUTEXES && self.futexes.entry(file).or_default().insert(distance) {
            self.futex_count += 1;
        }
    }

    /// Distances of a file's futexes, ascending.
    pub fn futexes(&self, id: MappedFileId) -> Vec<u64> {
        let mut distances: Vec<u64> = self.futexes.get(&id).into_iter().flatten().copied().collect();
        distances.sort_unstable();
        distances
    }

    fn touch(&mut self, list: &[MappedFile], file: MappedFileId, offset: FileOffset, byte: FileOffset) -> FilePlace {
        let place = FilePlace { file, offset, byte };
        let path = list.get(file.index()).map_or("", |known| &*known.path);
        if !path.is_empty() && !is_on_disk(path) {
            return place;
        }
        let places = self.touched.entry(file).or_default();
        if places.len() < MAX_PLACES && self.places < MAX_PLACES_IN_ALL && places.insert(byte.0) {
            self.places += 1;
        }
        place
    }

    fn id(
        &mut self,
        list: &mut Vec<MappedFile>,
        files: &MappedFiles,
        file: FileId,
        key: Option<FileKey>,
    ) -> Option<MappedFileId> {
        let Some(key) = key else {
            if let Some(id) = self.first(list, file) {
                return Some(id);
            }
            let path = self.pending_names.remove(&file).unwrap_or_default();
            return self.add(list, file, path.into());
        };
        let mapped = files.get(key);
        let known = if mapped.file == file {
            self.known.get(&key)
        } else {
            self.below.get(&(file, key))
        };
        if let Some(id) = known {
            return Some(*id);
        }
        let nameless = || self.first(list, file).filter(|_| !self.is_listed(list, file));
        let id = match self.under(list, file, &mapped.path).or_else(nameless) {
            Some(id) => id,
            None => self.add(list, file, Arc::clone(&mapped.path))?,
        };
        self.pending_names.remove(&file);
        if let (Some(known), Some(mapped_as)) = (list.get_mut(id.index()), self.mapped_as.get_mut(id.index())) {
            *mapped_as = describe(known, files, key);
        }
        // A page that only the time line finds is identified by the mapping's number.
        if self.under(list, mapped.file, &mapped.path).is_none() {
            self.is_also(list, mapped.file, id);
        }
        if mapped.file == file {
            self.known.insert(key, id);
        } else {
            self.below.insert((file, key), id);
        }
        Some(id)
    }

    /// The first name of a file.
    fn first(&self, list: &[MappedFile], file: FileId) -> Option<MappedFileId> {
        let own = self.first.find(hash(&file), |id| is(list, *id, file));
        own.or_else(|| self.first_as.get(&file)).copied()
    }

    /// The id of the file under that name.
    fn under(&self, list: &[MappedFile], file: FileId, path: &str) -> Option<MappedFileId> {
        let others = self.others.get(&file).into_iter().flatten().copied();
        let mut ids = self.first(list, file).into_iter().chain(others);
        ids.find(|id| list.get(id.index()).is_some_and(|known| &*known.path == path))
    }

    /// Records that the file is also listed as `id`.
    fn is_also(&mut self, list: &[MappedFile], file: FileId, id: MappedFileId) {
        match self.first(list, file) {
            Some(first) if first == id => {}
            Some(_) => self.others.entry(file).or_default().push(id),
            None if is(list, id, file) => {
                let hash_of = |id: &MappedFileId| list.get(id.index()).map_or(0, |known| hash(&known.id));
                self.first.insert_unique(hash(&file), id, hash_of);
            }
            None => {
                self.first_as.insert(file, id);
            }
        }
    }

    fn add(&mut self, list: &mut Vec<MappedFile>, file: FileId, path: Arc<str>) -> Option<MappedFileId> {
        if list.len() >= MAX_FILES {
            return None;
        }
        let id = MappedFileId(u32::try_from(list.len()).ok()?);
        self.mapped_as.push(file);
        list.push(MappedFile {
            id: file,
            path,
            ..MappedFile::default()
        });
        self.is_also(list, file, id);
        Some(id)
    }
}

/// Whether this is the file's own number in the list.
fn is(list: &[MappedFile], id: MappedFileId, file: FileId) -> bool {
    list.get(id.index()).is_some_and(|known| known.id == file)
}

/// Whether the region is the mapping of the fault: of the same file, or of a file above it, at the same address.
/// Regions with a moved or removed mapping do not match.
fn shows(files: &MappedFiles, region: &Region, file: &FaultFile, address: Avma) -> bool {
    let mapped = files.get(region.file).file;
    if mapped == file.file {
        return true;
    }
    // Stacked file systems have no separate device.
    let page = Avma(address.0 - address.0 % PAGE);
    mapped.inode != 0 && mapped.major == 0 && region.start <= page && region.file_offset(page) == file.offset
}

/// Copies what a mapping says, and returns its number for the file.
fn describe(known: &mut MappedFile, files: &MappedFiles, key: FileKey) -> FileId {
    let mapped = files.get(key);
    known.path.clone_from(&mapped.path);
    known.deleted |= mapped.deleted;
    if known.build_id.is_empty() {
        known.build_id = mapped.build_id.to_vec();
    }
    mapped.file
}

#[cfg(test)]
mod tests;
