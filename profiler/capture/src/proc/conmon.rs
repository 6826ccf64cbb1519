//! Containers by conmon, which starts each one of Podman and CRI-O: it has the id and the name among its arguments. State files of a
//! user's containers are wherever that user wants; their conmon is here in any case.
//!
//! Sources: `sharedConmonArgs` of Podman (`libpod/oci_conmon_common.go`), `CreateContainer` of CRI-O (`internal/oci/runtime_oci.go`), options of
//! conmon (src/cli.c). Any user may start a program with such arguments: it names a container only if it started a process in its cgroup.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;

use super::cgroups::{self, Hierarchy};
use super::containers::Container;
use super::procfs;
use base::owner;

/// The name of its process.
const NAME: &[u8] = b"conmon";
/// Bytes of its arguments that are read, at most.
const ARGUMENTS: u64 = 1 << 16;
/// Generations from a container's process to its conmon, at most.
const GENERATIONS: usize = 64;
/// Processes of a container that are looked at, at most: its first ones descend from conmon.
const MEMBERS: usize = 4;
/// Cgroups of a container that are looked at, at most: the outermost may have no process.
const CGROUPS: usize = 8;

/// A container that conmon started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The processes that conmon started in it.
    pub pids: Vec<u32>,
}

/// The name of a container, by a process in its cgroup.
pub fn name_of(id: &str, member: u32, hierarchy: u32) -> Option<String> {
    let mut pid = member;
    for _ in 0..GENERATIONS {
        let stat = procfs::stat(pid, pid).ok()?;
        let path = cgroups::of_thread(pid, pid, hierarchy).ok()?;
        // What a container calls conmon inside of it may lie.
        if owner::of(&path).container.as_deref() != Some(id) {
            return (stat.name == NAME)
                .then(|| arguments_of(pid))?
                .filter(|(of, _)| of == id)
                .map(|(_, name)| name);
        }
        pid = stat.parent;
    }
    None
}

/// The containers with a cgroup that conmon started, without the known ones.
pub fn with_cgroups(hierarchies: &[Hierarchy], known: &[Container]) -> Vec<Container> {
    let mut tried: HashMap<String, usize> = known.iter().map(|one| (one.id.clone(), CGROUPS)).collect();
    let mut found = Vec::new();
    for hierarchy in hierarchies {
        hierarchy.walk("/", |path, _| {
            let Some(id) = owner::of(path).container.filter(|id| owner::is_id(id)) else {
                return;
            };
            let count = tried.entry(id.clone()).or_default();
            if *count >= CGROUPS {
                return;
            }
            *count += 1;
            let members = cgroups::members(&hierarchy.folder(path), MEMBERS);
            let name = members.into_iter().find_map(|pid| name_of(&id, pid, hierarchy.number));
            found.extend(name.map(|name| {
                *count = CGROUPS;
                Container {
                    id,
                    names: vec![name],
                    pod: None,
                }
            }));
        });
    }
    found
}

/// What every conmon says of its container, which may have no cgroup. Only for messages: anybody may say that.
pub fn all() -> Vec<Started> {
    let mut found: HashMap<u32, Started> = HashMap::new();
    let mut parents = Vec::new();
    for pid in procfs::processes().unwrap_or_default() {
        let Ok(stat) = procfs::stat(pid, pid) else { continue };
        if stat.name == NAME {
            let started = arguments_of(pid).map(|(id, name)| Started {
                id,
                name,
                pids: Vec::new(),
            });
            found.extend(started.map(|started| (pid, started)));
        }
        parents.push((stat.parent, pid));
    }
    for (parent, pid) in parents {
        if let Some(started) = found.get_mut(&parent) {
            started.pids.push(pid);
        }
    }
    found.into_values().collect()
}

/// The id and the name among the arguments of a process.
fn arguments_of(pid: u32) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    file.take(ARGUMENTS).read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Option<(String, String)> {
    let (mut id, mut name) = (None, None);
    let mut arguments = bytes.split(|&byte| byte == 0).skip(1);
    while let Some(argument) = arguments.next() {
        let value = match argument {
            b"-c" | b"--cid" => &mut id,
            b"-n" | b"--name" => &mut name,
            _ => continue,
        };
        // Later ones are arguments for other programs.
        if value.is_none() {
            *value = Some(std::str::from_utf8(arguments.next()?).ok()?);
        }
    }
    let (id, name) = (id?, name?);
    (owner::is_id(id) && !name.is_empty()).then(|| (id.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Child, Command};
    use std::time::Duration;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn arguments() {
        let id = "0123abcd".repeat(8);
        let parsed = |text: &str| parse(text.replace(' ', "\0").replace("ID", &id).as_bytes());
        let is = |name: &str| Some((id.clone(), name.to_owned()));
        assert_eq!(
            parsed(
                "/usr/bin/conmon --api-version 1 -c ID -u ID -r /usr/bin/crun -b /x/ID/userdata -p /p -n web --exit-dir /e "
            ),
            is("web")
        );
        assert_eq!(parsed("conmon --cid ID --name é "), is("é"));
        // The first ones count.
        assert_eq!(
            parsed("conmon -c ID -n web --exit-command-arg -n --exit-command-arg x"),
            is("web")
        );
        for other in [
            "",
            "conmon",
            "conmon -c",
            "conmon -c ID",
            "conmon -n web",
            "conmon -c x -n web",
            "-c ID -n",
        ] {
            assert_eq!(parsed(other), None, "{other}");
        }
        assert_eq!(parse(b"conmon\0-n\0\xff\0"), None);
    }

    /// Shells that are called conmon start a container. Its first program is called so, too, and claims another name.
    const OUTER: &str =
        "sh -c 'echo 0 >\"$0/cgroup.procs\"; exec \"$1\" \"$2\" -c \"$3\" -n wrong' CGROUP CONMON INNER ID & wait";
    const INNER: &str = "sleep 60 & wait";

    struct Tree {
        conmon: Child,
        _folder: TempDir,
    }

    impl Tree {
        fn start(id: &str, name: &str, cgroup: Option<&Path>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let [conmon, outer, inner] = ["conmon", "outer", "inner"].map(|name| folder.path().join(name));
            std::fs::copy("/bin/sh", &conmon).unwrap();
            std::fs::write(&inner, INNER).unwrap();
            let script = cgroup.map_or(INNER.to_owned(), |cgroup| {
                let script = OUTER.replace("CGROUP", &format!("'{}'", cgroup.display()));
                let script = script.replace("CONMON", conmon.to_str().unwrap()).replace("ID", id);
                script.replace("INNER", inner.to_str().unwrap())
            });
            std::fs::write(&outer, script).unwrap();
            let child = Command::new(&conmon).arg(&outer).args(["-c", id, "-n", name]).spawn();
            Self {
                conmon: child.unwrap(),
                _folder: folder,
            }
        }

        /// Waits for the processes that it starts.
        fn wait_for(started: impl Fn() -> usize, count: usize) {
            for _ in 0..1000 {
                if started() == count {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }

        fn end(mut self, started: &[u32]) {
            self.conmon.kill().unwrap();
            self.conmon.wait().unwrap();
            for &pid in started {
                let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL);
            }
        }
    }

    #[test]
    fn the_conmon_outside_of_a_container_names_it() {
        let id = format!("{:064x}", std::process::id());
        let hierarchies = cgroups::hierarchies().unwrap();
        let version_2 = hierarchies.iter().find(|one| one.is_version_2());
        let folder = version_2.map(|one| one.folder(&format!("libpod-{id}.scope/container")));
        let Some(folder) = folder.filter(|folder| std::fs::create_dir_all(folder).is_ok()) else {
            println!("skipped: the_conmon_outside_of_a_container_names_it: no cgroup of version 2 can be created");
            return;
        };
        let tree = Tree::start(&id, "web", Some(&folder));
        Tree::wait_for(|| cgroups::members(&folder, 9).len(), 2);
        let members = cgroups::members(&folder, 9);
        let names: Vec<_> = members.iter().map(|&pid| name_of(&id, pid, 0)).collect();
        let known = |known: &[Container]| {
            let found = with_cgroups(&hierarchies, known).into_iter();
            found
                .filter(|one| one.id == id)
                .map(|one| one.names)
                .collect::<Vec<_>>()
        };
        let (found, again) = (known(&[]), known(&with_cgroups(&hierarchies, &[])));
        tree.end(&members);
        for _ in 0..100 {
            let _ = std::fs::remove_dir(&folder);
            if std::fs::remove_dir(folder.parent().unwrap()).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(
            names,
            [Some("web".to_owned()), Some("web".to_owned())],
            "a shell and its child: {members:?}"
        );
        assert_eq!(found, [["web"]]);
        assert!(again.is_empty(), "{again:?}");
    }

    #[test]
    fn a_container_without_a_cgroup_is_in_messages_only() {
        let id = format!("f{:063x}", std::process::id());
        let tree = Tree::start(&id, "bare", None);
        let started = || all().into_iter().find(|one| one.id == id);
        Tree::wait_for(|| started().map_or(0, |one| one.pids.len()), 1);
        let started = started().unwrap();
        let found = with_cgroups(&cgroups::hierarchies().unwrap(), &[]);
        tree.end(&started.pids);
        assert_eq!((started.name.as_str(), started.pids.len()), ("bare", 1));
        assert!(found.iter().all(|one| one.id != id));
    }

    /// This process descends from no conmon.
    #[test]
    fn a_process_of_no_container() {
        let own = std::process::id();
        assert_eq!(name_of(&"0".repeat(64), own, 0), None);
    }
}
