//! Containers and pods by name, in the state files of runtimes that root owns. No runtime is asked: its socket may not answer.
//!
//! Sources: `config.v2.json` of Docker (daemon/container/container.go), `containers.json` of containers/storage (Podman, CRI-O), and
//! `config.json` of the OCI runtime specification with the annotations of containerd's CRI plugin, nerdctl and CRI-O.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use base::event::owners;
use base::owner;

/// Bytes of a state file that are read, at most.
const FILE_LIMIT: u64 = 16 << 20;
/// Containers that are looked at, at most.
const LIMIT: usize = 10_000;
/// Folders with a folder for each container, and the state file in it.
const DOCKER: (&str, &str) = ("var/lib/docker/containers", "config.v2.json");
const CONTAINERD: &str = "run/containerd/io.containerd.runtime.v2.task";
const CRIO: (&str, &str) = ("run/containers/storage/overlay-containers", "userdata/config.json");
const STORAGE: &str = "var/lib/containers/storage";
const STORED: [&str; 2] = ["containers.json", "volatile-containers.json"];

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
    annotations: HashMap<String, String>,
}

/// The containers of this machine.
pub fn all() -> Vec<Container> {
    below(Path::new("/"))
}

fn below(root: &Path) -> Vec<Container> {
    let mut found = Vec::new();
    for folder in folders(&root.join(DOCKER.0)) {
        let Some(name) = docker_name(&folder) else {
            continue;
        };
        found.push(named(&folder, vec![name]));
    }
    for stored in stored_lists(root) {
        found.extend(stored.into_iter().take(LIMIT).map(|one| Container {
            id: one.id,
            names: one.names,
            pod: None,
        }));
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
        let (names, pod) = spec.names();
        found.push(Container {
            pod: pod.map(|pod| Pod {
                name: format!("{}/{}", pod.namespace, pod.name),
                uid: pod.uid,
            }),
            ..named(&folder, names)
        });
    }
    found
}

/// The names and pods of containers by their ids, which have to be whole ones ([`base::owner::is_id`]), as far as a runtime
/// has state files of them.
pub fn with_ids(ids: impl IntoIterator<Item = String>) -> Vec<owners::Container> {
    with_ids_below(Path::new("/"), ids)
}

fn with_ids_below(root: &Path, ids: impl IntoIterator<Item = String>) -> Vec<owners::Container> {
    let namespaces = folders(&root.join(CONTAINERD));
    let ids = ids.into_iter().filter(|id| owner::is_id(id));
    let mut found: Vec<owners::Container> = ids.map(|id| one_below(root, &namespaces, id)).collect();
    if found.iter().any(|one| one.name.is_none()) {
        let names = stored_names(root);
        for one in &mut found {
            one.name = one.name.take().or_else(|| names.get(&one.id).cloned());
        }
    }
    found.retain(|one| one.fits() && (one.name.is_some() || one.pod.is_some()));
    found
}

/// A container, without the name that is in a list of all.
fn one_below(root: &Path, namespaces: &[PathBuf], id: String) -> owners::Container {
    let of_containerd = namespaces
        .iter()
        .map(|namespace| namespace.join(&id).join("config.json"));
    let of_crio = [root.join(CRIO.0).join(&id).join(CRIO.1)];
    let (mut name, mut known_pod) = (None, None);
    for spec in of_containerd.chain(of_crio).filter_map(|file| json::<Spec>(&file)) {
        let (names, pod) = spec.names();
        name = name.or_else(|| names.into_iter().next());
        known_pod = known_pod.or(pod);
    }
    owners::Container {
        name: name.or_else(|| docker_name(&root.join(DOCKER.0).join(&id))),
        pod: known_pod,
        id,
    }
}

/// First names by id, in the lists of containers/storage.
fn stored_names(root: &Path) -> HashMap<String, String> {
    stored_lists(root)
        .flatten()
        .filter_map(|one| Some((one.id, one.names.into_iter().next()?)))
        .collect()
}

/// The lists of containers/storage.
fn stored_lists(root: &Path) -> impl Iterator<Item = Vec<Stored>> {
    let kinds = folders(&root.join(STORAGE)).into_iter();
    let lists = kinds.flat_map(|kind| STORED.map(|list| kind.join(list)));
    lists.filter_map(|list| json(&list))
}

/// The name of the container that Docker keeps in a folder.
fn docker_name(folder: &Path) -> Option<String> {
    let state = json::<Docker>(&folder.join(DOCKER.1))?;
    Some(state.name.trim_start_matches('/').to_owned())
}

impl Spec {
    /// The container's names, and its pod.
    fn names(&self) -> (Vec<String>, Option<owners::Pod>) {
        let value = |keys: [&str; 2]| keys.iter().find_map(|key| self.annotations.get(*key)).cloned();
        let name = value(["io.kubernetes.cri.container-name", "io.kubernetes.container.name"]);
        let names = name.into_iter().chain(self.annotations.get("nerdctl/name").cloned());
        let pod = || {
            Some(owners::Pod {
                namespace: value(["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"])?,
                name: value(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"])?,
                uid: value(["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"])?,
            })
        };
        (names.collect(), pod())
    }
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
    fn a_container_is_found_by_its_id() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let [docker, podman, kubernetes] = ["d", "e", "f"].map(|digit| digit.repeat(64));
        write(
            &format!("var/lib/docker/containers/{docker}/config.v2.json"),
            r#"{"Name": "/web"}"#,
        );
        let stored = format!(r#"[{{"id": "x"}}, {{"id": "{podman}", "names": ["db"]}}]"#);
        write("var/lib/containers/storage/overlay-containers/containers.json", &stored);
        write(
            &format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{kubernetes}/config.json"),
            r#"{"annotations": {"io.kubernetes.cri.container-name": "app", "io.kubernetes.cri.sandbox-name": "shop-0",
            "io.kubernetes.cri.sandbox-namespace": "prod", "io.kubernetes.cri.sandbox-uid": "u1"}}"#,
        );
        let found = |id: &str| {
            let one = with_ids_below(root.path(), [id.to_owned()]).pop();
            one.map(|one| (one.name, one.pod.map(|pod| pod.name)))
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(found(&docker), Some((name("web"), None)));
        assert_eq!(found(&podman), Some((name("db"), None)));
        assert_eq!(found(&kubernetes), Some((name("app"), name("shop-0"))));
        assert_eq!(found(&"0".repeat(64)), None);
        // What is not an id is not the name of a folder either.
        for other in ["", "..", "x", "../../etc"] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_a_file_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(json::<Docker>(&path).is_none() && json::<Docker>(root.path()).is_none());
        let (good, link, huge) = (
            root.path().join("good"),
            root.path().join("link"),
            root.path().join("huge"),
        );
        std::fs::write(&good, r#"{"Name": "/a\u001b[31m\n"}"#).unwrap();
        assert_eq!(json::<Docker>(&good).unwrap().name, "/a\u{1b}[31m\n");
        std::os::unix::fs::symlink(&good, &link).unwrap();
        assert!(json::<Docker>(&link).is_none());
        // Valid up to the limit.
        let mut text = std::fs::read(&good).unwrap();
        text.resize(usize::try_from(FILE_LIMIT).unwrap(), b' ');
        std::fs::write(&huge, &text).unwrap();
        assert!(json::<Docker>(&huge).is_some());
        text.push(b' ');
        std::fs::write(&huge, &text).unwrap();
        assert!(json::<Docker>(&huge).is_none());
    }
}
