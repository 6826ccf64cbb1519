//! Old files stay until the new ones have content.

use std::io::Write;
use std::os::unix::fs::chown;

use super::*;
use crate::event::format::{Frame, file_header};

#[test]
fn the_old_file_is_kept_until_the_new_one_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a b\n.json.gz");
    fs::write(&path, "old").unwrap();
    let mut output = Output::create(&path).unwrap();
    output.file().write_all(b"new!").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    drop(output);
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing half-written stays"
    );
    let mut output = Output::create(&path).unwrap();
    output.file().write_all(b"new!").unwrap();
    assert_eq!(output.finish().unwrap(), 4);
    assert_eq!(fs::read(&path).unwrap(), b"new!");
}

#[test]
fn profile_and_kept_log_need_two_paths() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("p.json.gz");
    let same = dir
        .path()
        .join("./../")
        .join(dir.path().file_name().unwrap())
        .join("p.json.gz");
    let error = Spool::create(&output, Some(&same)).unwrap_err().to_string();
    assert!(
        error.contains("both the profile (-o) and the event log (--keep-events)"),
        "{error}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn special_outputs_are_rejected_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    for path in [
        dir.path(),
        &link,
        Path::new("/dev/null"),
        Path::new("/no/such/folder/x"),
        Path::new(".."),
    ] {
        let error = format!("{:#}", Output::create(path).unwrap_err());
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
    let nowhere = format!("{:#}", Output::create(Path::new("/no/such/folder/x")).unwrap_err());
    assert!(
        nowhere.contains("create the folder") && !nowhere.contains(".tmp"),
        "{nowhere}"
    );
}

#[test]
fn a_leftover_log_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("p.json.gz");
    let first = Spool::create(&output, None).unwrap();
    let second = Spool::create(&output, None).unwrap();
    assert_ne!(first.path(), second.path());
    second.discard();
    assert!(first.path().exists());
    let kept = Spool::create(&output, Some(&dir.path().join("log"))).unwrap();
    let path = kept.path();
    kept.discard();
    assert!(path.exists());
}

/// A log that is to replace an old one, and its path.
fn over_an_old_one(folder: &Path) -> (Spool, PathBuf) {
    let place = folder.join("log");
    fs::write(&place, "old").unwrap();
    let spool = Spool::create(&folder.join("p.json.gz"), Some(&place)).unwrap();
    (spool, place)
}

fn write_events(spool: &Spool) {
    let frame = Frame::of(ChunkKind::Events, 0, b"x").encode();
    spool
        .file()
        .write_all(&[&file_header()[..], &frame, b"x"].concat())
        .unwrap();
}

#[test]
fn an_old_log_is_kept_until_the_new_one_has_data() {
    let dir = tempfile::tempdir().unwrap();
    let (spool, place) = over_an_old_one(dir.path());
    spool.begin();
    assert_eq!(fs::read(&place).unwrap(), b"old");
    write_events(&spool);
    spool.begin();
    assert_eq!(spool.path(), place);
    assert_eq!(spool.keep_or_remove().as_ref(), Some(&place));
    spool.discard();
    assert_ne!(fs::read(&place).unwrap(), b"old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_failed_start_leaves_only_the_old_log() {
    for begins in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (spool, place) = over_an_old_one(dir.path());
        if begins {
            spool.begin();
        } else {
            // Events of the process that was to become the command.
            write_events(&spool);
        }
        assert_eq!(spool.keep_or_remove(), None);
        assert_eq!(fs::read(&place).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

/// Creates a file of another user in a folder that both can write to.
fn of_another_user(path: &Path) {
    fs::write(path, "theirs").unwrap();
    chown(path, Some(64_131), Some(64_131)).unwrap();
}

#[test]
fn names_taken_by_another_user_are_avoided() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (output, log) = (dir.path().join("p.json.gz"), dir.path().join("log"));
    of_another_user(&dir.path().join("p.json.gz.events"));
    for attempt in 2..1000 {
        of_another_user(&dir.path().join(format!("p.json.gz.{attempt}.events")));
    }
    for name in ["p.json.gz", "log"] {
        of_another_user(&dir.path().join(format!("{name}.{}.new", std::process::id())));
    }
    let before = fs::read_dir(dir.path()).unwrap().count();
    Spool::create(&output, None).unwrap().discard();
    let spool = Spool::create(&output, Some(&log)).unwrap();
    write_events(&spool);
    spool.begin();
    assert_eq!(spool.path(), log);
    let mut made = Output::create(&output).unwrap();
    made.file().write_all(b"x").unwrap();
    made.finish().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before + 2);
}

#[test]
fn another_users_file_is_neither_replaced_nor_copied() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json.gz");
    // In one case it already existed, in the other it appeared since.
    let output = Output::create(&path).unwrap();
    of_another_user(&path);
    let refused = [
        output.finish().map(drop),
        Output::create(&path).map(drop),
        Spool::create(&dir.path().join("q.json.gz"), Some(&path)).map(drop),
    ];
    for refused in refused {
        let why = format!("{:#}", refused.unwrap_err());
        assert!(
            why.contains("a file of user 64131") && why.contains("p.json.gz"),
            "{why}"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
