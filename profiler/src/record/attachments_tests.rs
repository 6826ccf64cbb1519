//! Which files are taken, how much of them, and whose.

use super::*;
use crate::record::gecko::MARKERS;
use crate::record::identity::Environment;

#[test]
fn names_give_kind_and_pid() {
    assert_eq!(
        kind_of(Path::new("/tmp/perf-12.map")),
        Some((AttachmentKind::PerfMap, 12))
    );
    assert_eq!(
        kind_of(Path::new("/x/jit-7.dump (deleted)")),
        Some((AttachmentKind::JitDump, 7))
    );
    assert_eq!(kind_of(Path::new("marker-9-1.txt")), Some((AttachmentKind::Markers, 9)));
    assert_eq!(kind_of(Path::new("perf-x.map")), None);
    assert_eq!(kind_of(Path::new("perf-99999999999.map")), None);
}

/// What is collected from a program that wrote these files to its folder, if capture passes on
/// only these perf maps.
fn written(files: &[(&str, &[u8])], jit: bool, perf_maps: &[(PerfMap, File)]) -> (Vec<Attachment>, Vec<String>) {
    let began = SystemTime::now() - std::time::Duration::from_secs(5);
    let folders = Folders::prepare(&mut Environment::new(), jit, None);
    let folder = folders.paths().last().unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let (mapped, mut attachments) = (&mut [], Vec::new());
    let collected = collect(Passed { mapped, perf_maps }, &folders, began, |attachment| {
        attachments.push(attachment);
        Ok(())
    });
    collected.kept.unwrap();
    (attachments, collected.problems)
}

fn of_kind(attachments: &[Attachment], kind: AttachmentKind) -> Vec<(u32, &[u8])> {
    let of_kind = attachments.iter().filter(|attachment| attachment.kind == kind);
    of_kind.map(|attachment| (attachment.pid, &*attachment.bytes)).collect()
}

#[test]
fn markers_of_the_folder_are_taken() {
    let files = [("marker-42.txt", &b"1 2 hello\n"[..]), ("notes.txt", b"x")];
    let (attachments, _) = written(&files, false, &[]);
    assert_eq!(
        of_kind(&attachments, AttachmentKind::Markers),
        [(42, &b"1 2 hello\n"[..])]
    );
}

#[test]
fn missing_markers_of_a_firefox_are_reported_once() {
    let mut environment = Environment::new();
    let started = Folders::prepare(&mut environment, false, Some(MARKERS));
    let running = Folders::for_running_firefox().unwrap(); // collecting its file reports it
    for (folders, notes) in [(started, 1), (running, 0)] {
        let (mapped, perf_maps) = (&mut [], &[]);
        let collected = collect(Passed { mapped, perf_maps }, &folders, SystemTime::now(), |_| Ok(()));
        assert_eq!(collected.problems.len(), notes, "{:?}", collected.problems);
    }
}

#[test]
fn requested_but_absent_jitdumps_are_reported() {
    let (attachments, problems) = written(&[("jit-42.dump", b"DTiJ")], true, &[]);
    assert_eq!(of_kind(&attachments, AttachmentKind::JitDump), [(42, &b"DTiJ"[..])]);
    assert!(problems.is_empty(), "{problems:?}");
    let (_, problems) = written(&[], true, &[]);
    assert!(problems[0].contains("--firefox-jit needs"), "{problems:?}");
}

#[test]
fn a_perf_map_of_another_pid_namespace_is_taken_once() {
    // Process 4000000 has the pid 4000001 in its namespace, and shares /tmp with us.
    let path = "/tmp/perf-4000001.map";
    fs::write(path, "1000 10 f\n").unwrap();
    let map = PerfMap {
        pid: 4_000_000,
        path: path.to_owned(),
    };
    let (attachments, _) = written(&[], false, &[(map, File::open(path).unwrap())]);
    fs::remove_file(path).unwrap();
    let found = of_kind(&attachments, AttachmentKind::PerfMap);
    assert!(found.contains(&(4_000_000, b"1000 10 f\n")), "{found:?}");
    assert!(found.iter().all(|(pid, _)| *pid != 4_000_001), "{found:?}");
}

#[test]
fn sparse_and_zero_bytes_are_not_copied() {
    let mut taken = Vec::new();
    let dir = tempfile::tempdir().unwrap();
    let mut keep = |attachment: Attachment| {
        taken.push((attachment.pid, attachment.bytes));
        Ok(())
    };
    let mut collector = Collector::new(TOTAL_LIMIT, &mut keep);
    let block = "1000 10 f\n".repeat(1000);
    for pid in 1..=4 {
        // A sparse file costs its writer only its name; compressed zeros cost as little.
        let path = dir.path().join(format!("perf-{pid}.map"));
        fs::write(&path, &block).unwrap();
        let file = File::options().read(true).append(true).open(&path).unwrap();
        if pid == 4 {
            io::Write::write_all(&mut &file, &vec![0; 3 << 20]).unwrap();
        } else {
            file.set_len(250 << 20).unwrap();
        }
        collector.take(AttachmentKind::PerfMap, pid, &path, &file);
    }
    let path = dir.path().join("jit-5.dump");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    collector.take(AttachmentKind::JitDump, 5, &path, &File::open(&path).unwrap());
    let collected = collector.finish();
    assert_eq!(collected.problems.len(), 1, "{:?}", collected.problems);
    assert!(collected.problems[0].contains("not a jitdump"));
    assert_eq!(taken.len(), 4);
    for (pid, bytes) in taken {
        assert!(bytes == block.as_bytes(), "{pid}: {} bytes", bytes.len());
    }
}

#[test]
fn a_perf_map_without_a_descriptor_is_ignored() {
    // The file of a process that is not recorded, in a folder that every user can write to.
    let path = format!("/tmp/perf-{}.map", 4_100_000 + std::process::id());
    fs::write(&path, "1000 10 f\n").unwrap();
    let (attachments, problems) = written(&[("perf-42.map", b"1000 10 f\n")], false, &[]);
    fs::remove_file(path).unwrap();
    assert_eq!(
        (attachments.len(), problems.len()),
        (0, 0),
        "{attachments:?} {problems:?}"
    );
}

#[test]
fn another_users_markers_are_not_taken() {
    if !geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut environment = Environment::new();
    environment.insert("MOZ_PERFORMANCE_MARKER_DIR".into(), folder.path().into());
    let folders = Folders::prepare(&mut environment, false, None);
    for (name, user) in [("marker-1.txt", 0), ("marker-2.txt", 64_131)] {
        let path = folder.path().join(name);
        fs::write(&path, "1 2 x\n").unwrap();
        std::os::unix::fs::chown(&path, Some(user), None).unwrap();
    }
    let passed = Passed {
        mapped: &mut [],
        perf_maps: &[],
    };
    let mut pids = Vec::new();
    let began = SystemTime::now() - std::time::Duration::from_secs(5);
    let collected = collect(passed, &folders, began, |attachment| {
        pids.push(attachment.pid);
        Ok(())
    });
    assert_eq!((pids, collected.problems), (vec![1], Vec::new()));
}

#[test]
fn one_user_leaves_room_for_others() {
    if !geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let mut taken = Vec::new();
    let mut keep = |attachment: Attachment| {
        taken.push(attachment.pid);
        Ok(())
    };
    let mut collector = Collector::new(TOTAL_LIMIT, &mut keep);
    collector.of_users.insert(64_131, USER_LIMIT - 5);
    let dir = tempfile::tempdir().unwrap();
    for (pid, user) in [(1, 64_131), (2, 64_132), (3, 0)] {
        let path = dir.path().join(format!("perf-{pid}.map"));
        fs::write(&path, "1000 10 f\n").unwrap();
        std::os::unix::fs::chown(&path, Some(user), None).unwrap();
        collector.take(AttachmentKind::PerfMap, pid, &path, &File::open(&path).unwrap());
    }
    let collected = collector.finish();
    assert_eq!(taken, [2, 3]);
    assert!(
        collected.problems[0].contains("left out: 1"),
        "{:?}",
        collected.problems
    );
}

/// Takes perf maps of these sizes from processes 0, 1, ..., as long as `room` bytes suffice and
/// `keep` succeeds.
fn take_all(room: u64, sizes: &[usize], keep: &mut dyn FnMut(Attachment) -> io::Result<()>) -> Collected {
    let dir = tempfile::tempdir().unwrap();
    let mut collector = Collector::new(room, keep);
    for (pid, size) in (0..).zip(sizes) {
        let path = dir.path().join(format!("perf-{pid}.map"));
        fs::write(&path, vec![b'x'; *size]).unwrap();
        collector.take(AttachmentKind::PerfMap, pid, &path, &File::open(&path).unwrap());
    }
    collector.finish()
}

#[test]
fn attachments_over_capacity_are_counted() {
    let mut taken = Vec::new();
    let collected = take_all(1000, &[600, 500, 400, 2000], &mut |attachment| {
        taken.push((attachment.pid, attachment.bytes.len()));
        Ok(())
    });
    assert_eq!(taken, [(0, 600), (2, 400)]);
    let [problem] = &*collected.problems else {
        panic!("{:?}", collected.problems);
    };
    for word in ["2 (2.50 kB)", "perf-1.map. At most", "1 GiB", "-d"] {
        assert!(problem.contains(word), "{word}: {problem}");
    }
}

#[test]
fn reading_stops_at_capacity() {
    let mut asked = 0;
    let collected = take_all(1000, &[1, 1], &mut |_| {
        asked += 1;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert_eq!(asked, 1);
    assert_eq!(collected.kept.unwrap_err().kind(), io::ErrorKind::StorageFull);
}
