//! Which files stay open, and what is kept of files that disappear.

use std::fs;
use std::io::Read as _;

use symbols::elf::ElfFile;

use super::*;
use crate::event::FileId;
use crate::record::table_maker::TableMaker;

/// A folder on a mount that is busy anyway, and one on another mount, if there is one.
fn folders() -> (tempfile::TempDir, Option<tempfile::TempDir>) {
    let anchored = tempfile::tempdir_in(".").unwrap();
    let elsewhere = tempfile::tempdir_in("/dev/shm").ok();
    let elsewhere = elsewhere.filter(|folder| !Anchors::new(&[]).hold(&File::open(folder.path()).unwrap()));
    (anchored, elsewhere)
}

fn keeper(folder: &Path) -> Keeper {
    Keeper::start(Anchors::new(&[]), Some(folder.to_owned()), TableMaker::default().feed())
}

/// Copies this test's program into the folder.
fn program(folder: &Path) -> PathBuf {
    let path = fs::canonicalize(folder).unwrap().join("program");
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    path
}

fn mapped(path: &Path) -> Mapped {
    Mapped {
        is_silent: false,
        pid: std::process::id(),
        file: FileId::default(),
        path: path.display().to_string(),
        problem: None,
    }
}

/// Whether this process has an open file below `path`; the copies are files without a name and do not count.
fn is_open(path: &Path) -> bool {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .into_iter()
        .any(|link| link.to_string_lossy().starts_with(&*path.to_string_lossy()))
}

/// Waits until the thread has closed a file.
fn wait_until_closed(path: &Path) {
    for _ in 0..6000 {
        if !is_open(path) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{} is still open", path.display());
}

/// The only file that was kept; no table is built in these tests, so no other thread has it.
fn only(kept: Kept) -> (Mapped, File) {
    let [(mapped, Some(file))] = <[_; 1]>::try_from(kept.mapped).unwrap() else {
        panic!("nothing is kept");
    };
    (mapped, file)
}

fn functions(file: File) -> usize {
    ElfFile::open(file).unwrap().functions().len()
}

#[test]
fn a_file_is_held_while_it_has_a_name() {
    let (folder, _) = folders();
    let path = program(folder.path());
    let file = File::open(&path).unwrap();
    let keeper = keeper(folder.path());
    keeper.mapped(mapped(&path), Some(file));
    thread::sleep(INTERVAL * 3);
    assert!(is_open(&path), "its tables and names are read later");
    fs::remove_file(&path).unwrap();
    wait_until_closed(&path);
    let (_, copy) = only(keeper.finish());
    assert!(copy.metadata().unwrap().blocks() > 0);
    let elf = ElfFile::open(copy.try_clone().unwrap()).unwrap();
    assert!(
        elf.section(".text").is_some(),
        "reading the code of a deleted file warms no other file"
    );
    let own = File::open(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(functions(copy), functions(own));
}

#[test]
fn files_on_a_removable_mount_are_copied() {
    let (folder, Some(elsewhere)) = folders() else {
        println!("skipped: /dev/shm is on a mount that is busy anyway");
        return;
    };
    let path = program(elsewhere.path());
    let keeper = keeper(folder.path());
    keeper.mapped(mapped(&path), Some(File::open(&path).unwrap()));
    wait_until_closed(&path);
    fs::remove_file(&path).unwrap();
    let kept = keeper.finish();
    let notes = kept.notes.clone();
    let (_, copy) = only(kept);
    let own = File::open(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(functions(copy), functions(own));
    assert!(notes[0].contains("have names but no lines"), "{notes:?}");
}

#[test]
fn the_whole_file_is_used_if_it_is_still_there_unchanged() {
    let (folder, Some(elsewhere)) = folders() else {
        println!("skipped: /dev/shm is on a mount that is busy anyway");
        return;
    };
    for is_changed in [false, true] {
        let path = program(elsewhere.path());
        let keeper = keeper(folder.path());
        keeper.mapped(mapped(&path), Some(File::open(&path).unwrap()));
        wait_until_closed(&path);
        if is_changed {
            fs::remove_file(&path).unwrap();
            fs::copy("/proc/self/exe", &path).unwrap();
        }
        let (_, file) = only(keeper.finish());
        let elf = ElfFile::open(file).unwrap();
        assert_eq!(elf.section(".rodata").is_some(), !is_changed);
    }
}

#[test]
fn files_being_written_are_held_while_their_program_runs() {
    let (folder, _) = folders();
    let mut program = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let path = fs::canonicalize(folder.path()).unwrap().join("perf-1.map");
    fs::write(&path, "1 2 first\n").unwrap();
    let keeper = keeper(folder.path());
    let map = PerfMap {
        pid: program.id(),
        path: "/tmp/perf-1.map".to_owned(),
    };
    let mut file = File::options().read(true).append(true).open(&path).unwrap();
    keeper.perf_map(map, File::open(&path).unwrap());
    fs::remove_file(&path).unwrap();
    thread::sleep(INTERVAL * 3);
    io::Write::write_all(&mut file, b"3 4 last\n").unwrap();
    drop(file);
    assert!(is_open(&path));
    program.kill().unwrap();
    program.wait().unwrap();
    wait_until_closed(&path);
    let kept = keeper.finish();
    let mut text = String::new();
    let mut written = &kept.perf_maps[0].1;
    io::Seek::rewind(&mut written).unwrap();
    written.read_to_string(&mut text).unwrap();
    assert_eq!(text, "1 2 first\n3 4 last\n");
}

#[test]
fn without_a_folder_for_copies_the_loss_is_reported() {
    let (folder, _) = folders();
    let path = program(folder.path());
    let file = File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let keeper = keeper(&folder.path().join("nowhere"));
    keeper.mapped(mapped(&path), Some(file));
    let kept = keeper.finish();
    assert!(kept.mapped[0].1.is_none() && kept.mapped[0].0.problem.is_some());
    assert!(
        kept.notes[0].starts_with("1 file could not be kept: "),
        "{:?}",
        kept.notes
    );
}
