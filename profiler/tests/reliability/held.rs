//! During a recording, file systems can be unmounted and files deleted as without one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle, Outcome, Profile, ngmi, procfs, said};

/// A mount point for recorded scripts; unmounts it when dropped.
struct Mountable(tempfile::TempDir);

impl Mountable {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("ngmi-held-").tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Mounts a tmpfs; false if this machine refuses.
    fn mount(&self) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "none"]).arg(self.path());
        mount.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Mountable {
    fn drop(&mut self) {
        // Fails if nothing is mounted any more.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

/// Records a shell script with `words` as `$1` and so on. Its `PATH` includes the folders of system programs.
fn script<'w>(ngmi: Ngmi, script: &str, words: impl IntoIterator<Item = &'w Path>) -> Outcome {
    let script = format!("PATH=$PATH:/usr/sbin:/sbin; {script}");
    let words = words.into_iter().map(Path::to_path_buf);
    let all = ["-c".into(), PathBuf::from(script), "sh".into()]
        .into_iter()
        .chain(words);
    ngmi.program("sh", all).run()
}

/// Asserts that over 70 % of the samples in `process` hold `function`, and that it has a line.
#[track_caller]
fn expect_names(profile: &Profile, process: &str, function: &str) {
    let threads: Vec<_> = profile
        .threads
        .iter()
        .filter(|thread| thread.process == process)
        .collect();
    let samples = threads.iter().flat_map(|thread| &thread.samples);
    let (all, named) = samples.fold((0, 0), |(all, named), sample| {
        (all + 1, named + usize::from(sample.holds(function)))
    });
    assert!(
        named > 0 && named * 10 > all * 7,
        "{named} of {all} samples in {process} hold {function}"
    );
    let frames = threads
        .iter()
        .flat_map(|thread| &thread.samples)
        .flat_map(|sample| sample.stack.iter());
    let lines = frames
        .filter(|frame| frame.function == function && frame.line.is_some())
        .count();
    assert!(lines > 0, "{function} has no line");
}

const UNMOUNTED: &str =
    "mount -t tmpfs none $1 || exit 77; cp $2 $1/program; $1/program 600 >/dev/null; umount $1 && echo unmounted";

#[test]
fn a_file_system_is_unmounted_while_it_is_recorded() {
    needs_capture!();
    let (folder, burn) = (Mountable::new(), Oracle::c("burn").path);
    let outcome = script(Ngmi::record(), UNMOUNTED, [folder.path(), &burn]);
    if outcome.code() == 77 {
        skip("no tmpfs can be mounted here");
        return;
    }
    outcome.expect_code(0);
    assert_eq!(outcome.stdout, "unmounted\n", "{}", outcome.stderr);
    expect_names(&outcome.profile(), "program", "burn_here");
}

/// The recorder handles each program when it has ended, or is about to. While the kernel looks up a path its mount is
/// busy, some microseconds, which a umount may meet.
#[test]
fn file_systems_of_short_programs_are_unmounted_at_once() {
    needs_capture!();
    let (folder, burn) = (Mountable::new(), Oracle::c("burn").path);
    let short = "for i in $(seq 60); do
            mount -t tmpfs none $1 || exit 77; cp $2 $1/program; $1/program 0 >/dev/null; umount $1 || umount -l $1
        done";
    let outcome = script(Ngmi::record(), short, [folder.path(), &burn]);
    if outcome.code() == 77 {
        skip("no tmpfs can be mounted here");
        return;
    }
    outcome.expect_code(0);
    let busy = outcome.stderr.matches("target is busy").count();
    assert!(busy <= 1, "{busy} of 60 mounts were busy: {}", outcome.stderr);
}

#[test]
fn other_programs_unmount_theirs_while_the_whole_system_is_recorded() {
    needs_capture!();
    let (folder, burn) = (Mountable::new(), Oracle::c("burn").path);
    let recorder = Ngmi::record().args(["-a", "--faults", "off", "--off-cpu", "off"]);
    let log = recorder.dir().join("out.json.gz.events");
    let mut running = recorder.start();
    running.wait_until("the recording runs", |_| {
        std::fs::metadata(&log).is_ok_and(|log| log.len() > 1 << 16)
    });
    let mut other = Command::new("sh");
    other.args(["-c", &UNMOUNTED.replace("mount -t", "PATH=$PATH:/sbin; mount -t"), "sh"]);
    let said = other.arg(folder.path()).arg(&burn).output().unwrap();
    running.signal(nix::sys::signal::Signal::SIGINT);
    let outcome = running.wait();
    if said.status.code() == Some(77) {
        skip("no tmpfs can be mounted here");
        return;
    }
    assert_eq!(String::from_utf8_lossy(&said.stdout), "unmounted\n", "{said:?}");
    expect_names(&outcome.profile_at("out.json.gz"), "program", "burn_here");
}

/// The file system leaves the tree at once and disappears with its last program. The device below it is then free.
#[test]
fn a_file_system_is_unmounted_lazily_under_its_program() {
    needs_capture!();
    let (folder, image, burn) = (Mountable::new(), Mountable::new(), Oracle::c("burn").path);
    let lazily = "truncate -s 16M $3/image && mkfs.ext4 -q $3/image && mount -o loop $3/image $1 || exit 77
        cp $2 $1/program; $1/program 1000 >/dev/null & sleep 0.5; umount -l $1; wait
        for i in $(seq 300); do [ -z \"$(losetup -j $3/image)\" ] && echo free && break; sleep 0.1; done";
    let outcome = script(Ngmi::record(), lazily, [folder.path(), &burn, image.path()]);
    if outcome.code() == 77 {
        skip("no ext4 can be mounted by a loop device here");
        return;
    }
    outcome.expect_code(0);
    assert_eq!(outcome.stdout, "free\n", "{}", outcome.stderr);
    expect_names(&outcome.profile(), "program", "burn_here");
}

#[test]
fn a_program_run_from_its_own_image_leaves_no_mount() {
    needs_capture!();
    let (folder, burn) = (Mountable::new(), Oracle::c("burn").path);
    let image = Oracle::c("reliability/image").path;
    let words = [&*burn, folder.path(), Path::new("600")];
    let outcome = Ngmi::record().program(image, words).run();
    if outcome.code() == 77 {
        skip("no FUSE here (/dev/fuse)");
        return;
    }
    outcome.expect_code(0);
    assert_eq!(said(&outcome.stdout, "unmounted"), 0, "{}", outcome.stdout);
    assert_eq!(said(&outcome.stdout, "server"), 0, "{}", outcome.stdout);
    expect_names(&outcome.profile(), "program", "burn_here");
}

/// The recorder keeps this file system busy anyway, so the program's file may stay open.
#[test]
fn the_space_of_a_deleted_program_is_free_when_it_ends() {
    needs_capture!();
    let (folder, burn) = (Mountable::new(), Oracle::c("burn").path);
    if !folder.mount() {
        skip("no tmpfs can be mounted here");
        return;
    }
    let freed =
        "cp $1 program; head -c 200M /dev/zero >>program; full=$(stat -f -c %f .); ./program 1000 unlink >/dev/null
        for i in $(seq 300); do
            [ $(($(stat -f -c %f .) - full)) -gt $((190 << 8)) ] && echo freed && break; sleep 0.1
        done";
    let ngmi = Ngmi::record_under(&format!("cd {}", folder.path().display()));
    let outcome = script(ngmi, freed, [&*burn]);
    outcome.expect_code(0);
    assert_eq!(outcome.stdout, "freed\n", "{}", outcome.stderr);
    expect_names(
        &Profile::read(&folder.path().join("out.json.gz")),
        "program",
        "burn_here",
    );
}

#[test]
fn a_library_is_deleted_under_its_program() {
    needs_capture!();
    let library = Oracle::library("swapped.c", "spin_in_old").path;
    let upgrade = Oracle::c_with("reliability/upgrade.c", "upgrade", &["-ldl"]).path;
    let deleted = "cp $2 lib.so; $1 ./lib.so & sleep 0.1; rm lib.so; wait; sleep 1.5";
    let outcome = script(Ngmi::record(), deleted, [&*upgrade, &*library]);
    expect_names(&outcome.profile(), "upgrade", "spin_in_old");
}

/// The new file takes the old one's name while programs start and run, as in a package upgrade.
#[test]
fn a_library_is_replaced_again_and_again_under_load() {
    needs_capture!();
    let (old, new) = (
        Oracle::library("swapped.c", "spin_in_old"),
        Oracle::library("swapped.c", "spin_in_new"),
    );
    let upgrade = Oracle::c_with("reliability/upgrade.c", "upgrade", &["-ldl"]).path;
    let replaced = "for i in 1 2 3 4 5 6; do for library in $2 $3; do
            cp $library fresh; mv fresh lib.so; $1 ./lib.so & sleep 0.1
        done; done; wait";
    let outcome = script(Ngmi::record(), replaced, [&*upgrade, &*old.path, &*new.path]);
    let profile = outcome.profile();
    let (mut named, mut all) = (0, 0);
    for sample in profile.threads.iter().flat_map(|thread| &thread.samples) {
        for (caller, function, other) in [
            ("in_old", "spin_in_old", "spin_in_new"),
            ("in_new", "spin_in_new", "spin_in_old"),
        ] {
            if sample.holds(caller) {
                all += 1;
                named += usize::from(sample.holds(function));
                assert!(!sample.holds(other), "{:?}", sample.functions());
            }
        }
    }
    assert!(
        all > 100 && named * 10 > all * 9,
        "{named} of {all} samples have their function"
    );
}

/// The largest number of open files in one process of a recorder, without its command.
fn open_files(recorder: u32) -> usize {
    let all = procfs::descendants(recorder).into_iter().chain([recorder]);
    let own = all.filter(|pid| {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
        exe.is_ok_and(|exe| exe == ngmi::binary().canonicalize().unwrap_or_default())
    });
    let counts = own.map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count));
    counts.max().unwrap_or(0)
}

/// Records `count` short programs on their own file system, and one more per hundred from a file that is deleted at
/// once. Asserts a bound on the number of open files.
fn short_programs(count: u32) {
    let (folder, burn) = (Mountable::new(), Oracle::c("burn").path);
    let short = "mount -t tmpfs none $1 || exit 77; cp $2 $1/program; i=0
        while [ $i -lt $3 ]; do
            if [ $((i % 100)) = 0 ]; then cp $2 program$i; ./program$i 0; rm program$i; fi >/dev/null
            $1/program 0 >/dev/null; i=$((i + 1))
        done; $1/program 300 >/dev/null; umount $1 && echo unmounted";
    let words = [
        "-c".into(),
        PathBuf::from(format!("PATH=$PATH:/sbin; {short}")),
        "sh".into(),
    ];
    let words = words
        .into_iter()
        .chain([folder.path().to_owned(), burn, count.to_string().into()]);
    let recorder = Ngmi::record().args(["--faults", "off", "--off-cpu", "off", "--block", "off"]);
    let running = recorder.program("sh", words).start();
    let pid = running.pid().as_raw().unsigned_abs();
    let stdout = running.dir().join("stdout");
    let mut most = 0;
    while !ngmi::read_lossy(&stdout).contains("unmounted") && procfs::is_alive(pid) {
        most = most.max(open_files(pid));
        std::thread::sleep(Duration::from_millis(50));
    }
    let outcome = running.wait();
    if outcome.code() == 77 {
        skip("no tmpfs can be mounted here");
        return;
    }
    assert_eq!(outcome.stdout, "unmounted\n", "{}", outcome.stderr);
    let profile = outcome.profile();
    assert!(
        profile.samples().any(|sample| sample.holds("burn_here")),
        "the last program has no sample of burn_here"
    );
    // One copy per deleted file, and what every recording needs.
    assert!(most < 400 + count as usize / 100, "{most} files are open");
}

#[test]
fn two_thousand_short_programs() {
    needs_capture!();
    short_programs(2_000);
}

#[test]
#[ignore = "takes minutes"]
fn a_hundred_thousand_short_programs() {
    needs_capture!();
    short_programs(100_000);
}
