//! An address space, which finds the mapping that covers an address. A later mapping replaces what
//! it overlaps; munmap is not recorded.

use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxHashSet;

use super::moved::Moved;

use base::addr::{Avma, FileOffset, Timestamp};
use base::event::{self, FileId, MAP_SHARED, PROT_EXEC};
use base::hash::hash;

/// `PROT_WRITE` and `MAP_HUGETLB` of a mapping record.
const PROT_WRITE: u32 = 2;
const MAP_HUGETLB: u32 = 0x4_0000;

/// Maximum number of mappings of an address space: twice the kernel's default limit.
const MAX_REGIONS: usize = 1 << 17;

/// A distinct mapped file or pseudo-file: index into [`MappedFiles`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u32);

impl FileKey {
    /// The index in a table of files.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A file, as identified by its mappings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MappedFile {
    /// Device and inode; inode 0: no file.
    pub file: FileId,
    /// Path or pseudo-name, without ` (deleted)`; invalid UTF-8 is replaced. Files with the same
    /// path share it.
    pub path: Arc<str>,
    /// The kernel reported that the file was deleted.
    pub deleted: bool,
    /// Build id, if it was known at the time of the mapping.
    pub build_id: Box<[u8]>,
}

impl MappedFile {
    /// Whether it is memory without a file, other than the vdso.
    pub fn is_anonymous(&self) -> bool {
        self.file.inode == 0 && !self.is_vdso()
    }

    /// Whether it is the code that the kernel provides to every process.
    pub fn is_vdso(&self) -> bool {
        &*self.path == "[vdso]"
    }
}

/// All distinct mapped files. A long recording has hundreds of thousands, nearly all of them shared
/// memory with a few names.
#[derive(Debug, Default)]
pub struct MappedFiles {
    list: Vec<MappedFile>,
    /// Ids by file.
    keys: HashTable<FileKey>,
    /// The first name of each file.
    by_id: HashTable<FileKey>,
    paths: Texts,
}

impl MappedFiles {
    /// Builds the key of a mapping's file.
    pub fn intern(&mut self, mapping: &event::Mapping) -> FileKey {
        let path = String::from_utf8_lossy(&mapping.path);
        let (path, deleted) = match path.strip_suffix(" (deleted)") {
            Some(path) => (path, true),
            None => (&*path, false),
        };
        // All anonymous memory is equivalent: there are thousands of heaps and stacks.
        let anonymous = mapping.file.inode == 0 && path != "[vdso]";
        let file = MappedFile {
            file: mapping.file,
            path: self.paths.shared(if anonymous { "" } else { path }),
            deleted,
            build_id: mapping.build_id.as_slice().into(),
        };
        let Self { list, keys, by_id, .. } = self;
        let is_it = |key: &FileKey| list[key.index()] == file;
        let key = match keys.entry(hash(&file), is_it, |key| hash(&list[key.index()])) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(room) => {
                let key = FileKey(u32::try_from(list.len()).unwrap_or(u32::MAX));
                room.insert(key);
                key
            }
        };
        let id = file.file;
        list.push(file);
        if id.inode != 0 {
            let hash_of = |key: &FileKey| hash(&list[key.index()].file);
            by_id
                .entry(hash(&id), |key| list[key.index()].file == id, hash_of)
                .or_insert(key);
        }
        key
    }

    /// A file, named as in its first mapping.
    pub fn of(&self, file: FileId) -> Option<FileKey> {
        let is_it = |key: &FileKey| self.list[key.index()].file == file;
        self.by_id.find(hash(&file), is_it).copied()
    }

    /// The file with an id.
    pub fn get(&self, key: FileKey) -> &MappedFile {
        &self.list[key.index()]
    }
}

/// Interned texts: few distinct ones, each used often.
#[derive(Debug, Default)]
pub struct Texts(FxHashSet<Arc<str>>);

impl Texts {
    /// The shared copy of this text.
    pub fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}

/// A mapping, or what later mappings left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the mapping's own")]
pub struct Region {
    /// First address.
    pub start: Avma,
    /// End address (exclusive).
    pub end: Avma,
    /// Offset of the first byte in the file.
    pub offset: FileOffset,
    /// The mapped file.
    pub file: FileKey,
    /// Whether it is executable.
    pub executable: bool,
    /// Whether it is writable.
    pub writable: bool,
    /// Whether writes go to the file, or to processes that share the memory.
    pub shared: bool,
    /// Of huge pages (`MAP_HUGETLB`).
    pub huge: bool,
    /// Time of the mapping.
    pub made: Timestamp,
}

impl Region {
    /// The part from `start` to `end`, which must be within it.
    fn part(&self, start: Avma, end: Avma) -> Self {
        let offset = FileOffset(self.offset.0.wrapping_add(start.0 - self.start.0));
        Self {
            start,
            end,
            offset,
            ..*self
        }
    }

    /// The file offset of `address`, which must be within it.
    pub fn file_offset(&self, address: Avma) -> FileOffset {
        self.part(address, self.end).offset
    }
}

/// The mappings of one address space, shared between processes until one of them changes it.
#[derive(Debug, Clone, Default)]
pub struct Space {
    /// Sorted, non-overlapping mappings.
    regions: Rc<Vec<Region>>,
    /// Code of files that is now in anonymous memory.
    moved: Moved,
    /// Version of the code mappings: spaces with the same version have the same code mappings. 0:
    /// none.
    pub(super) code: u64,
}

impl Space {
    /// The mapping that covers `address`.
    pub fn find(&self, address: Avma) -> Option<&Region> {
        let behind = self.regions.partition_point(|region| region.start <= address);
        self.regions[..behind].last().filter(|region| address < region.end)
    }

    /// Like [`Self::find`], but for code that was moved to large pages, the original file mapping.
    pub fn find_code(&self, address: Avma) -> Option<&Region> {
        self.moved.find(address).or_else(|| self.find(address))
    }

    /// All mappings, sorted by address.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Adds a mapping, replacing what it overlaps. True: code mappings changed.
    pub fn map(&mut self, mapping: &event::Mapping, file: FileKey) -> bool {
        let Some(end) = mapping
            .start
            .0
            .checked_add(mapping.len)
            .filter(|end| *end > mapping.start.0)
        else {
            return false;
        };
        let original = mapping
            .may_be_copy()
            .then(|| self.original(mapping.start, Avma(end)))
            .flatten();
        self.moved.replace(mapping.start, Avma(end), original);
        self.insert(Region {
            start: mapping.start,
            end: Avma(end),
            offset: mapping.offset,
            file,
            executable: mapping.protection & PROT_EXEC != 0,
            writable: mapping.protection & PROT_WRITE != 0,
            shared: mapping.flags & MAP_SHARED != 0,
            huge: mapping.flags & MAP_HUGETLB != 0,
            made: mapping.at.time,
        })
    }

    /// The original of a possible copy of code at this address: a single mapping must have covered
    /// all of it.
    fn original(&self, start: Avma, end: Avma) -> Option<Region> {
        let covering = self.find_code(start)?;
        (covering.executable && !covering.writable && end <= covering.end).then(|| covering.part(start, end))
    }

    fn insert(&mut self, region: Region) -> bool {
        let covers_code = self.clear(region.start, region.end);
        if self.regions.len() < MAX_REGIONS {
            let place = self.regions.partition_point(|other| other.start < region.start);
            Rc::make_mut(&mut self.regions).insert(place, region);
        }
        covers_code || region.executable
    }

    /// Removes the mappings from `start` to `end`. True: there was code.
    fn clear(&mut self, start: Avma, end: Avma) -> bool {
        let first = self.regions.partition_point(|region| region.end <= start);
        let behind = first + self.regions[first..].partition_point(|region| region.start < end);
        if first == behind {
            return false;
        }
        let has_code = self.regions[first..behind].iter().any(|region| region.executable);
        let (low, high) = (self.regions[first], self.regions[behind - 1]);
        let left = (low.start < start).then(|| low.part(low.start, start));
        let right = (high.end > end).then(|| high.part(end, high.end));
        Rc::make_mut(&mut self.regions).splice(first..behind, left.into_iter().chain(right));
        has_code
    }

    /// Keeps only mappings created at or after `time`.
    pub fn forget_before(&mut self, time: Timestamp) {
        Rc::make_mut(&mut self.regions).retain(|region| region.made >= time);
        self.moved.forget_before(time);
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use base::event::At;

    fn mapping(start: u64, len: u64, offset: u64, time: u64) -> event::Mapping {
        event::Mapping {
            at: At {
                time: Timestamp(time),
                pid: 1,
                tid: 1,
            },
            start: Avma(start),
            len,
            offset: FileOffset(offset),
            ..event::Mapping::default()
        }
    }

    proptest! {
        /// The oracle is an array with one entry per address.
        #[test]
        fn lookups_agree_with_an_array(made in prop::collection::vec((0..64u64, 1..24u64), 0..30)) {
            let mut space = Space::default();
            let mut array: Vec<Option<(u64, FileKey)>> = vec![None; 128];
            for (number, (start, len)) in (0u32..).zip(made) {
                space.map(&mapping(start, len, 1000, u64::from(number)), FileKey(number));
                for at in start..start + len {
                    array[at as usize] = Some((1000 + at - start, FileKey(number)));
                }
                for (at, expected) in (0u64..).zip(&array) {
                    let found = space.find(Avma(at)).map(|region| (region.file_offset(Avma(at)).0, region.file));
                    prop_assert_eq!(found, *expected, "at {} after mapping {}", at, number);
                }
            }
        }

        #[test]
        fn hostile_mappings_never_panic(made in prop::collection::vec(any::<(u64, u64, u64, u64)>(), 0..20)) {
            let mut space = Space::default();
            for (start, len, offset, time) in made {
                space.map(&mapping(start, len, offset, time), FileKey(0));
            }
            prop_assert!(space.regions().is_sorted_by(|low, high| low.end <= high.start));
        }
    }

    #[test]
    fn a_shared_space_is_copied_when_it_changes() {
        let mut parent = Space::default();
        parent.map(&mapping(0x1000, 0x1000, 0, 1), FileKey(0));
        let mut child = parent.clone();
        assert!(Rc::ptr_eq(&parent.regions, &child.regions));
        child.map(&mapping(0x1000, 0x800, 0, 2), FileKey(1));
        assert_eq!(parent.find(Avma(0x1400)).unwrap().file, FileKey(0));
        assert_eq!(child.find(Avma(0x1400)).unwrap().file, FileKey(1));
        assert_eq!(
            child.find(Avma(0x1800)).unwrap().file_offset(Avma(0x1800)),
            FileOffset(0x800)
        );
    }

    #[test]
    fn code_that_was_copied_to_large_pages_is_still_the_files() {
        let code = |start, len, inode| event::Mapping {
            protection: PROT_EXEC,
            file: FileId {
                inode,
                ..FileId::default()
            },
            ..mapping(start, len, 0x1000, 1)
        };
        let (file, anonymous) = (FileKey(1), FileKey(2));
        let found = |space: &Space, at| {
            let code = space.find_code(Avma(at)).unwrap();
            (
                code.file,
                code.file_offset(Avma(at)).0,
                space.find(Avma(at)).unwrap().file,
            )
        };
        let mut space = Space::default();
        space.map(&code(0x10_0000, 0x80_0000, 5), file);
        // Reported twice: when it is created, and when it becomes read-only.
        for _ in 0..2 {
            space.map(&code(0x20_0000, 0x40_0000, 0), anonymous);
            assert_eq!(found(&space, 0x20_0123), (file, 0x10_1123, anonymous));
            assert_eq!(found(&space, 0x10_0123), (file, 0x1123, file));
        }
        // A compiler's memory: it does not consist of large pages, or no file was mapped there.
        space.map(&code(0x20_0000, 0x10_0000, 0), anonymous);
        assert_eq!(found(&space, 0x20_0123).0, anonymous);
        space.map(&code(0x80_0000, 0x40_0000, 0), anonymous);
        assert_eq!(found(&space, 0x80_0123).0, anonymous);
    }

    #[test]
    fn names_give_the_kind_of_mapping() {
        let mut files = MappedFiles::default();
        let mut key = |path: &[u8], inode| {
            let file = FileId {
                inode,
                ..FileId::default()
            };
            let key = files.intern(&event::Mapping {
                path: path.to_vec(),
                file,
                ..event::Mapping::default()
            });
            files.get(key).clone()
        };
        assert!(key(b"//anon", 0).is_anonymous());
        assert!(key(b"[heap]", 0).is_anonymous());
        assert!(key(b"[vdso]", 0).is_vdso() && !key(b"[vdso]", 0).is_anonymous());
        let deleted = key(b"/usr/lib/x.so (deleted)", 5);
        assert!(deleted.deleted && &*deleted.path == "/usr/lib/x.so" && !deleted.is_anonymous());
        assert!(!key(b"/memfd:jit (deleted)", 6).is_anonymous());
    }
}
