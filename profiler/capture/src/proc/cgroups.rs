//! Control groups: the mounted hierarchies, and which cgroup a path means.
//!
//! Formats: cgroups(7), and `/proc/PID/mountinfo` in proc(5). Whoever may create a cgroup chooses its name.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Cgroups that are listed, at most.
const LIMIT: usize = 1 << 16;

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its number; 0: version 2.
    pub number: u32,
    /// Its controllers or, of version 1, its name as `name=systemd`. Empty: version 2.
    pub controllers: Vec<String>,
    /// Where it is mounted.
    pub mount: PathBuf,
}

/// A cgroup that was named, whether or not it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Its hierarchy.
    pub hierarchy: Hierarchy,
    /// Its path in the hierarchy: `/` or `/a/b`.
    pub path: String,
}

impl Hierarchy {
    /// Whether it is that of version 2.
    pub fn is_version_2(&self) -> bool {
        self.number == 0
    }

    /// Whether it is the one of version 1 with the memory controller.
    pub fn has_memory_of_version_1(&self) -> bool {
        self.controllers.iter().any(|name| name == "memory")
    }

    /// The controller whose state leads to a thread's cgroup; `None`: version 2, or no controller.
    pub fn controller(&self) -> Option<&str> {
        let mut controllers = self.controllers.iter().map(String::as_str);
        controllers.find(|name| !name.contains('='))
    }

    /// How messages call it.
    pub fn name(&self) -> String {
        match self.controllers.as_slice() {
            [] => "version 2".to_owned(),
            some => some.join(","),
        }
    }

    /// The folder of a cgroup.
    pub fn folder(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// The paths of a cgroup and all below it, with their ids; a cgroup comes before those that it contains. `seen` gets each one
    /// before those below it are listed. False: there are too many, and the rest was not looked at.
    pub fn walk(&self, path: &str, mut seen: impl FnMut(&str, u64)) -> bool {
        let mut next = VecDeque::from([path.to_owned()]);
        let mut count = 0;
        while let Some(path) = next.pop_front() {
            if count == LIMIT {
                return false;
            }
            count += 1;
            let folder = self.folder(&path);
            let Ok(metadata) = folder.metadata() else { continue };
            seen(&path, metadata.ino());
            let inside = folder.read_dir().into_iter().flatten().filter_map(Result::ok);
            let folders = inside.filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()));
            // A name that is not UTF-8 can't be typed, but those below it belong to it.
            let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
            next.extend(names.map(|name| format!("{}/{name}", path.trim_end_matches('/'))));
        }
        true
    }
}

impl Cgroup {
    /// Whether it exists.
    pub fn exists(&self) -> bool {
        self.hierarchy.folder(&self.path).is_dir()
    }

    /// Whether a cgroup of the same hierarchy is this one or below it.
    pub fn contains(&self, path: &str) -> bool {
        match path.strip_prefix(self.path.trim_end_matches('/')) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }
}

/// The mounted hierarchies, version 2 first.
///
/// # Errors
/// When /proc can't be read.
pub fn hierarchies() -> io::Result<Vec<Hierarchy>> {
    let numbers = std::fs::read_to_string("/proc/self/cgroup")?;
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let mut found = parse(&numbers, &String::from_utf8_lossy(&mounts));
    found.sort_by_key(|one| {
        (
            one.number != 0,
            one.controllers.first().is_none_or(|name| name != "memory"),
        )
    });
    Ok(found)
}

fn parse(numbers: &str, mounts: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in numbers.lines() {
        let Some((number, controllers)) = line
            .split_once(':')
            .and_then(|(number, rest)| Some((number.parse().ok()?, rest.split_once(':')?.0)))
        else {
            continue;
        };
        let controllers: Vec<String> = controllers
            .split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        if let Some(mount) = mounts.lines().find_map(|line| mount_of(line, &controllers)) {
            found.push(Hierarchy {
                number,
                controllers,
                mount,
            });
        }
    }
    found
}

/// The mount point, if a line of mountinfo is about this hierarchy, as a whole.
fn mount_of(line: &str, controllers: &[String]) -> Option<PathBuf> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let (kind, options) = (system.next()?, system.nth(1)?);
    let is_it = match (kind, controllers) {
        ("cgroup2", []) => true,
        ("cgroup", [_, ..]) => {
            let options: Vec<&str> = options.split(',').collect();
            controllers.iter().all(|name| options.contains(&name.as_str()))
        }
        _ => false,
    };
    (is_it && root == "/").then(|| PathBuf::from(point))
}

/// The cgroup that a path means: below `/sys/fs/cgroup`, as a line of `/proc/PID/cgroup`, or relative to the root of a hierarchy.
///
/// # Errors
/// When there is no such hierarchy, or no path can be like that.
pub fn named(text: &str, hierarchies: &[Hierarchy]) -> anyhow::Result<Cgroup> {
    if text.is_empty() || text.split('/').any(|part| part == ".." || part == ".") || text.contains(['\0', '\n']) {
        bail!(
            "`{}` is not the path of a cgroup; `cat /proc/PID/cgroup` shows those of a process",
            text.escape_debug()
        );
    }
    let at = |hierarchy: &Hierarchy, path: &str| Cgroup {
        hierarchy: hierarchy.clone(),
        path: normal(path),
    };
    if let Some((controllers, path)) = line(text) {
        let hierarchy = hierarchies.iter().find(|one| one.controllers.join(",") == controllers);
        return Ok(at(
            hierarchy.with_context(|| format!("no hierarchy of cgroups `{controllers}` is mounted"))?,
            path,
        ));
    }
    let inside = |one: &Hierarchy| Path::new(text).strip_prefix(&one.mount).ok().map(Path::to_owned);
    let below = hierarchies.iter().filter_map(|one| Some((one, inside(one)?)));
    if let Some((hierarchy, path)) = below.max_by_key(|(one, _)| one.mount.as_os_str().len()) {
        return Ok(at(hierarchy, &path.to_string_lossy()));
    }
    if text.starts_with("/sys/fs/cgroup/") {
        bail!("`{}` is not in a mounted hierarchy of cgroups", text.escape_debug());
    }
    let exists = hierarchies
        .iter()
        .filter(|one| one.is_version_2() || one.controller().is_some());
    let exists = exists.map(|one| at(one, text)).find(Cgroup::exists);
    let first = hierarchies.first().map(|one| at(one, text));
    exists.or(first).context("no hierarchy of cgroups is mounted")
}

/// A line as in `/proc/PID/cgroup`: controllers and path.
fn line(text: &str) -> Option<(&str, &str)> {
    let (number, rest) = text.split_once(':')?;
    let _: u32 = number.parse().ok()?;
    rest.split_once(':').filter(|(_, path)| path.starts_with('/'))
}

fn normal(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

/// The path of a thread's cgroup in a hierarchy; an error: it is gone.
pub fn of_thread(pid: u32, tid: u32, hierarchy: u32) -> io::Result<String> {
    let path = path_in(&all_of_thread(pid, tid)?, hierarchy).map(str::to_owned);
    path.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A thread's cgroups in all hierarchies, for [`path_in`]; an error: it is gone.
pub fn all_of_thread(pid: u32, tid: u32) -> io::Result<String> {
    let text = std::fs::read(format!("/proc/{pid}/task/{tid}/cgroup"))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The first processes in the folder of a cgroup; none: it is gone, or its processes are below it.
pub fn members(folder: &Path, limit: usize) -> Vec<u32> {
    let Ok(file) = File::open(folder.join("cgroup.procs")) else {
        return Vec::new();
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let numbers = lines.filter_map(|line| line.parse().ok());
    // 0: outside of this namespace.
    numbers.filter(|&pid| pid != 0).take(limit).collect()
}

/// The path in a hierarchy, in what [`all_of_thread`] returned.
pub fn path_in(text: &str, hierarchy: u32) -> Option<&str> {
    text.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let path = rest.split_once(':')?.1;
        (number.parse() == Ok(hierarchy)).then(|| path.strip_suffix(" (deleted)").unwrap_or(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: &str = "9:name=systemd:/\n4:memory:/x\n2:cpu,cpuacct:/a:b\n0::/user.slice\n";
    const MOUNTS: &str = "30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate\n\
        32 30 0:28 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd\n\
        33 30 0:29 /docker/1 /mnt/part rw shared:12 - cgroup cgroup rw,memory\n\
        34 30 0:29 / /sys/fs/cgroup/memory rw shared:12 - cgroup cgroup rw,memory\n\
        35 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:13 - cgroup cgroup rw,cpuacct,cpu\n";

    fn path_of(text: &str) -> Option<(u32, String)> {
        let found = named(text, &parse(NUMBERS, MOUNTS)).ok()?;
        Some((found.hierarchy.number, found.path))
    }

    #[test]
    fn hierarchies_are_found_by_number_and_mount() {
        let found = parse(NUMBERS, MOUNTS);
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.number, one.name(), one.mount.to_str().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                (9, "name=systemd".to_owned(), "/sys/fs/cgroup/systemd"),
                (4, "memory".to_owned(), "/sys/fs/cgroup/memory"),
                (2, "cpu,cpuacct".to_owned(), "/sys/fs/cgroup/cpu,cpuacct"),
                (0, "version 2".to_owned(), "/sys/fs/cgroup/unified"),
            ]
        );
        assert_eq!(found[0].controller(), None);
        assert_eq!(found[2].controller(), Some("cpu"));
        assert!(parse("", MOUNTS).is_empty() && parse(NUMBERS, "").is_empty() && parse("x\n1:\n:::", "- -").is_empty());
    }

    #[test]
    fn a_cgroup_has_three_spellings() {
        let is = |number, path: &str| Some((number, path.to_owned()));
        assert_eq!(path_of("/sys/fs/cgroup/unified/a/b/"), is(0, "/a/b"));
        assert_eq!(path_of("/sys/fs/cgroup/memory"), is(4, "/"));
        assert_eq!(path_of("/sys/fs/cgroup/memory/a b"), is(4, "/a b"));
        assert_eq!(path_of("/sys/fs/cgroup/missing/a"), None);
        assert_eq!(path_of("4:memory:/a"), is(4, "/a"));
        assert_eq!(path_of("0::/a//b:c"), is(0, "/a/b:c"));
        assert_eq!(path_of("3:pids:/a"), None);
        for wrong in ["", "a/../b", "/a/./b", "a\nb"] {
            assert_eq!(path_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_cgroup_contains_those_below_it() {
        let cgroup = |path: &str| named(&format!("0::{path}"), &parse(NUMBERS, MOUNTS)).unwrap();
        assert!(cgroup("/a").contains("/a") && cgroup("/a").contains("/a/b"));
        assert!(!cgroup("/a").contains("/ab") && !cgroup("/a/b").contains("/a"));
        assert!(cgroup("/").contains("/") && cgroup("/").contains("/a"));
    }
}
