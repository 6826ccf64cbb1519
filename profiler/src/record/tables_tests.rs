//! The cache of tables: what is trusted, what is rebuilt, and what is removed.

use std::os::unix::fs::{FileExt, symlink};
use std::time::Duration;

use super::*;

fn libc() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("/libc.so.6")).unwrap();
    PathBuf::from(&line[line.find('/').unwrap()..])
}

fn own() -> ElfFile {
    ElfFile::open(File::open(libc()).unwrap()).unwrap()
}

fn contents(table: &TableFile) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(table.size).unwrap()];
    table.memory.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

struct Cache {
    _home: tempfile::TempDir,
    folder: PathBuf,
    tables: TableCache,
    elf: ElfFile,
}

fn cache() -> Cache {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("cache/ngmi/tables");
    Cache {
        tables: TableCache::new(Some(folder.clone())),
        folder,
        _home: home,
        elf: own(),
    }
}

impl Cache {
    fn digest(&self) -> Digest {
        Input::of(&self.elf).unwrap().digest
    }

    fn file(&self) -> PathBuf {
        self.tables.path(&hex(&self.digest())).unwrap()
    }
}

#[test]
fn the_second_table_comes_from_the_cache() {
    let cache = cache();
    let first = cache.tables.of(&cache.elf, None).unwrap();
    let second = cache.tables.of(&cache.elf, None).unwrap();
    assert_eq!((first.is_cached, second.is_cached), (false, true));
    assert_eq!(contents(&first), contents(&second));
    let view = contents(&second);
    let view = TableView::from_bytes(&view).unwrap();
    assert_eq!(*view.source, cache.digest());
    assert!(view.stats.functions > 1_000);
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&cache.folder), mode(&cache.file())), (0o700, 0o600));
    assert_eq!(
        fs::read_dir(&cache.folder).unwrap().count(),
        1,
        "nothing half-written stays"
    );
}

/// The code that the kernel maps into each process has unwind information, like any library.
#[test]
fn the_vdso_has_a_table() {
    use crate::record::binaries::{OpenBinaries, Vdso};
    use crate::unwind::Binaries as _;

    let binaries = OpenBinaries::new(Vec::new(), Vdso::of_this_kernel());
    let vdso = binaries.elf(crate::event::FileId::default(), "[vdso]", &[]).unwrap();
    let table = contents(&TableCache::new(None).of(&vdso, None).unwrap());
    let view = TableView::from_bytes(&table).unwrap();
    assert!(view.stats.functions > 3 && view.stats.damaged == 0, "{view:?}");
}

#[test]
fn a_finished_table_is_immutable() {
    let table = cache();
    let table = table.tables.of(&table.elf, None).unwrap();
    assert!(table.memory.write_at(b"x", 0).is_err());
    assert!(table.memory.set_len(0).is_err());
    assert!(table.memory.set_len(table.size + 1).is_err());
}

#[test]
fn untrusted_cache_entries_are_rebuilt() {
    let cache = cache();
    let right = contents(&cache.tables.of(&cache.elf, None).unwrap());
    let file = cache.file();
    let made_again = |why: &str| {
        let table = cache.tables.of(&cache.elf, None).unwrap();
        assert!(!table.is_cached, "{why}");
        assert_eq!(contents(&table), right, "{why}");
        assert!(cache.tables.of(&cache.elf, None).unwrap().is_cached, "{why}");
    };
    let mut damaged = right.clone();
    damaged[right.len() / 2] ^= 1;
    fs::write(&file, damaged).unwrap();
    made_again("damaged");
    fs::write(&file, &right[..right.len() - 8]).unwrap();
    made_again("cut");
    fs::write(&file, b"").unwrap();
    made_again("empty");
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    made_again("anybody's");
    let elsewhere = cache.folder.parent().unwrap().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    made_again("a link");
    assert!(elsewhere.exists());
    let other = cache.folder.join(format!("00.{VERSION}"));
    fs::rename(&file, &other).unwrap();
    assert_eq!(cached(&other, Some(&[0; 32])), None, "the table of another file");
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRUSR).unwrap();
    made_again("a pipe");
}

#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    let cache = cache();
    fs::set_permissions(&cache.folder, Permissions::from_mode(0o777)).unwrap();
    let tables = TableCache::new(Some(cache.folder.clone()));
    assert!(!tables.of(&cache.elf, None).unwrap().is_cached);
    assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 0);
    let none = TableCache::new(Some(PathBuf::from("/proc/no/such/folder")));
    assert!(!none.of(&cache.elf, None).unwrap().is_cached);
    assert!(!TableCache::new(None).of(&cache.elf, None).unwrap().is_cached);
}

#[test]
fn the_least_recently_used_is_evicted_first() {
    let mut cache = cache();
    for (name, age, size) in [("old", 300, 1_000), ("middle", 200, 1_000), ("new", 100, 1_000)] {
        let file = File::create(cache.folder.join(name)).unwrap();
        file.set_len(size).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    let size = cache.tables.of(&cache.elf, None).unwrap().size;
    fs::remove_file(cache.file()).unwrap();
    cache.tables.limit = size + 1_500;
    cache.tables.of(&cache.elf, None).unwrap();
    let left = |name: &str| cache.folder.join(name).exists();
    assert!(left("new") && !left("middle") && !left("old") && cache.file().exists());
    // A table that is used counts as new again.
    let long_ago = SystemTime::now() - Duration::from_secs(400);
    File::open(cache.file()).unwrap().set_modified(long_ago).unwrap();
    assert!(cache.tables.of(&cache.elf, None).unwrap().is_cached);
    cache.tables.limit = size;
    tidy(&cache.folder, size).unwrap();
    assert!(!left("new") && cache.file().exists());
}

#[test]
fn the_cache_is_in_the_users_cache_folder() {
    let environment = |pairs: &[(&str, &str)]| -> Environment {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    };
    let folder = |pairs: &[(&str, &str)]| TableCache::default_folder(&environment(pairs));
    let home = ("HOME", "/usr");
    assert_eq!(folder(&[home]), Some("/usr/.cache/ngmi/tables".into()));
    assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "/c")]), Some("/c/ngmi/tables".into()));
    assert_eq!(
        folder(&[home, ("XDG_CACHE_HOME", "relative")]),
        Some("/usr/.cache/ngmi/tables".into())
    );
    assert_eq!(folder(&[("HOME", "/nowhere")]), None);
    assert_eq!(folder(&[]), None);
}

/// The library with some bytes changed: its build id stays, and so does the size of each section.
fn edited(change: impl FnOnce(&mut Vec<u8>)) -> ElfFile {
    let mut bytes = fs::read(libc()).unwrap();
    change(&mut bytes);
    ElfFile::from_bytes(bytes.into()).unwrap()
}

fn without_eh_frame() -> ElfFile {
    edited(|bytes| {
        let at = bytes.windows(10).rposition(|name| name == b".eh_frame\0").unwrap();
        bytes[at + 1] = b'x';
    })
}

#[test]
fn an_edited_file_is_not_taken_for_its_old_version() {
    let cache = cache();
    cache.tables.of(&cache.elf, None).unwrap();
    let edited = without_eh_frame();
    assert_eq!(edited.build_id(), cache.elf.build_id());
    let table = cache.tables.of(&edited, None);
    assert!(
        matches!(table, Err(TablesError::Table(TableError::Nothing))),
        "{table:?}"
    );
}

/// A file that claims to be the library, but has wrong rules, is recorded first.
#[test]
fn a_forged_file_does_not_poison_the_tables_of_another() {
    let cache = cache();
    let right = contents(&TableCache::new(None).of(&cache.elf, None).unwrap());
    // `DW_CFA_def_cfa_offset 16` becomes 24 in every function that pushes a word.
    let forged = edited(|bytes| {
        let elf = ElfFile::from_bytes(bytes.as_slice().into()).unwrap();
        let section = elf.section_places().into_iter().find(|place| place.name == ".eh_frame");
        let section = section.unwrap();
        let range = usize::try_from(section.offset).unwrap()..usize::try_from(section.offset + section.size).unwrap();
        for at in range.clone().take(range.len() - 3) {
            if bytes[at..at + 3] == [0x41, 0x0e, 0x10] {
                bytes[at + 2] = 0x18;
            }
        }
    });
    let sizes = |elf: &ElfFile| [".eh_frame", ".text"].map(|name| elf.section(name).unwrap().bytes.len());
    assert_eq!(
        (forged.build_id(), sizes(&forged)),
        (cache.elf.build_id(), sizes(&cache.elf))
    );
    let wrong = contents(&cache.tables.of(&forged, None).unwrap());
    assert!(wrong != right);
    assert!(contents(&cache.tables.of(&cache.elf, None).unwrap()) == right);
    assert!(
        contents(&cache.tables.of(&forged, None).unwrap()) == wrong,
        "each has its own"
    );
}

/// With a stamp, the contents are not even read: here they are those of another file.
#[test]
fn a_file_with_its_stamp_is_not_read_again() {
    let cache = cache();
    let stamp = Stamp::named("stamp");
    let first = cache.tables.of(&cache.elf, Some(&stamp)).unwrap();
    let second = cache.tables.of(&without_eh_frame(), Some(&stamp)).unwrap();
    assert!(!first.is_cached && second.is_cached);
    assert!(contents(&first) == contents(&second));
    // Both names are removed together.
    tidy(&cache.folder, 0).unwrap();
    assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 0);
}

#[test]
fn a_folder_below_one_that_others_can_write_to_is_not_used() {
    let home = tempfile::tempdir().unwrap();
    let (shared, folder) = (home.path().join("shared"), home.path().join("shared/tables"));
    fs::create_dir(&shared).unwrap();
    for (mode, usable) in [(0o755, true), (0o777, false), (0o1777, true)] {
        fs::set_permissions(&shared, Permissions::from_mode(mode)).unwrap();
        assert_eq!(
            TableCache::new(Some(folder.clone())).folder.is_some(),
            usable,
            "{mode:o}"
        );
    }
}
