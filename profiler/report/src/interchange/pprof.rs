//! Writes sums as a pprof profile (`profile.proto`, gzip). Each measure of each table is a value type; a sample has only the values of its table.
//!
//! A profile may be written in parts: each sample is written at once, and strings, functions, locations and mappings follow at the end.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use rustc_hash::FxHashMap;

use super::message::{Function, Label as LabelMessage, Line, Location, Mapping, Profile, Sample, ValueType};
use super::places::{self, Label, Places, Spot, Value};
use super::sums::{Key, Sum, Sums, Table, Weight};
use base::addr::ns;
use base::intern::Interner;
use fact::{ModuleId, Tables};

/// Writes the sums of a recording.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, tables: &Tables, sums: &mut Sums) -> io::Result<()> {
    let finished = sums.finish(tables);
    let mut parts = Parts::new(GzEncoder::new(out, Compression::new(6)), tables);
    for (key, sum) in &finished {
        parts.sample(sums, key, *sum)?;
    }
    parts.finish(sums)?.finish()?.flush()
}

impl Label {
    /// The label's key in pprof, as `-tagfocus` expects it.
    fn pprof(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Pid => "pid",
            Self::Thread => "thread",
            Self::Tid => "tid",
            Self::Class => "class",
            Self::Reason => "reason",
            Self::Operation => "operation",
            Self::Device => "device",
            Self::File => "file",
        }
    }
}

/// Writer of a profile in parts.
struct Parts<'a, W> {
    out: W,
    tables: &'a Tables,
    places: Places<'a>,
    strings: Strings,
    mappings: FxHashMap<ModuleId, u64>,
    functions: FxHashMap<(i64, i64), u64>,
    locations: FxHashMap<Spot, u64>,
    /// The part that is written at the end.
    rest: Profile,
}

impl<'a, W: Write> Parts<'a, W> {
    fn new(out: W, tables: &'a Tables) -> Self {
        let places = Places::new(tables);
        let program = places.program();
        let mut parts = Self {
            out,
            tables,
            places,
            strings: Strings::default(),
            mappings: FxHashMap::default(),
            functions: FxHashMap::default(),
            locations: FxHashMap::default(),
            rest: Profile::default(),
        };
        parts.strings.number("");
        if let Some(program) = program {
            parts.mapping(program);
        }
        parts
    }

    fn part(&mut self, part: &Profile) -> io::Result<()> {
        self.out.write_all(&part.encode_to_vec())
    }

    fn sample(&mut self, sums: &Sums, key: &Key, sum: Sum) -> io::Result<()> {
        let frames = self.places.stack(key.stack, key.cut).into_iter();
        let location_id = frames.map(|spot| self.location(spot)).collect();
        let table = key.what.table();
        let value = types(sums.tables()).map(|(of, (weight, ..))| if of == table { signed(sum.of(weight)) } else { 0 });
        let labels = self.places.labels(key, sums);
        let sample = Sample {
            location_id,
            value: value.collect(),
            label: labels.into_iter().map(|label| self.label(label)).collect(),
        };
        self.part(&Profile {
            sample: vec![sample],
            ..Profile::default()
        })
    }

    fn label(&mut self, (label, value): (Label, Value)) -> LabelMessage {
        let key = self.strings.number(label.pprof());
        let (text, number) = match value {
            Value::Text(text) => (self.strings.number(&text), 0),
            Value::Number(number) => (0, number),
        };
        LabelMessage { key, text, number }
    }

    fn location(&mut self, spot: Spot) -> u64 {
        if let Some(known) = self.locations.get(&spot) {
            return *known;
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(spot, id);
        let (module, address) = spot.frame().map_or((None, 0), |frame| self.places.address(frame));
        let mapping_id = module.map_or(0, |module| self.mapping(module));
        let lines = self.places.lines(spot).into_iter().map(|line| Line {
            function_id: self.function(&line.function, &line.file),
            line: i64::from(line.number),
        });
        let line = lines.collect();
        self.rest.location.push(Location {
            id,
            mapping_id,
            address,
            line,
        });
        id
    }

    /// Names are already demangled, and the mangled ones are not kept: both name fields are the same.
    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.strings.number(name), self.strings.number(file));
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry((name, filename)).or_insert(next);
        if id == next {
            self.rest.function.push(Function {
                id,
                name,
                system_name: name,
                filename,
            });
        }
        id
    }

    fn mapping(&mut self, id: ModuleId) -> u64 {
        if let Some(known) = self.mappings.get(&id) {
            return *known;
        }
        let (Some(module), Some(extent)) = (self.places.module(id), self.places.extent(id)) else {
            return 0;
        };
        let number = self.mappings.len() as u64 + 1;
        self.mappings.insert(id, number);
        let filename = self.strings.number(&places::file_name(module));
        let build_id = self.strings.number(&places::build_id(module));
        self.rest.mapping.push(Mapping {
            id: number,
            memory_start: extent.start,
            memory_limit: extent.limit,
            file_offset: extent.offset,
            filename,
            build_id,
            // Frames are already symbolized: readers do not need the file.
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
        number
    }

    fn finish(mut self, sums: &Sums) -> io::Result<W> {
        let tables = sums.tables();
        let mut rest = std::mem::take(&mut self.rest);
        let mut value_type = |(_, name, unit): (Weight, &str, &str)| ValueType {
            kind: self.strings.number(name),
            unit: self.strings.number(unit),
        };
        rest.sample_type = types(tables).map(|(_, measure)| value_type(measure)).collect();
        let default = tables
            .first()
            .and_then(|table| table.measures().iter().find(|(weight, ..)| *weight == Weight::Time));
        rest.default_sample_type = default.map_or(0, |measure| value_type(*measure).kind);
        let recording = &self.tables.recording;
        if tables.contains(&Table::Samples) && recording.sample_hz > 0 {
            rest.period_type = Some(value_type((Weight::Time, "cpu", "nanoseconds")));
            rest.period = 1_000_000_000 / i64::from(recording.sample_hz);
        }
        rest.time_nanos = signed(recording.start_unix_ms.saturating_mul(1_000_000));
        rest.duration_nanos = signed(ns(recording.end.since(recording.start)));
        let made = format!("ngmi {} on Linux {}", recording.ngmi_version, recording.kernel);
        let comments = std::iter::once(made).chain(sums.left_out());
        rest.comment = comments
            .map(|comment| self.strings.number(&places::harmless(&comment)))
            .collect();
        rest.string_table = std::mem::take(&mut self.strings).into_list();
        self.part(&rest)?;
        Ok(self.out)
    }
}

/// The measures of these tables, in the order of a sample's values.
fn types(tables: &[Table]) -> impl Iterator<Item = (Table, (Weight, &'static str, &'static str))> {
    let measures = |table: Table| table.measures().iter().map(move |measure| (table, *measure));
    tables.iter().copied().flat_map(measures)
}

/// Converts a value to i64, the type in both formats; larger values saturate.
pub fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A string table.
#[derive(Debug, Default)]
pub struct Strings(Interner<String>);

impl Strings {
    /// The number of a string, which is added if it is new.
    pub fn number(&mut self, text: &str) -> i64 {
        let number = self.0.number(text, usize::MAX, str::to_owned);
        number.map_or(i64::MAX, i64::from)
    }

    /// Strings by number.
    pub fn into_list(self) -> Vec<String> {
        self.0.into_values()
    }
}
