//! Threads that are alive at Stop: their time is complete, and so are the pages that they read.

use std::time::Duration;

use profiler::event::{Event, PagesRead};

use crate::emulated::is_emulated;
use crate::harness::{Waiting, command, compile, record, skipped, time_before};
use crate::page::{UNIT, page_size};

/// A thread that spins forever, and one that spins for 30 ms and then sleeps.
const PROGRAM: &str = r"
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static void *for_ever(void *arg) { for (volatile int i = 0;; i++) {} return arg; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, for_ever, 0);
    struct timespec t;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while (t.tv_nsec < 30000000);
    for (;;) pause();
}
";
/// A tick of the slowest kernels, by which the kernel's own count lags for a running thread.
const TICK: u64 = 10_000_000;

#[test]
fn their_time_matches_the_kernel() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "alive", PROGRAM, &["-O1"]);
    let mut waiting = Waiting::new(&program, &[]);
    let pid = waiting.pid();
    let request = command(pid).with(|terms| {
        // With few samples, most of the time is left at the end.
        terms.sample_hz = 3;
    });
    let before = time_before(pid);
    let mut at_stop = Vec::new();
    let recording = record(request, || {
        drop(
            waiting
                .0
                .stdin
                .take()
                .map(|mut input| std::io::Write::write_all(&mut input, b"\n")),
        );
        // On a busy machine it takes a while until they have run that long; on an emulated one, exec alone may take 200 ms.
        let have_run = || {
            let threads = capture::proc::procfs::threads(pid).unwrap();
            threads.len() == 2 && threads.into_iter().any(|tid| time_before(tid) > 200_000_000)
        };
        for _ in 0..if is_emulated() { 1500 } else { 100 } {
            std::thread::sleep(Duration::from_millis(200));
            if have_run() {
                break;
            }
        }
        for tid in capture::proc::procfs::threads(pid).unwrap() {
            at_stop.push((tid, time_before(tid)));
        }
    });
    let after: Vec<u64> = at_stop.iter().map(|(tid, _)| time_before(*tid)).collect();
    waiting.0.kill().unwrap();
    waiting.0.wait().unwrap();

    assert_eq!(at_stop.len(), 2);
    for ((tid, kernels), after) in at_stop.iter().zip(after) {
        let before = if *tid == pid { before } else { 0 };
        let ended = recording.events.iter().filter_map(|event| match event {
            Event::TaskAlive { at, cpu_time } if at.tid == *tid => Some(*cpu_time),
            _ => None,
        });
        let ended: Vec<u64> = ended.collect();
        assert_eq!(ended.len(), 1, "thread {tid}: {ended:?}");
        let ours = recording.cpu_time(*tid) + ended[0];
        recording.check_near(ours, kernels - before, after - before, TICK);
    }
    assert!(at_stop.iter().any(|(_, time)| *time > 150_000_000), "{at_stop:?}");
}

/// One thread reads page 40 with a system call and pauses; the other touches pages 3, 10, 11 and 12 and pauses,
/// under the name `ready`.
const READER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
static int fd;
static volatile int done;
static void *by_call(void *arg) {
    char byte;
    pread(fd, &byte, 1, 40 * PAGE);
    done = 1;
    for (;;) pause();
    return arg;
}
int main(int count, char **words) {
    fd = open(words[1], O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    volatile char *file = mmap(0, 64 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    madvise((void *)file, 64 * PAGE, MADV_RANDOM);
    pthread_t thread;
    pthread_create(&thread, 0, by_call, 0);
    while (!done) usleep(1000);
    file[3 * PAGE], file[10 * PAGE], file[11 * PAGE], file[12 * PAGE];
    prctl(PR_SET_NAME, "ready");
    for (;;) pause();
}
"#;

#[test]
fn their_last_read_pages_are_recorded_once() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = compile(folder.path(), "reader", READER, &["-O1"]);
    let path = folder.path().join("file");
    std::fs::write(&path, vec![7; 64 * usize::try_from(page_size()).unwrap()]).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    let mut waiting = Waiting::new(&program, &[path.to_str().unwrap()]);
    let pid = waiting.pid();
    let recording = record(command(pid), || {
        let input = waiting.0.stdin.take();
        std::io::Write::write_all(&mut input.unwrap(), b"\n").unwrap();
        let is_ready = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "ready\n";
        while !is_ready() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    waiting.0.kill().unwrap();
    waiting.0.wait().unwrap();

    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
    let recorded = recording.events.iter().filter_map(|event| match event {
        Event::PagesRead(read) if read.file.inode == inode => Some(read),
        _ => None,
    });
    let pages = |read: &PagesRead| {
        let run = read.first..read.first + u64::from(read.count);
        let is_main = read.at.tid == pid;
        let in_fault = read.in_fault;
        let units = page_size() / UNIT;
        let pages = run.step_by(usize::try_from(units).unwrap());
        pages
            .map(move |unit| (unit / units, in_fault, is_main))
            .collect::<Vec<_>>()
    };
    let mut recorded: Vec<_> = recorded.flat_map(pages).collect();
    recorded.sort_unstable();
    assert_eq!(
        recorded,
        [
            (3, true, true),
            (10, true, true),
            (11, true, true),
            (12, true, true),
            (40, false, false)
        ]
    );
}
