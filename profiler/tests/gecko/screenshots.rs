//! Pictures of windows: merged for the front end's track of screenshots, within limits, and removed from what is shared.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use profiler::fact::FactSource as _;
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::reduce::sanitize::{Person, sanitize};
use profiler::profile::{ProfileSource, lint};
use profiler::report::privacy::disclosures;
use serde_json::{Value, json};

use crate::made::{gecko, merge_json, rows, whole, written};

const PICTURE: &str = "data:image/jpeg;base64,/9j/4AAQSkZJRg==";

/// Rows of screenshots with these strings, after the other strings.
fn with_pictures(pictures: &[String]) -> Value {
    let mut thread = rows(7, 7, &json!([]));
    let strings = thread["stringTable"].as_array_mut().unwrap();
    let name = strings.len();
    strings.extend(["CompositorScreenshot", "CompositorScreenshotWindowDestroyed"].map(Value::from));
    let first = strings.len();
    strings.extend(pictures.iter().cloned().map(Value::from));
    let screenshot = |at: usize| {
        let data = json!({"type": "CompositorScreenshot", "url": first + at, "windowID": 1, "windowWidth": 1229,
            "windowHeight": 691, "other": "/home/alice"});
        json!([name, 30.0 + at as f64, 0, 0, 1, data])
    };
    let mut all: Vec<Value> = (0..pictures.len()).map(screenshot).collect();
    all.push(json!([name + 1, 90.0, 0, 0, 1, {"type": "CompositorScreenshot", "windowID": 1}]));
    thread["markers"]["data"] = all.into();
    whole(34, &[thread], &[])
}

fn pictures(texts: &[&str]) -> Value {
    with_pictures(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

#[test]
fn the_front_end_finds_them_among_the_strings() {
    let (merged, tables, collected) = merge_json(&pictures(&[PICTURE, "data:image/png;base64,AA==", PICTURE]));
    assert_eq!((merged.markers, merged.screenshots, merged.left.screenshots), (4, 3, 0));
    assert!(
        merged
            .to_string()
            .contains("4 markers of 2 kinds on 1 thread, with 3 screenshots"),
        "{merged}"
    );
    let text = written(&tables, &collected);
    assert_eq!(lint(&text[..]), Vec::<String>::new());
    let json: Value = serde_json::from_slice(&text).unwrap();
    let strings = json["shared"]["stringArray"].as_array().unwrap();
    let markers = &json["threads"][0]["markers"];
    let url = |row: usize| {
        let data = &markers["data"][row];
        assert_eq!(
            data.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["type", "url", "windowHeight", "windowID", "windowWidth"]
        );
        strings[usize::try_from(data["url"].as_u64().unwrap()).unwrap()]
            .as_str()
            .unwrap()
    };
    assert_eq!(
        (url(0), url(1), url(2)),
        (PICTURE, "data:image/png;base64,AA==", PICTURE)
    );
    let name = usize::try_from(markers["name"][0].as_u64().unwrap()).unwrap();
    assert_eq!(strings[name], "CompositorScreenshot");
    assert_eq!(
        markers["data"][3],
        json!({"type": "CompositorScreenshot", "windowID": 1})
    );
    let mut collector = Collector::new(Budget::default());
    let mut again = ProfileSource::new(&text[..]).unwrap().replay(&mut collector).unwrap();
    let facts = collector.finish(&mut again);
    assert_eq!(facts.threads[0].marks, collected.threads[0].marks);
    // Markers with the same string share it.
    let marks: Vec<_> = facts.threads[0].marks.iter().map(gecko).collect();
    assert!(Arc::ptr_eq(&marks[0].name, &marks[1].name));
    let shared = marks[0].image.as_ref().zip(marks[2].image.as_ref());
    assert!(shared.is_some_and(|(one, other)| Arc::ptr_eq(one, other)));
    // An index beyond the strings is damage, not a panic; so is a string that is not a picture, or too long.
    let text = String::from_utf8(text).unwrap();
    let index = markers["data"][0]["url"].to_string();
    let beyond = text.replacen(&format!("\"url\":{index}"), "\"url\":99999", 1);
    assert!(!lint(beyond.as_bytes()).is_empty());
    let long = format!("{PICTURE}{}", "A".repeat(1 << 20));
    let other = |picture: &str| text.replacen(PICTURE, picture, 1);
    for damaged in [beyond, other("https://a.test/x.jpg"), other(&long)] {
        let error = ProfileSource::new(damaged.as_bytes()).err().unwrap();
        assert!(error.to_string().contains("screenshot"), "{error}");
    }
}

#[test]
fn others_and_too_large_ones_are_left_out() {
    let large = format!("{PICTURE}{}", "A".repeat(1 << 20));
    let (merged, _, collected) = merge_json(&pictures(&[
        "data:image/svg+xml;base64,AA==",
        "https://a.test/x.jpg",
        "data:image/jpeg;base64,\"><script>",
        &large,
        PICTURE,
    ]));
    assert_eq!((merged.screenshots, merged.left.screenshots), (1, 4));
    assert!(
        merged
            .problems()
            .unwrap()
            .contains("4 screenshots without an image, over 1 MiB or beyond 64 MiB in all")
    );
    assert_eq!(gecko(&collected.threads[0].marks[0]).image.as_deref(), Some(PICTURE));
    let big = format!("data:image/jpeg;base64,{}", "A".repeat(1_000_000));
    let (merged, ..) = merge_json(&with_pictures(&vec![big; 70]));
    assert_eq!((merged.screenshots, merged.left.screenshots), (67, 3));
    // Without a payload the front end would fail.
    let mut bare = pictures(&[PICTURE]);
    let rows = bare["threads"][0]["markers"]["data"].as_array_mut().unwrap();
    let name = rows[0][0].clone();
    rows.push(json!([name, 50.0, 0, 0, 1]));
    assert_eq!(merge_json(&bare).0.left.screenshots, 1);
}

#[test]
fn they_are_listed_and_removed_before_sharing() {
    let (_, mut tables, mut collected) = merge_json(&pictures(&[PICTURE, PICTURE]));
    let person = Person::default();
    let listed = disclosures(&mut tables, &mut collected, &person);
    assert!(
        listed.iter().any(|line| line == "screenshots of windows: 2"),
        "{listed:?}"
    );
    sanitize(&mut tables, &mut collected, &person);
    let json = String::from_utf8(written(&tables, &collected)).unwrap();
    assert!(!json.contains("data:image") && json.contains("CompositorScreenshotWindowDestroyed"));
    let listed = disclosures(&mut tables, &mut collected, &person);
    assert!(!listed.iter().any(|line| line.contains("screenshots")), "{listed:?}");
}

#[test]
fn those_of_chrome_are_left_out() {
    let event = |category: &str, args: &Value| json!({"ph": "I", "name": "Screenshot", "cat": category, "pid": 7, "tid": 7, "ts": 5_010_000.0, "args": args});
    let pictures = ["data:image/gif;base64,R0lG", "/9j/4AAQ", "iVBORw0KGgo", "UklGRgAA"];
    let (jpeg, png) = (pictures[1], pictures[2]);
    let events = json!([
        event("disabled-by-default-devtools.screenshot", &json!({"snapshot": jpeg})),
        event(
            "other",
            &json!({"snapshot": pictures[0], "data": {"frames": [{"x": pictures[3]}, png, "kept"]}})
        ),
        event("other", &json!({"a": {"b": {"c": {"d": {"e": png}}}}})),
    ]);
    let (merged, mut tables, mut collected) = merge_json(&events);
    assert_eq!((merged.markers, merged.left.screenshots), (2, 5));
    let said = merged.to_string();
    assert!(said.ends_with("left out: 5 pictures (not read from traces)"), "{said}");
    sanitize(&mut tables, &mut collected, &Person::default());
    let json = String::from_utf8(written(&tables, &collected)).unwrap();
    assert!(json.contains("kept"));
    let kept: Vec<&str> = pictures.into_iter().filter(|picture| json.contains(picture)).collect();
    assert_eq!(kept, [""; 0]);
}

#[test]
fn trimming_keeps_those_of_its_time() {
    let (_, tables, collected) = merge_json(&pictures(&[PICTURE, "data:image/png;base64,AA=="]));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.json"), written(&tables, &collected)).unwrap();
    let mut trim = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    trim.current_dir(folder.path())
        .args(["trim", "p.json", "--from", "0.0105", "-o", "t.json.gz"]);
    let done = trim.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let packed = fs::File::open(folder.path().join("t.json.gz")).unwrap();
    let json: Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed)).unwrap();
    let strings = json["shared"]["stringArray"].to_string();
    assert!(
        !strings.contains("image/jpeg") && strings.contains("image/png"),
        "{strings}"
    );
}
