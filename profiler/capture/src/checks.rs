//! Checks whose results are in the header of a log and in `ngmi doctor`: what the kernel shows apart from hooks.

use crate::hooks::hook::row;
use crate::proc::cgroups::{self, Hierarchy};
use crate::proc::kallsyms::KernelAddresses;
use crate::space::maps;
use base::event::HookStatus;

/// Reports a missing field that the programs can do without.
pub fn missing_field(field: &str) -> HookStatus {
    let refused = Some("this kernel has no such field".to_owned());
    row(
        "task",
        &format!("kernel field {field}"),
        refused,
        "report the kernel version: the field may have another name",
    )
}

/// Checks whether user stacks are walked in the kernel.
pub fn walker(refused: Option<String>) -> HookStatus {
    row(
        "sample",
        "unwind tables in the kernel",
        refused,
        "no action needed: stacks are copied and unwound later, as far as the copy reaches",
    )
}

/// Checks whether the kernel shows the addresses of its functions.
pub fn kernel_symbols() -> (Option<KernelAddresses>, HookStatus) {
    let (kernel, refused) = match KernelAddresses::new() {
        Ok(Some(kernel)) => (Some(kernel), None),
        Ok(None) => (
            None,
            Some("the kernel hides its addresses, so kernel frames are left out".to_owned()),
        ),
        Err(error) => (
            None,
            Some(format!("/proc/kallsyms: {error}; kernel frames are left out")),
        ),
    };
    (
        kernel,
        row(
            "sample",
            "kernel symbols",
            refused,
            "run as root (in a container with SYSLOG), or `sudo sysctl kernel.kptr_restrict=0`",
        ),
    )
}

/// Checks what the kernel counts per cgroup: memory and pressure.
pub fn cgroup_usage() -> [HookStatus; 2] {
    let hierarchies = cgroups::hierarchies().unwrap_or_default();
    let version_2 = hierarchies.iter().find(|one| one.is_version_2());
    let controllers = version_2.and_then(|one| std::fs::read_to_string(one.mount.join("cgroup.controllers")).ok());
    let in_version_2 = controllers.is_some_and(|text| text.split_whitespace().any(|name| name == "memory"));
    let in_version_1 = hierarchies.iter().any(Hierarchy::has_memory_of_version_1);
    let (memory, refused) = match (in_version_2, in_version_1) {
        (true, _) => ("memory of cgroups", None),
        (false, true) => ("memory of cgroups (version 1)", None),
        (false, false) => (
            "memory of cgroups",
            Some("no memory controller of cgroups is mounted".to_owned()),
        ),
    };
    let memory = row(
        "machine",
        memory,
        refused,
        "boot with `cgroup_enable=memory`, or mount cgroups",
    );
    let refused = match (version_2, std::fs::read_to_string("/proc/pressure/cpu")) {
        (None, _) => Some("cgroups of version 2 are not mounted".to_owned()),
        (_, Err(error)) => Some(format!("/proc/pressure/cpu: {error}")),
        (_, Ok(_)) => None,
    };
    let remedy = "boot with `psi=1` and mount cgroups of version 2; recordings have no pressure otherwise";
    [memory, row("machine", "pressure of cgroups", refused, remedy)]
}

/// Checks how mappings of running processes are read.
pub fn mapping_query() -> HookStatus {
    let refused = match maps::kernel_has_query() {
        Ok(true) => None,
        Ok(false) => Some("kernel 6.11 or newer is needed".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    row(
        "task",
        "PROCMAP_QUERY",
        refused,
        "no action needed: falling back to the text of /proc/PID/maps",
    )
}
