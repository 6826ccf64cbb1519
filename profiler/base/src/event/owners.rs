//! Which cgroups processes were in, and the names of the containers and pods that these belong to.

use serde::{Deserialize, Serialize};

use crate::addr::Timestamp;

/// Maximum length of a cgroup's path, in bytes: `PATH_MAX` of linux/limits.h.
pub const MAX_CGROUP: usize = 4096;
/// Maximum length of an id or a name of a container or a pod, in bytes.
pub const MAX_NAME: usize = 256;

/// A part of what is known; of a process that is in several parts, the last one counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Owners {
    /// Cgroups of version 2, each with its processes.
    pub cgroups: Vec<CgroupProcesses>,
    /// Containers whose names are known.
    pub containers: Vec<Container>,
}

/// The processes of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupProcesses {
    /// Its path in the hierarchy: `/` or `/a/b`.
    pub path: String,
    /// Each process: its id, and the time of its [`super::TaskNew`].
    pub processes: Vec<(u32, Timestamp)>,
}

/// A container, as far as its runtime names it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Container {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The pod that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Pod>,
}

/// A pod of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Owners {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.cgroups.is_empty() && self.containers.is_empty()
    }

    /// Whether all texts are within their limits.
    pub(super) fn fits(&self) -> bool {
        self.cgroups.iter().all(|cgroup| cgroup.path.len() <= MAX_CGROUP) && self.containers.iter().all(Container::fits)
    }
}

impl Container {
    /// Whether all texts are within their limits.
    pub fn fits(&self) -> bool {
        let pod = self.pod.iter().flat_map(|pod| [&pod.namespace, &pod.name, &pod.uid]);
        let mut texts = pod.chain(&self.name).chain([&self.id]);
        texts.all(|text| text.len() <= MAX_NAME)
    }
}
