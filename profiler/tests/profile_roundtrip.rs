//! Under the budget the profile is exact: what is read back is what was written, and it is sound by the lint.
#![allow(clippy::unwrap_used)]

#[path = "profile_synthetic/any_fault.rs"]
mod any_fault;
#[path = "profile_synthetic/any_wait.rs"]
mod any_wait;
mod profile_synthetic;

use std::time::Duration;

use profile_synthetic::{START, Synthetic, cause, everything, hostile, request};
use profiler::addr::{Avma, FileOffset, KernelOffset, Svma, Timestamp};
use profiler::fact::budget::{Budget, Collector};
use profiler::fact::{
    Cause, EffectKind, FactSink, FactSource, FaultFact, Frame, FrameId, FrameName, Location, Mark, MarkKind, ModuleId,
    PagesReadFact, ProcessId, RequestFact, SampleFact, SourceFrame, StackId, StackNode, Tables, ThreadId,
    TruncationReason, WaitFact,
};
use profiler::profile::{ProfileSource, ReadError, lint};
use proptest::prelude::*;

/// Keeps facts as they come.
#[derive(Default)]
struct Recorder {
    samples: Vec<SampleFact>,
    marks: Vec<Mark>,
    faults: Vec<FaultFact>,
    reads: Vec<PagesReadFact>,
    waits: Vec<WaitFact>,
    requests: Vec<RequestFact>,
    causes: Vec<Cause>,
}

impl FactSink for Recorder {
    fn sample(&mut self, _tables: &Tables, sample: &SampleFact) {
        self.samples.push(*sample);
    }

    fn mark(&mut self, _tables: &Tables, mark: &Mark) {
        self.marks.push(mark.clone());
    }

    fn fault(&mut self, _tables: &Tables, fault: &FaultFact) {
        self.faults.push(*fault);
    }

    fn pages_read(&mut self, _tables: &Tables, read: &PagesReadFact) {
        self.reads.push(*read);
    }

    fn wait(&mut self, _tables: &Tables, wait: &WaitFact) {
        self.waits.push(wait.clone());
    }

    fn request(&mut self, _tables: &Tables, request: &RequestFact) {
        self.requests.push(request.clone());
    }

    fn joined(&mut self, _tables: &Tables, cause: &Cause) {
        self.causes.push(*cause);
    }
}

fn read_back(json: &[u8]) -> Synthetic {
    let mut recorder = Recorder::default();
    let tables = ProfileSource::new(json).unwrap().replay(&mut recorder).unwrap();
    Synthetic {
        tables,
        samples: recorder.samples,
        marks: recorder.marks,
        faults: recorder.faults,
        reads: recorder.reads,
        waits: recorder.waits,
        requests: recorder.requests,
        causes: recorder.causes,
    }
}

fn sorted(mut facts: Synthetic) -> Synthetic {
    facts.samples.sort_by_key(|sample| (sample.thread, sample.time));
    facts.marks.sort_by_key(|mark| (mark.thread, mark.start));
    facts.faults.sort_by_cached_key(|fault| format!("{fault:?}"));
    facts.reads.sort_by_cached_key(|read| format!("{read:?}"));
    facts.waits.sort_by_cached_key(|wait| format!("{wait:?}"));
    facts.requests.sort_by_cached_key(|request| format!("{request:?}"));
    facts.causes.sort_by_cached_key(|cause| format!("{cause:?}"));
    facts
}

fn assert_same(left: Synthetic, right: Synthetic) {
    let (left, right) = (sorted(left), sorted(right));
    assert_eq!(left.tables, right.tables);
    assert_eq!(left.samples, right.samples);
    assert_eq!(left.marks, right.marks);
    assert_eq!(left.faults, right.faults);
    assert_eq!(left.reads, right.reads);
    assert_eq!(left.waits, right.waits);
    assert_eq!(left.requests, right.requests);
    assert_eq!(left.causes, right.causes);
}

#[test]
fn every_kind_of_fact_comes_back_to_the_bit() {
    let facts = everything();
    let json = facts.json();
    assert_eq!(lint(&json[..]), Vec::<String>::new());
    assert_same(read_back(&json), facts);
}

#[test]
fn a_compressed_profile_is_read_as_well() {
    use std::io::Write;
    let facts = everything();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&facts.json()).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(lint(&packed[..]), Vec::<String>::new());
    assert_same(read_back(&packed), facts);
}

#[test]
fn a_thinned_profile_is_sound_and_keeps_its_totals() {
    let facts = everything();
    let (tables, collected) = facts.collect(Budget { samples: 20, marks: 1 });
    let mut json = Vec::new();
    profiler::profile::write(&tables, &collected, &mut json).unwrap();
    assert_eq!(lint(&json[..]), Vec::<String>::new());
    let back = read_back(&json);
    let total = |samples: &[SampleFact]| {
        samples.iter().fold((0, 0), |(cpu, weight), s| {
            (cpu + s.cpu_time.as_nanos(), weight + s.weight)
        })
    };
    assert!(back.samples.len() <= 20 + facts.tables.threads.len());
    assert_eq!(total(&back.samples), total(&facts.samples));
    assert!(back.tables.recording.sample_thinning > 1);
}

#[test]
fn a_profile_of_a_profile_is_the_same() {
    let json = everything().json();
    let again = read_back(&json);
    let mut tables = again.tables.clone();
    let mut collector = Collector::new(Budget::default());
    let read = ProfileSource::new(&json[..]).unwrap().replay(&mut collector).unwrap();
    assert_eq!(read, tables);
    let collected = collector.finish(&mut tables);
    let mut second = Vec::new();
    profiler::profile::write(&tables, &collected, &mut second).unwrap();
    assert!(second == json, "the second profile differs");
}

#[test]
fn somebody_elses_profile_is_refused_by_name() {
    let foreign = br#"{"meta":{"preprocessedProfileVersion":55},"threads":[]}"#;
    assert!(matches!(ProfileSource::new(&foreign[..]), Err(ReadError::Foreign)));
    let later = br#"{"meta":{"preprocessedProfileVersion":71},"ngmi":{}}"#;
    assert!(matches!(
        ProfileSource::new(&later[..]),
        Err(ReadError::Version {
            format: 71,
            section: None
        })
    ));
    assert!(matches!(ProfileSource::new(&b"[1"[..]), Err(ReadError::Json(_))));
    assert!(matches!(ProfileSource::new(&b""[..]), Err(ReadError::Json(_))));
}

#[test]
fn the_lint_finds_what_is_broken() {
    let json = String::from_utf8(everything().json()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let broken: [(&str, serde_json::Value, &str); 14] = [
        ("/ngmi/labels", 999_999.into(), "beyond the stack table"),
        ("/threads/0/samples/weightType", "ms".into(), "weightType \"ms\""),
        ("/threads/0/samples/weight", serde_json::Value::Null, "has no weights"),
        (
            "/threads/0/samples/stack/0",
            999_999.into(),
            "refers to a row that stackTable does not have",
        ),
        ("/threads/0/samples/timeDeltas/1", (-5.0).into(), "time goes backward"),
        (
            "/threads/0/markers/data/0/type",
            "Nonsense".into(),
            "no schema for type \"Nonsense\"",
        ),
        (
            "/shared/stackTable/prefixOffset/1",
            7.into(),
            "a caller is not before its callee",
        ),
        (
            "/shared/frameTable/func/0",
            (-1).into(),
            "refers to a row that funcTable does not have",
        ),
        ("/shared/funcTable/length", 3.into(), "column name has"),
        (
            "/meta/initialSelectedThreads/0",
            99.into(),
            "refers to a row that threads does not have",
        ),
        (
            "/threads/0/markers/data/2/class",
            999_999.into(),
            "PageFaultDisk.class: refers to a row that stringArray does not have",
        ),
        (
            "/threads/0/markers/data/2/disk",
            "x".into(),
            "PageFaultDisk.disk: not a number",
        ),
        ("/libs/0/breakpadId", "xyz".into(), "breakpadId can't be parsed"),
        ("/meta/preprocessedProfileVersion", 55.into(), "format 55"),
    ];
    for (pointer, wrong, problem) in broken {
        let mut value = value.clone();
        *value.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} exists")) = wrong;
        let found = lint(value.to_string().as_bytes());
        assert!(
            found.iter().any(|found| found.contains(problem)),
            "{pointer}: {found:?}"
        );
    }
    assert!(lint(&b"no json"[..])[0].contains("not a processed profile"));
}

#[test]
fn hostile_names_are_in_the_profile_as_they_are() {
    let back = read_back(&everything().json());
    assert_eq!(back.tables.processes[1].command_line, hostile());
    assert_eq!(back.tables.threads[1].name.len(), 10_000);
}

fn location() -> impl Strategy<Value = Location> {
    let (module, process) = ((0u32..6).prop_map(ModuleId), (0u32..3).prop_map(ProcessId));
    (0u8..7, module, process, any::<u64>(), any::<u64>()).prop_map(|(kind, module, process, a, offset)| match kind {
        0 => Location::Module { module, svma: Svma(a) },
        1 => Location::FileOffset {
            module,
            offset: FileOffset(a),
        },
        2 => Location::Kernel {
            module,
            offset: KernelOffset(a),
        },
        3 => Location::Jit {
            module,
            process,
            start: Avma(a),
            offset,
            code: module.0,
        },
        4 => Location::Anonymous {
            module,
            process,
            avma: Avma(a),
        },
        5 => Location::Unmapped { process, avma: Avma(a) },
        _ => Location::Truncated(TruncationReason::BadChain),
    })
}

fn name() -> impl Strategy<Value = FrameName> {
    let source = (
        "[a-c\0\n🦀]{0,2}",
        prop::option::of("[a-b/]{0,2}"),
        any::<Option<u32>>(),
    );
    let source = source.prop_map(|(function, file, line)| SourceFrame { function, file, line });
    let chain = prop::collection::vec(source, 1..4);
    ("[a-c]{0,2}", any::<u64>(), any::<Option<u64>>(), chain).prop_map(
        |(symbol, symbol_start, symbol_size, inline_chain)| FrameName {
            symbol,
            symbol_start,
            symbol_size,
            inline_chain,
        },
    )
}

/// Any recording of the tasks and modules of `everything`: random frames, names, stacks, samples and marks.
fn recordings() -> impl Strategy<Value = Synthetic> {
    let frames = prop::collection::vec((location(), any::<bool>(), prop::option::of(name())), 1..30);
    let stacks = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..60);
    let fact = (
        0u32..5,
        0..1u64 << 45,
        any::<prop::sample::Index>(),
        any::<u64>(),
        any::<bool>(),
        1u32..9,
    );
    let facts = prop::collection::vec(fact, 0..60);
    let faults = (any_fault::faults(), any_fault::reads());
    let waits = (any_wait::waits(), any_wait::requests());
    (frames, stacks, facts, (faults, waits), 0..1u64 << 45).prop_map(
        |(frames, stacks, facts, (faults, waits), length)| {
            let mut synthetic = Synthetic {
                samples: Vec::new(),
                marks: Vec::new(),
                faults: faults.0,
                reads: faults.1,
                waits: waits.0,
                requests: waits.1,
                ..everything()
            };
            synthetic.causes = causes(&synthetic);
            let (waits, requests) = (&synthetic.waits, &synthetic.requests);
            let waits_seen = waits.iter().map(|wait| u64::from(wait.count)).sum();
            let requests_seen = requests.len() as u64;
            let tables = &mut synthetic.tables;
            tables.recording.end = Timestamp(START + length);
            tables.recording.faults_seen = 1000;
            tables.recording.waits_seen = waits_seen;
            tables.recording.requests_seen = requests_seen;
            (tables.frames, tables.stacks, tables.names) = Default::default();
            for ((location, is_return_address, name), id) in frames.into_iter().zip(0..) {
                // What lies in no module has no symbol.
                if let Some(name) = name.filter(|_| location.module().is_some()) {
                    tables.names.insert(FrameId(id), name);
                }
                tables.frames.push(Frame {
                    location,
                    is_return_address,
                });
            }
            for ((parent, frame), id) in stacks.into_iter().zip(0..) {
                let parent = u32::try_from(parent.index(id + 1)).unwrap();
                let parent = (usize::try_from(parent).unwrap() < id).then_some(StackId(parent));
                let frame = FrameId(u32::try_from(frame.index(tables.frames.len())).unwrap());
                tables.stacks.push(StackNode { parent, frame });
            }
            for fault in &mut synthetic.faults {
                let stacks = u32::try_from(tables.stacks.len()).unwrap();
                fault.stack = fault.stack.map(|stack| StackId(stack.0 % stacks));
            }
            let stacks = u32::try_from(tables.stacks.len()).unwrap();
            let fold = |stack: &mut Option<StackId>| *stack = stack.map(|stack| StackId(stack.0 % stacks));
            for wait in &mut synthetic.waits {
                fold(&mut wait.stack);
                if let Some(waker) = &mut wait.waker {
                    fold(&mut waker.stack);
                }
            }
            for bio in synthetic.requests.iter_mut().flat_map(|request| &mut request.bios) {
                fold(&mut bio.stack);
            }
            for (thread, time, stack, cpu, in_kernel, weight) in facts {
                let stack = stack.index(tables.stacks.len() + 1);
                let stack = (stack < tables.stacks.len()).then(|| StackId(u32::try_from(stack).unwrap()));
                // Some lie before the recording's start.
                let (time, thread) = (Timestamp(START - 1000 + time), ThreadId(thread));
                let kind = MarkKind::Program { text: cpu.to_string() };
                let end = in_kernel.then(|| Timestamp(time.0 + cpu % 1000));
                synthetic.marks.push(Mark {
                    start: time,
                    end,
                    thread,
                    stack,
                    kind,
                });
                let cpu_time = Duration::from_nanos(cpu);
                synthetic.samples.push(SampleFact {
                    time,
                    thread,
                    stack,
                    cpu_time,
                    in_kernel,
                    weight,
                });
            }
            sorted(synthetic)
        },
    )
}

/// One for each fault and each wait.
fn causes(facts: &Synthetic) -> Vec<Cause> {
    let read = request(10, 13);
    let faults = facts
        .faults
        .iter()
        .map(|fault| (EffectKind::Fault, fault.thread, fault.start));
    let waits = facts
        .waits
        .iter()
        .map(|wait| (EffectKind::Wait, wait.thread, wait.start));
    let cause = |(kind, thread, start): (EffectKind, ThreadId, Timestamp)| cause(&read, kind, thread.0, start);
    faults.chain(waits).map(cause).collect()
}

proptest! {
    #[test]
    fn any_recording_comes_back_to_the_bit(facts in recordings()) {
        let json = facts.json();
        prop_assert_eq!(lint(&json[..]), Vec::<String>::new());
        let back = sorted(read_back(&json));
        prop_assert_eq!(back.tables, facts.tables);
        prop_assert_eq!(back.samples, facts.samples);
        prop_assert_eq!(back.marks, facts.marks);
        prop_assert_eq!(back.faults, facts.faults);
        prop_assert_eq!(back.reads, facts.reads);
        prop_assert_eq!(back.waits, facts.waits);
        prop_assert_eq!(back.requests, facts.requests);
        prop_assert_eq!(back.causes, facts.causes);
    }
}

/// Changes one number of the profile, wherever it is.
fn with_a_wrong_number(json: &[u8], nth: usize, wrong: &str) -> Vec<u8> {
    let starts: Vec<usize> = (1..json.len())
        .filter(|&i| json[i].is_ascii_digit() && matches!(json[i - 1], b',' | b'[' | b':'))
        .collect();
    let start = starts[nth % starts.len()];
    let end = (start..json.len())
        .find(|&i| !matches!(json[i], b'0'..=b'9' | b'.' | b'e' | b'-'))
        .unwrap();
    [&json[..start], wrong.as_bytes(), &json[end..]].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damage_never_panics(
        nth: usize,
        wrong in prop::sample::select(vec!["-1", "0", "4294967295", "1e308", "18446744073709551615", "null", "\"x\"", "-9223372036854775808"]),
        cut in 0usize..100_000,
    ) {
        let json = everything().json();
        for damaged in [with_a_wrong_number(&json, nth, wrong), json[..cut.min(json.len())].to_vec()] {
            let _ = lint(&damaged[..]);
            if let Ok(mut source) = ProfileSource::new(&damaged[..]) {
                let mut collector = Collector::new(Budget::default());
                let mut tables = source.replay(&mut collector).unwrap();
                let collected = collector.finish(&mut tables);
                let _ = profiler::profile::write(&tables, &collected, &mut Vec::new());
            }
        }
    }
}
