//! Writes sums as OTLP profiles (`v1development`): a resource per cgroup, in it a profile per measure, and one dictionary for all. The bytes are also a valid OTLP/HTTP
//! request.

mod resources;

use std::hash::Hash;
use std::io::{self, Write};

use prost::Message as _;
use rustc_hash::FxHashMap;

use super::otlp_message::{
    Any, AnyValue, Attribute, Dictionary, Function, Line, Link, Location, Mapping, Profile, ProfilesData,
    ResourceProfiles, Sample, Scope, ScopeProfiles, Stack, ValueType,
};
use super::places::{self, Label, Places, Spot, Value};
use super::pprof::{Strings, signed};
use super::sums::{Key, Sum, Sums, Table, Weight};
use base::addr::ns;
use fact::owner::Owners;
use fact::{ModuleId, Recording, StackId, Tables};

/// Writes the sums of a recording.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, tables: &Tables, sums: &mut Sums) -> io::Result<()> {
    let finished = sums.finish(tables);
    let mut making = Making::new(tables);
    let (recording, owners) = (&tables.recording, Owners::new(tables));
    let mut resource_profiles = Vec::new();
    for (owner, of_owner) in resources::split(tables, &owners, sums, finished) {
        let mut profiles = Vec::new();
        for table in sums.tables() {
            let of_table: Vec<(Key, Sum)> = of_owner
                .iter()
                .filter(|(key, _)| key.what.table() == *table)
                .copied()
                .collect();
            if of_table.is_empty() && owner.is_some() {
                continue;
            }
            for measure in table.measures() {
                profiles.push(making.profile(sums, *table, *measure, &of_table));
            }
        }
        resource_profiles.push(ResourceProfiles {
            resource: Some(resources::resource(recording, owner)),
            scope_profiles: vec![ScopeProfiles {
                scope: Some(Scope {
                    name: "ngmi".to_owned(),
                    version: places::harmless(&recording.ngmi_version).into_owned(),
                }),
                profiles,
            }],
        });
    }
    let data = ProfilesData {
        resource_profiles,
        dictionary: Some(making.dictionary()),
    };
    out.write_all(&data.encode_to_vec())?;
    out.flush()
}

impl Label {
    /// The attribute key of OpenTelemetry's semantic conventions, or one in the `ngmi` namespace.
    fn otlp(self) -> &'static str {
        match self {
            Self::Process => "process.executable.name",
            Self::Pid => "process.pid",
            Self::Thread => "thread.name",
            Self::Tid => "thread.id",
            Self::Class => "ngmi.fault.class",
            Self::Reason => "ngmi.wait.reason",
            Self::Operation => "disk.io.direction",
            Self::Device => "system.device",
            Self::File => "file.path",
        }
    }
}

/// Appends a part of a message: concatenated parts form one message.
fn push(to: &mut Vec<u8>, part: &Profile) {
    part.encode_raw(to);
}

/// The indices of a dictionary table's entries.
#[derive(Debug)]
struct Indexed<K>(FxHashMap<K, i32>);

impl<K: Hash + Eq> Indexed<K> {
    /// The index of a key, and whether it is new. The first index is 1.
    fn of(&mut self, key: K) -> (i32, bool) {
        let next = i32::try_from(self.0.len()).map_or(i32::MAX, |len| len.saturating_add(1));
        let index = *self.0.entry(key).or_insert(next);
        (index, index == next)
    }
}

impl<K> Default for Indexed<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

/// Builder of the dictionary.
struct Making<'a> {
    recording: &'a Recording,
    places: Places<'a>,
    strings: Strings,
    mappings: Indexed<ModuleId>,
    functions: Indexed<(i32, i32)>,
    locations: Indexed<Spot>,
    stacks: Indexed<(Option<StackId>, bool)>,
    attributes: Indexed<(&'static str, Value)>,
    made: Dictionary,
}

impl<'a> Making<'a> {
    fn new(tables: &'a Tables) -> Self {
        let mut strings = Strings::default();
        strings.number("");
        Self {
            recording: &tables.recording,
            places: Places::new(tables),
            strings,
            mappings: Indexed::default(),
            functions: Indexed::default(),
            locations: Indexed::default(),
            stacks: Indexed::default(),
            attributes: Indexed::default(),
            made: Dictionary {
                mapping_table: vec![Mapping::default()],
                location_table: vec![Location::default()],
                function_table: vec![Function::default()],
                link_table: vec![Link {}],
                string_table: Vec::new(),
                attribute_table: vec![Attribute::default()],
                stack_table: vec![Stack::default()],
            },
        }
    }

    fn string(&mut self, text: &str) -> i32 {
        i32::try_from(self.strings.number(text)).unwrap_or(0)
    }

    fn profile(
        &mut self,
        sums: &Sums,
        table: Table,
        (weight, name, unit): (Weight, &str, &str),
        of_table: &[(Key, Sum)],
    ) -> Vec<u8> {
        let mut encoded = Vec::new();
        for (key, sum) in of_table {
            let value = sum.of(weight);
            if value > 0 {
                let samples = vec![self.sample(sums, key, value)];
                push(
                    &mut encoded,
                    &Profile {
                        samples,
                        ..Profile::default()
                    },
                );
            }
        }
        let hz = self.recording.sample_hz;
        let is_sampled = table == Table::Samples && hz > 0;
        let rest = Profile {
            sample_type: Some(self.value_type(name, unit)),
            samples: Vec::new(),
            time_unix_nano: self.recording.start_unix_ms.saturating_mul(1_000_000),
            duration_nano: ns(self.recording.end.since(self.recording.start)),
            period_type: is_sampled.then(|| self.value_type("cpu", "nanoseconds")),
            period: if is_sampled { 1_000_000_000 / i64::from(hz) } else { 0 },
        };
        push(&mut encoded, &rest);
        encoded
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType {
            kind: self.string(name),
            unit: self.string(unit),
        }
    }

    fn sample(&mut self, sums: &Sums, key: &Key, value: u64) -> Sample {
        let labels = self.places.labels(key, sums);
        let attributes = labels
            .into_iter()
            .map(|(label, value)| self.attribute(label.otlp(), value));
        Sample {
            attribute_indices: attributes.collect(),
            stack_index: self.stack(key.stack, key.cut),
            values: vec![signed(value)],
        }
    }

    fn attribute(&mut self, key: &'static str, value: Value) -> i32 {
        let any = match &value {
            Value::Text(text) => Any::Text(text.clone()),
            Value::Number(number) => Any::Number(*number),
        };
        let (index, is_new) = self.attributes.of((key, value));
        if is_new {
            let key = self.string(key);
            let value = Some(AnyValue { value: Some(any) });
            self.made.attribute_table.push(Attribute { key, value });
        }
        index
    }

    fn stack(&mut self, stack: Option<StackId>, cut: bool) -> i32 {
        let (index, is_new) = self.stacks.of((stack, cut));
        if is_new {
            let frames = self.places.stack(stack, cut).into_iter();
            let location_indices = frames.map(|spot| self.location(spot)).collect();
            self.made.stack_table.push(Stack { location_indices });
        }
        index
    }

    fn location(&mut self, spot: Spot) -> i32 {
        let (index, is_new) = self.locations.of(spot);
        if !is_new {
            return index;
        }
        let (module, address) = spot.frame().map_or((None, 0), |frame| self.places.address(frame));
        let kind = match spot.frame() {
            Some(frame) if self.places.is_kernel(frame) => Some("kernel"),
            Some(_) if module.is_some() => Some("native"),
            _ => None,
        };
        let lines = self.places.lines(spot).into_iter().map(|line| Line {
            function_index: self.function(&line.function, &line.file),
            line: i64::from(line.number),
        });
        let lines = lines.collect();
        let kind = kind.map(|kind| self.attribute("profile.frame.type", Value::Text(kind.to_owned())));
        let location = Location {
            mapping_index: module.map_or(0, |module| self.mapping(module)),
            address,
            lines,
            attribute_indices: kind.into_iter().collect(),
        };
        self.made.location_table.push(location);
        index
    }

    fn function(&mut self, name: &str, file: &str) -> i32 {
        let (name, filename) = (self.string(name), self.string(file));
        let (index, is_new) = self.functions.of((name, filename));
        if is_new {
            self.made.function_table.push(Function {
                name,
                system_name: name,
                filename,
            });
        }
        index
    }

    fn mapping(&mut self, id: ModuleId) -> i32 {
        let (Some(module), Some(extent)) = (self.places.module(id), self.places.extent(id)) else {
            return 0;
        };
        let (index, is_new) = self.mappings.of(id);
        if is_new {
            let build_id = places::build_id(module);
            let has_one = !build_id.is_empty();
            let build_id = has_one.then(|| self.attribute("process.executable.build_id.gnu", Value::Text(build_id)));
            let mapping = Mapping {
                memory_start: extent.start,
                memory_limit: extent.limit,
                file_offset: extent.offset,
                filename: self.string(&places::file_name(module)),
                attribute_indices: build_id.into_iter().collect(),
            };
            self.made.mapping_table.push(mapping);
        }
        index
    }

    fn dictionary(mut self) -> Dictionary {
        self.made.string_table = self.strings.into_list();
        self.made
    }
}
