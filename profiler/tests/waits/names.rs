//! Each wait and each read has the name that its file had at that time, on file systems that reuse inode numbers immediately and
//! on those that do not.

use crate::harness::skip::{self, needs_capture};
use crate::run::{Request, Run, Wait, record_as};

/// Records the oracle below a folder that `script` prepares, in a separate mount namespace. `$folder` is on a disk.
fn record_in(script: &str) -> Option<Run> {
    record_as("names", |oracle, folder| {
        let script = format!(
            "set -e; folder={}\n{script}\nexec {} $place",
            folder.display(),
            oracle.display()
        );
        let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script];
        words.map(Into::into).to_vec()
    })
}

fn check(run: &Run) {
    let mut waits = 0;
    for name in ["another file", "renamed", "directory renamed", "two names"] {
        for episode in run.episodes(name) {
            let of_lock = |wait: &&&Wait| (wait.reason.as_str(), wait.call.as_deref()) == ("lock", Some("flock"));
            for wait in run.within(episode).iter().filter(of_lock) {
                waits += 1;
                assert_eq!(wait.file, episode.file, "{episode:?} and {wait:?}");
            }
        }
    }
    // On a busy machine, the lock is sometimes free before the thread waits for it.
    assert!(waits > 10, "{waits} waits");
}

/// Whether the file system can be mounted; if not, the test is counted as skipped.
fn can_mount(what: &str, script: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("set -e; folder={}\n{script}", folder.path().display());
    let mounts = std::process::Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script])
        .output()
        .unwrap();
    if !mounts.status.success() {
        let reason = String::from_utf8_lossy(&mounts.stderr).into_owned();
        skip::skip(&format!("cannot mount {what}: {}", reason.trim()));
    }
    mounts.status.success()
}

const OVERLAY: &str = "mkdir $folder/lower $folder/upper $folder/work $folder/merged; place=$folder/merged
    mount -t overlay -o lowerdir=$folder/lower,upperdir=$folder/upper,workdir=$folder/work none $place";
const OVERLAY_IN_MEMORY: &str =
    "mount -t tmpfs none $folder; mkdir $folder/lower $folder/upper $folder/work $folder/merged
    place=$folder/merged
    mount -t overlay -o lowerdir=$folder/lower,upperdir=$folder/upper,workdir=$folder/work none $place";
const MEMORY: &str = "mkdir $folder/memory; place=$folder/memory; mount -t tmpfs none $place";

#[test]
fn on_an_overlay() {
    needs_capture!();
    for script in [OVERLAY, OVERLAY_IN_MEMORY] {
        // The folders may be on a file system that overlayfs can't use.
        if can_mount("overlay", OVERLAY_IN_MEMORY)
            && let Some(run) = record_in(script)
        {
            check(&run);
        }
    }
}

#[test]
fn in_memory() {
    needs_capture!();
    if can_mount("tmpfs", MEMORY)
        && let Some(run) = record_in(MEMORY)
    {
        check(&run);
    }
}

#[test]
fn on_a_disk() {
    needs_capture!();
    let Some(run) = record_in("place=$folder") else { return };
    check(&run);
    let Some(requests) = run.requests() else { return };
    let mut found = 0;
    for episode in run.episodes("read") {
        let is_own = |request: &&Request| {
            (request.operation.as_str(), request.source.as_deref()) == ("read", Some("cache"))
                && (request.pid, request.offset) == (Some(episode.pid), Some(episode.offset))
        };
        for request in requests.iter().filter(is_own) {
            found += 1;
            assert_eq!(request.file, episode.file, "{episode:?} and {request:?}");
        }
    }
    if found == 0 {
        skip::skip("files here are not read from a disk");
    }
}
