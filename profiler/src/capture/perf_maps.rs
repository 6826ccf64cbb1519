//! Finds the perf maps of processes that make code at run time, wherever they write them.
//!
//! A compiler writes `/tmp/perf-PID.map` with the `/tmp` and the pid of its own namespaces, both of which may be gone when the
//! recording ends. So the folder is held open from the first executable memory without a file on, and the file is opened
//! once it is there and passed on. It is never parsed here.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use rustc_hash::{FxHashMap, FxHashSet};

use super::procfs;
use super::rights::Rights;
use super::wire::PerfMap;
use crate::event::{Mapping, PROT_EXEC};

/// Processes that are watched, at most.
const PROCESS_LIMIT: usize = 4096;
/// Folders that are held open, at most.
const FOLDER_LIMIT: usize = 256;
/// Files that are still to be written are looked for this often.
const INTERVAL: Duration = Duration::from_millis(250);
/// Birth times are counted in ticks, file times in those of another clock.
const SLACK: Duration = Duration::from_secs(2);

/// A process that may write a perf map.
#[derive(Debug)]
struct Compiler {
    pid: u32,
    /// Its user, whose the file has to be.
    user: u32,
    /// An older file is of another process that had the same pid.
    born: SystemTime,
    /// `perf-PID.map`, the pid as its namespace numbers it.
    name: String,
    folder: Rc<File>,
    /// Its process ended, or is another program: what it has not written by now it will not write.
    is_over: bool,
}

/// Perf maps to be found.
#[derive(Debug, Default)]
pub struct PerfMaps {
    seen: FxHashSet<u32>,
    compilers: Vec<Compiler>,
    /// By device and inode.
    folders: FxHashMap<(u64, u64), Rc<File>>,
    looked: Option<Instant>,
}

impl PerfMaps {
    /// A mapping was made: if it is code without a file, its process is a compiler.
    pub fn mapped(&mut self, mapping: &Mapping) {
        let pid = mapping.at.pid;
        if is_made_at_run_time(mapping) && self.compilers.len() < PROCESS_LIMIT && self.seen.insert(pid) {
            // Gone again already, or not to be looked into: then nothing is found.
            let compiler = self.compiler(pid);
            self.compilers.extend(compiler);
        }
    }

    /// A process ended, or became another program: its pid may be a new compiler's. What it wrote is looked for once more.
    pub fn ended(&mut self, pid: u32) {
        if self.seen.remove(&pid) {
            let its = self.compilers.iter_mut().filter(|compiler| compiler.pid == pid);
            its.for_each(|compiler| compiler.is_over = true);
        }
    }

    /// The next perf map that was written and that `reader` may read; all of them with `last`, however shortly ago they were looked for.
    pub fn next(&mut self, last: bool, reader: &Rights) -> Option<(PerfMap, OwnedFd)> {
        if !last && self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return None;
        }
        let mut compilers = self.compilers.iter().enumerate();
        let found = compilers.find_map(|(index, compiler)| Some((index, compiler.open(reader)?)));
        let Some((index, file)) = found else {
            self.compilers.retain(|compiler| !compiler.is_over);
            self.looked = (!last).then(Instant::now);
            return None;
        };
        let compiler = self.compilers.swap_remove(index);
        let path = format!("/tmp/{}", compiler.name);
        Some((
            PerfMap {
                pid: compiler.pid,
                path,
            },
            file.into(),
        ))
    }

    fn compiler(&mut self, pid: u32) -> Option<Compiler> {
        let user = procfs::identity(pid).ok()?.user?;
        let inner = procfs::pid_inside(pid).ok()?;
        let age = procfs::now().since(procfs::stat(pid, pid).ok()?.started);
        let born = SystemTime::now().checked_sub(age.checked_add(SLACK)?)?;
        let folder = self.folder(pid)?;
        let name = format!("perf-{inner}.map");
        Some(Compiler {
            pid,
            user,
            born,
            name,
            folder,
            is_over: false,
        })
    }

    /// The `/tmp` of a process. A link is not followed: it would lead out of the process's root.
    fn folder(&mut self, pid: u32) -> Option<Rc<File>> {
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(format!("/proc/{pid}/root/tmp"))
            .ok()?;
        let metadata = folder.metadata().ok()?;
        let key = (metadata.dev(), metadata.ino());
        if let Some(known) = self.folders.get(&key) {
            return Some(known.clone());
        }
        let folder = Rc::new(folder);
        if self.folders.len() < FOLDER_LIMIT {
            self.folders.insert(key, folder.clone());
            return Some(folder);
        }
        None
    }
}

impl Compiler {
    /// Its file: a regular one, its own, and of its life time.
    fn open(&self, reader: &Rights) -> Option<File> {
        let place = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
            .open(format!("/proc/self/fd/{}/{}", self.folder.as_raw_fd(), self.name))
            .ok()?;
        let metadata = place.metadata().ok()?;
        let is_its_own = metadata.is_file() && metadata.uid() == self.user && metadata.modified().ok()? >= self.born;
        // Opened for reading only now: a device or a pipe would have noticed.
        is_its_own.then(|| reader.reopen(&place).ok())?
    }
}

/// Executable memory that shows no file, or one in memory or without a name only. `[vdso]` and its like are the kernel's.
fn is_made_at_run_time(mapping: &Mapping) -> bool {
    let path = mapping.path.as_slice();
    let anonymous = mapping.file.inode == 0 && (path.first() != Some(&b'[') || path.starts_with(b"[anon"));
    mapping.protection & PROT_EXEC != 0
        && (anonymous || path.starts_with(b"/dev/zero") || path.ends_with(b" (deleted)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::At;

    fn code(path: &[u8]) -> Mapping {
        Mapping {
            at: At {
                pid: std::process::id(),
                ..At::default()
            },
            protection: 7,
            path: path.to_vec(),
            ..Mapping::default()
        }
    }

    /// Removes the file when dropped.
    struct Written(String);

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn the_kernels_code_is_no_compilers() {
        assert!(is_made_at_run_time(&code(b"//anon")));
        assert!(is_made_at_run_time(&code(b"")));
        assert!(is_made_at_run_time(&code(b"[anon:js-executable-memory]")));
        assert!(is_made_at_run_time(&code(b"/memfd:doublemapper (deleted)")));
        assert!(is_made_at_run_time(&code(b"/tmp/ffiXs8T2k (deleted)")));
        assert!(!is_made_at_run_time(&code(b"[vdso]")));
        assert!(!is_made_at_run_time(&Mapping {
            protection: 3,
            ..code(b"//anon")
        }));
    }

    #[test]
    fn a_map_is_found_once_and_only_if_it_is_new_and_a_file() {
        let own = Rights::own().unwrap();
        let mut maps = PerfMaps::default();
        maps.mapped(&code(b"//anon"));
        assert_eq!(maps.compilers.len(), 1);
        assert!(maps.next(true, &own).is_none());
        let inner = procfs::pid_inside(std::process::id()).unwrap();
        let written = Written(format!("/tmp/perf-{inner}.map"));
        std::os::unix::fs::symlink("/etc/passwd", &written.0).unwrap();
        assert!(maps.next(true, &own).is_none(), "a link is not followed");
        std::fs::remove_file(&written.0).unwrap();
        std::fs::write(&written.0, "1000 10 f\n").unwrap();
        let file = File::options().write(true).open(&written.0).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(
            maps.next(true, &own).is_none(),
            "it belongs to an earlier process with this pid"
        );
        file.set_modified(SystemTime::now()).unwrap();
        if nix::unistd::geteuid().is_root() {
            let user = nix::unistd::getuid().as_raw();
            std::os::unix::fs::chown(&written.0, Some(user + 1), None).unwrap();
            assert!(
                maps.next(true, &own).is_none(),
                "of another user, who may put names on our code"
            );
            std::os::unix::fs::chown(&written.0, Some(user), None).unwrap();
        }
        let (map, file) = maps.next(true, &own).unwrap();
        assert_eq!((map.pid, &map.path), (std::process::id(), &written.0));
        assert_eq!(std::io::read_to_string(File::from(file)).unwrap(), "1000 10 f\n");
        assert!(maps.next(true, &own).is_none());
        maps.mapped(&code(b"//anon"));
        assert!(maps.compilers.is_empty());
        maps.ended(std::process::id());
        maps.mapped(&code(b"//anon"));
        assert_eq!(maps.compilers.len(), 1);
        // Written before the process ended, and found afterwards.
        maps.ended(std::process::id());
        assert!(maps.next(true, &own).is_some());
        maps.mapped(&code(b"//anon"));
        std::fs::remove_file(&written.0).unwrap();
        maps.ended(std::process::id());
        assert!(maps.next(true, &own).is_none());
        assert!(maps.compilers.is_empty(), "a file that can't appear is not waited for");
    }
}
