//! Scopes: running processes, and the whole system.

use std::process::{Command, Stdio};

use profiler::event::{Event, PROT_EXEC};

use crate::harness::{Waiting, command, compile, record, running, skipped, system};

const THREADS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static void spin(long ms) {
    struct timespec t; do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}
static void *spinner(void *unused) { spin(200); return unused; }
static void *early(void *unused) { pthread_setname_np(pthread_self(), "early"); getchar(); spinner(0); return unused; }
int main(int argc, char **argv) {
    pthread_t first, second;
    if (!strcmp(argv[1], "executed")) { spin(250); return 5; }
    if (!strcmp(argv[1], "move")) {
        // A loop: subtracts 1, jumps back unless it is 0, returns; moved to where the kernel wants it, twice the size.
#ifdef __aarch64__
        static const unsigned code[] = {0x71000400, 0x54ffffe1, 0xd65f03c0};
#else
        static const unsigned char code[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3};
#endif
        char *page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mmap(page + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        memcpy(page, code, sizeof code); mprotect(page, PAGE, PROT_READ | PROT_EXEC);
        __builtin___clear_cache(page, page + PAGE);
        void (*loop)(int) = (void (*)(int))mremap(page, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
        loop(1000000000);
        return (char *)loop == page;
    }
    pthread_create(&first, 0, early, 0);
    usleep(100000); puts("ready"); fflush(stdout);
    pthread_join(first, 0);
    pthread_create(&second, 0, spinner, 0); pthread_join(second, 0);
    return 0;
}
"#;

#[test]
fn a_running_process_with_threads_and_later_children() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "threads", THREADS, &["-O1"]);
    let mut child = Command::new(&program)
        .arg("wait")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    let pid = child.id();
    let recording = record(running(&[pid]), || {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    });
    let mut born = Vec::new();
    let mut program_seen = false;
    let mut existed = Vec::new();
    let mut code = 0;
    for event in &recording.events {
        match event {
            Event::TaskNew(new) => {
                born.push((new.existed, String::from_utf8_lossy(&new.name).into_owned()));
                existed.extend(new.existed.then_some(new.at.tid));
            }
            Event::TaskExec(exec) => {
                assert!(exec.existed);
                assert_eq!(exec.path, program.as_os_str().as_encoded_bytes());
                assert_eq!(
                    exec.command_line,
                    [program.as_os_str().as_encoded_bytes(), b"\0wait\0"].concat()
                );
                program_seen = true;
            }
            Event::Mapping(mapping) => {
                assert_eq!(mapping.at.pid, pid);
                code += usize::from(
                    mapping.protection & PROT_EXEC != 0 && mapping.path == program.as_os_str().as_encoded_bytes(),
                );
            }
            _ => {}
        }
    }
    let expected = [(true, "threads"), (true, "early"), (false, "threads")];
    assert_eq!(born, expected.map(|(existed, name)| (existed, name.to_owned())));
    assert!(program_seen && code == 1);
    // The early thread and the late one spun to 200 ms each; the late one was born during the recording.
    let late = recording.exits().find(|exit| !existed.contains(&exit.at.tid)).unwrap();
    recording.check_time(late, 0);
    assert!(late.sum_exec_runtime >= 200_000_000);
    let total: u64 = recording.exits().map(|exit| recording.cpu_time(exit.at.tid)).sum();
    assert!(total >= 390_000_000, "{total} ns");
    assert_eq!(recording.exits().count(), 3);
    assert!(
        recording
            .mapped
            .iter()
            .any(|(mapped, file)| mapped.path.as_bytes() == program.as_os_str().as_encoded_bytes() && file.is_some())
    );
}

#[test]
fn code_that_mremap_moved_is_found() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "threads", THREADS, &["-O1"]);
    let waiting = Waiting::new(&program, &["move"]);
    let pid = waiting.pid();
    let recording = record(command(pid), || assert_eq!(waiting.run(), Some(0)));
    let mut code = Vec::new();
    let (mut inside, mut samples) = (0, 0);
    for event in &recording.events {
        match event {
            Event::Mapping(mapping) if mapping.protection & PROT_EXEC != 0 => code.push((mapping.start.0, mapping.len)),
            Event::Sample(sample) => {
                samples += 1;
                inside += usize::from(
                    code.iter()
                        .any(|&(start, len)| sample.stacks.regs.ip.wrapping_sub(start) < len),
                );
            }
            _ => {}
        }
    }
    assert!(
        samples > 100 && inside * 100 >= samples * 98,
        "{inside} of {samples} samples in known code"
    );
}

#[test]
fn the_whole_system_but_the_recorder() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "threads", THREADS, &["-O1"]);
    let mut pid = 0;
    let recording = record(system(), || {
        let mut child = Command::new(&program).arg("executed").spawn().unwrap();
        pid = child.id();
        assert_eq!(child.wait().unwrap().code(), Some(5));
    });
    let exit = recording.exits().find(|exit| exit.at.tid == pid).unwrap();
    let (ours, kernels) = (recording.cpu_time(pid), exit.sum_exec_runtime);
    // Recording everything causes interrupts, which the kernel excludes from CPU time.
    assert!(
        kernels >= 250_000_000 && ours.abs_diff(kernels) < kernels / 10,
        "{ours} ns, the kernel reports {kernels} ns"
    );
    assert!(
        recording
            .samples()
            .all(|sample| sample.at.pid != std::process::id() && sample.at.tid != 0)
    );
    let first = recording.events.iter().find_map(|event| match event {
        Event::TaskNew(new) if new.at.pid == 1 && new.at.tid == 1 => Some(new.existed),
        _ => None,
    });
    assert_eq!(first, Some(true));
    assert_eq!(recording.header.scope, "system");
}
