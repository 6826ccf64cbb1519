//! Block requests, compared with the device's own statistics and with the program that submitted them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use profiler::event::{Bio, Device, DeviceName, Event, Request};
use profiler_common::block::{
    BIO_CACHED, BIO_DIRECT, BIO_HAS_FILE, BIO_HAS_OFFSET, BIO_RECORDED, REQUEST_COUNTED, operation,
};

use crate::harness::{Recording, Waiting, command, compile, record, skipped};

/// Writes 4 MiB directly, reads them directly in pieces of 64 KiB, and reads a part through the page cache.
const PROGRAM: &str = r"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { PIECE = 65536, PIECES = 64 };
int main(int count, char **words) {
    char *memory;
    if (posix_memalign((void **)&memory, 4096, PIECE)) return 1;
    memset(memory, 'x', PIECE);
    int fd = open(words[1], O_RDWR | O_DIRECT);
    for (int i = 0; i < PIECES; i++) if (pwrite(fd, memory, PIECE, (off_t)i * PIECE) != PIECE) return 2;
    for (int i = 0; i < PIECES; i++) if (pread(fd, memory, PIECE, (off_t)i * PIECE) != PIECE) return 3;
    if (fsync(fd)) return 4;
    fd = open(words[1], O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    if (pread(fd, memory, 4096, 1 << 20) != 4096) return 5;
    return 0;
}
";
const PIECE: u32 = 65536;
const PIECES: usize = 64;

/// A loop device on its own file, detached when dropped.
struct Loop(PathBuf);

impl Loop {
    fn new(folder: &Path) -> Option<Self> {
        let image = folder.join("image");
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&image)
            .output()
            .ok()?;
        let name = String::from_utf8(made.stdout).ok()?;
        (made.status.success() && !name.trim().is_empty()).then(|| Self(PathBuf::from(name.trim())))
    }

    fn name(&self) -> &str {
        self.0.file_name().unwrap().to_str().unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

fn device<'r>(recording: &'r Recording, name: &str) -> &'r DeviceName {
    let named = recording.events.iter().find_map(|event| match event {
        Event::DeviceName(device) if device.name == name => Some(device),
        _ => None,
    });
    named.unwrap_or_else(|| panic!("no event of device {name}"))
}

fn requests(recording: &Recording, device: Device) -> Vec<Request> {
    let of = |event: &Event<'static>| match event {
        Event::Request(request) if request.device == device => Some(*request),
        _ => None,
    };
    recording.events.iter().filter_map(of).collect()
}

fn bios(recording: &Recording, device: Device, tid: u32) -> Vec<Bio> {
    let of = |event: &Event<'static>| match event {
        Event::Bio(bio) if bio.device == device && bio.at.tid == tid => Some(bio.clone()),
        _ => None,
    };
    recording.events.iter().filter_map(of).collect()
}

/// `Documentation/block/stat.rst` of the kernel: reads, merges, sectors, ms; the same for writes.
fn check_statistics(name: &DeviceName, requests: &[Request]) {
    let counted = |at: usize| name.after[at] - name.before[at];
    for (of, first) in [(operation::READ, 0), (operation::WRITE, 4)] {
        let own: Vec<&Request> = requests
            .iter()
            .filter(|request| request.operation & operation::MASK == of && request.flags & REQUEST_COUNTED != 0)
            .collect();
        let bytes: u64 = own.iter().map(|request| u64::from(request.bytes)).sum();
        let kernels = (counted(first), counted(first + 2) * 512);
        assert_eq!(
            (own.len() as u64, bytes),
            kernels,
            "operation {of} of {}: {own:#?}",
            name.name
        );
    }
}

#[test]
fn requests_match_the_statistics_of_a_quiet_device() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(disk) = Loop::new(folder.path()) else {
        println!("skipped: no loop device is available");
        return;
    };
    let program = compile(folder.path(), "disk", PROGRAM, &["-O1"]);
    let waiting = Waiting::new(&program, &[disk.0.to_str().unwrap()]);
    let pid = waiting.pid();
    let recording = record(command(pid), || assert_eq!(waiting.run(), Some(0)));
    let name = device(&recording, disk.name());
    let requests = requests(&recording, name.device);
    check_statistics(name, &requests);
    for request in &requests {
        let times = [request.queued, request.inserted, request.issued, Some(request.at.time)];
        let known: Vec<_> = times.into_iter().flatten().collect();
        assert!(known.is_sorted(), "{request:?}");
        assert_eq!((request.error, request.requeues), (0, 0));
        assert!(
            request.bytes == 0 || (request.issued.is_some() && request.depth >= 1),
            "{request:?}"
        );
    }
    let bios = bios(&recording, name.device, pid);
    for of in [operation::WRITE, operation::READ] {
        let direct: Vec<&Bio> = bios
            .iter()
            .filter(|bio| bio.flags & BIO_DIRECT != 0 && bio.operation & operation::MASK == of)
            .collect();
        let places: Vec<(u64, u32)> = direct.iter().map(|bio| (bio.sector * 512, bio.bytes)).collect();
        let asked: Vec<(u64, u32)> = (0..PIECES as u64)
            .map(|piece| (piece * u64::from(PIECE), PIECE))
            .collect();
        assert_eq!(places, asked);
        assert!(
            direct
                .iter()
                .all(|bio| bio.flags & (BIO_RECORDED | BIO_HAS_FILE) == BIO_RECORDED | BIO_HAS_FILE)
        );
        // A device opened as a file is the bio's file.
        assert!(direct.iter().all(|bio| bio.comm == b"disk"), "{direct:?}");
    }
    let cached: Vec<&Bio> = bios.iter().filter(|bio| bio.flags & BIO_CACHED != 0).collect();
    assert!(cached.iter().any(|bio| bio.page == (1 << 20) / 4096), "{cached:?}");
}

#[test]
fn a_read_through_the_page_cache_names_its_file_and_its_pages() {
    if skipped() {
        return;
    }
    // In a guest, on its own disk: a shared folder has no block device, and may refuse direct writes.
    let disk = std::env::var_os("NGMI_FAULT_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(disk).unwrap();
    let path = folder.path().join("a file of mine");
    std::fs::write(&path, vec![7_u8; 4 << 20]).unwrap();
    let program = compile(folder.path(), "disk", PROGRAM, &["-O1"]);
    let waiting = Waiting::new(&program, &[path.to_str().unwrap()]);
    let pid = waiting.pid();
    let recording = record(command(pid), || assert_eq!(waiting.run(), Some(0)));
    let bios: Vec<&Bio> = recording
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Bio(bio) if bio.at.tid == pid => Some(bio),
            _ => None,
        })
        .collect();
    if bios.is_empty() {
        println!("skipped: files here are not on a block device");
        return;
    }
    let cached = bios.iter().find(|bio| {
        bio.flags & BIO_CACHED != 0
            && bio.page == (1 << 20) / 4096
            && bio.operation & operation::MASK == operation::READ
    });
    let Some(cached) = cached else { panic!("{bios:#?}") };
    let named = |bio: &Bio| {
        recording.events.iter().find_map(|event| match event {
            Event::FileName(name) if Some(name.file) == bio.file => Some(name.path.clone()),
            _ => None,
        })
    };
    assert_eq!(named(cached).as_deref(), Some(path.as_os_str().as_encoded_bytes()));
    let direct: u64 = bios
        .iter()
        .filter(|bio| bio.flags & BIO_DIRECT != 0 && bio.operation & operation::MASK == operation::READ)
        .map(|bio| u64::from(bio.bytes))
        .sum();
    assert_eq!(direct, u64::from(PIECE) * PIECES as u64);
    // Each piece is at the offset that the program requested.
    for of in [operation::WRITE, operation::READ] {
        let direct = bios
            .iter()
            .filter(|bio| bio.flags & BIO_DIRECT != 0 && bio.operation & operation::MASK == of);
        let direct: Vec<&Bio> = direct.copied().collect();
        if direct.iter().any(|bio| bio.flags & BIO_HAS_OFFSET == 0) {
            println!("skipped: the offsets of direct I/O: this file system does not go through iomap");
            break;
        }
        let mut next = 0;
        for bio in direct {
            assert_eq!(bio.page, next, "{bio:?}");
            assert_eq!(bio.file, cached.file, "{bio:?}");
            next += u64::from(bio.bytes);
        }
        assert_eq!(next, u64::from(PIECE) * PIECES as u64);
    }
    // Each submitter's stack arrived early.
    for bio in bios {
        let ahead = recording
            .events
            .iter()
            .any(|event| matches!(event, Event::StackAhead(stack) if stack.at == bio.at));
        assert!(ahead, "{bio:?}");
    }
}
