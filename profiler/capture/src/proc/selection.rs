//! Conditions of a recording: threads by cgroup, name, program, user or process.

use serde::{Deserialize, Serialize};

/// Values, any of which a thread may have. No value: no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Paths of cgroups, each of which includes those below it.
    pub cgroups: Vec<String>,
    /// Units of systemd, with the suffix or, for services, without. Units, containers and pods mean cgroups, like the paths above.
    pub units: Vec<String>,
    /// Containers, by name or the beginning of the id.
    pub containers: Vec<String>,
    /// Pods of Kubernetes: `NAMESPACE/NAME`.
    pub pods: Vec<String>,
    /// Patterns of names, of the thread or its process.
    pub names: Vec<String>,
    /// Files of programs.
    pub programs: Vec<String>,
    /// Effective users.
    pub users: Vec<u32>,
    /// Processes, with those that they start from now on.
    pub pids: Vec<u32>,
}

/// Which threads are recorded, whatever process they belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Those that meet each of these conditions.
    pub chosen: Conditions,
    /// Of these, not those that meet any of these.
    pub excluded: Conditions,
    /// Whether there may be none yet.
    pub waits: bool,
}

impl Conditions {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.of_cgroups() + self.names.len() + self.programs.len() + self.users.len() + self.pids.len()
    }

    /// The number of values that mean cgroups.
    pub fn of_cgroups(&self) -> usize {
        self.cgroups.len() + self.units.len() + self.containers.len() + self.pods.len()
    }

    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
