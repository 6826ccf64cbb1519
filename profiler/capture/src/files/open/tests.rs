//! Which files are opened with whose rights, on real file systems.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use memmap2::Mmap;

use super::*;
use crate::space::maps;
use base::addr::Avma;
use base::event::At;

#[path = "../../../../tests/privilege/mounted.rs"]
mod mounted;
use mounted::Mounted;

const ALICE: u32 = 64_131;
const BOB: u32 = 64_132;

fn mounts() -> Vec<Mounted> {
    Mounted::each(|why| println!("skipped: {why}"))
}

/// The pid of a process that has ended.
fn gone() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The mapping as this process's maps show it; `map` has to map the file.
fn shown(map: &Mmap) -> Mapping {
    let start = Avma(map.as_ptr() as u64);
    let pid = std::process::id();
    let mut space = maps::open(pid, None, maps::BuildIds::Unwanted).unwrap();
    let found = space.covering(&[start]).unwrap().pop().flatten().unwrap();
    Mapping {
        at: At { pid, ..At::default() },
        ..found
    }
}

fn map(path: &Path) -> Mmap {
    // SAFETY: the tests don't change their files.
    unsafe { Mmap::map(&File::open(path).unwrap()) }.unwrap()
}

fn of(pid: u32, mapping: &Mapping) -> Mapping {
    Mapping {
        at: At { pid, ..At::default() },
        ..mapping.clone()
    }
}

fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        println!("skipped: needs root");
    }
    is_root
}

#[track_caller]
fn refused(mapping: &Mapping, reader: &Rights) -> String {
    let (message, file) = mapped(mapping, reader);
    assert!(file.is_none(), "{message:?}");
    message.problem.unwrap()
}

#[track_caller]
fn opened(mapping: &Mapping, reader: &Rights) {
    let (message, file) = mapped(mapping, reader);
    assert!(file.is_some(), "{message:?}");
}

/// The program's process has ended, its path now leads to root's file, and the inode has the right
/// number: the program controls all three.
#[test]
fn a_link_replacing_the_file_is_not_followed() {
    if !is_root() {
        return;
    }
    let root = Rights::own().unwrap();
    for system in mounts() {
        let top = system.top();
        let (secret, link, folder) = (top.join("secret"), top.join("jit-1.dump"), top.join("folder"));
        fs::write(&secret, "root's").unwrap();
        mode(&secret, 0o600);
        symlink(&secret, &link).unwrap();
        symlink(&top, &folder).unwrap();
        let mapping = shown(&map(&secret));
        for path in [link, folder.join("secret")] {
            let path = path.as_os_str().as_bytes().to_vec();
            for file in [
                mapping.file,
                FileId {
                    major: 0,
                    minor: 9999,
                    ..mapping.file
                },
            ] {
                let mapping = Mapping {
                    path: path.clone(),
                    file,
                    ..of(gone(), &mapping)
                };
                let why = refused(&mapping, &root);
                assert!(why.contains("link"), "{}: {why}", system.kind);
            }
        }
    }
}

/// A file on a file system that the program mounted has the same inode number as one on the
/// machine's.
#[test]
fn the_same_number_elsewhere_is_another_file() {
    if !is_root() {
        return;
    }
    let root = Rights::own().unwrap();
    for system in mounts() {
        let path = system.top().join("file");
        fs::write(&path, "x").unwrap();
        let mapping = shown(&map(&path));
        let other = Mapping {
            file: FileId {
                major: 0,
                minor: 9999,
                ..mapping.file
            },
            ..of(gone(), &mapping)
        };
        let why = refused(&other, &root);
        assert!(why.contains("another file"), "{}: {why}", system.kind);
    }
}

/// Short-lived programs, and files that no longer exist.
#[test]
fn the_mapped_file_is_opened_on_each_file_system() {
    if !is_root() {
        return;
    }
    let root = Rights::own().unwrap();
    for system in mounts() {
        let path = system.top().join("file");
        fs::write(&path, "x").unwrap();
        // In an overlay, a file is a different one until it is changed.
        let below = Some(system.top().join("below")).filter(|below| below.exists());
        for path in below.iter().chain([&path]) {
            let mapping = shown(&map(path));
            opened(&of(gone(), &mapping), &root);
            opened(&of(gone(), &mapping), &Rights::of_user(BOB).unwrap());
        }
        let map = map(&path);
        fs::remove_file(&path).unwrap();
        opened(&shown(&map), &root);
        refused(&of(gone(), &shown(&map)), &root);
    }
}

/// All users may execute it, but only its owner may read it.
#[test]
fn the_reader_gets_only_readable_files() {
    if !is_root() {
        return;
    }
    for system in mounts() {
        let folder = system.top().join("home");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("program");
        fs::write(&path, "x").unwrap();
        let map = map(&path);
        let mapping = shown(&map);
        let bob = Rights::of_user(BOB).unwrap();
        for (bits, may) in [(0o711, false), (0o755, true), (0o600, false)] {
            mode(&path, bits);
            let opened = mapped(&mapping, &bob).1.is_some();
            assert_eq!(opened, may, "{} {bits:o}", system.kind);
        }
        mode(&path, 0o644);
        // It belongs to another user's process, in a folder that is closed to this user.
        mode(&folder, 0o700);
        refused(&mapping, &bob);
        refused(&of(gone(), &mapping), &bob);
        opened(&mapping, &Rights::own().unwrap());
        mode(&folder, 0o755);
        opened(&mapping, &bob);
        fs::remove_file(&path).unwrap();
        opened(&shown(&map), &Rights::own().unwrap());
        mode(&folder, 0o700);
        refused(&shown(&map), &bob);
    }
}

#[test]
fn another_users_memory_file_is_not_passed_on() {
    if !is_root() {
        return;
    }
    let memory = nix::sys::memfd::memfd_create("secret", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
    let memory = File::from(memory);
    io::Write::write_all(&mut &memory, b"x").unwrap();
    // SAFETY: the file does not change.
    let map = unsafe { Mmap::map(&memory) }.unwrap();
    refused(&shown(&map), &Rights::of_user(BOB).unwrap());
    opened(&shown(&map), &Rights::own().unwrap());
}

/// Killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A recording by root takes no file that the recorded program's own user may not read.
#[test]
fn files_handed_to_root_are_readable_by_the_process() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    mode(folder.path(), 0o755);
    let program = folder.path().join("program");
    // By another process: a child that a concurrent test forks meanwhile would inherit a writable descriptor, with which
    // no program can be executed.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap();
    assert!(copied.success());
    chown(&program, Some(BOB), Some(BOB)).unwrap();
    for (bits, may) in [(0o711, false), (0o755, true)] {
        mode(&program, bits);
        let child = Command::new(&program).arg("60").uid(ALICE).gid(ALICE).spawn().unwrap();
        let child = Running(child);
        let pid = child.0.id();
        let all = maps::read(At { pid, ..At::default() }).unwrap();
        let root = Rights::own().unwrap();
        let is_code = |mapping: &&Mapping| mapping.protection & PROT_EXEC != 0 && mapping.file.inode != 0;
        let code: Vec<&Mapping> = all.iter().filter(is_code).collect();
        assert!(!code.is_empty());
        for mapping in code {
            let is_program = mapping.path == program.as_os_str().as_bytes();
            let file = mapped(mapping, &root).1;
            assert_eq!(file.is_some(), may || !is_program, "{:?}", mapping.path);
        }
    }
}

#[test]
fn a_replacement_file_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("lib.so");
    fs::write(&path, "old").unwrap();
    let mapping = shown(&map(&path));
    let own = Rights::own().unwrap();
    opened(&mapping, &own);
    fs::write(folder.path().join("new"), "new").unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    let why = refused(&mapping, &own);
    assert_eq!(why, "another file has this name now");
}

#[test]
fn a_pipe_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for open in [open_regular, open_without_links] {
        assert!(open(&path).is_err());
        assert!(open(Path::new("/dev/zero")).is_err());
    }
}

#[test]
fn root_opens_world_readable_files_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("file");
    fs::write(&path, "x").unwrap();
    mode(&path, 0o644);
    assert!(open_without_links(&path).is_ok());
    symlink(&path, folder.path().join("link")).unwrap();
    assert!(open_without_links(&folder.path().join("link")).is_err());
    mode(&path, 0o600);
    assert_eq!(open_without_links(&path).is_ok(), !nix::unistd::geteuid().is_root());
}

#[test]
fn each_file_is_reported_new_once() {
    let mut files = ReportedFiles::default();
    let code = Mapping {
        protection: PROT_EXEC,
        file: FileId {
            inode: 5,
            ..FileId::default()
        },
        path: b"/x".to_vec(),
        ..Mapping::default()
    };
    assert!(files.is_new(&code) && !files.is_new(&code));
    assert!(!files.is_new(&Mapping {
        protection: 1,
        path: b"/y".to_vec(),
        ..code.clone()
    }));
    assert!(!files.is_new(&Mapping {
        file: FileId::default(),
        ..code
    }));
}
