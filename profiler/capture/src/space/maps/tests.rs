//! Both ways of reading mappings agree about processes with difficult ones.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use proptest::prelude::*;
use symbols::elf::ElfFile;

use super::*;
use crate::files::open::open_mapped;
use crate::privilege::rights::Rights;

fn elf_build_id(file: File) -> Vec<u8> {
    ElfFile::open(file).map_or(Vec::new(), |elf| elf.build_id().to_vec())
}

fn build_id(mapping: &Mapping) -> Vec<u8> {
    let file = Rights::own().and_then(|own| open_mapped(mapping, &own));
    file.map(elf_build_id).unwrap_or_default()
}

/// Both ways, or `None` if the kernel has only one.
fn both(pid: u32) -> Option<[Box<dyn AddressSpace>; 2]> {
    if !kernel_has_query().unwrap() {
        println!("skipped: no PROCMAP_QUERY before kernel 6.11");
        return None;
    }
    let open = |way| open(pid, Some(way), BuildIds::Read(&build_id)).unwrap();
    Some([open(Way::Query), open(Way::Text)])
}

/// A process that creates certain mappings and then does nothing, to be read twice.
struct Sleeper(Child);

impl Sleeper {
    /// Runs a copy of `sleep` at this path.
    fn from(program: &Path) -> Self {
        let mut child = Command::new(program).arg("60").stdin(Stdio::null()).spawn().unwrap();
        // It has become the program, and the loader is done, once it waits in the kernel's
        // nanosleep.
        for _ in 0..500 {
            let waits = fs::read_to_string(format!("/proc/{}/syscall", child.id()));
            if waits.is_ok_and(|call| call.starts_with("230 ") || call.starts_with("115 "))
                || child.try_wait().unwrap().is_some()
            {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Only root may use `map_files`, through which a file without a name is opened.
fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: not root");
    }
    root
}

/// Lists of mappings are long, so only the first difference is shown.
#[track_caller]
fn same(one: &[Mapping], other: &[Mapping]) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other);
    }
    assert_eq!(one.len(), other.len());
}

#[test]
fn a_file_with_a_hostile_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("line\nbreak \\ and \u{e9}");
    fs::write(&path, vec![0; 10_000]).unwrap();
    let file = File::open(&path).unwrap();
    // SAFETY: the file does not change.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    let Some(mut ways) = both(std::process::id()) else {
        return;
    };
    let found = ways
        .each_mut()
        .map(|space| space.covering(&[Avma(map.as_ptr() as u64)]).unwrap().remove(0).unwrap());
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].path, path.as_os_str().as_bytes());
    assert_eq!((found[0].len, found[0].protection), (12_288, 1));
}

#[test]
fn a_name_longer_than_any_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut inner = nix::fcntl::open(
        folder.path(),
        nix::fcntl::OFlag::O_DIRECTORY,
        nix::sys::stat::Mode::empty(),
    )
    .unwrap();
    let part = "d".repeat(250);
    for _ in 0..20 {
        nix::sys::stat::mkdirat(&inner, part.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        inner = nix::fcntl::openat(
            &inner,
            part.as_str(),
            nix::fcntl::OFlag::O_DIRECTORY,
            nix::sys::stat::Mode::empty(),
        )
        .unwrap();
    }
    let flags = nix::fcntl::OFlag::O_CREAT | nix::fcntl::OFlag::O_RDWR;
    let file = File::from(nix::fcntl::openat(&inner, "deep", flags, nix::sys::stat::Mode::S_IRWXU).unwrap());
    file.set_len(4096).unwrap();
    // SAFETY: the file does not change.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    let Some(mut ways) = both(std::process::id()) else {
        return;
    };
    let found = ways
        .each_mut()
        .map(|space| space.covering(&[Avma(map.as_ptr() as u64)]).unwrap().remove(0).unwrap());
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].path, b"");
    assert_ne!(found[0].file.inode, 0);
}

#[test]
fn a_process_whose_program_was_deleted() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("gone");
    // Copied by another process: if a child of another test inherits a file open for writing, it
    // can't be run.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status();
    assert!(copied.unwrap().success());
    let sleeper = Sleeper::from(&program);
    fs::remove_file(&program).unwrap();
    let Some(mut ways) = both(sleeper.pid()) else { return };
    let [query, text] = ways.each_mut().map(|space| space.mappings(Which::All).unwrap());
    same(&query, &text);
    let gone = [program.as_os_str().as_bytes(), b" (deleted)"].concat();
    let code: Vec<&Mapping> = text
        .iter()
        .filter(|mapping| mapping.path == gone && mapping.protection & PROT_EXEC != 0)
        .collect();
    assert_eq!(code.len(), 1);
    let expected = ElfFile::open(File::open("/bin/sleep").unwrap()).unwrap();
    assert!(!expected.build_id().is_empty());
    assert_eq!(code[0].build_id, expected.build_id());
    let executable = ways.each_mut().map(|space| space.mappings(Which::Executable).unwrap());
    same(&executable[0], &executable[1]);
    let of_all: Vec<Mapping> = query.into_iter().filter(|m| m.protection & PROT_EXEC != 0).collect();
    same(&executable[0], &of_all);
    assert!(of_all.iter().any(|mapping| mapping.path == b"[vdso]"));
}

#[test]
fn a_memory_file() {
    if !is_root() {
        return;
    }
    let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
    let file = File::from(nix::sys::memfd::memfd_create("no \x1b[31m name", flags).unwrap());
    io::Write::write_all(&mut &file, &fs::read("/bin/sleep").unwrap()).unwrap();
    // SAFETY: the file does not change.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    let Some(mut ways) = both(std::process::id()) else {
        return;
    };
    let found = ways
        .each_mut()
        .map(|space| space.covering(&[Avma(map.as_ptr() as u64)]).unwrap().remove(0).unwrap());
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].path, b"/memfd:no \x1b[31m name (deleted)");
    assert_eq!(found[0].build_id, elf_build_id(File::open("/bin/sleep").unwrap()));
}

#[test]
fn a_process_that_is_gone_or_has_no_memory() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    let gone = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH));
    child.wait().unwrap();
    for way in [None, Some(Way::Text)] {
        let opened = open(pid, way, BuildIds::Unwanted).map(|_| ());
        assert!(gone(&opened.unwrap_err()));
    }
}

#[test]
fn offsets_count_from_the_start_of_the_file() {
    let mapping = Mapping {
        start: Avma(0x7000),
        len: 0x2000,
        offset: FileOffset(0x3000),
        ..Mapping::default()
    };
    assert_eq!(file_offset(&mapping, Avma(0x7010)), None);
    let file = base::event::FileId {
        inode: 1,
        ..base::event::FileId::default()
    };
    let mapping = Mapping { file, ..mapping };
    assert_eq!(file_offset(&mapping, Avma(0x7010)), Some(FileOffset(0x3010)));
    assert_eq!(file_offset(&mapping, Avma(0x6fff)), None);
    assert_eq!(file_offset(&mapping, Avma(0x9000)), None);
    let wrapping = Mapping {
        offset: FileOffset(u64::MAX),
        ..mapping
    };
    assert_eq!(file_offset(&wrapping, Avma(0x7001)), None);
}

#[test]
fn any_address_of_a_process() {
    if !is_root() {
        return;
    }
    let sleeper = Sleeper::from(Path::new("/bin/sleep"));
    let Some(mut ways) = both(sleeper.pid()) else { return };
    let all = ways[0].mappings(Which::All).unwrap();
    assert!(all.len() > 10);
    let edges: Vec<u64> = all
        .iter()
        .flat_map(|mapping| [mapping.start.0, mapping.start.0 + mapping.len])
        .flat_map(|edge| [edge.wrapping_sub(1), edge, edge + 1])
        .collect();
    let address = prop_oneof![prop::sample::select(edges), any::<u64>()].prop_map(Avma);
    let ways = std::cell::RefCell::new(ways);
    let covers = |mapping: &&Mapping, address: &Avma| (address.0.wrapping_sub(mapping.start.0)) < mapping.len;
    proptest!(|(addresses in prop::collection::vec(address, 0..12))| {
        let [query, text] = ways.borrow_mut().each_mut().map(|space| space.covering(&addresses).unwrap());
        prop_assert_eq!(&query, &text);
        let listed: Vec<Option<Mapping>> =
            addresses.iter().map(|address| all.iter().find(|mapping| covers(mapping, address)).cloned()).collect();
        prop_assert_eq!(query, listed);
    });
}
