//! Containers and pods by name, in the state files of runtimes that root owns. No runtime is asked: its socket may not answer.
//!
//! Sources: `config.v2.json` of Docker (daemon/container/container.go), `containers.json` of containers/storage (Podman, CRI-O), and
//! `config.json` of the OCI runtime specification with the annotations of containerd's CRI plugin, nerdctl and CRI-O.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Bytes of a state file that are read, at most.
const FILE_LIMIT: u64 = 16 << 20;
/// Containers that are looked at, at most.
const LIMIT: usize = 10_000;
/// Folders with a folder for each container, and the state file in it.
const DOCKER: (&str, &str) = ("var/lib/docker/containers", "config.v2.json");
const CONTAINERD: &str = "run/containerd/io.containerd.runtime.v2.task";
const CRIO: (&str, &str) = ("run/containers/storage/overlay-containers", "userdata/config.json");
const STORAGE: &str = "var/lib/containers/storage";

/// A container, as far as its runtime says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// Its id.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// The pod that it belongs to.
    pub pod: Option<Pod>,
}

/// A pod of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

#[derive(Deserialize)]
struct Docker {
    #[serde(rename = "Name")]
    name: String,
}

#[derive(Deserialize)]
struct Stored {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    annotations: std::collections::HashMap<String, String>,
}

/// The containers of this machine.
pub fn all() -> Vec<Container> {
    below(Path::new("/"))
}

fn below(root: &Path) -> Vec<Container> {
    let mut found = Vec::new();
    for folder in folders(&root.join(DOCKER.0)) {
        let Some(state) = json::<Docker>(&folder.join(DOCKER.1)) else {
            continue;
        };
        let name = state.name.trim_start_matches('/').to_owned();
        found.push(named(&folder, vec![name]));
    }
    for kind in folders(&root.join(STORAGE)) {
        for list in ["containers.json", "volatile-containers.json"] {
            let stored = json::<Vec<Stored>>(&kind.join(list)).unwrap_or_default();
            found.extend(stored.into_iter().take(LIMIT).map(|one| Container {
                id: one.id,
                names: one.names,
                pod: None,
            }));
        }
    }
    let of_containerd = folders(&root.join(CONTAINERD))
        .into_iter()
        .flat_map(|namespace| folders(&namespace));
    let of_containerd = of_containerd.map(|folder| (folder.join("config.json"), folder));
    let of_crio = folders(&root.join(CRIO.0))
        .into_iter()
        .map(|folder| (folder.join(CRIO.1), folder));
    for (file, folder) in of_containerd.chain(of_crio).take(LIMIT) {
        let Some(spec) = json::<Spec>(&file) else { continue };
        let value = |keys: [&str; 2]| keys.iter().find_map(|key| spec.annotations.get(*key)).cloned();
        let name = value(["io.kubernetes.cri.container-name", "io.kubernetes.container.name"]);
        let names = name.into_iter().chain(spec.annotations.get("nerdctl/name").cloned());
        let pod = || {
            let namespace = value(["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"])?;
            let name = value(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"])?;
            let uid = value(["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"])?;
            Some(Pod {
                name: format!("{namespace}/{name}"),
                uid,
            })
        };
        found.push(Container {
            pod: pod(),
            ..named(&folder, names.collect())
        });
    }
    found
}

/// A container whose folder is called like its id.
fn named(folder: &Path, names: Vec<String>) -> Container {
    let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Container { id, names, pod: None }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()));
    folders.take(LIMIT).map(|entry| entry.path()).collect()
}

/// Reads a regular file; `None`: it is absent, too long or something else.
fn json<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.size() > FILE_LIMIT {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_files_of_runtimes() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "var/lib/docker/containers/d1/config.v2.json",
            r#"{"ID": "d1", "Name": "/web", "State": {}}"#,
        );
        write("var/lib/docker/containers/d2/config.v2.json", "{");
        let stored = r#"[{"id": "p1", "names": ["db", "db2"], "layer": "x"}, {"id": "p2"}]"#;
        write("var/lib/containers/storage/overlay-containers/containers.json", stored);
        let spec = r#"{"annotations": {"io.kubernetes.cri.container-name": "app", "io.kubernetes.cri.sandbox-name": "shop-0",
            "io.kubernetes.cri.sandbox-namespace": "prod", "io.kubernetes.cri.sandbox-uid": "u1"}}"#;
        write(
            "run/containerd/io.containerd.runtime.v2.task/k8s.io/c1/config.json",
            spec,
        );
        write(
            "run/containerd/io.containerd.runtime.v2.task/default/n1/config.json",
            r#"{"annotations": {"nerdctl/name": "n"}}"#,
        );
        let spec = r#"{"annotations": {"io.kubernetes.container.name": "POD", "io.kubernetes.pod.name": "x",
            "io.kubernetes.pod.namespace": "y", "io.kubernetes.pod.uid": "u2"}}"#;
        write(
            "run/containers/storage/overlay-containers/o1/userdata/config.json",
            spec,
        );
        let mut found = below(root.path());
        found.sort_by(|one, other| one.id.cmp(&other.id));
        let shown: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.id.as_str(),
                    one.names.join(","),
                    one.pod.as_ref().map(|pod| (pod.name.as_str(), pod.uid.as_str())),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("c1", "app".to_owned(), Some(("prod/shop-0", "u1"))),
                ("d1", "web".to_owned(), None),
                ("n1", "n".to_owned(), None),
                ("o1", "POD".to_owned(), Some(("y/x", "u2"))),
                ("p1", "db,db2".to_owned(), None),
                ("p2", String::new(), None),
            ]
        );
    }

    #[test]
    fn what_is_not_a_file_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(json::<Docker>(&path).is_none() && json::<Docker>(root.path()).is_none());
    }
}
