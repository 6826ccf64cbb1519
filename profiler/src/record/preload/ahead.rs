//! Reads the ranges of a list into the page cache, in order, with a few threads and a bound on the bytes in flight.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::{Skip, open_unchanged};
use crate::capture::proc::page_cache::{cached_in, page_size};
use crate::record::cache::system::Memory;
use crate::report::preload::{List, Read};

/// Threads: more would have more in flight than a disk takes, fewer would wait for the file system's own blocks.
pub const THREADS: usize = 4;
/// Bytes of a range that a thread has in flight: the program's own reads wait behind at most 4 MiB.
const PIECE: u64 = 1 << 20;
/// Bytes per call if the device does not report its limit: rarely more than its read-ahead.
const CALL: u64 = 128 << 10;

/// The result.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Bytes that the kernel was asked to read.
    pub asked: u64,
    /// Bytes that were in memory, as far as the kernel reports it.
    pub in_memory: u64,
    /// Files that were not read, by their index in the list.
    pub skipped: Vec<(usize, Skip)>,
    /// Bytes that were left out because they would not have fit into memory.
    pub no_room: u64,
}

/// State shared by the threads.
struct Work<'a> {
    list: &'a List,
    pieces: Vec<Read>,
    next: AtomicUsize,
    files: Vec<OnceLock<Result<Opened, Skip>>>,
    /// Devices, and their bytes per call.
    calls: Mutex<Vec<(u64, u64)>>,
    asked: AtomicU64,
    in_memory: AtomicU64,
}

/// A file that is read.
struct Opened {
    file: File,
    /// Bytes per call.
    call: u64,
}

/// Reads all ranges, while `go_on` allows it. With `dry`, only checks the files and what is in memory.
pub fn read(list: &List, dry: bool, go_on: &(dyn Fn() -> bool + Sync)) -> Ahead {
    // Reading more would push out what was read first.
    let available = Memory::now().available;
    let room = if available == 0 { u64::MAX } else { available / 2 };
    let (pieces, no_room) = pieces(list, room);
    let work = Work {
        list,
        pieces,
        next: AtomicUsize::new(0),
        files: list.files.iter().map(|_| OnceLock::new()).collect(),
        calls: Mutex::default(),
        asked: AtomicU64::new(0),
        in_memory: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(|| work.run(dry, go_on));
        }
        work.run(dry, go_on);
    });
    let skipped = (work.files.into_iter().enumerate())
        .filter_map(|(index, file)| Some((index, file.into_inner()?.err()?)))
        .collect();
    Ahead {
        asked: work.asked.into_inner(),
        in_memory: work.in_memory.into_inner(),
        skipped,
        no_room,
    }
}

/// Splits ranges into parts that a thread reads at once; also returns the bytes that don't fit into memory.
fn pieces(list: &List, room: u64) -> (Vec<Read>, u64) {
    let (mut pieces, mut left, mut no_room) = (Vec::with_capacity(list.reads.len()), room, 0u64);
    for read in &list.reads {
        let fits = read.len.min(left);
        left -= fits;
        no_room = no_room.saturating_add(read.len - fits);
        let mut at = 0;
        while at < fits {
            let len = PIECE.min(fits - at);
            pieces.push(Read {
                file: read.file,
                // The range ends within the file: parsing has checked it.
                offset: read.offset.saturating_add(at),
                len,
            });
            at += len;
        }
    }
    (pieces, no_room)
}

impl Work<'_> {
    fn run(&self, dry: bool, go_on: &(dyn Fn() -> bool + Sync)) {
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if !go_on() {
                return;
            }
            let index = piece.file as usize;
            let (Some(slot), Some(listed)) = (self.files.get(index), self.list.files.get(index)) else {
                continue;
            };
            let opened = slot.get_or_init(|| {
                let file = open_unchanged(listed)?;
                // The kernel must not read around the one byte that is waited for below.
                let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM);
                let call = self.call_of(&file);
                Ok(Opened { file, call })
            });
            if let Ok(opened) = opened {
                self.piece(opened, piece, dry);
            }
        }
    }

    fn call_of(&self, file: &File) -> u64 {
        let device = file.metadata().map_or(0, |metadata| metadata.dev());
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, call)) = calls.iter().find(|(known, _)| *known == device) {
            return *call;
        }
        let call = largest_call(device).unwrap_or(CALL).clamp(CALL, PIECE);
        calls.push((device, call));
        call
    }

    fn piece(&self, Opened { file, call }: &Opened, piece: &Read, dry: bool) {
        let resident = cached_in(file, piece.offset, piece.len).map_or(0, |cached| cached.resident.min(piece.len));
        self.in_memory.fetch_add(resident, Ordering::Relaxed);
        if resident == piece.len {
            return;
        }
        self.asked.fetch_add(piece.len - resident, Ordering::Relaxed);
        if dry {
            return;
        }
        let end = piece.offset.saturating_add(piece.len);
        let mut at = piece.offset;
        while at < end {
            let len = (*call).min(end - at);
            let (Ok(start), Ok(bytes)) = (i64::try_from(at), i64::try_from(len)) else {
                return;
            };
            // The kernel itself skips what is in memory.
            if posix_fadvise(file, start, bytes, PosixFadviseAdvice::POSIX_FADV_WILLNEED).is_err() {
                return;
            }
            at += len;
        }
        // Its last page is read last: the next piece begins only then.
        let _ = file.read_at(&mut [0], (end - 1) / page_size() * page_size());
    }
}

/// The bytes that the kernel reads per call, at most: the larger one of a request's size and the read-ahead
/// (`mm/readahead.c`: `force_page_cache_ra`). `None`: no such device, for instance with file systems on several
/// devices.
fn largest_call(device: u64) -> Option<u64> {
    let folder = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    // A partition uses the queue of its disk.
    let queues = [format!("{folder}/queue"), format!("{folder}/../queue")];
    let limit = |name: &str| {
        let texts = queues.iter().map(|queue| fs::read_to_string(format!("{queue}/{name}")));
        let kib: u64 = texts.flatten().next()?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    limit("max_sectors_kb").max(limit("read_ahead_kb"))
}
