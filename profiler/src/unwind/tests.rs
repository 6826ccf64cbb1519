//! The walker against stacks that this very test program has: registers and memory taken from a stopped child.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use profiler_common::sample::{FLAG_STACK_CUT, FLAG_USER_REGS, UserRegs};

use super::*;
use crate::event::Sample;
use crate::fact::TruncationReason;

/// Recursion of a known depth in code without frame pointers; then it stops itself.
const SOURCE: &str = r#"
#include <signal.h>
#include <stdlib.h>
volatile int sink;
__attribute__((noinline)) void bottom(void) { raise(SIGSTOP); sink++; }
__attribute__((noinline)) void down(int n) { volatile char pad[40]; pad[0] = n; if (n) down(n - 1); else bottom(); sink += pad[0]; }
int main(int argc, char **argv) { down(atoi(argv[1])); return 0; }
"#;

struct Maps {
    ranges: Vec<(u64, u64, u64, CodeId, Vec<(u64, u64, u64)>)>,
}

impl AddressSpace for Maps {
    fn place(&mut self, avma: Avma, _: &mut Walker) -> Option<Place> {
        let (start, _, offset, code, segments) = self
            .ranges
            .iter()
            .find(|(start, end, ..)| (*start..*end).contains(&avma.0))?;
        let at = avma.0 - start + offset;
        let (file, svma, _) = segments
            .iter()
            .find(|(file, _, size)| (*file..file + size).contains(&at))?;
        Some(Place {
            code: Some(*code),
            svma: Svma(at - file + svma),
        })
    }
}

fn load(pid: i32, walker: &mut Walker) -> Maps {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut ranges = Vec::new();
    for line in text
        .lines()
        .filter(|line| line.contains(" r-xp ") && line.contains('/'))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = words[0].split_once('-').unwrap();
        let elf = ElfFile::open(File::open(words[5]).unwrap()).unwrap();
        let segments = elf
            .segments()
            .iter()
            .map(|s| (s.file_offset, s.svma, s.file_size))
            .collect();
        ranges.push((hex(start), hex(end), hex(words[2]), walker.add_code(&elf), segments));
    }
    Maps { ranges }
}

fn stopped(depth: u32, flags: &[&str], check: impl FnOnce(i32, UserRegs, Vec<u8>)) {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("a.c"), dir.path().join("a"));
    File::create(&source).unwrap().write_all(SOURCE.as_bytes()).unwrap();
    let built = Command::new("gcc")
        .args(flags)
        .arg("-o")
        .args([&program, &source])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: no gcc");
        return;
    }
    // Stopped by exec's SIGTRAP, then by the program's own SIGSTOP.
    let mut command = Command::new(&program);
    command.arg(depth.to_string()).stdout(Stdio::null());
    // SAFETY: PTRACE_TRACEME is one system call, and touches nothing of the parent.
    let child = unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) }
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    while !matches!(waitpid(pid, None).unwrap(), WaitStatus::Stopped(_, Signal::SIGSTOP)) {
        ptrace::cont(pid, None).unwrap();
    }
    let regs = ptrace::getregs(pid).unwrap();
    let mut stack = vec![0; 1 << 17];
    let mut memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    memory.seek(SeekFrom::Start(regs.rsp)).unwrap();
    let mut len = 0;
    while let Ok(n @ 1..) = memory.read(&mut stack[len..]) {
        len += n;
    }
    stack.truncate(len);
    check(
        pid.as_raw(),
        UserRegs {
            ip: regs.rip,
            sp: regs.rsp,
            fp: regs.rbp,
            lr: 0,
        },
        stack,
    );
    ptrace::kill(pid).unwrap();
    let _ = waitpid(pid, None);
}

fn sample(regs: UserRegs, stack: &[u8], flags: u32) -> Sample<'_> {
    Sample {
        regs,
        stack: stack.into(),
        flags: FLAG_USER_REGS | flags,
        ..Sample::default()
    }
}

#[test]
fn code_without_frame_pointers_is_complete() {
    for flags in [
        &["-O2", "-fomit-frame-pointer"][..],
        &["-O0"],
        &["-O2", "-no-pie", "-fno-optimize-sibling-calls"],
    ] {
        let flags = [flags, &["-fno-optimize-sibling-calls"]].concat();
        stopped(20, &flags, |pid, regs, stack| {
            let mut walker = Walker::new();
            let mut maps = load(pid, &mut walker);
            let mut frames = Vec::new();
            assert_eq!(walker.walk(&mut maps, &sample(regs, &stack, 0), &mut frames), Ok(()));
            // raise's insides, raise, bottom, 21 times down, main, and what calls main.
            let own = frames
                .iter()
                .filter(|frame| maps.ranges[0].1 > frame.avma.0 && maps.ranges[0].0 <= frame.avma.0);
            assert_eq!(own.count(), 1 + 21 + 1 + 1, "bottom, down, main, _start: {frames:x?}");
        });
    }
}

#[test]
fn a_short_copy_says_so_and_keeps_the_leaf() {
    stopped(
        1000,
        &["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"],
        |pid, regs, stack| {
            let mut walker = Walker::new();
            let mut maps = load(pid, &mut walker);
            let mut frames = Vec::new();
            let cut = walker.walk(&mut maps, &sample(regs, &stack[..4096], FLAG_STACK_CUT), &mut frames);
            assert_eq!(cut, Err(TruncationReason::CopyTooShort));
            assert!(frames.len() > 20, "{}", frames.len());
            assert_eq!(walker.walk(&mut maps, &sample(regs, &stack, 0), &mut frames), Ok(()));
            assert!(frames.len() > 1003, "{}", frames.len());
        },
    );
}

#[test]
fn nothing_captured_and_garbage_are_told_apart() {
    let mut walker = Walker::new();
    let mut maps = Maps { ranges: Vec::new() };
    let mut frames = Vec::new();
    assert_eq!(
        walker.walk(&mut maps, &Sample::default(), &mut frames),
        Err(TruncationReason::NotCaptured)
    );
    let regs = UserRegs {
        ip: 0x1000,
        sp: 0x7fff_0000,
        fp: 0x7fff_0010,
        lr: 0,
    };
    let garbage = [0x41; 256];
    assert!(walker.walk(&mut maps, &sample(regs, &garbage, 0), &mut frames).is_err());
    assert_eq!(frames.len(), 1);
}
