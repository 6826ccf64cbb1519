//! `ngmi preload`: a recording's list, and the runner, compared with the kernel's report of what is in memory.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use profiler::capture::proc::page_cache::{cached_in, page_size};

#[path = "e2e/harness/reclaim.rs"]
mod reclaim;

const PAGES: u64 = 256;

fn folder() -> tempfile::TempDir {
    // On most machines /tmp is in memory.
    tempfile::Builder::new()
        .prefix("preload-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap()
}

/// A file of 256 pages, none of which is in memory. `None` if this file system or kernel keeps or hides them.
fn cold(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.canonicalize().unwrap().join(name);
    let size = usize::try_from(PAGES * page_size()).unwrap();
    fs::write(&path, vec![7; size]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    evict(&file);
    match cached_in(&file, 0, PAGES * page_size()) {
        Ok(cached) if cached.resident == 0 => Some(path),
        _ => {
            println!("skipped: pages can't be dropped here, or the kernel does not report them");
            None
        }
    }
}

fn evict(file: &File) {
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
}

fn file_line(path: &Path) -> String {
    let metadata = fs::metadata(path).unwrap();
    let (seconds, ns) = (metadata.mtime(), metadata.mtime_nsec());
    format!("file {} {seconds}.{ns:09} - {}\n", metadata.len(), path.display())
}

fn write_list(folder: &Path, lines: &str) -> PathBuf {
    let list = folder.join("list");
    fs::write(&list, format!("ngmi-preload 1\n{lines}")).unwrap();
    list
}

fn ngmi(arguments: &[&str], list: &Path, command: &[&str]) -> Command {
    let mut ngmi = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    ngmi.arg("preload").args(arguments).arg(list);
    if !command.is_empty() {
        ngmi.arg("--").args(command);
    }
    ngmi
}

fn run(list: &Path, command: &[&str]) -> Output {
    ngmi(&["run"], list, command).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Numbers of the pages that are in memory.
fn resident(path: &Path) -> Vec<u64> {
    let file = File::open(path).unwrap();
    let page = page_size();
    (0..PAGES)
        .filter(|at| cached_in(&file, at * page, page).unwrap().resident > 0)
        .collect()
}

#[test]
fn exactly_what_is_listed_is_read() {
    let folder = folder();
    let Some(path) = cold(folder.path(), "data \\ with\ttabs") else {
        return;
    };
    let page = page_size();
    let escaped = path.to_str().unwrap().replace('\\', "\\\\").replace('\t', "\\t");
    let file = file_line(&path).replace(path.to_str().unwrap(), &escaped);
    let reads = format!("read 0 {} {}\nread 0 {} {page}\n", 100 * page, 3 * page, 7 * page);
    let list = write_list(folder.path(), &(file + &reads));
    let dry = ngmi(&["run", "--dry-run"], &list, &[]).output().unwrap();
    assert!(dry.status.success(), "{}", stderr(&dry));
    assert!(resident(&path).is_empty(), "a dry run reads nothing");
    // Reading continues while the command runs.
    let output = run(&list, &["sleep", "1"]);
    assert_eq!(stderr(&output), "");
    assert_eq!(resident(&path), [7, 100, 101, 102]);
    let again = ngmi(&["run", "--dry-run"], &list, &[]).output().unwrap();
    let text = String::from_utf8(again.stdout).unwrap();
    assert!(text.contains("\n0 bytes would be read"), "{text}");
}

#[test]
fn the_command_is_this_very_process() {
    let folder = folder();
    let list = write_list(folder.path(), "");
    let script = "echo $$; ls /proc/self/fd | wc -w; exit 7";
    let alone = Command::new("sh").args(["-c", script]).output().unwrap().stdout;
    let alone = String::from_utf8(alone).unwrap().lines().nth(1).unwrap().to_owned();
    let child = ngmi(&["run"], &list, &["sh", "-c", script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let words = String::from_utf8(output.stdout).unwrap();
    assert_eq!(words, format!("{pid}\n{alone}\n"), "it inherits no descriptor");
    let killed = run(&list, &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.signal(), Some(15));
    // It has no child that it did not create.
    let waits = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')";
    if Command::new("python3").arg("--version").output().is_ok() {
        let output = run(&list, &["python3", "-c", waits]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "none\n");
    } else {
        println!("skipped: no python3 to wait for children");
    }
}

#[test]
fn a_missing_command_and_an_invalid_list() {
    let folder = folder();
    let list = write_list(folder.path(), "");
    let output = run(&list, &["/no/such/program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("/no/such/program"));
    for bad in ["read 0 0 1\n", "\0\n"] {
        let output = run(&write_list(folder.path(), bad), &["sh", "-c", "exit 3"]);
        assert_eq!(output.status.code(), Some(3), "the command still runs");
        assert!(stderr(&output).contains("line 2"), "{}", stderr(&output));
        assert!(stderr(&output).contains("ngmi preload PROFILE"), "{}", stderr(&output));
    }
    for none in ["/no/such/list", "/dev/zero", "/dev"] {
        let output = run(Path::new(none), &["true"]);
        assert!(output.status.success());
        assert!(stderr(&output).contains(none), "{}", stderr(&output));
    }
}

/// Everything that the runner prints about a list, however long it takes.
fn messages(list: &Path) -> String {
    stderr(&run(list, &["sleep", "1"]))
}

#[test]
fn changed_files_are_reported_and_not_read() {
    let folder = folder();
    let Some(path) = cold(folder.path(), "library.so") else {
        return;
    };
    let line = file_line(&path);
    let list = write_list(folder.path(), &format!("{line}read 0 0 4096\n"));
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    let said = messages(&list);
    assert!(
        said.contains("skipped, changed since: 1 of 1 file") && said.contains("library.so"),
        "{said}"
    );
    assert!(said.contains("create the list again"), "{said}");
    assert!(resident(&path).is_empty());
    fs::remove_file(&path).unwrap();
    assert!(messages(&list).contains("skipped, deleted: 1 of 1 file"));
}

#[test]
fn only_regular_files_are_opened() {
    let folder = folder();
    let Some(path) = cold(folder.path(), "real") else {
        return;
    };
    let place = path.parent().unwrap();
    let fifo = place.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink(&path, place.join("link")).unwrap();
    symlink(place, place.join("folder")).unwrap();
    // Lines that would be valid for the real file.
    let as_named = |name: &Path| file_line(&path).replace(path.to_str().unwrap(), name.to_str().unwrap());
    let names = [
        fifo.clone(),
        place.join("link"),
        place.join("folder/real"),
        PathBuf::from("/dev/zero"),
        place.to_owned(),
        PathBuf::from("/proc/self/exe"),
    ];
    let mut lines: String = names.iter().map(|name| as_named(name)).collect();
    for number in 0..names.len() {
        lines = lines + "read " + &number.to_string() + " 0 4096\n";
    }
    let list = write_list(folder.path(), &lines);
    let begin = Instant::now();
    let said = messages(&list);
    assert!(
        said.contains("not a regular file, or reached through a link: 6 of 6 files"),
        "{said}"
    );
    assert!(
        begin.elapsed() < Duration::from_mins(1),
        "a pipe without a writer does not block"
    );
    assert!(resident(&path).is_empty());
}

#[test]
fn a_list_from_a_recording_warms_the_cache() {
    if !nix::unistd::Uid::effective().is_root() {
        println!("skipped: recording needs root");
        return;
    }
    let folder = folder();
    let Some(path) = cold(folder.path(), "data") else {
        return;
    };
    // The file must be older than the recording.
    std::thread::sleep(Duration::from_millis(20));
    let log = folder.path().join("log");
    let recorded = Command::new(env!("CARGO_BIN_EXE_ngmi"))
        .args(["record", "--save-only", "-o"])
        .arg(folder.path().join("out.json.gz"))
        .arg("--keep-events")
        .arg(&log)
        .args(["--", "cat"])
        .arg(&path)
        .output()
        .unwrap();
    if recorded.status.code() == Some(125) {
        println!("skipped: this machine can't record: {}", stderr(&recorded));
        return;
    }
    for input in ["log", "out.json.gz"] {
        let list = folder.path().join("made");
        let made = Command::new(env!("CARGO_BIN_EXE_ngmi"))
            .arg("preload")
            .arg(folder.path().join(input))
            .arg("-o")
            .arg(&list)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", stderr(&made));
        let text = fs::read_to_string(&list).unwrap();
        assert!(
            text.contains(path.to_str().unwrap()),
            "{input}: {}\n{text}",
            stderr(&made)
        );
        let all = reclaim::expect_pages(PAGES, || {
            evict(&File::open(&path).unwrap());
            assert!(resident(&path).is_empty());
            run(&list, &["sleep", "1"]);
            let reads = text.lines().filter(|line| line.starts_with("read "));
            (
                resident(&path).len() as u64,
                format!("{input}: all that cat read: {:?}", reads.collect::<Vec<_>>()),
            )
        });
        if let Err(reason) = all {
            println!("skipped: {reason}");
            return;
        }
    }
}

#[test]
fn a_file_that_is_not_a_recording_is_rejected() {
    let output = Command::new(env!("CARGO_BIN_EXE_ngmi"))
        .args(["preload", "/etc/passwd"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("neither a profile nor an event log"),
        "{}",
        stderr(&output)
    );
}
