//! Page faults of a program with known faults, in every tier that the kernel allows.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use profiler::capture::hooks::disks::BlockMode;
use profiler::capture::hooks::faults::{FaultMode, FaultSource, Faults};
use profiler::capture::hooks::waits::OffCpu;
use profiler::event::{Event, Fault, TaskExit};
use profiler_common::Loss;
use profiler_common::fault::{BEFORE_UNKNOWN, FAULT_FAILED, FAULT_MAJOR, FAULT_STARTED};

use crate::emulated::is_emulated;
use crate::harness::{Recording, Waiting, command, compile, record, skipped};
use crate::page::page_size;

/// Touches `PAGES` pages of anonymous memory, then a file's pages backwards, also in a child and in four threads,
/// and finally a forbidden address.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGES = 500, FILE_PAGES = 64 };
static sigjmp_buf after;
static void caught(int signal) { siglongjmp(after, signal); }
static char *map(unsigned long at, int pages, int flags, int fd) {
    char *memory = mmap((void *)at, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, fd, 0);
    if (memory == MAP_FAILED) _exit(3);
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    return memory;
}
static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}
static void *thread(void *at) {
    char *memory = map((unsigned long)at, PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (int i = 0; i < PAGES; i++) memory[i * PAGE] = 1;
    return 0;
}
int main(int count, char **words) {
    thread((void *)0x100000000000);
    int fd = open(words[1], O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    volatile char *file = map(0x110000000000, FILE_PAGES, MAP_PRIVATE, fd);
    madvise((void *)file, FILE_PAGES * PAGE, MADV_RANDOM);
    long before = sleeps();
    for (int i = FILE_PAGES - 1; i >= 0; i--) file[i * PAGE];
    long slept = sleeps() - before;
    FILE *said = fopen(words[2], "w");
    if (!said || fprintf(said, "%ld", slept) < 0 || fclose(said)) _exit(4);
    if (fork() == 0) { thread((void *)0x120000000000); _exit(0); }
    wait(0);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, thread, (void *)(0x130000000000 + (i << 36)));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    signal(SIGSEGV, caught);
    if (sigsetjmp(after, 1) == 0) *(volatile char *)0x140000000000 = 1;
    return 0;
}
"#;
const PAGES: u64 = 500;
const FILE_PAGES: u64 = 64;

fn faults(recording: &Recording) -> Vec<&Fault<'static>> {
    let mut faults = Vec::new();
    for event in &recording.events {
        if let Event::Fault(fault) = event {
            faults.push(fault);
        }
    }
    faults
}

/// Pages from `at` on that were faulted in, in order.
fn touched(recording: &Recording, at: u64, pages: u64) -> Vec<u64> {
    let pages = at..at + pages * page_size();
    let addresses = faults(recording).into_iter().map(|fault| fault.address.0);
    addresses
        .filter(|address| pages.contains(address))
        .map(|address| (address - pages.start) / page_size())
        .collect()
}

/// The program, built once per content: in guests, where compiling takes longer than the recording, it exists already.
fn program() -> PathBuf {
    static BUILT: Mutex<()> = Mutex::new(());
    let _one = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut hasher = DefaultHasher::new();
    (PROGRAM, page_size()).hash(&mut hasher);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capture-faults-{:016x}", hasher.finish()));
    if !path.exists() {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::rename(compile(folder.path(), "faults", PROGRAM, &["-O1"]), &path).unwrap();
    }
    path
}

fn recorded(folder: &Path, faults: Faults) -> Option<(Recording, u32)> {
    let program = program();
    let file = folder.join("file");
    std::fs::write(&file, vec![7; usize::try_from(FILE_PAGES * page_size()).unwrap()]).unwrap();
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    let sleeps = folder.join("sleeps");
    let waiting = Waiting::new(&program, &[file.to_str().unwrap(), sleeps.to_str().unwrap()]);
    let pid = waiting.pid();
    // An emulated machine takes seconds to verify each program; the tests of the tiers record every event kind.
    let is_alone = faults.source.is_none() && is_emulated();
    let request = command(pid).with(|terms| {
        terms.faults = faults;
        if is_alone {
            (terms.off_cpu, terms.block) = (OffCpu::Off, BlockMode::Off);
        }
    });
    let recording = record(request, || assert_eq!(waiting.run(), Some(0)));
    let fentry = |hook: &&profiler::event::HookStatus| hook.hook == "fentry/fexit handle_mm_fault";
    if faults.source == Some(FaultSource::Fentry)
        && let Some(reason) = recording
            .header
            .hooks
            .iter()
            .find(fentry)
            .and_then(|hook| hook.refused.clone())
    {
        println!("skipped: fentry is refused: {reason}");
        return None;
    }
    Some((recording, pid))
}

/// Faults that the kernel counted and the tier did not see, for a traced thread.
fn not_visible(exit: &TaskExit) -> Option<i64> {
    let counts = exit.faults?;
    let kernels = exit.minor_faults + exit.major_faults;
    (counts.before != BEFORE_UNKNOWN)
        .then(|| (kernels - counts.before).cast_signed() - (counts.seen + counts.lost + counts.filtered).cast_signed())
}

/// Compares the faults recorded as sleeping with the kernel's count of the thread's sleeps: some reads finish before
/// the thread waits for them, nearly all on a machine whose disk takes long to submit to; and a fault may sleep twice.
fn check_sleeps(folder: &Path, faults: &[&Fault<'_>]) {
    let slept: usize = std::fs::read_to_string(folder.join("sleeps")).unwrap().parse().unwrap();
    let waited = faults
        .iter()
        .filter(|fault| fault.waits.disk + fault.waits.blocked > 0)
        .count();
    assert!(
        waited <= slept && waited * 2 >= slept,
        "{waited} of {} faults waited, {slept} sleeps",
        faults.len()
    );
}

/// How often the kernel skipped a program, because a thread preempted in it occupies that CPU's slot: a fully
/// preemptible kernel does so, most of all on an emulated machine. The kernel counts them, and each may be an
/// unrecorded fault.
fn skipped_runs(recording: &Recording) -> u64 {
    let counts = recording.losses().into_iter().map(|event| match event {
        Event::Loss { loss, count } if *loss == Loss::ProgramMissed as u32 => *count,
        _ => 0,
    });
    counts.max().unwrap_or(0)
}

/// How many of `all` are not in `seen`; those in `seen` are in order.
fn missing_from(seen: &[u64], all: impl Iterator<Item = u64>) -> u64 {
    let mut rest = seen.iter().peekable();
    let missing = all.filter(|page| rest.next_if_eq(&page).is_none()).count();
    assert_eq!(rest.next(), None, "{seen:?}");
    missing as u64
}

fn check(source: FaultSource) {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let faults_asked = Faults {
        mode: FaultMode::All,
        source: Some(source),
    };
    let Some((recording, pid)) = recorded(folder.path(), faults_asked) else {
        return;
    };
    let others = |event: &&Event<'_>| !matches!(event, Event::Loss { loss, .. } if *loss == Loss::ProgramMissed as u32);
    let losses: Vec<_> = recording.losses().into_iter().filter(others).collect();
    assert!(losses.is_empty(), "{losses:?}");
    let skipped = skipped_runs(&recording);
    let mut missing = 0;
    for at in [0x1000_0000_0000, 0x1200_0000_0000]
        .into_iter()
        .chain((0..4).map(|thread| 0x1300_0000_0000 + (thread << 36)))
    {
        missing += missing_from(&touched(&recording, at, PAGES), 0..PAGES);
    }
    let of_the_file = missing_from(
        &touched(&recording, 0x1100_0000_0000, FILE_PAGES),
        (0..FILE_PAGES).rev(),
    );
    missing += of_the_file;
    assert!(
        missing <= skipped,
        "{missing} faults are missing, {skipped} runs were skipped"
    );
    let of_file = |fault: &&&Fault<'_>| {
        (0x1100_0000_0000..0x1100_0000_0000 + FILE_PAGES * page_size()).contains(&fault.address.0)
    };
    let all = faults(&recording);
    let major = all
        .iter()
        .filter(of_file)
        .filter(|fault| fault.flags & FAULT_MAJOR != 0);
    assert_eq!(major.count() as u64, FILE_PAGES - of_the_file);
    for fault in all.iter().filter(of_file) {
        let file = fault.vma.unwrap().file.unwrap();
        assert_eq!(file.offset.0, (fault.address.0 & !4095) - 0x1100_0000_0000);
        assert_eq!(
            file.file.inode,
            std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(folder.path().join("file")).unwrap())
        );
        if source != FaultSource::Perf {
            assert!(fault.start.unwrap() < fault.at.time, "{fault:?}");
        }
    }
    if source != FaultSource::Perf {
        check_sleeps(
            folder.path(),
            &all.iter().copied().filter(|fault| of_file(&fault)).collect::<Vec<_>>(),
        );
    }
    let failed = all.iter().filter(|fault| fault.flags & FAULT_FAILED != 0).count();
    assert!(failed == usize::from(source != FaultSource::Perf) || skipped > 0);
    let as_wanted = |fault: &&&Fault<'_>| (fault.flags & FAULT_STARTED != 0) == (source != FaultSource::Perf);
    let others: Vec<_> = all.iter().filter(|fault| !as_wanted(fault)).collect();
    assert!(others.len() as u64 <= skipped, "{others:?}");
    assert_eq!(recording.exits().count(), 6);
    let mut not_recorded = 0;
    for exit in recording.exits() {
        let is_main = exit.at.tid == pid;
        // The kernel writes the arguments of exec into the new program's memory without an exception.
        let expected = i64::from(source != FaultSource::Fentry && is_main);
        let more = not_visible(exit).unwrap() - expected;
        assert!(more >= 0, "{exit:?}");
        not_recorded += more.unsigned_abs();
    }
    assert!(
        not_recorded <= skipped,
        "{not_recorded} faults are not recorded, {skipped} runs were skipped"
    );
}

#[test]
fn the_program_builds() {
    assert!(program().exists());
}

#[test]
fn with_known_mappings() {
    check(FaultSource::Fentry);
}

#[test]
fn by_exceptions_and_the_kernels_count() {
    check(FaultSource::Tracepoint);
}

#[test]
fn by_the_kernels_count_alone() {
    check(FaultSource::Perf);
}

#[test]
fn filtered_faults_are_counted() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (mode, anonymous, file) in [
        (FaultMode::File, 0, FILE_PAGES),
        (FaultMode::Major, 0, FILE_PAGES),
        (FaultMode::Off, 0, 0),
    ] {
        let (recording, _) = recorded(folder.path(), Faults { mode, source: None }).unwrap();
        assert_eq!(
            touched(&recording, 0x1000_0000_0000, PAGES).len() as u64,
            anonymous,
            "{mode:?}"
        );
        let skipped = skipped_runs(&recording);
        let seen = touched(&recording, 0x1100_0000_0000, FILE_PAGES).len() as u64;
        assert!(
            seen <= file && seen + skipped >= file,
            "{mode:?}: {seen}, {skipped} runs were skipped"
        );
        let mut not_recorded = 0;
        for exit in recording.exits().filter(|_| mode != FaultMode::Off) {
            let more = not_visible(exit).unwrap();
            assert!(more >= 0, "{exit:?}");
            not_recorded += more.unsigned_abs().saturating_sub(1);
            // Threads that fault at once hold the lock of their mappings: whether such a fault is in a file is left to
            // the reader, and it is recorded.
            let undecided = faults(&recording)
                .into_iter()
                .filter(|fault| fault.at.tid == exit.at.tid);
            let undecided = undecided.filter(|fault| fault.vma.is_none()).count() as u64;
            assert!(
                exit.faults.unwrap().filtered + undecided + skipped >= PAGES,
                "{mode:?}: {undecided}, {exit:?}"
            );
        }
        assert!(
            not_recorded <= skipped,
            "{mode:?}: {not_recorded} faults are not recorded, {skipped} runs were skipped"
        );
    }
}
