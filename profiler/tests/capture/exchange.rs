//! `execve` by a thread other than the first, which takes the first one's tid while that one runs its last
//! instructions.

use profiler::event::{At, Event, TaskExec};

use crate::emulated::is_emulated;
use crate::harness::{Recording, Waiting, command, compile, record, skipped};

const EXCHANGE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static char **arguments;
static char zeroes[64 << 10];
static void spin(long us) {
    struct timespec t; do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while (t.tv_sec * 1000000 + t.tv_nsec / 1000 < us);
}
static void *executes(void *next) {
    spin(strcmp(next, "soon") ? 100000 : 500); execl(arguments[0], arguments[0], next, (char *)0); return 0;
}
static int exchange(char *next) { pthread_t other; pthread_create(&other, 0, executes, next); spin(10000000); return 1; }
int main(int argc, char **argv) {
    arguments = argv;
    memset(zeroes, 1, sizeof zeroes);
    if (!strcmp(argv[1], "executed")) { spin(250000); return 5; }
    if (!strcmp(argv[1], "soon")) { spin(1000); return 5; }
    if (!strcmp(argv[1], "exec")) return exchange("executed");
    for (int left = atoi(argv[1]); left > 0; left--) {
        int status;
        if (!fork()) return exchange("soon");
        wait(&status);
        if (WEXITSTATUS(status) != 5) return 1;
    }
    return 0;
}
"#;

/// Execs by a thread other than the first.
fn exchanges(recording: &Recording) -> Vec<&TaskExec> {
    let execs = recording.events.iter().filter_map(|event| match event {
        Event::TaskExec(exec) if exec.old_tid != exec.at.tid => Some(exec),
        _ => None,
    });
    execs.collect()
}

#[test]
fn exec_by_another_thread_than_the_first() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "exchange", EXCHANGE, &["-O1"]);
    let waiting = Waiting::new(&program, &["exec"]);
    let pid = waiting.pid();
    let recording = record(command(pid), || assert_eq!(waiting.run(), Some(5)));
    let execs = exchanges(&recording);
    let [second] = execs[..] else { panic!("{execs:?}") };
    assert_eq!((second.at.pid, second.at.tid), (pid, pid));
    // The new program's time is complete: the thread spun for 100 ms under its old tid, and to 250 ms under the new
    // one.
    let last = recording.exits().last().unwrap();
    assert_eq!((last.at.tid, last.exit_code >> 8), (pid, 5));
    let after = recording
        .samples()
        .filter(|sample| sample.at.tid == pid && sample.at.time > second.at.time);
    let after: u64 = after.map(|sample| sample.cpu_time).sum();
    let under_both = recording.cpu_time(second.old_tid) + after + last.cpu_time;
    let by_kernel = last.sum_exec_runtime;
    // On an emulated machine, exec itself takes much of the 150 ms that remain.
    let enough = if is_emulated() { 20_000_000 } else { 100_000_000 };
    assert!(after >= enough, "{after} of {by_kernel} ns");
    recording.check_near(under_both, by_kernel, by_kernel, 2_000_000);
    assert_eq!(recording.ended.progress.threads, 0);
}

/// On two CPUs the first thread is often still exiting when the other one continues under its tid.
#[test]
fn both_threads_keep_their_counts_when_exchanging_ids() {
    const ROUNDS: usize = 200;
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "exchange", EXCHANGE, &["-O1"]);
    let waiting = Waiting::new(&program, &[&ROUNDS.to_string()]);
    let pid = waiting.pid();
    let recording = record(command(pid), || assert_eq!(waiting.run(), Some(0)));
    let execs = exchanges(&recording);
    assert_eq!(execs.len(), ROUNDS);
    let mut kernels = 0;
    for exec in &execs {
        let exits: Vec<_> = recording.exits().filter(|exit| exit.at.pid == exec.at.pid).collect();
        let [first, other] = exits[..] else {
            panic!("{exits:?} of {exec:?}")
        };
        assert_eq!((first.exit_code, other.exit_code >> 8), (0, 5));
        // A first thread that exits after the exec has its reassigned tid; one that exits just when the exec is
        // recorded, either.
        let late = first.at.time > exec.at.time;
        assert!(
            first.at.tid == exec.old_tid || first.at.tid == exec.at.tid && !late,
            "{first:?} {exec:?}"
        );
        assert_eq!(other.at.tid, exec.at.tid);
        for exit in exits {
            let counts = exit.faults.unwrap();
            let counted = counts.before + counts.seen + counts.lost + counts.filtered;
            assert!(counted <= exit.minor_faults + exit.major_faults, "{exit:?}");
            kernels += exit.sum_exec_runtime;
        }
    }
    let of_rounds = |at: &At| execs.iter().any(|exec| exec.at.pid == at.pid);
    let samples = recording
        .samples()
        .filter(|sample| of_rounds(&sample.at))
        .map(|sample| sample.cpu_time);
    let rest = recording
        .exits()
        .filter(|exit| of_rounds(&exit.at))
        .map(|exit| exit.cpu_time);
    recording.check_near(samples.chain(rest).sum(), kernels, kernels, 2_000_000);
    assert_eq!(recording.ended.progress.threads, 0);
}
