//! What a log holds outside its event stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::replay::jit::JitIndex;
use crate::replay::marker_file::ProgramMarker;
use crate::replay::resolved::Resolved;
use crate::replay::walks::KernelNames;
use crate::usage::UsageParts;
use base::event::Cost;
use base::event::owners::{Container, Owners};
use task::Cgroups;

/// Maximum number of containers with a name, several times those of a machine.
const MAX_CONTAINERS: usize = 1 << 16;

/// Preamble: the chunks of a log outside its event stream.
#[derive(Default)]
pub struct Preamble {
    /// Names of the kernel's functions.
    pub kernel: KernelNames,
    /// Names of code generated at run time.
    pub jit: JitIndex,
    /// The program's own markers, by start.
    pub markers: VecDeque<ProgramMarker>,
    /// What the recording itself cost.
    pub cost: Option<Cost>,
    /// What was unwound and named before.
    pub resolved: Option<Resolved>,
    /// Cgroups of processes.
    pub cgroups: Cgroups,
    /// Names of containers, by id.
    pub containers: BTreeMap<String, Container>,
    /// What cgroups used.
    pub usage: UsageParts,
}

impl Preamble {
    /// Adds a part of what is known about cgroups; what is known already is replaced.
    pub fn add_owners(&mut self, owners: Owners) {
        for cgroup in owners.cgroups {
            let path: Arc<str> = cgroup.path.into();
            let processes = cgroup.processes.into_iter();
            self.cgroups
                .extend(processes.map(|process| (process, Arc::clone(&path))));
        }
        for container in owners.containers {
            if self.containers.len() < MAX_CONTAINERS {
                self.containers.insert(container.id.clone(), container);
            }
        }
    }
}
