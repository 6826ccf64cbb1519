//! Reads /proc for processes that were running before the recording began.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use nix::time::{ClockId, clock_gettime};
use profiler_common::task::{COMMAND_LINE_LEN, PATH_LEN};
use rustc_hash::FxHashMap;

use super::capabilities::READ_FILES;
use base::addr::Timestamp;

/// A thread as /proc/PID/task/TID/stat shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Its name.
    pub name: Vec<u8>,
    /// The thread group that is notified of its end.
    pub parent: u32,
    /// When it was created.
    pub started: Timestamp,
    /// Page faults so far, minor and major.
    pub faults: u64,
    /// It is exiting, or is a zombie.
    pub has_ended: bool,
}

/// `CLOCK_MONOTONIC`, the clock of every event.
pub fn now() -> Timestamp {
    // The clock exists on every Linux, so that the call does not fail.
    Timestamp(clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, nanoseconds))
}

fn nanoseconds(time: nix::sys::time::TimeSpec) -> u64 {
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
}

/// All processes.
pub fn processes() -> io::Result<Vec<u32>> {
    numbers("/proc")
}

/// The threads of a process; an error: it is gone.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    numbers(&format!("/proc/{pid}/task"))
}

fn numbers(folder: &str) -> io::Result<Vec<u32>> {
    let names = std::fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// The identity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The thread group.
    pub pid: u32,
    /// The user, if its real, effective and saved user ids agree.
    pub user: Option<u32>,
    /// The group, if those ids agree.
    pub group: Option<u32>,
    /// It and its descendants never gain rights by starting a program (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privs: bool,
    /// It has capabilities, or may pass some on.
    pub has_capabilities: bool,
    /// It has capabilities.
    pub has_permitted: bool,
    /// The number of its threads, at one moment.
    pub threads: u32,
}

/// The process that a thread belongs to; an error: it is gone.
pub fn identity(tid: u32) -> io::Result<Identity> {
    let status = std::fs::read(format!("/proc/{tid}/status"))?;
    let words = |name: &'static [u8]| words(&status, name);
    let same = |name| -> io::Result<Option<u32>> {
        match words(name).ok_or_else(unknown)?[..] {
            [real, effective, saved, ..] if real == effective && real == saved => Ok(real.parse().ok()),
            _ => Ok(None),
        }
    };
    let is_zero = |name: &'static [u8]| {
        words(name).is_some_and(|set| !set.is_empty() && set.iter().all(|set| set.bytes().all(|digit| digit == b'0')))
    };
    let number = |name| {
        words(name)
            .and_then(|words| words.first()?.parse().ok())
            .ok_or_else(unknown)
    };
    Ok(Identity {
        pid: number(b"Tgid:")?,
        threads: number(b"Threads:")?,
        user: same(b"Uid:")?,
        group: same(b"Gid:")?,
        no_new_privs: words(b"NoNewPrivs:").is_some_and(|set| set == ["1"]),
        has_permitted: !is_zero(b"CapPrm:"),
        has_capabilities: ![&b"CapInh:"[..], b"CapPrm:", b"CapAmb:"].into_iter().all(is_zero),
    })
}

/// The credentials with which a process opens files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// `fsuid`
    pub user: u32,
    /// `fsgid`
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// It has a capability in its user namespace that bypasses file permissions.
    pub reads_all: bool,
}

/// The credentials with which a process opens files; an error: it is gone.
pub fn access(pid: u32) -> io::Result<Access> {
    let status = std::fs::read(format!("/proc/{pid}/status"))?;
    let numbers = |name| -> Option<Vec<u32>> {
        let words = words(&status, name)?;
        words.into_iter().map(|word| word.parse().ok()).collect()
    };
    // Real, effective, saved, and file system id.
    let for_files = |name| numbers(name).and_then(|ids| ids.get(3).copied()).ok_or_else(unknown);
    let effective = words(&status, b"CapEff:").and_then(|words| u64::from_str_radix(words.first()?, 16).ok());
    Ok(Access {
        user: for_files(b"Uid:")?,
        group: for_files(b"Gid:")?,
        groups: numbers(b"Groups:").ok_or_else(unknown)?,
        reads_all: effective.ok_or_else(unknown)? & READ_FILES != 0,
    })
}

/// The effective user of a thread; an error: it is gone.
pub fn effective_user(pid: u32, tid: u32) -> io::Result<u32> {
    let status = std::fs::read(format!("/proc/{pid}/task/{tid}/status"))?;
    let user = words(&status, b"Uid:").and_then(|words| words.get(1)?.parse().ok());
    user.ok_or_else(unknown)
}

/// The words after a name in /proc/PID/status.
fn words<'s>(status: &'s [u8], name: &[u8]) -> Option<Vec<&'s str>> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(name))?;
    Some(std::str::from_utf8(line).ok()?.split_ascii_whitespace().collect())
}

fn unknown() -> io::Error {
    io::Error::other("unknown format of /proc/PID/status")
}

/// The pid of a process in its own namespace; an error: it is gone.
pub fn pid_inside(pid: u32) -> io::Result<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status"))?;
    let inside = words(&status, b"NSpid:").and_then(|words| words.last()?.parse().ok());
    inside.ok_or_else(unknown)
}

/// Reads a thread's name, parent and start time.
pub fn stat(pid: u32, tid: u32) -> io::Result<Stat> {
    let text = std::fs::read(format!("/proc/{pid}/task/{tid}/stat"))?;
    let boot = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, nanoseconds);
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?
        .unwrap_or(100)
        .unsigned_abs();
    parse_stat(&text, ticks, boot.saturating_sub(now().0))
        .ok_or_else(|| io::Error::other("unknown format of /proc/PID/stat"))
}

/// The descendants of processes, breadth first and about `limit` at most.
pub fn descendants(of: &[u32], limit: usize) -> io::Result<Vec<u32>> {
    let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for process in processes()? {
        if let Ok(stat) = stat(process, process) {
            children.entry(stat.parent).or_default().push(process);
        }
    }
    let mut found: Vec<u32> = of.iter().filter_map(|pid| children.remove(pid)).flatten().collect();
    let mut next = 0;
    while let Some(process) = found.get(next).filter(|_| found.len() < limit) {
        found.extend(children.remove(process).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

/// Of `include/linux/sched.h`: it is exiting, and the kernel has reported that.
const PF_EXITING: u32 = 4;

/// `pid (name) state parent ...`, with the flags as 9th field, the faults as 10th and 12th, the start as 22nd. The
/// name may contain anything, even `) R 1`.
fn parse_stat(text: &[u8], ticks_per_second: u64, suspended: u64) -> Option<Stat> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let flags: u32 = fields.nth(4)?.parse().ok()?;
    let minor: u64 = fields.next()?.parse().ok()?;
    let major: u64 = fields.nth(1)?.parse().ok()?;
    let ticks: u64 = fields.nth(9)?.parse().ok()?;
    // Counted from the boot, including suspended time, which CLOCK_MONOTONIC leaves out.
    let since_boot = ticks.checked_mul(1_000_000_000 / ticks_per_second.max(1))?;
    Some(Stat {
        name: text.get(open + 1..close)?.to_vec(),
        parent,
        started: Timestamp(since_boot.saturating_sub(suspended)),
        faults: minor.saturating_add(major),
        has_ended: matches!(state, "Z" | "X") || flags & PF_EXITING != 0,
    })
}

/// A number that `/proc/self/fdinfo` shows of an open descriptor after `name`, which ends with a colon. `None`: the kernel does not show it.
pub fn fdinfo(descriptor: impl AsFd, name: &str) -> Option<u64> {
    let number = descriptor.as_fd().as_raw_fd();
    number_in(
        &std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?,
        name,
    )
}

fn number_in(fdinfo: &str, name: &str) -> Option<u64> {
    let number = fdinfo.lines().find_map(|line| line.strip_prefix(name))?;
    number.trim().parse().ok()
}

/// The program's path (cut to the length that an exec record has) and its command line.
pub fn program(pid: u32) -> (Vec<u8>, Vec<u8>) {
    use std::os::unix::ffi::OsStringExt as _;
    let path =
        std::fs::read_link(format!("/proc/{pid}/exe")).map_or(Vec::new(), |path| path.into_os_string().into_vec());
    let mut command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command_line.truncate(COMMAND_LINE_LEN);
    (path.into_iter().take(PATH_LEN).collect(), command_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_any_bytes() {
        let text = b"17 (a) S 3 ) R 1 (b) S 9 0 0 0 -1 0 1 2 30 4 5 6 7 8 20 0 1 0 250 0\n";
        let stat = parse_stat(text, 100, 500_000_000).unwrap();
        assert_eq!(stat.name, b"a) S 3 ) R 1 (b");
        assert_eq!(
            (stat.parent, stat.started, stat.faults),
            (9, Timestamp(2_000_000_000), 31)
        );
        assert!(!stat.has_ended);
        for text in [
            &b"17 (a) Z 9 0 0 0 -1 0 1 2 30 4 5 6 7 8 20 0 1 0 250 0\n"[..],
            b"17 (a) R 9 0 0 0 -1 4 1 2 30 4 5 6 7 8 20 0 1 0 250 0\n",
        ] {
            assert!(parse_stat(text, 100, 0).unwrap().has_ended);
        }
        for len in 0..60 {
            assert_eq!(parse_stat(&text[..len], 100, 0), None);
        }
    }

    #[test]
    fn numbers_are_read_from_fdinfo() {
        let misses = |text| number_in(text, "recursion_misses:");
        assert_eq!(misses("pos:\t0\nprog_type:\t26\nrecursion_misses:\t17\n"), Some(17));
        assert_eq!(misses("pos:\t0\n"), None);
    }

    #[test]
    fn our_own_process() {
        let pid = std::process::id();
        let identity = identity(pid).unwrap();
        let (user, group) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
        assert_eq!(
            (identity.pid, identity.user, identity.group),
            (pid, Some(user), Some(group))
        );
        assert_eq!(identity.no_new_privs, nix::sys::prctl::get_no_new_privs().unwrap());
        let permitted = crate::proc::capabilities::permitted().unwrap();
        assert!(identity.has_capabilities || permitted == crate::proc::capabilities::Set::default());
        assert!(threads(pid).unwrap().contains(&pid));
        assert_eq!(pid_inside(pid).unwrap(), pid);
        let stat = stat(pid, pid).unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        // Born in the last few minutes, in whole ticks.
        assert!(stat.started <= now() && now().since(stat.started).as_secs() < 3600);
        let (path, command_line) = program(pid);
        assert!(!path.is_empty() && !command_line.is_empty());
    }
}
