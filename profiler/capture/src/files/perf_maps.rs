//! Finds the perf maps of processes that generate code at run time, wherever they write them.
//!
//! A compiler writes `/tmp/perf-PID.map` with the `/tmp` and the pid of its own namespaces, both of which may be gone when the
//! recording ends. So the folder is held open as soon as executable memory without a file appears, and the file is opened
//! and passed on once it exists. It is never parsed here.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use rustc_hash::{FxHashMap, FxHashSet};

use super::opener::helper::Ask;
use super::opener::{Folder, Job, Opened};
use crate::proc::procfs;
use crate::socket::wire::PerfMap;
use base::event::{Mapping, PROT_EXEC};

/// Processes whose perf maps are looked for, at most.
const PROCESS_LIMIT: usize = 4096;
/// Folders that are held open, at most.
const FOLDER_LIMIT: usize = 256;
/// How often to look for files that do not exist yet.
const INTERVAL: Duration = Duration::from_millis(250);
/// Tolerance: birth times are counted in ticks, and file times in the ticks of another clock.
const SLACK: Duration = Duration::from_secs(2);

/// A process that may write a perf map.
#[derive(Debug)]
struct Compiler {
    number: u64,
    pid: u32,
    /// Its user, who must own the file.
    user: u32,
    /// When it started; an older file belongs to another process that had the same pid.
    born: SystemTime,
    /// `perf-PID.map`, the pid as its namespace numbers it.
    name: String,
    /// `None`: not opened yet.
    folder: Option<Rc<Folder>>,
    /// `Some`: the file is being looked for; true: for the last time.
    asked: Option<bool>,
    /// Its process ended, or runs another program: what it has not written by now it never will.
    has_ended: bool,
}

/// Perf maps to be found.
#[derive(Debug, Default)]
pub struct PerfMaps {
    seen: FxHashSet<u32>,
    compilers: Vec<Compiler>,
    /// How many compilers there were.
    numbers: u64,
    /// By device and inode.
    folders: FxHashMap<(u64, u64), Rc<Folder>>,
    looked: Option<Instant>,
}

impl PerfMaps {
    /// Notes a new mapping: if it is code without a file, its process is a compiler.
    pub fn mapped(&mut self, mapping: &Mapping) {
        let pid = mapping.at.pid;
        if is_made_at_run_time(mapping) && self.compilers.len() < PROCESS_LIMIT && self.seen.insert(pid) {
            self.numbers += 1;
            // The process may be gone already, or may not be inspected: then there is nothing to find.
            self.compilers.extend(compiler(pid, self.numbers));
        }
    }

    /// Notes that a process ended or became another program: its pid may be a new compiler's. Its perf map is looked for once more.
    pub fn ended(&mut self, pid: u32) {
        if self.seen.remove(&pid) {
            let its = self.compilers.iter_mut().filter(|compiler| compiler.pid == pid);
            its.for_each(|compiler| compiler.has_ended = true);
        }
    }

    /// The files and folders to open now: folders at once, files every `INTERVAL`; with `last` all of them.
    pub fn wanted(&mut self, last: bool) -> Vec<Job> {
        let is_due = last || self.looked.is_none_or(|looked| looked.elapsed() >= INTERVAL);
        if is_due {
            self.looked = Some(Instant::now());
            // The folder of a container that ended would keep its file system.
            self.folders.retain(|_, folder| Rc::strong_count(folder) > 1);
        }
        let free = self.compilers.iter_mut().filter(|compiler| compiler.asked.is_none());
        free.filter_map(|compiler| {
            let job = match &compiler.folder {
                None => Job::Folder(compiler.number, compiler.pid),
                Some(folder) if is_due => {
                    Job::PerfMap(compiler.number, compiler.pid, compiler.ask(last), folder.clone())
                }
                Some(_) => return None,
            };
            compiler.asked = Some(compiler.has_ended);
            Some(job)
        })
        .collect()
    }

    /// Takes the result of a job; returns the perf map if it was one.
    pub fn answered(&mut self, job: &Job, opened: Option<Opened>) -> Option<(PerfMap, OwnedFd)> {
        let (Job::Folder(number, _) | Job::PerfMap(number, ..)) = job else {
            return None;
        };
        let index = self.compilers.iter().position(|compiler| compiler.number == *number)?;
        let was_last = self.compilers[index].asked.take() == Some(true);
        match (job, opened) {
            (Job::PerfMap(..), Some((file, _))) => {
                let Compiler { pid, name, .. } = self.compilers.swap_remove(index);
                let path = format!("/tmp/{name}");
                return Some((PerfMap { pid, path }, file));
            }
            (Job::PerfMap(..), None) if !was_last => {}
            (Job::Folder(..), Some((file, id)))
                if self.folders.len() < FOLDER_LIMIT || self.folders.contains_key(&id) =>
            {
                let folder = || Rc::new(Folder { file: file.into(), id });
                let folder = self.folders.entry(id).or_insert_with(folder).clone();
                self.compilers[index].folder = Some(folder);
                // The first look must not wait.
                self.looked = None;
            }
            _ => drop(self.compilers.swap_remove(index)),
        }
        None
    }
}

impl Compiler {
    fn ask(&self, last: bool) -> Ask {
        Ask::PerfMap {
            name: self.name.clone(),
            user: self.user,
            born: self.born,
            may_copy: last || self.has_ended,
        }
    }
}

fn compiler(pid: u32, number: u64) -> Option<Compiler> {
    let user = procfs::identity(pid).ok()?.user?;
    let inner = procfs::pid_inside(pid).ok()?;
    let age = procfs::now().since(procfs::stat(pid, pid).ok()?.started);
    let born = SystemTime::now().checked_sub(age.checked_add(SLACK)?)?;
    Some(Compiler {
        number,
        pid,
        user,
        born,
        name: format!("perf-{inner}.map"),
        folder: None,
        asked: None,
        has_ended: false,
    })
}

/// Whether this is executable memory without a file, or with a file only in memory or without a name. `[vdso]` and the like belong to the kernel.
fn is_made_at_run_time(mapping: &Mapping) -> bool {
    let path = mapping.path.as_slice();
    let anonymous = mapping.file.inode == 0 && (path.first() != Some(&b'[') || path.starts_with(b"[anon"));
    mapping.protection & PROT_EXEC != 0
        && (anonymous || path.starts_with(b"/dev/zero") || path.ends_with(b" (deleted)"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::files::opener::helper::act;
    use crate::privilege::rights::Rights;
    use base::event::At;

    impl PerfMaps {
        /// Opens what is wanted in this process.
        fn next(&mut self, last: bool) -> Option<(PerfMap, OwnedFd)> {
            let own = Rights::own().unwrap();
            // The folder, then what is in it.
            for _ in 0..2 {
                for job in self.wanted(last) {
                    let found = match &job {
                        Job::Folder(_, pid) => act(&Ask::Folder(*pid), None, &own, 0, &|| {}),
                        Job::PerfMap(_, _, ask, folder) => act(ask, Some(&folder.file), &own, 0, &|| {}),
                        Job::Mapped(_) => panic!("{job:?}"),
                    };
                    let opened = found.ok().map(|found| (found.file.into(), found.id));
                    if let Some(found) = self.answered(&job, opened) {
                        return Some(found);
                    }
                }
            }
            None
        }
    }

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
    fn kernel_code_is_not_jit_code() {
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
        let mut maps = PerfMaps::default();
        maps.mapped(&code(b"//anon"));
        assert_eq!(maps.compilers.len(), 1);
        assert!(maps.next(true).is_none());
        let inner = procfs::pid_inside(std::process::id()).unwrap();
        let written = Written(format!("/tmp/perf-{inner}.map"));
        std::os::unix::fs::symlink("/etc/passwd", &written.0).unwrap();
        assert!(maps.next(true).is_none(), "a link is not followed");
        std::fs::remove_file(&written.0).unwrap();
        std::fs::write(&written.0, "1000 10 f\n").unwrap();
        let file = File::options().write(true).open(&written.0).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(
            maps.next(true).is_none(),
            "it belongs to an earlier process with this pid"
        );
        file.set_modified(SystemTime::now()).unwrap();
        if nix::unistd::geteuid().is_root() {
            let user = nix::unistd::getuid().as_raw();
            std::os::unix::fs::chown(&written.0, Some(user + 1), None).unwrap();
            assert!(
                maps.next(true).is_none(),
                "it belongs to another user, who could forge names for our code"
            );
            std::os::unix::fs::chown(&written.0, Some(user), None).unwrap();
        }
        let (map, file) = maps.next(true).unwrap();
        assert_eq!((map.pid, &map.path), (std::process::id(), &written.0));
        assert_eq!(std::io::read_to_string(File::from(file)).unwrap(), "1000 10 f\n");
        assert!(maps.next(true).is_none());
        maps.mapped(&code(b"//anon"));
        assert!(maps.compilers.is_empty());
        maps.ended(std::process::id());
        maps.mapped(&code(b"//anon"));
        assert_eq!(maps.compilers.len(), 1);
        // Written before the process ended, and found afterwards.
        maps.ended(std::process::id());
        assert!(maps.next(true).is_some());
        maps.mapped(&code(b"//anon"));
        std::fs::remove_file(&written.0).unwrap();
        maps.ended(std::process::id());
        assert!(maps.next(true).is_none());
        assert!(maps.compilers.is_empty(), "a file that can't appear is not waited for");
    }
}
