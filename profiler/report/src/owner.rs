//! What processes belong to, in tables, rows and filters: cgroups, units, containers and pods.

use super::grid::GroupName;
use super::lookup::Lookup as _;
use super::select::glob;
use base::owner::is_id;
use fact::owner::{Owner, Owners};
use fact::{Tables, ThreadId};

/// Characters of a container's id that are enough, as in `ngmi record --container`.
const SHORTEST_ID: usize = 4;

/// Names the row of a cgroup; a process whose cgroup is not known has none.
pub(crate) fn cgroup_name(owners: &Owners, place: Option<usize>) -> GroupName {
    let owner = place.and_then(|place| owners.list.get(place));
    GroupName::path(owner.map_or_else(|| "(unknown)".to_owned(), Owner::label))
        .field("cgroup", owner.map(|owner| owner.cgroup.to_string()))
        .field("unit", owner.and_then(|owner| owner.unit.clone()))
        .field("container", owner.and_then(|owner| owner.container.clone()))
        .field("container_id", owner.and_then(|owner| owner.container_id.clone()))
        .field("pod", owner.and_then(Owner::pod))
}

/// The title of the table by cgroup; it is not printed if there is only one.
pub(crate) fn by_cgroup(owners: &Owners) -> (&'static str, &'static str) {
    ("by_cgroup", if owners.list.len() > 1 { "by cgroup" } else { "" })
}

/// The cells of a row that show what its process belongs to; each is empty where that is not known.
pub(crate) struct OwnerCells<'r> {
    owner: Option<&'r Owner>,
    is_inherited: bool,
}

impl<'r> OwnerCells<'r> {
    /// Those of a thread's process.
    pub(crate) fn new(tables: &Tables, owners: &'r Owners, thread: Option<ThreadId>) -> Self {
        let id = thread
            .and_then(|thread| tables.thread(thread))
            .map(|thread| thread.process);
        let process = id.and_then(|id| tables.processes.get(id.index()));
        Self {
            owner: id.and_then(|id| owners.of(id)),
            is_inherited: process.is_some_and(|process| process.cgroup_inherited),
        }
    }

    pub(crate) fn cgroup(&self) -> Option<&'r str> {
        self.owner.map(|owner| &*owner.cgroup)
    }

    pub(crate) fn is_inherited(&self) -> Option<bool> {
        self.owner.map(|_| self.is_inherited)
    }

    pub(crate) fn unit(&self) -> Option<&'r str> {
        self.owner?.unit.as_deref()
    }

    pub(crate) fn container(&self) -> Option<&'r str> {
        self.owner?.container.as_deref()
    }

    pub(crate) fn container_id(&self) -> Option<&'r str> {
        self.owner?.container_id.as_deref()
    }

    pub(crate) fn pod(&self) -> Option<String> {
        self.owner?.pod()
    }
}

/// Whether a pattern matches a cgroup or one above it, the unit, the container (of whose id four characters are enough) or
/// the pod that it belongs to.
pub(crate) fn cgroup_fits(owner: &Owner, pattern: &str) -> bool {
    let path = pattern.strip_prefix("0::").unwrap_or(pattern);
    let path = path.strip_prefix("/sys/fs/cgroup").unwrap_or(path).trim_matches('/');
    let id = owner.container_id.as_deref().unwrap_or_default();
    glob(&format!("/{path}"), &owner.cgroup)
        || path.is_empty() && pattern.contains('/')
        || glob(&format!("/{path}/*"), &owner.cgroup)
        || owner.names().any(|name| glob(pattern, &name))
        || owner.names().any(|unit| glob(&format!("{pattern}.service"), &unit))
        || pattern.len() >= SHORTEST_ID && is_id(id) && id.starts_with(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::owners::{Container, Pod};
    use fact::fixtures;

    const ID: &str = "3f4e9a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789ab";

    fn owner_of(cgroup: &str) -> Owner {
        let mut tables = Tables::default();
        let mut process = fixtures::process(1, "p");
        process.cgroup = Some(cgroup.replace("ID", ID).into());
        tables.processes.push(process);
        tables.recording.containers.push(Container {
            id: ID.to_owned(),
            name: Some("app".to_owned()),
            pod: Some(Pod {
                namespace: "prod".to_owned(),
                name: "shop-0".to_owned(),
                uid: "u".to_owned(),
            }),
        });
        Owners::new(&tables).list.remove(0)
    }

    #[test]
    fn a_cgroup_has_many_names() {
        let service = "/system.slice/nginx.service/worker";
        for (cgroup, pattern, fits) in [
            (service, "/system.slice/nginx.service/worker", true),
            (service, "/system.slice/nginx.service", true),
            (service, "/system.slice/nginx.service/", true),
            (service, "system.slice", true),
            (service, "0::/system.slice", true),
            (service, "/sys/fs/cgroup/system.slice", true),
            (service, "/sys/fs/cgroup", true),
            (service, "/", true),
            (service, "nginx", true),
            (service, "ngin?.service", true),
            (service, "*/nginx*", true),
            (service, "/system", false),
            (service, "/nginx.service", false),
            (service, "worker", false),
            (service, "", false),
            ("/docker/ID", "app", true),
            ("/docker/ID", "3f4e", true),
            ("/docker/ID", "3f4", false),
            ("/docker/ID", "prod/shop-0", true),
            ("/docker/ID", "prod/*", true),
            ("/docker/ID", "docker", true),
            ("/lxc.payload.web-10/x", "web-10", true),
            ("/lxc.payload.web-10/x", "web-1", false),
            (
                "/user.slice/user@1000.service/app.slice/a.service",
                "user@1000.service",
                true,
            ),
            ("/user.slice/user@1000.service/app.slice/a.service", "user@1000", true),
            ("/", "/", true),
            ("/", "/a", false),
        ] {
            assert_eq!(cgroup_fits(&owner_of(cgroup), pattern), fits, "{cgroup} {pattern}");
        }
    }
}
