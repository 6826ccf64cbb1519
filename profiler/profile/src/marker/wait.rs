//! Waits as the payloads of markers. They are for display only: the reader takes waits from the
//! `ngmi` section.
//!
//! Waits that hold a thread up for [`LONG`] or more have markers, and also shorter waits in file
//! system calls, as Firefox's own `FileIO` markers. Long waits of an idle thread are only in the
//! marker table. Time in the run queue has a separate marker if it is long.

use serde::Serialize;

use super::words::{self, Causes};
use crate::shared::categories::Category;
use crate::units::milliseconds;
use base::addr::{Timestamp, ns};
use fact::wait::WaitReason;
use fact::{About, Tables, WaitFact};

/// Minimum length of a wait with a marker, in ns.
pub const LONG: u128 = 1_000_000;
/// Payload type of a wait that holds a thread up.
pub const WAIT: &str = "Wait";
/// Payload type of a wait of an idle thread.
pub const IDLE: &str = "IdleWait";
/// Payload type of a wait in a file system call.
pub const FILE_IO: &str = "FileIO";

/// The kind of marker of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMarker {
    /// [`WAIT`]
    Wait,
    /// [`IDLE`]
    Idle,
    /// [`FILE_IO`]
    FileIo,
    /// The part of a wait that was in the run queue; a [`WAIT`], too.
    Queued,
}

impl WaitMarker {
    /// Its category.
    pub fn category(self, wait: &WaitFact) -> Category {
        match self {
            Self::Queued => Category::WaitCpu,
            _ => Category::of_wait(wait.reason, wait.in_fault),
        }
    }

    /// When the marker begins.
    pub fn start(self, wait: &WaitFact) -> Timestamp {
        match self {
            Self::Queued => {
                let queued = ns(wait.queued);
                Timestamp(wait.end.0.saturating_sub(queued)).max(wait.start)
            }
            _ => wait.start,
        }
    }

    /// Whether it is the wait itself, not a part of it.
    pub fn is_whole(self) -> bool {
        self != Self::Queued
    }

    fn name(self) -> &'static str {
        match self {
            Self::Wait | Self::Queued => WAIT,
            Self::Idle => IDLE,
            Self::FileIo => FILE_IO,
        }
    }
}

/// The markers of a wait.
pub fn shown(wait: &WaitFact) -> impl Iterator<Item = WaitMarker> {
    let long = wait.longest.as_nanos() >= LONG;
    let main = if operation(wait).is_some() {
        Some(WaitMarker::FileIo)
    } else if Category::of_wait(wait.reason, wait.in_fault) == Category::Idle {
        long.then_some(WaitMarker::Idle)
    } else {
        long.then_some(WaitMarker::Wait)
    };
    let queued = wait.count == 1 && wait.reason != WaitReason::RunQueue && wait.queued.as_nanos() >= LONG;
    main.into_iter().chain(queued.then_some(WaitMarker::Queued))
}

/// The operation of a file system call that waited for more than a CPU; `None`: the wait was not in
/// one.
fn operation(wait: &WaitFact) -> Option<&'static str> {
    let call = wait.call.as_ref().filter(|_| !wait.in_fault)?;
    let blocked = matches!(
        wait.reason,
        WaitReason::Disk | WaitReason::FileSystem | WaitReason::Memory | WaitReason::Kernel
    );
    if !blocked {
        return None;
    }
    let named = call.file.is_some() || call.path.is_some();
    match call.name.as_str() {
        "open" | "openat" | "openat2" | "creat" => Some("create/open"),
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" => Some("fsync"),
        // Anything else that the kernel waits for there: a terminal, a device.
        _ if wait.reason == WaitReason::Kernel || !named => None,
        "read" | "pread64" | "readv" | "preadv" | "preadv2" | "sendfile" | "copy_file_range" | "splice" => Some("read"),
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => Some("write"),
        "stat" | "lstat" | "fstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2" | "statfs"
        | "fstatfs" | "readlink" | "readlinkat" => Some("stat"),
        "close" => Some("close"),
        _ => Some("other"),
    }
}

/// Payload of a wait.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitPayload<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    reason: &'static str,
    off: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waker_functions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remarks: Option<String>,
    /// Index of its flow's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<u32>,
}

impl<'a> WaitPayload<'a> {
    /// Builds the payload of one of the markers of a wait.
    pub fn new(wait: &'a WaitFact, shown: WaitMarker, tables: &Tables, causes: &Causes<'_>) -> Self {
        let path = About::of(wait).and_then(|about| about.shown(tables));
        let (reason, off) = match shown {
            WaitMarker::Queued => (WaitReason::RunQueue, wait.queued),
            _ => (wait.reason, wait.off),
        };
        let is_io = shown == WaitMarker::FileIo;
        let waker = wait.waker.as_ref();
        Self {
            r#type: shown.name(),
            operation: if is_io { operation(wait) } else { None },
            source: is_io.then(|| format!("waited for {}", words::reason(wait.reason))),
            filename: path.clone().filter(|_| is_io),
            reason: words::reason(reason),
            off: milliseconds(off),
            queued: (!wait.queued.is_zero()).then(|| milliseconds(wait.queued)),
            count: (wait.count > 1).then_some(wait.count),
            longest: (wait.count > 1).then(|| milliseconds(wait.longest)),
            call: wait.call.as_ref().map(|call| &*call.name),
            path: path.filter(|_| !is_io),
            waker: waker.map(|waker| words::waker(tables, waker)),
            waker_functions: waker.and_then(|waker| words::functions(tables, waker.stack)),
            why: causes.of_wait(wait.thread, wait.start),
            remarks: remarks(wait, shown, causes.limit_of(wait)),
            flow: None,
        }
    }
}

fn remarks(wait: &WaitFact, shown: WaitMarker, limit: Option<String>) -> Option<String> {
    let after = (shown == WaitMarker::Queued).then(|| format!("after a wait for {}", words::reason(wait.reason)));
    let fault = wait.in_fault.then(|| "in a page fault".to_owned());
    let coverage = words::coverage(wait.coverage).map(str::to_owned);
    let remarks = after.into_iter().chain(limit).chain(fault).chain(coverage);
    let remarks: Vec<String> = remarks.collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}
