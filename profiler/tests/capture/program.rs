//! A program with known stacks: their depth, functions and addresses.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use profiler::capture::space::maps;
use profiler::event::{At, Event, FileId, PROT_EXEC, Segment, UserStack};
use profiler::record::table_maker::segments;
use symbols::elf::ElfFile;

use crate::harness::{Recording, compile};

/// Burns in `leaf` below exactly N calls of `descend` with frames of SIZE words; `fork`: also in a child; `exec`:
/// then becomes another program; `turns`: alternates between `leaf_odd` below `odd` and `leaf_even` below `even`,
/// with frames at the same addresses.
const PROGRAM: &str = r##"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
#define LEAF(NAME) NOINLINE void NAME(long turns) { for (long i = 0; i < turns; i++) __asm__ volatile("# " #NAME : "+r"(i)); }
LEAF(leaf) LEAF(leaf_odd) LEAF(leaf_even)
static void (*volatile at_end)(long) = leaf;
NOINLINE void descend(long more, long turns) {
    volatile long room[SIZE]; room[0] = more;
    if (more > 1) descend(more - 1, turns); else at_end(turns);
    __asm__ volatile("" : : "r"(room[0]));
}
#define BELOW(NAME) NOINLINE void NAME(long depth, long turns) { at_end = leaf_##NAME; descend(depth, turns); __asm__ volatile("# " #NAME); }
BELOW(odd) BELOW(even)
int main(int argc, char **argv) {
    long depth = atol(argv[2]), turns = 300000000;
    if (!strcmp(argv[1], "hold")) { char byte; return read(0, &byte, 1) != 0; }
    if (!strcmp(argv[1], "fork")) {
        if (fork() == 0) { descend(depth + 3, turns); _exit(0); }
        int status; descend(depth, turns); wait(&status); return status;
    }
    if (!strcmp(argv[1], "turns")) {
        for (int i = 0; i < 2000; i++) { odd(depth, turns / 2000); even(depth, turns / 2000); }
        return 0;
    }
    descend(depth, turns);
    if (!strcmp(argv[1], "exec")) execl(argv[3], argv[3], "burn", argv[2], (char *)0);
    return !strcmp(argv[1], "exec");
}
"##;
/// A compiled program, with its functions' addresses in the file's own address space.
pub struct Program {
    pub path: PathBuf,
    functions: BTreeMap<u64, (u64, String)>,
    segments: Vec<Segment>,
}

impl Program {
    pub fn new(folder: &Path, name: &str, words: usize, kind: &str) -> Self {
        let size = format!("-DSIZE={words}");
        let path = compile(folder, name, PROGRAM, &["-O2", "-fomit-frame-pointer", &size, kind]);
        let listing = Command::new("nm")
            .args(["-S", "--defined-only"])
            .arg(&path)
            .output()
            .unwrap();
        let functions = String::from_utf8(listing.stdout).unwrap();
        let functions = functions.lines().filter_map(|line| {
            let [start, size, _, name] = *line.split(' ').collect::<Vec<_>>() else {
                return None;
            };
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some((number(start)?, (number(size)?, name.to_owned())))
        });
        Self {
            functions: functions.collect(),
            segments: segments(&ElfFile::open(File::open(&path).unwrap()).unwrap()),
            path,
        }
    }

    /// Where its code was first mapped, in the address space of its first process: subtract it from addresses there.
    pub fn bias(&self, recording: &Recording) -> u64 {
        let mapping = recording.events.iter().find_map(|event| match event {
            Event::Mapping(mapping)
                if mapping.protection & PROT_EXEC != 0 && mapping.path == self.path.as_os_str().as_encoded_bytes() =>
            {
                Some(mapping)
            }
            _ => None,
        });
        let (mapping, segment) = (mapping.unwrap(), self.segments[0]);
        mapping.start.0 - mapping.offset.0 + segment.offset - segment.svma
    }

    /// Names of a stack's functions, leaf first; `?` for those of other files.
    pub fn names(&self, bias: u64, stack: &UserStack<'_>) -> Vec<&str> {
        let name = |(depth, address): (usize, &u64)| {
            let place = address.wrapping_sub(bias + u64::from(depth > 0));
            let (start, (size, name)) = self.functions.range(..=place).next_back()?;
            (place - start < *size).then_some(name.as_str())
        };
        stack
            .frames
            .iter()
            .enumerate()
            .map(|frame| name(frame).unwrap_or("?"))
            .collect()
    }

    /// Every code file that it maps, by the names in its mappings.
    pub fn code(&self) -> Vec<(FileId, PathBuf)> {
        let mut child = Command::new(&self.path)
            .args(["hold", "0"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let at = At {
            pid: child.id(),
            ..At::default()
        };
        let mut code = BTreeMap::new();
        for _ in 0..500 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            code = maps::read(at)
                .unwrap()
                .into_iter()
                .filter(|mapping| mapping.protection & PROT_EXEC != 0 && mapping.file.inode != 0)
                .map(|mapping| (String::from_utf8(mapping.path).unwrap(), mapping.file))
                .collect();
            let here = self.path.to_str().unwrap();
            if code.contains_key(here) && code.keys().any(|path| path.contains("libc.so")) {
                break;
            }
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        code.into_iter().map(|(path, file)| (file, path.into())).collect()
    }
}
