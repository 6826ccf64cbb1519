//! Files that another program truncates while they are mapped: zeros and an error, but never the
//! end of the process.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use build::{Build, symbolicator};
use symbols::SymbolError;
use symbols::elf::{ElfError, ElfFile};

const C_SOURCE: &str = include_str!("programs/functions.c");
const PAGE: u64 = 4096;

/// Ends the other thread, even if this one panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn truncated_parts_read_as_zeros_with_a_note() {
    let build = Build::new("cut", "c", C_SOURCE, &["-O1", "-g"]);
    fs::copy(&build.binary, build.path("whole")).unwrap();
    let open = |name: &str| ElfFile::open(fs::File::open(build.path(name)).unwrap()).unwrap();
    let (whole, cut) = (open("whole"), open("cut"));
    let text = cut.section(".text").unwrap();
    assert!(!cut.was_cut() && !cut.functions().is_empty());
    fs::OpenOptions::new()
        .write(true)
        .open(&build.binary)
        .unwrap()
        .set_len(PAGE)
        .unwrap();
    assert!(!cut.was_cut(), "the missing part was not read yet");
    // The text is at the second page or after it.
    assert!(text.svma.start >= PAGE);
    assert!(text.bytes.iter().all(|byte| *byte == 0));
    assert!(cut.was_cut() && text.bytes.was_cut());
    assert!(cut.functions().is_empty() && cut.section_places().is_empty());
    assert!(!whole.was_cut() && !whole.functions().is_empty());
    // Memory of a released mapping can be mapped again.
    drop((cut, text));
    assert!(!open("whole").functions().is_empty());
}

/// At every moment of reading, names are right or absent.
#[test]
fn truncated_repeatedly_while_being_read() {
    let build = Build::new("cut", "c", C_SOURCE, &["-O1", "-g"]);
    let contents = fs::read(&build.binary).unwrap();
    let symbol = build.symbol("private_middle");
    let request = build.request();
    let symbolicator = symbolicator();
    let done = AtomicBool::new(false);
    let (mut answered, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in (1_u64..).take_while(|_| !done.load(Ordering::SeqCst)) {
                fs::write(&build.binary, &contents).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(step * 37 % 3000));
                let file = fs::OpenOptions::new().write(true).open(&build.binary).unwrap();
                file.set_len(step * PAGE % contents.len() as u64).unwrap();
            }
        });
        let _done = Done(&done);
        while answered + refused < 300 {
            match symbolicator.resolve(&request, &symbol.probes()) {
                // A file that was cut between two pages and written again meanwhile may lack names,
                // but has no wrong ones.
                Ok(names) => {
                    answered += 1;
                    for name in names.into_iter().flatten() {
                        let placeholder = format!("fun_{:x}", symbol.start);
                        assert!(
                            [placeholder.as_str(), "private_middle"].contains(&name.symbol.as_str()),
                            "{name:?}"
                        );
                    }
                }
                Err(SymbolError::Elf { source, .. }) => {
                    assert!(!matches!(source, ElfError::TooLarge { .. }), "{source}");
                    refused += 1;
                }
                Err(_) => refused += 1,
            }
        }
    });
    println!("complete {answered} times, incomplete {refused} times");
}

/// The lines of a program may be in another file, which the library opens.
#[test]
fn a_truncated_dwo_file() {
    let build = Build::new("split", "c", C_SOURCE, &["-O1", "-g", "-gsplit-dwarf"]);
    let dwo = fs::read_dir(&build.directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "dwo"))
        .unwrap();
    let contents = fs::read(&dwo).unwrap();
    let symbol = build.symbol("private_middle");
    let symbolicator = symbolicator();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                fs::write(&dwo, &contents).unwrap();
                fs::OpenOptions::new()
                    .write(true)
                    .open(&dwo)
                    .unwrap()
                    .set_len(0)
                    .unwrap();
            }
        });
        let _done = Done(&done);
        for _ in 0..200 {
            if let Ok(names) = symbolicator.resolve(&build.request(), &symbol.probes()) {
                assert!(names.into_iter().flatten().all(|name| name.symbol == "private_middle"));
            }
        }
    });
}
