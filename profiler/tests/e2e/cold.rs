//! `--cold` and `--warm`: what is in memory when the program starts, as reported by the program itself.

use std::path::Path;

use profiler::capture::proc::page_cache::page_size;

use crate::harness::Ngmi;
use crate::harness::reclaim::expect_pages;
use crate::harness::skip::{needs_capture, skip};

/// Debian's Python.
const PYTHON: &str = "/usr/bin/python3";
const PAGES: u64 = 256;

/// A program that reports how many pages of a file are in memory before it reads any.
const ASK: &str = r#"
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
pages = ctypes.create_string_buffer(size // mmap.PAGESIZE)
address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
assert libc.mincore(address, size, pages) == 0
open(sys.argv[2], "w").write(str(sum(byte & 1 for byte in pages.raw)))
"#;

/// Number of a file's pages in memory as seen by a recorded program, and the output of `ngmi`.
fn pages_seen(flag: &str, folder: &Path) -> (u64, String) {
    let [script, data, answer] = ["ask.py", "data", "answer"].map(|name| folder.join(name));
    std::fs::write(&script, ASK).unwrap();
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
