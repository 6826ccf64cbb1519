//! `--cold` and `--warm`: what is in memory when the program starts, and what ngmi itself reads of a program's files, as
//! reported by the program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use profiler::capture::proc::page_cache::page_size;
use symbols::elf::ElfFile;

use crate::harness::Ngmi;
use crate::harness::reclaim::expect_pages;
use crate::harness::skip::{needs_capture, skip};

/// Debian's Python.
const PYTHON: &str = "/usr/bin/python3";
const PAGES: u64 = 256;

/// The beginning of the programs below: how many pages of a file are in memory, without a touch of them.
const MINCORE: &str = r"
import ctypes, mmap, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
def mapped(access):
    return libc.mmap(None, size, access, mmap.MAP_PRIVATE, fd, 0)
def resident(address):
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    assert libc.mincore(address, size, pages) == 0
    return sum(byte & 1 for byte in pages.raw)
";

/// A program that reports how many pages of a file are in memory before it reads any.
const ASK: &str = r#"
open(sys.argv[2], "w").write(str(resident(mapped(mmap.PROT_READ))))
"#;

/// Number of a file's pages in memory as seen by a recorded program, and the output of `ngmi`.
fn pages_seen(flag: &str, folder: &Path) -> (u64, String) {
    let [script, data, answer] = ["ask.py", "data", "answer"].map(|name| folder.join(name));
    std::fs::write(&script, [MINCORE, ASK].concat()).unwrap();
    let words = [script, data, answer.clone()];
    let outcome = Ngmi::record().arg(flag).program(PYTHON, words).run();
    outcome.expect_code(0).expect_no_panic();
    outcome.profile();
    (
        std::fs::read_to_string(answer).unwrap().parse().unwrap(),
        outcome.stderr,
    )
}

#[test]
fn a_file_among_the_arguments_is_cold_or_warm_when_the_program_starts() {
    needs_capture!();
    if !Path::new(PYTHON).exists() {
        return skip("no /usr/bin/python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let kind = nix::sys::statfs::statfs(folder.path()).unwrap().filesystem_type();
    if [nix::sys::statfs::TMPFS_MAGIC, nix::sys::statfs::OVERLAYFS_SUPER_MAGIC].contains(&kind) {
        return skip("the folder for temporary files is, or may be, in memory");
    }
    let size = usize::try_from(PAGES * page_size()).unwrap();
    std::fs::write(folder.path().join("data"), vec![5; size]).unwrap();
    let (pages, said) = pages_seen("--cold", folder.path());
    assert_eq!(pages, 0, "{said}");
    assert!(said.contains("cold: "), "{said}");
    let warm = expect_pages(PAGES, || {
        let (pages, said) = pages_seen("--warm", folder.path());
        assert!(said.contains("warm: "), "{said}");
        (pages, said)
    });
    if let Err(reason) = warm {
        return skip(&reason);
    }
    assert_eq!(pages_seen("--cold", folder.path()).0, 0);
}

/// A program that evicts a file, maps it as code, touches nothing of it, and reports how many of its pages are in
/// memory after ngmi has seen the mapping.
const MAP: &str = r#"
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
# ngmi reads files that are mapped as code.
before = resident(mapped(mmap.PROT_READ))
code = mapped(mmap.PROT_READ | mmap.PROT_EXEC)
time.sleep(2)
print("resident", before, resident(code))
"#;

/// The pages of the headers, of the section headers and their names, and of the build id.
const HEADERS: u64 = 6;

#[test]
fn what_ngmi_reads_of_a_mapped_file_is_no_more_than_its_table_needs() {
    needs_capture!();
    let library = ["x86_64", "aarch64"].map(|arch| PathBuf::from(format!("/lib/{arch}-linux-gnu/libc.so.6")));
    let Some(library) = library
        .iter()
        .find(|library| library.exists())
        .filter(|_| Path::new(PYTHON).exists())
    else {
        return skip("no /usr/bin/python3, or no C library where Debian has it");
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let kind = nix::sys::statfs::statfs(folder.path()).unwrap().filesystem_type();
    if kind != nix::sys::statfs::EXT4_SUPER_MAGIC {
        return skip("the folder of the build is not on ext4: tables are not found again by the file's state");
    }
    let [script, copy] = ["map.py", "copy.so"].map(|name| folder.path().join(name));
    std::fs::write(&script, [MINCORE, MAP].concat()).unwrap();
    std::fs::copy(library, &copy).unwrap();
    // Dirty pages can't be evicted.
    std::fs::File::open(&copy).unwrap().sync_all().unwrap();
    // A file that has just been changed may change again without a new time, so its table is not found by that.
    std::thread::sleep(Duration::from_millis(2100));
    let read = || {
        let record = Ngmi::record().env("XDG_CACHE_HOME", folder.path());
        let outcome = record.program(PYTHON, [&script, &copy]).run();
        outcome.expect_code(0).expect_no_panic();
        let line = outcome.stdout.lines().find_map(|line| line.strip_prefix("resident "));
        let (before, after) = line.unwrap().split_once(' ').unwrap();
        (before.parse::<u64>().unwrap(), after.parse::<u64>().unwrap())
    };
    let elf = ElfFile::open(std::fs::File::open(&copy).unwrap()).unwrap();
    let places = elf.section_places().into_iter();
    let tables = places.filter(|place| [".eh_frame", ".plt", ".plt.sec", ".plt.got"].contains(&&*place.name));
    let needed: u64 = tables.map(|place| place.size / page_size() + 2).sum();
    drop(elf); // mapped pages can't be evicted
    let (before, first) = read();
    if before > 0 {
        return skip("the file could not be evicted");
    }
    assert!(first <= needed + HEADERS, "{first} pages read, {needed} needed");
    let (_, cached) = read();
    assert!(
        cached <= HEADERS,
        "{cached} pages read, though the table is in the cache"
    );
}

#[test]
fn impossible_requests_are_rejected_before_the_command_runs() {
    needs_capture!();
    for (arguments, words) in [
        (
            &["--cold", "--cold-file", "/no/such/file"][..],
            &["--cold-file", "/no/such/file"][..],
        ),
        (&["--cold-file", "/etc/passwd"], &["--cold or --warm"]),
    ] {
        let outcome = Ngmi::record().args(arguments).program("touch", ["it-ran"]).run();
        outcome.expect_refusal(words);
        outcome.expect_files(&[]);
    }
}
