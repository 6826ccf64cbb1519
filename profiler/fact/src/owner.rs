//! What processes belong to: their cgroup and, by its path, the unit of systemd, the container and the pod.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{ProcessId, Tables, ThreadId};
use base::event::owners::{Container, Pod};
use base::owner;

/// Characters of a container's id that runtimes show.
const SHORT_ID: usize = 12;

/// A cgroup, and what it belongs to as far as that is known. Programs choose all of these names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Path of the cgroup.
    pub cgroup: Arc<str>,
    /// Unit of systemd.
    pub unit: Option<String>,
    /// Id of the container; its name, if it is of LXC or systemd-nspawn.
    pub container_id: Option<String>,
    /// Name of the container, if it is known.
    pub container: Option<String>,
    /// The container's runtime, as [`base::owner::Owner::runtime`].
    pub runtime: Option<&'static str>,
    /// Uid of the pod.
    pub pod_uid: Option<String>,
    /// Namespace of the pod.
    pub namespace: Option<String>,
    /// Name of the pod.
    pub pod_name: Option<String>,
}

impl Owner {
    /// What the cgroup with this path belongs to, with the names of `containers`.
    fn new(cgroup: Arc<str>, containers: &Containers<'_>) -> Self {
        let owner::Owner {
            unit,
            container,
            runtime,
            pod,
        } = owner::of(&cgroup);
        let known = container.as_deref().and_then(|id| containers.by_id.get(id).copied());
        let of_container = known.and_then(|known| known.pod.as_ref());
        let known_pod = of_container.or_else(|| containers.pods.get(pod.as_deref()?).copied());
        Self {
            cgroup,
            unit,
            // LXC and systemd-nspawn have no ids besides.
            container: known
                .and_then(|known| known.name.clone())
                .or_else(|| container.clone().filter(|name| !owner::is_id(name))),
            container_id: container,
            runtime,
            pod_uid: pod.or_else(|| known_pod.map(|pod| pod.uid.clone())),
            namespace: known_pod.map(|pod| pod.namespace.clone()),
            pod_name: known_pod.map(|pod| pod.name.clone()),
        }
    }

    /// The pod: `NAMESPACE/NAME` or, without its name, its uid.
    pub fn pod(&self) -> Option<String> {
        match (&self.namespace, &self.pod_name) {
            (Some(namespace), Some(name)) => Some(format!("{namespace}/{name}")),
            _ => self.pod_uid.clone(),
        }
    }

    /// The container's name, or the beginning of its id.
    pub fn container_name(&self) -> Option<&str> {
        let id = self.container_id.as_deref();
        let short = id.map(|id| if owner::is_id(id) { &id[..SHORT_ID] } else { id });
        self.container.as_deref().or(short)
    }

    /// A short name: of the container with its pod, else of the unit and what is below it, else the whole path.
    pub fn label(&self) -> String {
        match (self.pod(), self.container_name(), &self.unit) {
            (Some(pod), Some(container), _) => format!("{pod}/{container}"),
            (Some(pod), None, _) => pod,
            (None, Some(container), _) => container.to_owned(),
            (None, None, Some(unit)) => {
                let below = self.cgroup.rfind(unit.as_str());
                below.map_or_else(|| unit.clone(), |start| self.cgroup[start..].to_owned())
            }
            (None, None, None) => self.cgroup.to_string(),
        }
    }

    /// All names that it can be selected by.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let id = self.container_id.clone();
        let name = self.container_name().map(str::to_owned);
        let names = [
            Some(self.cgroup.to_string()),
            id,
            name,
            self.pod(),
            self.pod_uid.clone(),
        ];
        let parts = self.cgroup.split('/').map(owner::unescaped);
        let units = parts.filter(|part| owner::of(&format!("/{part}")).unit.is_some());
        let units: Vec<String> = units.map(str::to_owned).collect();
        names.into_iter().flatten().chain(units).chain([self.label()])
    }
}

/// Containers of a recording.
struct Containers<'a> {
    by_id: FxHashMap<&'a str, &'a Container>,
    /// Pods by uid.
    pods: FxHashMap<&'a str, &'a Pod>,
}

impl<'a> Containers<'a> {
    fn of(tables: &'a Tables) -> Self {
        let all = &tables.recording.containers;
        Self {
            by_id: all.iter().map(|one| (one.id.as_str(), one)).collect(),
            pods: all
                .iter()
                .filter_map(|one| one.pod.as_ref())
                .map(|pod| (pod.uid.as_str(), pod))
                .collect(),
        }
    }
}

/// Short names of cgroups, as [`Owner::label`], whether or not a process is in them.
pub fn labels<'c>(tables: &Tables, cgroups: impl IntoIterator<Item = &'c str>) -> Vec<String> {
    let containers = Containers::of(tables);
    let label = |cgroup: &str| Owner::new(cgroup.into(), &containers).label();
    cgroups.into_iter().map(label).collect()
}

/// What each process of a recording belongs to.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// All cgroups, distinct.
    pub list: Vec<Owner>,
    /// By process: its place in the list.
    by_process: Vec<Option<u32>>,
    /// By cgroup: its place in the list.
    places: FxHashMap<Arc<str>, u32>,
}

impl Owners {
    /// The cgroups of all processes.
    pub fn new(tables: &Tables) -> Self {
        let containers = Containers::of(tables);
        let mut owners = Self::default();
        for process in &tables.processes {
            let place = process.cgroup.as_ref().map(|cgroup| {
                *owners.places.entry(Arc::clone(cgroup)).or_insert_with(|| {
                    owners.list.push(Owner::new(Arc::clone(cgroup), &containers));
                    u32::try_from(owners.list.len() - 1).unwrap_or(u32::MAX)
                })
            });
            owners.by_process.push(place);
        }
        owners
    }

    /// What a process belongs to; `None`: its cgroup is not known.
    pub fn of(&self, process: ProcessId) -> Option<&Owner> {
        self.list.get(self.place(process)?)
    }

    /// The place in the list of what a thread's process belongs to.
    pub fn place_of_thread(&self, tables: &Tables, thread: ThreadId) -> Option<usize> {
        self.place(tables.threads.get(thread.index())?.process)
    }

    /// Its place in the list.
    pub fn place(&self, process: ProcessId) -> Option<usize> {
        (*self.by_process.get(process.index())?).map(|place| place as usize)
    }

    /// The place of a cgroup in the list.
    pub fn place_of(&self, cgroup: &str) -> Option<usize> {
        self.places.get(cgroup).map(|place| *place as usize)
    }

    /// Whether no cgroup is known.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Forgets containers of which there is no process.
pub fn drop_unused(tables: &mut Tables) {
    let owners = Owners::new(tables);
    let ids: FxHashSet<&str> = (owners.list.iter())
        .flat_map(|owner| [&owner.container_id, &owner.pod_uid])
        .filter_map(|id| id.as_deref())
        .collect();
    tables.recording.containers.retain(|one| {
        let mut own = [Some(&one.id), one.pod.as_ref().map(|pod| &pod.uid)]
            .into_iter()
            .flatten();
        own.any(|id| ids.contains(id.as_str()))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    const ID: &str = "3f4e9a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789ab";
    const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

    fn owner_of(cgroup: &str, containers: Vec<Container>) -> Owner {
        let mut tables = Tables::default();
        let mut process = fixtures::process(1, "p");
        process.cgroup = Some(cgroup.into());
        tables.processes = vec![fixtures::process(2, "q"), process];
        tables.recording.containers = containers;
        let owners = Owners::new(&tables);
        assert_eq!((owners.of(ProcessId(0)), owners.list.len()), (None, 1));
        owners.of(ProcessId(1)).unwrap().clone()
    }

    #[test]
    fn labels_name_the_nearest_owner() {
        for (cgroup, label) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/system.slice/nginx.service", "nginx.service"),
            ("/system.slice/systemd-udevd.service/udev", "systemd-udevd.service/udev"),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service/inner",
                "x.service/inner",
            ),
            ("/system.slice/_cpu.service", "cpu.service"),
            ("/system.slice/docker-ID.scope", "3f4e9a1b2c3d"),
            ("/lxc.payload.web/init.scope", "web"),
            ("/kubepods/podUID", UID),
            (
                "/kubepods/podUID/ID",
                "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0/3f4e9a1b2c3d",
            ),
        ] {
            let cgroup = cgroup.replace("UID", UID).replace("ID", ID);
            assert_eq!(owner_of(&cgroup, Vec::new()).label(), label, "{cgroup}");
        }
    }

    #[test]
    fn names_of_runtimes_replace_ids() {
        let container = Container {
            id: ID.to_owned(),
            name: Some("app".to_owned()),
            pod: Some(Pod {
                namespace: "prod".to_owned(),
                name: "shop-0".to_owned(),
                uid: UID.to_owned(),
            }),
        };
        let owner = owner_of(&format!("/kubepods/pod{UID}/{ID}"), vec![container.clone()]);
        assert_eq!((owner.label().as_str(), owner.runtime), ("prod/shop-0/app", None));
        assert_eq!(owner.container_id.as_deref(), Some(ID));
        // Another container of the pod, whose state is gone.
        let other = owner_of(&format!("/kubepods/pod{UID}/{}", "a".repeat(64)), vec![container]);
        assert_eq!(
            (other.label().as_str(), other.container),
            ("prod/shop-0/aaaaaaaaaaaa", None)
        );
    }
}
