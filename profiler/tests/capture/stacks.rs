//! Copies of the user stack: the whole stack, truncated at the limit, and stopped at unmapped memory.

use profiler::event::Sample;
use profiler_common::stack::{FLAG_STACK_CUT, FLAG_STACK_STOPPED, FLAG_USER_REGS};

use crate::emulated::is_emulated;
use crate::harness::{Recording, Waiting, command, compile, record, skipped};
use crate::page::page_size;

/// Spins in a frame at a known depth of its stack: on the main thread, on a thread's stack, or on a separate stack.
const DEEP: &str = r#"
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
static size_t depth;
static void spin(void) {
    struct timespec from, t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((t.tv_sec - from.tv_sec) * 1000000000L + t.tv_nsec - from.tv_nsec < 200000000);
}
static __attribute__((noinline)) void *deep(void *unused) {
    // Touch every page before marking the first one.
    char *room = alloca(depth); memset(room, 0, depth); __asm__ volatile("" ::"r"(room) : "memory");
    memset(room, 0x5a, depth); __asm__ volatile("" ::"r"(room) : "memory");
    spin(); __asm__ volatile("" ::"r"(room) : "memory"); return unused;
}
static void deep_context(void) { deep(0); }
int main(int argc, char **argv) {
    depth = atoi(argv[2]);
    if (!strcmp(argv[1], "main")) deep(0);
    if (!strcmp(argv[1], "thread")) { pthread_t thread; pthread_create(&thread, 0, deep, 0); pthread_join(thread, 0); }
    if (!strcmp(argv[1], "own")) {
        char *stack = mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); munmap(stack + (1 << 19), 1 << 19);
        static ucontext_t ours, theirs; getcontext(&theirs);
        theirs.uc_stack.ss_sp = stack; theirs.uc_stack.ss_size = 1 << 19; theirs.uc_link = &ours;
        makecontext(&theirs, deep_context, 0); swapcontext(&ours, &theirs);
    }
    return 0;
}
"#;

fn run(place: &str, depth: usize, limit: u32) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "deep", DEEP, &["-O1"]);
    let waiting = Waiting::new(&program, &[place, &depth.to_string()]);
    let start = command(waiting.pid()).with(|terms| {
        terms.stack_copy = limit;
    });
    record(start, || assert_eq!(waiting.run(), Some(0)))
}

/// The samples taken deep in the stack.
fn deep(recording: &Recording) -> Vec<&Sample<'static>> {
    let user: Vec<_> = recording
        .samples()
        .filter(|sample| sample.stacks.flags & FLAG_USER_REGS != 0)
        .collect();
    let deep: Vec<_> = user
        .iter()
        .copied()
        .filter(|sample| sample.stacks.copy.windows(64).any(|bytes| bytes == [0x5a; 64]))
        .collect();
    // About 200, if the machine has time for every tick; an emulated one has not, arm64 least of all.
    let enough = if is_emulated() { 15 } else { 30 };
    assert!(deep.len() > enough, "{} of {} samples", deep.len(), user.len());
    deep
}

#[test]
fn the_whole_stack_is_copied() {
    if skipped() {
        return;
    }
    for place in ["main", "thread"] {
        let recording = run(place, 10_000, 65536);
        for sample in deep(&recording) {
            assert_eq!(
                sample.stacks.flags & (FLAG_STACK_CUT | FLAG_STACK_STOPPED),
                0,
                "{place}"
            );
            // The frame, those above it, and at most a thread's control block: not the limit.
            assert!(
                (10_000..16_000).contains(&sample.stacks.copy.len()),
                "{place}: {} bytes",
                sample.stacks.copy.len()
            );
        }
    }
}

#[test]
fn truncated_at_the_limit() {
    if skipped() {
        return;
    }
    for (place, limit) in [("main", 65536), ("thread", 16384), ("main", 5000)] {
        let recording = run(place, 200_000, limit);
        for sample in deep(&recording) {
            assert_ne!(sample.stacks.flags & FLAG_STACK_CUT, 0);
            // A sample within memset has untouched pages above it.
            let stopped = sample.stacks.flags & FLAG_STACK_STOPPED != 0;
            assert!(
                stopped || sample.stacks.copy.len() == limit as usize,
                "{} bytes",
                sample.stacks.copy.len()
            );
        }
    }
}

#[test]
fn stopped_at_the_end_of_a_mapping() {
    if skipped() {
        return;
    }
    let recording = run("own", 10_000, 65536);
    for sample in deep(&recording) {
        assert_ne!(sample.stacks.flags & FLAG_STACK_STOPPED, 0);
        // Exactly to the end of the stack that the program allocated: a page boundary.
        assert_eq!(
            (sample.stacks.regs.sp + sample.stacks.copy.len() as u64) % page_size(),
            0
        );
        assert!(
            (10_000..16_000).contains(&sample.stacks.copy.len()),
            "{} bytes",
            sample.stacks.copy.len()
        );
    }
}

#[test]
fn no_stack_is_copied_with_a_limit_of_zero() {
    if skipped() {
        return;
    }
    let recording = run("main", 10_000, 0);
    assert!(recording.samples().count() > 100);
    assert!(
        recording
            .samples()
            .all(|sample| sample.stacks.copy.is_empty() && sample.stacks.flags & FLAG_STACK_CUT == 0)
    );
}
