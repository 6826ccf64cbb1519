//! Reads a profile as the Firefox Profiler would, independently of the code that writes it.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use serde_json::Value;

/// A whole profile.
pub struct Profile {
    /// The `meta` object.
    pub meta: Value,
    /// All threads, in the profile's order.
    pub threads: Vec<Thread>,
}

/// The track of one thread.
pub struct Thread {
    /// Thread name.
    pub name: String,
    /// Process name.
    pub process: String,
    /// Process ID, as written in the profile.
    pub pid: String,
    /// Thread ID, as written in the profile.
    pub tid: String,
    /// It is the first thread of its process.
    pub is_main: bool,
    /// Start and end of its lifetime in ms since the profile's start; `None`: it did not end.
    pub life: (f64, Option<f64>),
    /// Samples in ascending order of time.
    pub samples: Vec<Sample>,
    /// Markers of the thread.
    pub markers: Vec<Marker>,
}

/// One sample.
pub struct Sample {
    /// Time in ms since the profile's start.
    pub time: f64,
    /// On-CPU time since the previous sample, in ns.
    pub cpu_ns: f64,
    /// Number of samples that it represents.
    pub weight: f64,
    /// Frames, innermost first.
    pub stack: Rc<[Rc<Frame>]>,
}

/// One frame of a stack; inlined functions are separate frames.
#[derive(Debug)]
pub struct Frame {
    /// Function name.
    pub function: String,
    /// Source file.
    pub file: Option<String>,
    /// Source line.
    pub line: Option<u64>,
    /// Name of its library or pseudo module.
    pub module: Option<String>,
    /// Address relative to the library.
    pub address: Option<u64>,
    /// Inlining depth; 0 for a function that is not inlined.
    pub inline_depth: u64,
    /// Name of its category.
    pub category: String,
}

impl Frame {
    /// Whether this frame, as the innermost, means that the thread did not run.
    pub fn is_wait(&self) -> bool {
        self.category == "Idle" || self.category.starts_with("Waiting: ")
    }
}

/// One marker.
pub struct Marker {
    /// Marker name.
    pub name: String,
    /// Start and end in ms.
    pub time: (Option<f64>, Option<f64>),
    /// Payload of the marker.
    pub data: Value,
}

impl Profile {
    /// Reads a `.json.gz` file.
    pub fn read(path: &Path) -> Self {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        let root: Value = serde_json::from_str(&text).unwrap();
        let threads = root["threads"]
            .as_array()
            .unwrap()
            .iter()
            // The tracks of page faults and block devices are not threads and use no CPU.
            .filter(|thread| thread["samples"]["threadCPUDelta"].is_array())
            .map(|thread| Tables::new(&root, thread).thread())
            .collect();
        Self {
            meta: root["meta"].clone(),
            threads,
        }
    }

    /// The only thread that `wanted` accepts.
    #[track_caller]
    pub fn the_thread(&self, what: &str, wanted: impl Fn(&Thread) -> bool) -> &Thread {
        let found: Vec<_> = self.threads.iter().filter(|thread| wanted(thread)).collect();
        assert_eq!(
            found.len(),
            1,
            "threads that are {what}; the profile has {:?}",
            self.thread_names()
        );
        found[0]
    }

    /// The only thread with this name.
    #[track_caller]
    pub fn named(&self, name: &str) -> &Thread {
        self.the_thread(&format!("named {name:?}"), |thread| thread.name == name)
    }

    /// The first thread of the only process with this name.
    #[track_caller]
    pub fn main_of(&self, process: &str) -> &Thread {
        self.the_thread(&format!("main of {process:?}"), |thread| {
            thread.is_main && thread.process == process
        })
    }

    /// The first thread of the process with this ID.
    #[track_caller]
    pub fn main_of_pid(&self, pid: u64) -> &Thread {
        let pid = pid.to_string();
        self.the_thread(&format!("main of pid {pid}"), |thread| {
            thread.is_main && (thread.pid == pid || thread.pid.starts_with(&format!("{pid}.")))
        })
    }

    /// Process and thread names, for messages.
    pub fn thread_names(&self) -> Vec<String> {
        self.threads
            .iter()
            .map(|thread| format!("{}({})/{}", thread.process, thread.pid, thread.name))
            .collect()
    }

    /// All samples of all threads.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.threads.iter().flat_map(|thread| &thread.samples)
    }

    /// Share of all samples that contain the function anywhere in the stack.
    pub fn share(&self, function: &str) -> f64 {
        share(self.samples(), |sample| sample.holds(function))
    }
}

impl Thread {
    /// Share of the thread's samples that contain the function anywhere in the stack.
    pub fn share(&self, function: &str) -> f64 {
        share(&self.samples, |sample| sample.holds(function))
    }

    /// CPU time of the thread's samples, in ms.
    pub fn cpu_ms(&self) -> f64 {
        self.samples.iter().map(|sample| sample.cpu_ns).sum::<f64>() / 1e6
    }
}

impl Sample {
    /// Whether the function is on the stack.
    pub fn holds(&self, function: &str) -> bool {
        self.stack.iter().any(|frame| frame.function == function)
    }

    /// How often the function is on the stack.
    pub fn count(&self, function: &str) -> usize {
        self.stack.iter().filter(|frame| frame.function == function).count()
    }

    /// Function names, innermost first.
    pub fn functions(&self) -> Vec<&str> {
        self.stack.iter().map(|frame| frame.function.as_str()).collect()
    }

    /// The outermost frame.
    pub fn outermost(&self) -> Option<&Frame> {
        self.stack.last().map(|frame| &**frame)
    }

    /// Whether the stack is marked as truncated.
    pub fn is_truncated(&self) -> bool {
        self.outermost()
            .is_none_or(|frame| frame.function.starts_with("[truncated: "))
    }
}

/// The share, by weight, of the samples that `wanted` accepts.
pub fn share<'a>(samples: impl IntoIterator<Item = &'a Sample>, wanted: impl Fn(&Sample) -> bool) -> f64 {
    let (mut all, mut hits) = (0.0, 0.0);
    for sample in samples {
        all += sample.weight;
        if wanted(sample) {
            hits += sample.weight;
        }
    }
    assert!(all > 0.0, "no samples at all");
    hits / all
}

/// One thread, and the tables that all threads share (format 56 and later).
struct Tables<'a> {
    root: &'a Value,
    thread: &'a Value,
}

impl<'a> Tables<'a> {
    fn new(root: &'a Value, thread: &'a Value) -> Self {
        Self { root, thread }
    }

    fn table(&self, name: &str) -> &'a Value {
        &self.root["shared"][name]
    }

    fn string(&self, index: &Value) -> Option<String> {
        let index = usize::try_from(index.as_u64()?).unwrap();
        Some(
            self.table("stringArray")[index]
                .as_str()
                .expect("string index in range")
                .to_owned(),
        )
    }

    fn thread(&self) -> Thread {
        let t = self.thread;
        Thread {
            name: t["name"].as_str().unwrap().to_owned(),
            process: program(t["processName"].as_str().unwrap_or_default()).to_owned(),
            pid: id_text(&t["pid"]),
            tid: id_text(&t["tid"]),
            is_main: t["isMainThread"].as_bool().unwrap(),
            life: (t["registerTime"].as_f64().unwrap(), t["unregisterTime"].as_f64()),
            samples: self.samples(),
            markers: self.markers(),
        }
    }

    fn frame(&self, index: usize) -> Frame {
        let (frames, funcs) = (self.table("frameTable"), self.table("funcTable"));
        let func = usize::try_from(frames["func"][index].as_u64().unwrap()).unwrap();
        let source = funcs["source"][func]
            .as_u64()
            .map(|source| usize::try_from(source).unwrap());
        let file = source.map(|source| &self.table("sources")["filename"][source]);
        Frame {
            function: self.string(&funcs["name"][func]).unwrap(),
            file: file.and_then(|name| self.string(name)),
            line: frames["line"][index].as_u64(),
            module: funcs["resource"][func].as_u64().and_then(|resource| {
                self.string(&self.table("resourceTable")["name"][usize::try_from(resource).unwrap()])
            }),
            address: frames["address"][index]
                .as_i64()
                .and_then(|address| u64::try_from(address).ok()),
            inline_depth: frames["inlineDepth"][index].as_u64().unwrap_or(0),
            category: frames["category"][index]
                .as_u64()
                .and_then(|category| self.root["meta"]["categories"][usize::try_from(category).ok()?]["name"].as_str())
                .unwrap_or_default()
                .to_owned(),
        }
    }

    fn samples(&self) -> Vec<Sample> {
        let samples = &self.thread["samples"];
        let length = usize::try_from(samples["length"].as_u64().unwrap()).unwrap();
        let unit = match self.root["meta"]["sampleUnits"]["threadCPUDelta"].as_str() {
            Some("ns") => 1.0,
            Some("µs") => 1e3,
            other => panic!("unit of threadCPUDelta: {other:?}"),
        };
        let mut frames = HashMap::new();
        let mut stacks: HashMap<usize, Rc<[Rc<Frame>]>> = HashMap::new();
        let mut time = 0.0;
        // If the table's weights are times, each sample counts as one.
        let timed = samples["weightType"] == "tracing-ms";
        let mut all: Vec<Sample> = (0..length)
            .map(|i| {
                time = samples["time"][i]
                    .as_f64()
                    .unwrap_or_else(|| time + samples["timeDeltas"][i].as_f64().unwrap());
                let stack = samples["stack"][i]
                    .as_u64()
                    .map(|stack| usize::try_from(stack).unwrap());
                Sample {
                    time,
                    cpu_ns: samples["threadCPUDelta"][i].as_f64().unwrap_or(0.0) * unit,
                    weight: if timed {
                        1.0
                    } else {
                        samples["weight"][i].as_f64().unwrap_or(1.0)
                    },
                    stack: stack.map_or_else(
                        || Rc::from([]),
                        |stack| {
                            stacks
                                .entry(stack)
                                .or_insert_with(|| self.stack(stack, &mut frames))
                                .clone()
                        },
                    ),
                }
            })
            .collect();
        // CPU time before a wait belongs to the next sample.
        let mut cpu_ns = 0.0;
        all.retain_mut(|sample| {
            cpu_ns += sample.cpu_ns;
            let is_wait = sample.stack.first().is_some_and(|leaf| leaf.is_wait());
            if !is_wait {
                sample.cpu_ns = std::mem::take(&mut cpu_ns);
            }
            !is_wait
        });
        all
    }

    fn stack(&self, innermost: usize, frames: &mut HashMap<usize, Rc<Frame>>) -> Rc<[Rc<Frame>]> {
        let table = self.table("stackTable");
        let mut next = Some(innermost);
        let mut stack = Vec::new();
        while let Some(node) = next {
            let frame = usize::try_from(table["frame"][node].as_u64().unwrap()).unwrap();
            stack.push(
                frames
                    .entry(frame)
                    .or_insert_with(|| Rc::new(self.frame(frame)))
                    .clone(),
            );
            let offset = usize::try_from(table["prefixOffset"][node].as_u64().unwrap()).unwrap();
            next = (offset > 0).then(|| node.checked_sub(offset).expect("a caller comes before its callees"));
        }
        stack.into()
    }

    fn markers(&self) -> Vec<Marker> {
        let markers = &self.thread["markers"];
        let length = usize::try_from(markers["length"].as_u64().unwrap_or(0)).unwrap();
        (0..length)
            .map(|i| Marker {
                name: self.string(&markers["name"][i]).unwrap(),
                time: (markers["startTime"][i].as_f64(), markers["endTime"][i].as_f64()),
                data: markers["data"][i].clone(),
            })
            .collect()
    }
}

/// A process's name without what it belongs to: ` [UNIT]`.
fn program(name: &str) -> &str {
    name.split(" [").next().unwrap_or(name)
}

fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}
