//! Identity: names of hard links, deleted and moved mappings, stacked file systems, reads before mappings.

use super::*;
use base::addr::Timestamp;
use base::event::{At, Mapping};
use task::space::Space;

const DISK: u32 = 254;

fn id(major: u32, inode: u64) -> FileId {
    FileId {
        major,
        minor: 7,
        inode,
        generation: 0,
    }
}

#[derive(Default)]
struct World {
    files: MappedFiles,
    space: Space,
    index: FileIndex,
    list: Vec<MappedFile>,
}

impl World {
    fn map(&mut self, start: u64, offset: u64, file: FileId, path: &str) {
        let mapping = Mapping {
            at: At {
                time: Timestamp(1),
                pid: 1,
                tid: 1,
            },
            start: Avma(start),
            len: 0x10000,
            offset: FileOffset(offset),
            file,
            path: path.as_bytes().to_vec(),
            ..Mapping::default()
        };
        let key = self.files.intern(&mapping);
        self.space.map(&mapping, key);
    }

    /// A fault with a record that the page at `address` is at `offset` of `file`.
    fn fault(&mut self, address: u64, file: FileId, offset: u64) -> FilePlace {
        let region = self.space.find(Avma(address)).copied();
        let file = FaultFile {
            file,
            offset: FileOffset(offset),
            ..FaultFile::default()
        };
        self.index
            .place(&mut self.list, &self.files, &file, Avma(address), region.as_ref())
            .unwrap()
    }

    fn path(&self, place: FilePlace) -> &str {
        &self.list[place.file.index()].path
    }

    fn report_name(&mut self, file: FileId, path: &[u8]) {
        self.numbered(file, 0, path);
    }

    fn numbered(&mut self, file: FileId, number: u64, path: &[u8]) {
        let path = path.to_vec();
        self.index.name(&self.list, &FileName { file, number, path });
    }

    fn read(&mut self, file: FileId) -> MappedFileId {
        self.called(file, 0)
    }

    fn called(&mut self, file: FileId, name: u64) -> MappedFileId {
        self.index.of_file(&mut self.list, &self.files, (file, name)).unwrap()
    }
}

#[test]
fn an_offset_is_a_page_and_a_byte() {
    let mut world = World::default();
    world.map(0x10000, 0x5000, id(DISK, 3), "/a");
    let place = world.fault(0x12345, id(DISK, 3), 0x7000);
    assert_eq!((place.offset, place.byte), (FileOffset(0x7000), FileOffset(0x7345)));
    assert_eq!(world.path(place), "/a");
    let region = *world.space.find(Avma(0x12345)).unwrap();
    let same = world
        .index
        .place_in_region(&mut world.list, &world.files, Avma(0x12345), &region);
    assert_eq!(same, Some(place), "the time line alone says the same");
    assert_eq!(world.index.touched(place.file), [FileOffset(0x7345)]);
}

#[test]
fn a_file_with_two_names_counts_as_two() {
    let mut world = World::default();
    world.map(0x10000, 0, id(DISK, 3), "/a");
    world.map(0x30000, 0, id(DISK, 3), "/b");
    let [a, b] = [0x10000, 0x30000].map(|address| world.fault(address, id(DISK, 3), 0));
    assert_eq!((world.path(a), world.path(b)), ("/a", "/b"));
    assert_ne!(a.file, b.file);
    assert_eq!(world.read(id(DISK, 3)), a.file, "reads go to the first name");
}

#[test]
fn a_mapping_that_moved_keeps_its_file() {
    let mut world = World::default();
    world.map(0x10000, 0, id(DISK, 3), "/a");
    // Previous content of the new address, as far as perf's records show: anonymous memory, or another file.
    world.map(0x50000, 0, FileId::default(), "//anon");
    world.map(0x70000, 0x2000, id(DISK, 4), "/b");
    for address in [0x50000, 0x70000, 0x90000] {
        let place = world.fault(address, id(DISK, 3), 0x2000);
        assert_eq!((world.path(place), place.offset), ("/a", FileOffset(0x2000)));
    }
}

#[test]
fn the_mapping_may_name_the_overlay_file() {
    let mut world = World::default();
    let (above, below) = (id(0, 90), id(DISK, 3));
    world.map(0x10000, 0x4000, above, "/merged/a");
    let before = world.read(below);
    let place = world.fault(0x11008, below, 0x5000);
    assert_eq!(world.path(place), "/merged/a");
    assert_eq!(place.file, before, "pages that were read before are the same file's");
    assert_eq!(world.list[place.file.index()].id, below);
    assert_eq!(world.index.mapped_as, [above]);
    // A fault that only the time line can locate.
    let region = *world.space.find(Avma(0x11008)).unwrap();
    let again = world
        .index
        .place_in_region(&mut world.list, &world.files, Avma(0x11008), &region);
    assert_eq!(again, Some(place));
    // At another offset, it is no longer that mapping.
    let moved = world.fault(0x11008, id(DISK, 5), 0x9000);
    assert_eq!(world.path(moved), "");
}

#[test]
fn deleted_and_replaced_files_are_distinguished() {
    let mut world = World::default();
    let successor = FileId {
        generation: 1,
        ..id(DISK, 3)
    };
    world.map(0x10000, 0, id(DISK, 3), "/a (deleted)");
    world.map(0x30000, 0, successor, "/a");
    let old = world.fault(0x10000, id(DISK, 3), 0);
    let new = world.fault(0x30000, successor, 0);
    assert_ne!(old.file, new.file, "one number, one name, two files");
    assert_eq!((world.path(old), world.path(new)), ("/a", "/a"));
    assert!(world.list[old.file.index()].deleted && !world.list[new.file.index()].deleted);
}

#[test]
fn an_unmapped_file_has_no_name() {
    let mut world = World::default();
    let (read, mapped) = (world.read(id(DISK, 8)), world.read(id(DISK, 9)));
    world.map(0x10000, 0, id(DISK, 9), "/later");
    world.index.finish(&mut world.list, &world.files);
    assert_eq!(&*world.list[read.index()].path, "");
    assert_eq!(&*world.list[mapped.index()].path, "/later");
}

#[test]
fn files_that_are_known_keep_their_numbers() {
    let mut world = World::default();
    world.read(id(DISK, 8));
    world.map(0x10000, 0x4000, id(0, 90), "/merged/a");
    world.map(0x30000, 0, id(DISK, 3), "/a");
    world.map(0x50000, 0, id(DISK, 3), "/b");
    let ask = |world: &mut World| {
        [
            world.fault(0x50000, id(DISK, 3), 0).file,
            world.fault(0x10000, id(DISK, 8), 0x4000).file,
            world.fault(0x30000, id(DISK, 3), 0).file,
            world.read(id(DISK, 8)),
            world.read(id(DISK, 3)),
        ]
    };
    let first = ask(&mut world);
    let index = FileIndex::of(&world.list, &world.index.mapped_as);
    let known = world.list.clone();
    world.index = index;
    assert_eq!(ask(&mut world), first);
    assert_eq!(world.list, known);
}

#[test]
fn an_unmapped_file_has_its_reported_name() {
    let mut world = World::default();
    let (early, late, mapped) = (id(DISK, 3), id(DISK, 4), id(DISK, 5));
    world.report_name(early, b"/early");
    world.report_name(mapped, b"/below");
    world.map(0x10000, 0, mapped, "/above");
    let ids = [early, late, mapped].map(|file| world.read(file));
    world.report_name(late, b"/late");
    world.index.finish(&mut world.list, &world.files);
    let paths = ids.map(|id| &*world.list[id.index()].path);
    assert_eq!(
        paths,
        ["/early", "/late", "/above"],
        "the process's own view beats the kernel's"
    );
    assert!(world.index.has_name(late) && !world.index.has_name(id(DISK, 9)));
}

#[test]
fn reported_names_keep_their_numbers_in_a_kept_log() {
    let mut world = World::default();
    world.report_name(id(DISK, 3), b"/x");
    world.map(0x10000, 0, id(DISK, 3), "/y");
    let (unnamed, named) = (world.read(id(DISK, 8)), world.read(id(DISK, 3)));
    let index = FileIndex::of(&world.list, &world.index.mapped_as);
    world.index = index;
    world.report_name(id(DISK, 3), b"/x");
    assert_eq!((world.read(id(DISK, 8)), world.read(id(DISK, 3))), (unnamed, named));
}

#[test]
fn each_event_names_the_file_its_own_way() {
    let mut world = World::default();
    let file = id(0, 7);
    let before = world.read(file);
    for (number, path) in [(1, "/tmp/one"), (2, "/tmp/two"), (3, "/tmp/three")] {
        world.numbered(file, number, path.as_bytes());
    }
    // In any order: two descriptors may have two names.
    let called = [2, 1, 3, 2, 2, 1].map(|name| world.called(file, name));
    let paths = called.map(|id| world.list[id.index()].path.to_string());
    assert_eq!(
        paths,
        ["/tmp/two", "/tmp/one", "/tmp/three", "/tmp/two", "/tmp/two", "/tmp/one"]
    );
    assert_eq!((called[0], called[0], called[1]), (called[3], called[4], called[5]));
    assert_eq!(called[0], before, "a file without a name gets the first one");
    // An event without a known name gets the last one.
    assert_eq!(world.read(file), called[1]);
    assert_eq!(world.called(file, 99), called[1], "a name that was lost");
    let list = world.list.clone();
    world.index = FileIndex::of(&world.list, &world.index.mapped_as.clone());
    for (number, path) in [(1, "/tmp/one"), (2, "/tmp/two")] {
        world.numbered(file, number, path.as_bytes());
    }
    assert_eq!(
        [2, 1].map(|name| world.called(file, name)),
        [called[0], called[1]],
        "in a log that was kept"
    );
    assert_eq!(world.list, list);
}

#[test]
fn a_mapped_file_is_merged_with_its_namesake() {
    let mut world = World::default();
    let file = id(DISK, 3);
    world.map(0x10000, 0x5000, file, "/lib/x.so");
    world.numbered(file, 1, b"/lib/x.so");
    world.numbered(file, 2, b"/lib/x.so.old");
    let called = world.called(file, 1);
    assert_eq!(world.fault(0x11000, file, 0x1000).file, called);
    assert_ne!(world.called(file, 2), called);
    assert_eq!(
        world.fault(0x12000, file, 0x2000).file,
        called,
        "the mapping says what it is of"
    );
}
