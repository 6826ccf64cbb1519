//! Pipes that replace a debug file between checking and opening: no thread blocks on their other
//! end.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use build::{Build, symbolicator};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

const C_SOURCE: &str = include_str!("programs/functions.c");

/// The original file and a pipe alternate at `path`.
fn swap(path: PathBuf, done: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let sibling = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    let (file, pipe) = (sibling(".file"), sibling(".pipe"));
    fs::copy(&path, &file).unwrap();
    std::thread::spawn(move || {
        while !done.load(Ordering::SeqCst) {
            for from in [&pipe, &file] {
                let fresh = sibling_of(&path);
                if from == &pipe {
                    mkfifo(&fresh, Mode::S_IRWXU).unwrap();
                } else {
                    fs::hard_link(from, &fresh).unwrap();
                }
                fs::rename(&fresh, &path).unwrap();
                // Two names of one file both stay if one is renamed to the other.
                let _ = fs::remove_file(&fresh);
            }
        }
    })
}

fn sibling_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.fresh", path.display()))
}

/// Names are requested again and again; a thread that blocks on a pipe fails here.
fn names_while_swapped(build: Build, swapped: PathBuf) {
    let done = Arc::new(AtomicBool::new(false));
    let swapping = swap(swapped, Arc::clone(&done));
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let (symbolicator, symbol) = (symbolicator(), build.symbol("private_middle"));
        for _ in 0..300 {
            let names = symbolicator.resolve(&build.request(), &symbol.probes()).unwrap();
            assert_eq!(names.len(), 3);
        }
        sender.send(build).unwrap();
    });
    let answer = receiver.recv_timeout(Duration::from_mins(2));
    done.store(true, Ordering::SeqCst);
    swapping.join().unwrap();
    answer.expect("naming blocks");
}

#[test]
fn a_pipe_for_a_dwo_file() {
    let build = Build::new("split", "c", C_SOURCE, &["-O1", "-g", "-gsplit-dwarf"]);
    let files = fs::read_dir(&build.directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let dwo = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "dwo"));
    names_while_swapped(build, dwo.unwrap());
}

#[test]
fn a_pipe_for_the_second_file_of_a_link() {
    let build = Build::new("linked", "c", C_SOURCE, &["-O1", "-g"]);
    fs::copy(&build.binary, build.path("other")).unwrap();
    let id: Vec<u8> = build.request().build_id;
    fs::write(build.path("link"), [b"other\0".as_slice(), &id].concat()).unwrap();
    build.tool("objcopy", &["--add-section", ".gnu_debugaltlink=link", "linked"]);
    let other = build.path("other");
    names_while_swapped(build, other);
}

#[test]
fn a_pipe_for_a_debug_file() {
    let build = Build::new("linked", "c", C_SOURCE, &["-O1", "-g"]);
    build.tool("objcopy", &["--only-keep-debug", "linked", "linked.debug"]);
    build.tool(
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=linked.debug", "linked"],
    );
    let debug = build.path("linked.debug");
    names_while_swapped(build, debug);
}
