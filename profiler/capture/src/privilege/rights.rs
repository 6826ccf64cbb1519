//! Opens files with the rights of another user, to let the kernel decide what that user may read.
//!
//! Root may read everything, and a recorded program chooses which files it maps. The credentials are set in a thread
//! that lives for one call: nothing has to be restored.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::thread;

use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist, setfsgid, setfsuid};

use crate::proc::capabilities;
use crate::proc::procfs::{self, Access};

/// Bytes of stack for a thread that makes a few system calls.
const STACK: usize = 128 << 10;
/// The group of a user without an entry on this machine: the kernel's `overflowgid`.
const OVERFLOW_GROUP: u32 = 65534;

/// The credentials with which a file is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    user: u32,
    group: u32,
    groups: Vec<u32>,
    /// File permissions are bypassed (`CAP_DAC_OVERRIDE`, `CAP_DAC_READ_SEARCH`).
    reads_all: bool,
}

impl Rights {
    /// The rights of this process.
    ///
    /// # Errors
    /// When /proc can't be read.
    pub fn own() -> io::Result<Self> {
        Self::of_process(std::process::id())
    }

    /// The rights of a process. Capabilities in its own user namespace do not count: they apply to that namespace's
    /// files.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let Access {
            user,
            group,
            groups,
            reads_all,
        } = procfs::access(pid)?;
        Ok(Self {
            user,
            group,
            groups,
            reads_all: reads_all && is_in_our_user_namespace(pid),
        })
    }

    /// The rights of a user's new session.
    ///
    /// # Errors
    /// When the machine's list of users can't be read.
    pub fn of_user(user: u32) -> io::Result<Self> {
        let (group, groups) = match User::from_uid(Uid::from_raw(user))? {
            Some(known) => {
                let name = std::ffi::CString::new(known.name).map_err(io::Error::other)?;
                (known.gid.as_raw(), getgrouplist(&name, known.gid)?)
            }
            None => (OVERFLOW_GROUP, Vec::new()),
        };
        Ok(Self {
            user,
            group,
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            reads_all: user == 0,
        })
    }

    /// The user whose files' permissions these rights may change.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Whether these rights may inspect everything that `other` may.
    pub fn covers(&self, other: &Self) -> bool {
        self.reads_all || self.user == other.user
    }

    /// Opens a file for reading that was opened as a location only (`O_PATH`).
    ///
    /// # Errors
    /// When these rights do not suffice, or the file can't be opened.
    pub fn reopen(&self, place: &File) -> io::Result<File> {
        self.within(|| {
            OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(format!("/proc/self/fd/{}", place.as_raw_fd()))
        })
    }

    /// Does something with these rights over files. A process other than root has only its own rights, and does it
    /// with those.
    ///
    /// # Errors
    /// Those of `act`; also when the kernel refuses to change the credentials.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        if !geteuid().is_root() || (self.user == 0 && self.reads_all) {
            return act();
        }
        thread::scope(|scope| {
            let started = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, || self.assume().and_then(|()| act()));
            let ended = started?.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("a thread of ngmi failed")))
        })
    }

    /// Changes this thread's credentials for files, and leaves all others unchanged.
    fn assume(&self) -> io::Result<()> {
        set_groups(&self.groups)?;
        let (group, user) = (Gid::from_raw(self.group), Uid::from_raw(self.user));
        setfsgid(group);
        setfsuid(user);
        // They return the previous value, and an invalid number changes nothing.
        if setfsgid(group) != group || setfsuid(user) != user {
            return Err(io::Error::other("the kernel refused to open files as another user"));
        }
        capabilities::read_files(self.reads_all)
    }
}

/// `setgroups(2)` for this thread only: the C library's function changes all threads.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the kernel reads as many numbers as the slice has.
    if unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn is_in_our_user_namespace(pid: u32) -> bool {
    let of = |process: &str| fs::metadata(format!("/proc/{process}/ns/user")).map(|namespace| namespace.ino());
    matches!((of(&pid.to_string()), of("self")), (Ok(its), Ok(ours)) if its == ours)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    const ALICE: u32 = 64_131;
    const BOB: u32 = 64_132;
    const TEAM: u32 = 64_133;

    fn rights(user: u32, groups: &[u32], reads_all: bool) -> Rights {
        Rights {
            user,
            group: user,
            groups: groups.to_vec(),
            reads_all,
        }
    }

    #[test]
    fn read_permission_follows_the_kernel() {
        if !geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        chown(file.path(), Some(ALICE), Some(TEAM)).unwrap();
        let place = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(file.path())
            .unwrap();
        let before = procfs::access(std::process::id()).unwrap();
        let read = |mode: u32, who: Rights| {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            who.reopen(&place).is_ok()
        };
        assert!(read(0o600, rights(ALICE, &[], false)));
        assert!(!read(0o600, rights(BOB, &[TEAM], false)));
        assert!(read(0o640, rights(BOB, &[TEAM], false)));
        assert!(!read(0o640, rights(BOB, &[], false)));
        assert!(
            !read(0o711, rights(BOB, &[TEAM], false)),
            "execute permission alone is not enough"
        );
        assert!(read(0o644, rights(BOB, &[], false)));
        assert!(!read(0o600, rights(0, &[], false)), "root without its capabilities");
        assert!(read(0o600, rights(0, &[], true)));
        assert!(
            read(0o600, rights(BOB, &[], true)),
            "another user with root's capabilities"
        );
        assert!(!read(0o640, Rights::of_user(BOB).unwrap()));
        assert_eq!(procfs::access(std::process::id()).unwrap(), before);
    }

    #[test]
    fn our_own() {
        let own = Rights::own().unwrap();
        assert_eq!(own.user(), geteuid().as_raw());
        assert!(own.covers(&own));
    }
}
