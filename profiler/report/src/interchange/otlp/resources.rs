//! Resources of OTLP: one for each cgroup whose processes have events, with the attributes of its unit, container and pod.

use std::collections::BTreeMap;

use super::super::otlp_message::{Any, AnyValue, KeyValue, Resource};
use super::super::places;
use super::super::sums::{Key, Sum, Sums, Who};
use fact::owner::{Owner, Owners};
use fact::{Recording, Tables};

/// What a resource belongs to, and its sums.
type Part<'o> = (Option<&'o Owner>, Vec<(Key, Sum)>);

/// The sums of each resource; the first is that of everything whose cgroup is not known, and is also there if nothing else is.
pub(super) fn split<'o>(tables: &Tables, owners: &'o Owners, sums: &Sums, finished: Vec<(Key, Sum)>) -> Vec<Part<'o>> {
    let place = |key: &Key| match key.who {
        Who::Thread(id) => owners.place_of_thread(tables, id),
        Who::Named(number) => owners.place_of(sums.name(number)?.cgroup.as_deref()?),
        Who::Unknown => None,
    };
    let mut parts: BTreeMap<Option<usize>, Vec<(Key, Sum)>> = BTreeMap::new();
    for (key, sum) in finished {
        parts.entry(place(&key)).or_default().push((key, sum));
    }
    if parts.is_empty() {
        parts.insert(None, Vec::new());
    }
    let owner = |place: Option<usize>| owners.list.get(place?);
    parts.into_iter().map(|(place, part)| (owner(place), part)).collect()
}

/// The attributes of a resource, by OpenTelemetry's semantic conventions.
pub(super) fn resource(recording: &Recording, owner: Option<&Owner>) -> Resource {
    let command = recording.command.first().map(String::as_str);
    let command = command.and_then(|command| command.rsplit('/').next());
    let service = owner.and_then(service).or(command).unwrap_or("system");
    let attributes = [
        ("service.name", service),
        ("os.type", "linux"),
        ("os.version", &recording.kernel),
        ("host.arch", arch(&recording.arch)),
    ];
    let attribute = |(key, value): (&str, &str)| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Any::Text(places::harmless(value).into_owned())),
        }),
    };
    let of_owner = owner.into_iter().flat_map(attributes_of);
    Resource {
        attributes: attributes.into_iter().chain(of_owner).map(attribute).collect(),
    }
}

/// The name of a container, or of a unit without the suffix of a service.
fn service(owner: &Owner) -> Option<&str> {
    let unit = owner.unit.as_deref().filter(|_| owner.container_id.is_none());
    let service = unit.map(|unit| unit.strip_suffix(".service").unwrap_or(unit));
    owner.container.as_deref().or(service)
}

fn attributes_of(owner: &Owner) -> impl Iterator<Item = (&'static str, &str)> {
    let is_in_pod = owner.pod_uid.is_some();
    [
        ("process.linux.cgroup", Some(&*owner.cgroup)),
        ("container.id", owner.container_id.as_deref()),
        ("container.name", owner.container.as_deref()),
        ("container.runtime", owner.runtime),
        ("k8s.namespace.name", owner.namespace.as_deref()),
        ("k8s.pod.name", owner.pod_name.as_deref()),
        ("k8s.pod.uid", owner.pod_uid.as_deref()),
        ("k8s.container.name", owner.container.as_deref().filter(|_| is_in_pod)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
}

/// Converts the kernel's name of an architecture to the name in the semantic conventions.
fn arch(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
