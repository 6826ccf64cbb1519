//! Profiles as Firefox writes them (`MOZ_PROFILER_SHUTDOWN`), before the Firefox Profiler's page
//! has processed them: tables of rows with a schema, one per thread and process. Converted to the
//! processed form as far as CPU samples need it. The input is untrusted.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;

use super::format::{
    RawFrames, RawFunctions, RawLib, RawMeta, RawProfile, RawResources, RawSamples, RawStacks, RawTables, RawThread,
};

/// A process with its child processes.
#[derive(Deserialize)]
pub struct Gecko {
    meta: RawMeta,
    #[serde(default)]
    libs: Vec<Lib>,
    #[serde(default)]
    threads: Vec<Thread>,
    #[serde(default)]
    processes: Vec<Gecko>,
}

#[derive(Deserialize)]
struct Lib {
    #[serde(flatten)]
    named: RawLib,
    #[serde(default)]
    start: u64,
    #[serde(default)]
    end: u64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Thread {
    name: String,
    process_name: Option<String>,
    pid: Value,
    tid: Value,
    #[serde(default, rename = "isMainThread")]
    is_main: bool,
    samples: Table,
    frame_table: Table,
    stack_table: Table,
    string_table: Vec<String>,
}

/// Rows; the schema maps names to columns.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Table {
    schema: BTreeMap<String, usize>,
    data: Vec<Vec<Value>>,
}

impl Table {
    fn column<'a>(&'a self, name: &str) -> impl Iterator<Item = Option<&'a Value>> + use<'a> {
        let place = self.schema.get(name).copied();
        self.data.iter().map(move |row| row.get(place?))
    }

    fn indices(&self, name: &str) -> Vec<Option<u32>> {
        let index = |value: Option<&Value>| u32::try_from(value?.as_u64()?).ok();
        self.column(name).map(index).collect()
    }

    fn numbers(&self, name: &str) -> impl Iterator<Item = Option<f64>> {
        self.column(name).map(|value| value?.as_f64())
    }
}

/// Start, end and index of a library.
type Range = (u64, u64, usize);

/// Finds the library at an address among libraries sorted by address.
fn lib_at(ranges: &[Range], address: u64) -> Option<Range> {
    let after = ranges.partition_point(|(start, ..)| *start <= address);
    let range = ranges.get(after.checked_sub(1)?)?;
    (address < range.1).then_some(*range)
}

impl Gecko {
    /// Converts to the processed form; processes follow one another.
    pub fn processed(self) -> RawProfile {
        let mut profile = RawProfile {
            meta: RawMeta {
                importer: Some("Firefox's own profiler".to_owned()),
                ..self.meta
            },
            libs: Vec::new(),
            threads: Vec::new(),
            shared: None,
        };
        let begin = profile.meta.start_time;
        // The child processes have been moved out.
        let mut waiting = vec![(self.libs, self.threads, self.processes, begin)];
        while let Some((libs, threads, processes, start)) = waiting.pop() {
            let first = profile.libs.len();
            let numbered = (first..).zip(&libs);
            let mut ranges: Vec<Range> = numbered.map(|(number, lib)| (lib.start, lib.end, number)).collect();
            ranges.sort_unstable();
            profile.libs.extend(libs.into_iter().map(|lib| lib.named));
            let threads = threads.into_iter();
            profile
                .threads
                .extend(threads.map(|thread| thread.processed(&ranges, start - begin)));
            let children = processes.into_iter();
            waiting.extend(children.map(|child| (child.libs, child.threads, child.processes, child.meta.start_time)));
        }
        profile
    }
}

impl Thread {
    /// Its libraries are at these ascending addresses; its times are relative to `later`, in ms.
    fn processed(self, ranges: &[Range], later: f64) -> RawThread {
        let mut frames = RawFrames::default();
        let mut functions = RawFunctions::default();
        let mut libs = Vec::new();
        let mut resources: FxHashMap<usize, i64> = FxHashMap::default();
        for (row, location) in (0u32..).zip(self.frame_table.indices("location")) {
            let text = location.and_then(|location| self.string_table.get(location as usize));
            let address = text.and_then(|text| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok());
            let lib = address.and_then(|address| lib_at(ranges, address));
            let start = lib.map_or(0, |(start, ..)| start);
            #[expect(clippy::cast_precision_loss, reason = "addresses of files are far below 2^53")]
            frames.address.push(address.map(|address| (address - start) as f64));
            frames.func.push(Some(row));
            functions.name.push(location);
            functions.resource.push(lib.map(|(.., number)| {
                *resources.entry(number).or_insert_with(|| {
                    libs.push(u32::try_from(number).ok());
                    i64::try_from(libs.len() - 1).unwrap_or(-1)
                })
            }));
        }
        let times = self.samples.numbers("time");
        let times = times.map(|time| time.unwrap_or_default() + later);
        RawThread {
            samples: RawSamples {
                stack: self.samples.indices("stack"),
                time: Some(times.collect()),
                time_deltas: None,
                cpu: (self.samples.schema.contains_key("threadCPUDelta"))
                    .then(|| self.samples.numbers("threadCPUDelta").collect()),
            },
            own: RawTables {
                frame_table: frames,
                func_table: functions,
                resource_table: RawResources { lib: libs },
                stack_table: RawStacks {
                    prefix: self.stack_table.indices("prefix"),
                    frame: self.stack_table.indices("frame"),
                },
                string_array: self.string_table,
            },
            name: self.name,
            process_name: self.process_name,
            pid: self.pid,
            tid: self.tid,
            is_main_thread: self.is_main,
        }
    }
}
