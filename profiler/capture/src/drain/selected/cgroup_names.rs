//! Names of the cgroups of units, containers and pods, which may be anywhere in a hierarchy.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};

use crate::proc::cgroups::Hierarchy;
use crate::proc::conmon;
use crate::proc::containers::{self, Container};
use crate::proc::selection::Conditions;
use base::{owner, similar};

/// Suffixes of units that have a cgroup (systemd.unit(5)).
const UNITS: [&str; 6] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];
/// What runtimes put around a container's id.
const OF_CONTAINERS: [(&str, &str); 9] = [
    ("", ""),
    ("docker-", ".scope"),
    ("libpod-", ".scope"),
    ("libpod-", ""),
    ("libpod-payload-", ""),
    ("crio-", ".scope"),
    ("crio-", ""),
    ("cri-containerd-", ".scope"),
    ("nerdctl-", ".scope"),
];
/// Classes of pods, as the kubelet puts them before a pod.
const CLASSES: [&str; 3] = ["", "-burstable", "-besteffort"];
/// Characters of an id that are enough.
const SHORTEST_ID: usize = 4;

/// The names of the cgroups that the conditions mean.
///
/// # Errors
/// When there is no such container or pod, with similar names.
pub(super) fn of(conditions: &Conditions, hierarchies: &[Hierarchy]) -> anyhow::Result<Vec<String>> {
    let mut names: Vec<String> = conditions.units.iter().flat_map(|unit| of_unit(unit)).collect();
    if conditions.containers.is_empty() && conditions.pods.is_empty() {
        return Ok(names);
    }
    let mut known = containers::all();
    // It knows no pods.
    if !conditions.containers.is_empty() {
        known.extend(conmon::with_cgroups(hierarchies, &known));
    }
    for wanted in &conditions.containers {
        let ids = ids(wanted, &known, hierarchies);
        if ids.all.len() > 1 && !ids.is_exact {
            bail!(
                "several containers have an id that begins with `{}`: type more of it",
                wanted.escape_debug()
            );
        }
        let ids = ids.all;
        if ids.is_empty() {
            return Err(no_container(wanted, &known));
        }
        names.extend(ids.iter().flat_map(|id| of_container(id)));
    }
    for wanted in &conditions.pods {
        let pods = || known.iter().filter_map(|one| one.pod.as_ref());
        // State of pods that were replaced by another one of that name may be left.
        let found = pods().filter(|pod| pod.name == *wanted || pod.uid == *wanted);
        let uids: BTreeSet<&str> = found.map(|pod| pod.uid.as_str()).collect();
        if uids.is_empty() {
            bail!(
                "there is no pod `{}`{}; pods are named NAMESPACE/NAME",
                wanted.escape_debug(),
                similar::sentence(wanted, pods().map(|pod| pod.name.clone()))
            );
        }
        names.extend(uids.into_iter().flat_map(of_pod));
    }
    Ok(names)
}

/// Why there is no cgroup of a container.
fn no_container(wanted: &str, known: &[Container]) -> anyhow::Error {
    let started = conmon::all();
    let is_wanted = |one: &&conmon::Started| one.name == wanted || one.id == wanted;
    if let Some(one) = started.iter().find(is_wanted).filter(|one| !one.pids.is_empty()) {
        let pids: Vec<String> = one.pids.iter().map(u32::to_string).collect();
        return anyhow!(
            "container `{}` has no cgroup of its own; use `-p {}` for its first processes",
            wanted.escape_debug(),
            pids.join(",")
        );
    }
    let names = known.iter().flat_map(|one| one.names.iter().cloned());
    let names = names.chain(started.into_iter().map(|one| one.name));
    anyhow!(
        "there is no container `{}`{}; name a running one, or its cgroup with --cgroup",
        wanted.escape_debug(),
        similar::sentence(wanted, names)
    )
}

/// The name of a unit's cgroup, and how systemd writes one that the kernel would reserve (`cg_escape`).
fn of_unit(unit: &str) -> [String; 2] {
    let has_suffix = UNITS.iter().any(|suffix| unit.ends_with(suffix));
    let unit = format!("{unit}{}", if has_suffix { "" } else { ".service" });
    let escaped = format!("_{unit}");
    [unit, escaped]
}

fn of_container(id: &str) -> Vec<String> {
    let lxc = ["lxc.payload."].map(|prefix| format!("{prefix}{id}"));
    let names = OF_CONTAINERS
        .iter()
        .map(|(before, after)| format!("{before}{id}{after}"));
    names.chain(lxc).collect()
}

fn of_pod(uid: &str) -> Vec<String> {
    let slice = |class: &&str| format!("kubepods{class}-pod{}.slice", uid.replace('-', "_"));
    let slices = CLASSES.iter().map(slice);
    slices.chain([format!("pod{uid}")]).collect()
}

/// Ids of containers.
#[derive(Debug, Default)]
struct Ids {
    all: Vec<String>,
    /// By their name or whole id, not by its beginning.
    is_exact: bool,
}

/// The ids of the containers with this name or id; if there is none, of those whose id begins like this.
fn ids(wanted: &str, known: &[Container], hierarchies: &[Hierarchy]) -> Ids {
    let (mut exact, mut beginning) = (BTreeSet::new(), BTreeSet::new());
    let mut add = |id: &str, is_exact: bool| {
        if is_exact || id == wanted {
            exact.insert(id.to_owned());
        } else if wanted.len() >= SHORTEST_ID && id.starts_with(wanted) {
            beginning.insert(id.to_owned());
        }
    };
    for one in known {
        add(&one.id, one.names.iter().any(|name| name == wanted));
    }
    for hierarchy in hierarchies {
        hierarchy.walk("/", |path, _| {
            if let Some(id) = owner::of(path).container {
                add(&id, false);
            }
        });
    }
    let is_exact = !exact.is_empty();
    let all = if is_exact { exact } else { beginning };
    Ids {
        all: all.into_iter().collect(),
        is_exact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_needs_no_suffix() {
        assert_eq!(of_unit("nginx")[0], "nginx.service");
        assert_eq!(of_unit("a@b.service"), ["a@b.service", "_a@b.service"]);
        assert_eq!(of_unit("session-1.scope")[0], "session-1.scope");
        assert_eq!(of_unit("cpu.x")[1], "_cpu.x.service");
    }

    /// What the names of cgroups are made from is found in them again.
    #[test]
    fn names_of_containers_and_pods_are_those_that_paths_have() {
        let (id, uid) = ("3f4e9a1b".repeat(8), "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
        for name in of_container(&id) {
            assert_eq!(
                owner::of(&format!("/x.slice/{name}")).container,
                Some(id.clone()),
                "{name}"
            );
        }
        for name in of_pod(uid) {
            assert_eq!(
                owner::of(&format!("/kubepods/{name}")).pod.as_deref(),
                Some(uid),
                "{name}"
            );
        }
    }

    #[test]
    fn containers_are_found_by_name_and_id() {
        let known = |id: &str, name: &str| Container {
            id: id.to_owned(),
            names: vec![name.to_owned()],
            pod: None,
        };
        let known = [known("abcdef12", "web"), known("abcdef99", "web"), known("0123", "abc")];
        let found = |wanted| ids(wanted, &known, &[]).all;
        assert_eq!(found("web"), ["abcdef12", "abcdef99"]);
        assert_eq!(found("abcdef"), ["abcdef12", "abcdef99"]);
        assert!(!ids("abcdef", &known, &[]).is_exact && ids("web", &known, &[]).is_exact);
        assert_eq!(found("abcdef1"), ["abcdef12"]);
        assert_eq!(found("abc"), ["0123"]);
        assert!(found("ab").is_empty() && found("").is_empty());
    }

    #[test]
    fn unknown_containers_and_pods_are_refused() {
        let containers = vec!["no such container".to_owned()];
        let pods = vec!["no/such".to_owned()];
        for conditions in [
            Conditions {
                containers,
                ..Conditions::default()
            },
            Conditions {
                pods,
                ..Conditions::default()
            },
        ] {
            assert!(of(&conditions, &[]).is_err());
        }
    }
}
