//! Within the budget the profile is exact: reading returns what was written, and the lint accepts it.
#![allow(clippy::unwrap_used)]

#[path = "profile_synthetic/any_fault.rs"]
mod any_fault;
#[path = "profile_synthetic/any_recording.rs"]
mod any_recording;
#[path = "profile_synthetic/any_wait.rs"]
mod any_wait;
mod profile_synthetic;

use profile_synthetic::{Synthetic, at, everything, fault, hostile, read};
use profiler::addr::Avma;
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::{
    Cause, FactSink, FactSource, FaultFact, Location, Mark, PagesReadFact, RequestFact, SampleFact, Tables, WaitFact,
};
use profiler::profile::{ProfileSource, ReadError, lint};
use proptest::prelude::*;

/// Keeps facts in order of arrival.
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
fn every_kind_of_fact_round_trips_exactly() {
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
    profile::write(&tables, &collected, &mut json).unwrap();
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
fn rewriting_a_profile_changes_nothing() {
    let json = everything().json();
    let again = read_back(&json);
    let mut tables = again.tables.clone();
    let mut collector = Collector::new(Budget::default());
    let read = ProfileSource::new(&json[..]).unwrap().replay(&mut collector).unwrap();
    assert_eq!(read, tables);
    let collected = collector.finish(&mut tables);
    let mut second = Vec::new();
    profile::write(&tables, &collected, &mut second).unwrap();
    assert!(second == json, "the second profile differs");
}

#[test]
fn reports_merge_unnamed_code() {
    let json = everything().json();
    let tables = |merges: bool| {
        let mut source = ProfileSource::new(&json[..]).unwrap();
        if merges {
            source.merge_anonymous();
        }
        source.replay(&mut Recorder::default()).unwrap()
    };
    let (separate, merged) = (tables(false), tables(true));
    let mut count = 0;
    for (separate, merged) in separate.frames.iter().zip(&merged.frames) {
        if let Location::Anonymous { avma, .. } = merged.location {
            assert_eq!(avma, Avma(0));
            assert_ne!(separate, merged);
            count += 1;
        } else {
            assert_eq!(separate, merged);
        }
    }
    assert!(count > 0);
}

/// A fault's read precedes it directly, even between two samples: page counting depends on it.
#[test]
fn a_fault_follows_its_reads_and_precedes_later_ones() {
    #[derive(Default)]
    struct InTurn(Vec<(&'static str, u64)>);
    impl FactSink for InTurn {
        fn sample(&mut self, _tables: &Tables, _sample: &SampleFact) {}

        fn mark(&mut self, _tables: &Tables, _mark: &Mark) {}

        fn fault(&mut self, _tables: &Tables, fault: &FaultFact) {
            self.0.push(("fault", fault.start.0));
        }

        fn pages_read(&mut self, _tables: &Tables, read: &PagesReadFact) {
            self.0.push(("read", read.time.0));
        }
    }
    let mut facts = everything();
    facts.samples.clear();
    facts.causes.clear();
    facts.faults = [10, 20, 30].map(|ms| fault(ms, 0, 3_000_000)).into();
    facts.reads = [11, 21, 22, 40].map(|ms| read(ms, 0, 0, 4)).into();
    let mut replayed = InTurn::default();
    ProfileSource::new(&facts.json()[..])
        .unwrap()
        .replay(&mut replayed)
        .unwrap();
    let ms: Vec<_> = replayed.0.iter().map(|(what, time)| (*what, time - at(0).0)).collect();
    let expected = [
        ("read", 11),
        ("fault", 10),
        ("read", 21),
        ("read", 22),
        ("fault", 20),
        ("fault", 30),
        ("read", 40),
    ];
    assert_eq!(ms, expected.map(|(what, ms)| (what, ms * 1_000_000)));
}

#[test]
fn foreign_profiles_are_rejected_by_name() {
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
    let broken: [(&str, serde_json::Value, &str); 16] = [
        ("/ngmi/labels", 999_999.into(), "beyond the stack table"),
        ("/threads/0/samples/weightType", "ms".into(), "weightType \"ms\""),
        ("/threads/0/samples/weight", serde_json::Value::Null, "has no weights"),
        (
            "/threads/0/samples/stack/0",
            999_999.into(),
            "refers to a row that stackTable does not have",
        ),
        ("/threads/0/samples/timeDeltas/1", (-5.0).into(), "time decreases"),
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
        (
            "/threads/0/markers/data/2/flow",
            999_999.into(),
            "PageFaultDisk.flow: refers to a row that stringArray does not have",
        ),
        ("/threads/0/markers/data/2/flow", 0.into(), "a flow has only one marker"),
        ("/libs/0/breakpadId", "xyz".into(), "breakpadId can't be parsed"),
        ("/meta/preprocessedProfileVersion", 55.into(), "format version 55"),
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
fn hostile_names_are_kept_in_the_profile() {
    let back = read_back(&everything().json());
    assert_eq!(*back.tables.processes[1].command_line, hostile());
    assert_eq!(back.tables.threads[1].name.len(), 10_000);
}

proptest! {
    #[test]
    fn any_recording_round_trips_exactly(facts in any_recording::recordings()) {
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

/// Changes one number of the profile, anywhere.
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
                let _ = profile::write(&tables, &collected, &mut Vec::new());
            }
        }
    }
}
