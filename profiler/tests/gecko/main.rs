//! Markers of Firefox's own profiler are on the same threads and clock as our facts; hostile and incomplete files are
//! merged as far as they fit.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod ahead;
mod counters;
mod made;
#[path = "../profile_synthetic/mod.rs"]
mod profile_synthetic;
mod screenshots;
mod trace;

use std::fs;
use std::io::Write as _;
use std::process::Command;

use made::{browser, child, example, expect_survival, merge, merge_json, rows, shown, whole, written};
use profile_synthetic::MS;
use profiler::addr::Timestamp;
use profiler::fact::reduce::budget::{Budget, Collected, Collector, ThreadFacts};
use profiler::fact::reduce::sanitize::{Person, sanitize};
use profiler::fact::{FactSource as _, Mark, MarkKind, ThreadId};
use profiler::profile::{GeckoError, ProfileSource, lint, merge_gecko};
use profiler::report::privacy::disclosures;
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn markers_are_on_the_recorded_threads_at_their_times() {
    let (merged, tables, collected) = merge_json(&example());
    assert_eq!(
        shown(&collected, 0),
        [("Reflow", 10, Some(12)), ("CC", 25, Some(40)), ("Load", 30, Some(100))]
    );
    assert_eq!(
        shown(&collected, 2),
        [("Reflow", 0, Some(5)), ("CC", 20, None), ("Reflow", 22, Some(23))]
    );
    assert_eq!(collected.threads[1].marks[0].start, Timestamp(5_001 * MS + MS / 2));
    assert_eq!((merged.markers, merged.threads, merged.processes), (7, 3, 2));
    assert_eq!(
        (merged.left.unrecorded, merged.left.outside, merged.left.stacks),
        (1, 1, 1)
    );
    let text = "Firefox's profiler: 7 markers of 3 kinds on 3 threads; left out: 1 before or after the recording, \
                1 of threads that were not recorded, 1 backtrace";
    assert_eq!(merged.to_string(), text);
    // A name that the kernel cut is complete now; another one stays.
    let names: Vec<&str> = tables.threads.iter().map(|thread| &*thread.name).collect();
    assert_eq!(names, ["firefox", "Isolated Web Content", "DOM Worker"]);
}

#[test]
fn payloads_fit_their_descriptions() {
    let (_, tables, collected) = merge_json(&example());
    let json: Value = serde_json::from_slice(&written(&tables, &collected)).unwrap();
    assert_eq!(
        json["meta"]["startTimeAsClockMonotonicNanosecondsSinceBoot"],
        5_000 * MS
    );
    let schemas = json["meta"]["markerSchema"].as_array().unwrap();
    let schema = |name: &str| schemas.iter().find(|schema| schema["name"] == name).unwrap();
    let text = schema("Text");
    assert_eq!(
        text["fields"],
        json!([{"key": "name", "label": "Details", "format": "string"}])
    );
    assert_eq!(
        (&text["description"], &text["display"]),
        (&json!("A text."), &json!(["marker-chart"]))
    );
    assert_eq!(schema("IPC")["display"][2], "timeline-ipc");
    let categories = json["meta"]["categories"].as_array().unwrap();
    let names: Vec<_> = categories
        .iter()
        .rev()
        .take(3)
        .map(|category| &category["name"])
        .collect();
    assert_eq!(names, ["DOM", "Idle (Firefox)", "Other (Firefox)"]);
    let thread = |tid: u64| {
        let threads = json["threads"].as_array().unwrap();
        let text = tid.to_string();
        let fits = |thread: &&Value| thread["tid"] == tid || thread["tid"].as_str() == Some(&text);
        &threads.iter().find(fits).unwrap()["markers"]
    };
    let own = json!({"type": "Text", "name": "/home/alice/a.html", "innerWindowID": 4});
    assert_eq!(
        thread(7)["data"],
        json!([own, {"type": "CC", "why": "full", "idle": true}, null])
    );
    let markers = thread(9);
    assert_eq!(markers["data"][1]["startTime"], markers["startTime"][1]);
    assert_eq!(markers["data"][1]["endTime"], 21.25);
    assert_eq!(
        markers["data"][2],
        json!({"type": "FileIO (Firefox)", "other": [1, {"a": null}]})
    );
    // Pages that embed each other would never lead to the outermost one.
    let embedders: Vec<_> = json["pages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| &page["embedderInnerWindowID"])
        .collect();
    assert_eq!(embedders, [0, 4]);
}

#[test]
fn ids_of_flows_remain() {
    let flow = |from: Value, to: Value| json!([0, 30.0, 0, 0, 1, {"type": "Flow", "from": from, "to": to}]);
    let parent = [
        flow(json!(4), json!("00FF")),
        flow(json!(5), json!(4)),
        flow(Value::Null, json!(99)),
    ];
    let child_rows = [flow(json!(4), json!("x"))];
    let children = [child(&[rows(8, 8, &json!(child_rows))])];
    let (merged, tables, collected) = merge_json(&whole(34, &[rows(7, 7, &json!(parent))], &children));
    // Of another form, or an index without a string: those of ngmi are never Firefox's.
    assert_eq!(merged.left.damaged, 3);
    let bytes = written(&tables, &collected);
    assert_eq!(lint(&bytes[..]), Vec::<String>::new());
    let json: Value = serde_json::from_slice(&bytes).unwrap();
    let schemas = json["meta"]["markerSchema"].as_array().unwrap();
    let schema = schemas.iter().find(|schema| schema["name"] == "Flow").unwrap();
    let formats = (&schema["fields"][0]["format"], &schema["fields"][1]["format"]);
    assert_eq!(formats, (&json!("flow-id"), &json!("terminating-flow-id")));
    let mut found = Vec::new();
    for thread in json["threads"].as_array().unwrap() {
        let all = thread["markers"]["data"].as_array().unwrap();
        // The tracks of cgroups have others.
        for data in all.iter().filter(|data| data["type"] == "Flow") {
            let id = |key: &str| {
                let index = usize::try_from(data[key].as_u64()?).unwrap();
                json["shared"]["stringArray"][index].as_str()
            };
            found.push((id("from"), id("to")));
        }
    }
    let id = Some("47bc6cf89ab665e20");
    let expected = [(id, Some("00FF")), (None, id), (None, None), (id, None)];
    assert_eq!(found, expected);

    let mut collector = Collector::new(Budget::default());
    let mut again = ProfileSource::new(&bytes[..]).unwrap().replay(&mut collector).unwrap();
    let facts = collector.finish(&mut again);
    for (thread, other) in facts.threads.iter().zip(&collected.threads) {
        assert_eq!(thread.marks, other.marks);
    }
}

#[test]
fn a_merged_profile_is_valid_and_reads_back() {
    let (_, tables, collected) = merge_json(&example());
    let json = written(&tables, &collected);
    assert_eq!(lint(&json[..]), Vec::<String>::new());
    let mut collector = Collector::new(Budget::default());
    let mut again = ProfileSource::new(&json[..]).unwrap().replay(&mut collector).unwrap();
    let facts = collector.finish(&mut again);
    assert_eq!(again, tables);
    for (thread, other) in facts.threads.iter().zip(&collected.threads) {
        assert_eq!(thread.marks, other.marks);
    }
    let mut collector = Collector::new(Budget::default());
    let twice = merge_gecko(&mut example().to_string().as_bytes(), &mut again, &mut collector);
    assert!(matches!(twice, Err(GeckoError::Twice)));
}

#[test]
fn sanitizing_reaches_payloads() {
    let (_, mut tables, mut collected) = merge_json(&example());
    let person = Person {
        homes: ["/home/alice".to_owned()].into(),
        users: ["alice".to_owned()].into(),
        ..Person::default()
    };
    sanitize(&mut tables, &mut collected, &person);
    let json = String::from_utf8(written(&tables, &collected)).unwrap();
    assert!(!json.contains("alice") && json.contains("/a.html"), "{json}");
}

#[test]
fn pages_are_listed_and_reduced_before_sharing() {
    let mut profile = example();
    let page = |number: u64, url: &str, embedder: u64, private: bool| json!({"tabID": 1, "innerWindowID": number, "url": url, "embedderInnerWindowID": embedder, "isPrivateBrowsing": private});
    profile["pages"] = json!([
        page(4, "https://a.test/secret?q=1", 0, false),
        page(5, "https://hidden.test/", 0, true),
        page(6, "https://b.test:8443/secret", 4, false),
        page(7, "https://c.test/secret", 5, false),
    ]);
    let (_, mut tables, mut collected) = merge_json(&profile);
    let person = Person::default();
    let listed = disclosures(&mut tables, &mut collected, &person);
    assert!(
        listed.contains(&"pages: 4, of which 1 private".to_owned()),
        "{listed:?}"
    );
    sanitize(&mut tables, &mut collected, &person);
    let text = String::from_utf8(written(&tables, &collected)).unwrap();
    assert!(!text.contains("secret") && !text.contains("hidden.test"), "{text}");
    assert_eq!(lint(text.as_bytes()), Vec::<String>::new());
    let json: Value = serde_json::from_str(&text).unwrap();
    let pages = json["pages"].as_array().unwrap().iter();
    let pages: Vec<_> = pages
        .map(|page| json!([page["url"], page["embedderInnerWindowID"]]))
        .collect();
    let expected = json!([["https://a.test", 0], ["https://b.test", 4], ["https://c.test", 0]]);
    assert_eq!(Value::from(pages), expected);
    let listed = disclosures(&mut tables, &mut collected, &person);
    assert!(
        listed.contains(&"pages: 3, of which 0 private".to_owned()),
        "{listed:?}"
    );
}

#[test]
fn a_cut_file_is_merged_up_to_its_end() {
    let text = example().to_string();
    // The children are complete, and the parent's threads are cut.
    let cut = text.rfind("\"threads\":[").unwrap() + 300;
    let (merged, _, collected) = merge(&text.as_bytes()[..cut]).unwrap();
    assert!(
        merged.is_cut && merged.to_string().contains("ends too early"),
        "{merged}"
    );
    assert_eq!(
        (collected.threads[0].marks.len(), collected.threads[2].marks.len()),
        (0, 3)
    );
    for len in 0..text.len() {
        let _ = merge(&text.as_bytes()[..len]); // returns, whatever is missing
    }
}

#[test]
fn older_newer_and_other_formats() {
    let one = |version: u64| whole(version, &[rows(7, 7, &json!([[0, 30.0, 0, 0, 1]]))], &[]);
    let bad = |value: &Value| merge(value.to_string().as_bytes()).unwrap_err().to_string();
    assert!(bad(&one(19)).contains("format 19"), "{}", bad(&one(19)));
    assert_eq!(merge_json(&one(20)).0.problems(), None);
    let newer = merge_json(&one(35)).0.problems().unwrap();
    assert!(newer.contains("newer than 34"), "{newer}");
    let mut processed = one(34);
    processed["meta"]["preprocessedProfileVersion"] = json!(60);
    assert!(bad(&processed).contains("web page"));
    assert!(bad(&json!({"meta": {}})).contains("MOZ_PROFILER_SHUTDOWN"));
    assert!(matches!(merge(b"{]"), Err(GeckoError::Json(_))));
    assert!(merge(b"[1]").is_err() && merge(b"").is_err() && merge(b"\x1f\x8b").is_err());
    // Strings that all threads share, and no CLOCK_MONOTONIC.
    let mut other = one(34);
    other["threads"][0].as_object_mut().unwrap().remove("stringTable");
    other["shared"] = json!({"stringArray": ["Shared"]});
    other["meta"]
        .as_object_mut()
        .unwrap()
        .remove("startTimeAsClockMonotonicNanosecondsSinceBoot");
    let (merged, _, collected) = merge_json(&other);
    assert_eq!(shown(&collected, 0), [("Shared", 10, None)]);
    assert!(merged.problems().unwrap().contains("wall clock"));
}

#[test]
fn compressed_files_are_accepted() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(example().to_string().as_bytes()).unwrap();
    assert_eq!(merge(&packed.finish().unwrap()).unwrap().0.markers, 7);
}

#[test]
fn another_firefox_is_refused() {
    let strange = whole(
        34,
        &[rows(77, 77, &json!([[0, 30.0, 0, 0, 1], [0, 31.0, 0, 0, 1]]))],
        &[],
    );
    let error = merge(strange.to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("none of Firefox's 2 markers"), "{error}");
    let empty = whole(34, &[rows(77, 77, &json!([]))], &[]).to_string();
    assert!(matches!(merge(empty.as_bytes()), Err(GeckoError::Empty(_))));
    let cut = &empty.as_bytes()[..empty.len() - 3];
    assert!(matches!(merge(cut), Err(GeckoError::Cut(_))));
}

#[test]
fn wrong_types_damage_only_their_part() {
    let bad_rows = json!([
        [0, 30.0, 0, 0, 1], {"a": 1}, [], [9, 1, 2, 0, 0], ["x", 1, 2, 0, 0], [0, "now", 0, 0, 0], [0, 30, 29, 1, 0],
        [0, -1, 0, 0, 0], [0, 1e300, 0, 0, 0], [0, 30, 0, 7, 0], [0, 31.0, null, 0, -4, "text"],
        [0, 32.0, null, 0, 1, {"type": "Text", "name": 99}], [0, 33.0, null, 0, 1, {"type": 5}],
    ]);
    let mut broken = rows(7, 7, &json!([]));
    broken["markers"]["schema"] = json!([]);
    let text = whole(
        34,
        &[rows(7, 7, &bad_rows), json!(5), broken],
        &[json!("x"), json!({"meta": [], "threads": []})],
    );
    let (merged, tables, collected) = merge_json(&text);
    assert_eq!(
        shown(&collected, 0).iter().map(|(_, at, _)| *at).collect::<Vec<_>>(),
        [10, 11, 12, 13]
    );
    assert_eq!(merged.left.damaged, 9 + 2 + 2);
    assert_eq!(lint(&written(&tables, &collected)[..]), Vec::<String>::new());
}

#[test]
fn counts_and_sizes_have_limits() {
    let long = "x".repeat(70 << 10);
    let mut many: Vec<Value> = (0..3000)
        .map(|number| json!([0, 30.0, 0, 0, 1, {"type": format!("T{number}"), "a": 1}]))
        .collect();
    many.push(json!([0, 30.0, 0, 0, 1, {"type": "Text", "other": long}]));
    many.push(json!([0, 30.0, 0, 0, 1, {"type": "CompositorScreenshot", "url": 0}]));
    let mut text = whole(34, &[rows(7, 7, &many.into())], &[]);
    text["meta"]["categories"] = (0..1000).map(|number| json!({"name": number.to_string()})).collect();
    text["pages"] = (0..20_000)
        .map(|id| json!({"tabID": 1, "innerWindowID": id, "url": "a"}))
        .collect();
    let (merged, tables, collected) = merge_json(&text);
    let gecko = tables.recording.gecko.as_ref().unwrap();
    assert_eq!(
        (gecko.schemas.len(), gecko.categories.len(), gecko.pages.len()),
        (1024, 256, 10_000)
    );
    assert_eq!(
        (merged.markers, merged.left.payloads, merged.left.screenshots),
        (3001, 3000 - 1021 + 1, 1)
    );
    assert_eq!(lint(&written(&tables, &collected)[..]), Vec::<String>::new());
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(merge(deep.as_bytes()).is_err());
}

#[test]
fn other_facts_are_not_displaced() {
    let mut tables = browser();
    let mut collector = Collector::new(Budget {
        samples: 100,
        marks: 100,
    });
    let mark = |time: u64| Mark {
        start: Timestamp(5_000 * MS + time),
        end: None,
        thread: ThreadId(0),
        stack: None,
        kind: MarkKind::Program { text: "own".to_owned() },
    };
    (0..90).for_each(|time| fact::FactSink::mark(&mut collector, &tables, &mark(time)));
    let many: Vec<Value> = (0..1000).map(|_| json!([0, 30.0, 0, 0, 1])).collect();
    let text = whole(34, &[rows(7, 7, &many.into())], &[]).to_string();
    merge_gecko(&mut text.as_bytes(), &mut tables, &mut collector).unwrap();
    let collected = collector.finish(&mut tables);
    let own = collected.threads[0]
        .marks
        .iter()
        .filter(|mark| matches!(mark.kind, MarkKind::Program { .. }));
    assert_eq!((own.count(), collected.threads[0].marks.len()), (90, 100));
}

#[test]
fn load_merges_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (tables, collected) = (
        browser(),
        Collected {
            threads: vec![ThreadFacts::default(); 3],
            ..Collected::default()
        },
    );
    fs::write(path("p.json"), written(&tables, &collected)).unwrap();
    fs::write(path("gecko.json"), example().to_string()).unwrap();
    let load = |theirs: &str, output: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
        command.arg("load").arg(path("p.json")).arg("--merge").arg(path(theirs));
        let done = command.arg("-o").arg(path(output)).output().unwrap();
        (
            done.status.success(),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    let (is_done, said) = load("gecko.json", "merged.json.gz");
    assert!(is_done && said.contains("7 markers of 3 kinds on 3 threads"), "{said}");
    let merged = fs::File::open(path("merged.json.gz")).unwrap();
    assert_eq!(lint(merged), Vec::<String>::new());
    let (is_done, said) = load("p.json", "other.json.gz");
    assert!(!is_done && said.contains("format of the profiler's web page"), "{said}");
    assert!(!path("other.json.gz").exists());
}

proptest! {
    #[test]
    fn any_change_of_a_byte_is_survived(place in 0..2000_usize, byte: u8) {
        expect_survival(&example(), place, byte);
    }
}
