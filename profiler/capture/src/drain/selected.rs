//! The threads of a selection, as /proc shows them: those that exist when the recording begins, and those at its end.

mod cgroup_names;
mod nothing;

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::{Context as _, bail};
use profiler_common::glob::{self, Globs};
use profiler_common::selection::{BY_CGROUP, BY_EXE, BY_NAME, BY_PID, BY_USER, CHOSEN, EXCLUDED, Key};
use profiler_common::task::COMM_LEN;

use crate::files::same_file;
use crate::hooks::selection::Tables;
use crate::proc::cgroups::{self, Cgroup, Hierarchy};
use crate::proc::procfs;
use crate::proc::selection::{Conditions, Selection};
use base::event::FileId;

/// Bits of a device's minor number in the kernel (`MINORBITS` in `include/linux/kdev_t.h`).
const MINOR_BITS: u32 = 20;

/// A selection, with what its names mean on this machine.
#[derive(Debug, Default)]
pub struct Selected {
    selection: Selection,
    chosen: Found,
    excluded: Found,
    hierarchy: Option<Hierarchy>,
    globs: Globs,
}

/// What the values of conditions mean.
#[derive(Debug, Default)]
struct Found {
    cgroups: Vec<Cgroup>,
    /// Names of cgroups, wherever they are.
    cgroup_names: Vec<String>,
    programs: Vec<FileId>,
}

impl Selected {
    /// Finds the cgroups and programs.
    ///
    /// # Errors
    /// When one does not exist, with similar names, or can't be recorded.
    pub fn find(selection: &Selection) -> anyhow::Result<Self> {
        let hierarchies = cgroups::hierarchies().context("cannot read /proc/self/cgroup")?;
        let (chosen, excluded) = (&selection.chosen, &selection.excluded);
        let mut found = Self {
            chosen: Found::of(chosen, &hierarchies)?,
            excluded: Found::of(excluded, &hierarchies)?,
            globs: globs(selection)?,
            hierarchy: None,
            selection: selection.clone(),
        };
        found.hierarchy = found.one_hierarchy(hierarchies)?;
        if !selection.waits {
            found.chosen.cgroups.iter().try_for_each(nothing::require)?;
        }
        Ok(found)
    }

    /// The hierarchy of the cgroups: that of the paths or, of names, the first that has one of them.
    fn one_hierarchy(&self, mut all: Vec<Hierarchy>) -> anyhow::Result<Option<Hierarchy>> {
        let mut named = self.chosen.cgroups.iter().chain(&self.excluded.cgroups);
        if let Some(first) = named.next() {
            let other = named.find(|other| other.hierarchy != first.hierarchy);
            return match other {
                None => Ok(Some(first.hierarchy.clone())),
                Some(other) => bail!(
                    "cgroups of one recording have to be in one hierarchy: `{}` is in {}, `{}` in {}",
                    first.path.escape_debug(),
                    first.hierarchy.name(),
                    other.path.escape_debug(),
                    other.hierarchy.name()
                ),
            };
        }
        if self.selection.chosen.of_cgroups() + self.selection.excluded.of_cgroups() == 0 {
            return Ok(None);
        }
        all.retain(|one| one.is_version_2() || one.controller().is_some());
        let has_one = |hierarchy: &&Hierarchy| {
            let mut any = false;
            hierarchy.walk("/", |path, _| {
                any |= self.chosen.has_name(path) || self.excluded.has_name(path);
            });
            any
        };
        let found = all.iter().find(has_one).or(all.first()).cloned();
        Ok(Some(found.context("no hierarchy of cgroups is mounted")?))
    }

    /// The tables of the kernel side.
    pub fn tables(&self) -> Tables {
        let mut tables = Tables {
            required: kinds(&self.selection.chosen),
            excluding: kinds(&self.selection.excluded),
            globs: self.globs.clone(),
            hierarchy: self.hierarchy.clone(),
            ..Tables::default()
        };
        let lists = [
            (&self.selection.chosen, &self.chosen, CHOSEN),
            (&self.selection.excluded, &self.excluded, EXCLUDED),
        ];
        for (conditions, found, value) in lists {
            let names = found.cgroup_names.iter().cloned();
            tables.names.extend(names.map(|name| (name, value)));
            tables
                .cgroups
                .extend(found.cgroups.iter().map(|cgroup| (cgroup.clone(), value)));
            let users = conditions.users.iter().map(|&user| Key::new(BY_USER, u64::from(user)));
            let pids = conditions.pids.iter().map(|&pid| Key::new(BY_PID, u64::from(pid)));
            let programs = found.programs.iter().map(|file| Key {
                kind: BY_EXE,
                device: file.major << MINOR_BITS | file.minor,
                number: file.inode,
            });
            for key in users.chain(pids).chain(programs) {
                match tables.values.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, values)) => *values |= value,
                    None => tables.values.push((key, value)),
                }
            }
        }
        tables
    }

    /// Whether there may be no thread yet.
    pub fn waits(&self) -> bool {
        self.selection.waits || self.selection.chosen.is_empty()
    }

    /// Whether a thread is one of those to record; false: it is gone. `at_end`: what its process started since the beginning is not
    /// known here, so a process is not looked at.
    pub fn contains(&self, pid: u32, tid: u32, at_end: bool) -> bool {
        let (chosen, excluded) = (&self.selection.chosen, &self.selection.excluded);
        let kinds = kinds(chosen) | kinds(excluded);
        let allows = |kind: u32, is: &dyn Fn(bool) -> bool| {
            kinds & kind == 0
                || (self::kinds(chosen) & kind == 0 || is(true)) && !(self::kinds(excluded) & kind != 0 && is(false))
        };
        let list = |is_chosen| if is_chosen { chosen } else { excluded };
        let found = |is_chosen| if is_chosen { &self.chosen } else { &self.excluded };
        let cgroup = (kinds & BY_CGROUP != 0).then(|| self.cgroup_of(pid, tid)).flatten();
        let user = (kinds & BY_USER != 0)
            .then(|| procfs::effective_user(pid, tid).ok())
            .flatten();
        let program = (kinds & BY_EXE != 0).then(|| program_of(pid)).flatten();
        let name = |tid| {
            let stat = procfs::stat(pid, tid);
            short_name(stat.map(|stat| stat.name).unwrap_or_default())
        };
        allows(BY_CGROUP, &|is| {
            cgroup.as_ref().is_some_and(|path| found(is).has_cgroup(path))
        }) && allows(BY_USER, &|is| user.is_some_and(|user| list(is).users.contains(&user)))
            && (at_end || allows(BY_PID, &|is| list(is).pids.contains(&pid)))
            // A process that ends shows none, and keeps the one that it had.
            && (at_end && program.is_none()
                || allows(BY_EXE, &|is| {
                    program.is_some_and(|program| found(is).programs.contains(&program))
                }))
            && allows(BY_NAME, &|is| {
                let list = if is { glob::CHOSEN } else { glob::EXCLUDED };
                self.globs.matches(&name(tid), list) || self.globs.matches(&name(pid), list)
            })
    }

    fn cgroup_of(&self, pid: u32, tid: u32) -> Option<String> {
        cgroups::of_thread(pid, tid, self.hierarchy.as_ref()?.number).ok()
    }
}

impl Found {
    fn of(conditions: &Conditions, hierarchies: &[Hierarchy]) -> anyhow::Result<Self> {
        let cgroups = conditions.cgroups.iter().map(|text| cgroups::named(text, hierarchies));
        let programs = conditions.programs.iter().map(|path| identities(path));
        Ok(Self {
            cgroups: cgroups.collect::<anyhow::Result<_>>()?,
            cgroup_names: cgroup_names::of(conditions, hierarchies)?,
            programs: programs.collect::<anyhow::Result<Vec<_>>>()?.concat(),
        })
    }

    fn has_cgroup(&self, path: &str) -> bool {
        self.cgroups.iter().any(|cgroup| cgroup.contains(path)) || self.has_name(path)
    }

    fn has_name(&self, path: &str) -> bool {
        path.split('/')
            .any(|part| self.cgroup_names.iter().any(|name| name == part))
    }
}

/// The kinds of conditions that have a value.
fn kinds(conditions: &Conditions) -> u32 {
    let kind = |is_empty: bool, kind: u32| if is_empty { 0 } else { kind };
    kind(conditions.of_cgroups() == 0, BY_CGROUP)
        | kind(conditions.names.is_empty(), BY_NAME)
        | kind(conditions.programs.is_empty(), BY_EXE)
        | kind(conditions.users.is_empty(), BY_USER)
        | kind(conditions.pids.is_empty(), BY_PID)
}

fn globs(selection: &Selection) -> anyhow::Result<Globs> {
    let mut globs = Globs::default();
    for (names, list) in [
        (&selection.chosen.names, glob::CHOSEN),
        (&selection.excluded.names, glob::EXCLUDED),
    ] {
        for name in names {
            if !globs.add(name.as_bytes(), list) {
                bail!(
                    "too many names: there is no space for `{}`; join some with `*`",
                    name.escape_debug()
                );
            }
        }
    }
    Ok(globs)
}

/// The numbers that the kernel may have for a program's file.
fn identities(path: &str) -> anyhow::Result<Vec<FileId>> {
    let shown = path.escape_debug();
    // Only a regular file is opened: opening a device may have an effect.
    let held = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
    let held = held.map_err(|error| nothing::no_program(path, &error))?;
    if !held.metadata().is_ok_and(|metadata| metadata.is_file()) {
        bail!("`{shown}` is not a program: name its file");
    }
    let file = File::open(format!("/proc/self/fd/{}", held.as_raw_fd()));
    same_file::identities(&file.with_context(|| format!("cannot open `{shown}`"))?)
        .with_context(|| format!("cannot look at `{shown}`"))
}

/// The name that the kernel side sees: /proc shows longer ones of kernel threads, and what a worker does
/// (`proc_task_name` of fs/proc/array.c).
fn short_name(mut name: Vec<u8>) -> Vec<u8> {
    if name.starts_with(b"kworker/")
        && let Some(work) = name.iter().position(|byte| b"+-".contains(byte))
    {
        name.truncate(work);
    }
    name.truncate(COMM_LEN - 1);
    name
}

/// The file of a process's program, as `stat` shows it. Its file system is not asked: it might not answer.
fn program_of(pid: u32) -> Option<FileId> {
    let path = CString::new(format!("/proc/{pid}/exe")).ok()?;
    // SAFETY: numbers only.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a NUL, and the kernel writes a whole structure.
    let result = unsafe {
        libc::statx(
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_STATX_DONT_SYNC,
            libc::STATX_INO,
            &raw mut found,
        )
    };
    (result == 0).then_some(FileId {
        major: found.stx_dev_major,
        minor: found.stx_dev_minor,
        inode: found.stx_ino,
        ..FileId::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(chosen: Conditions, excluded: Conditions) -> bool {
        let selection = Selection {
            chosen,
            excluded,
            waits: true,
        };
        let selected = Selected::find(&selection).unwrap();
        selected.contains(std::process::id(), nix::unistd::gettid().as_raw().unsigned_abs(), false)
    }

    fn users(users: &[u32]) -> Conditions {
        Conditions {
            users: users.to_vec(),
            ..Conditions::default()
        }
    }

    #[test]
    fn this_thread_meets_its_own_conditions() {
        let none = Conditions::default;
        let user = nix::unistd::geteuid().as_raw();
        assert!(
            own(users(&[user]), none()) && own(users(&[user + 1, user]), none()) && !own(users(&[user + 1]), none())
        );
        assert!(
            !own(users(&[user]), users(&[user])) && own(none(), users(&[user + 1])) && !own(none(), users(&[user]))
        );
        let program = |path: &str| Conditions {
            programs: vec![path.to_owned()],
            ..none()
        };
        let exe = std::env::current_exe().unwrap();
        assert!(own(program(exe.to_str().unwrap()), none()) && !own(program("/bin/sh"), none()));
        let pids = |pid| Conditions {
            pids: vec![pid],
            ..none()
        };
        assert!(own(pids(std::process::id()), none()) && !own(pids(1), none()));
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        let names = |name: &str| Conditions {
            names: vec![name.to_owned()],
            ..none()
        };
        assert!(own(names(name.trim_end()), none()) && own(names("*"), none()) && !own(names("-"), none()));
        // Different conditions have to be met together.
        let both = Conditions {
            pids: vec![1],
            ..users(&[user])
        };
        assert!(!own(both, none()));
    }

    #[test]
    fn missing_programs_and_too_many_names_are_refused() {
        let of = |chosen| {
            Selected::find(&Selection {
                chosen,
                ..Selection::default()
            })
        };
        for path in ["/nonexistent", "/", ""] {
            let programs = vec![path.to_owned()];
            assert!(
                of(Conditions {
                    programs,
                    ..Conditions::default()
                })
                .is_err(),
                "{path}"
            );
        }
        let names = (0..30).map(|number| format!("abcdefghijk{number}")).collect();
        assert!(
            of(Conditions {
                names,
                ..Conditions::default()
            })
            .is_err()
        );
    }
}
