//! pprof, OTLP and folded stacks, as third-party programs read them.

use std::path::Path;

use serde_json::{Value, json};

use super::profile_synthetic::{CONTAINER, hostile};
use super::readers::{inferno, node, pprof, python};
use super::{exported, json, profile};

const ALL: &str = "--table=samples,waits,faults,requests,path";

/// What ngmi's own subcommands report: each value type, its unit and its total.
fn expected(input: &Path) -> Vec<(&'static str, &'static str, u64)> {
    let (faults, waits, io) = (json("faults", input), json("waits", input), json("io", input));
    let path = json("path", input);
    let of = |value: &Value| value.as_u64().unwrap();
    let done = of(&io["totals"]["read_bytes"]) + of(&io["totals"]["written_bytes"]);
    let facts = super::everything();
    let bytes = facts.faults.iter().map(|fault| fault.bytes(4096)).sum();
    vec![
        ("samples", "count", 100),
        ("cpu", "nanoseconds", of(&waits["lives"]["on_ns"])),
        ("waits", "count", of(&waits["totals"]["waits"])),
        ("off_cpu", "nanoseconds", of(&waits["totals"]["off_ns"])),
        ("faults", "count", of(&faults["totals"]["faults"])),
        ("fault_time", "nanoseconds", of(&faults["totals"]["time_ns"])),
        ("fault_bytes", "bytes", bytes),
        ("ios", "count", of(&io["totals"]["ios"])),
        ("io_time", "nanoseconds", of(&io["totals"]["time_ns"])),
        ("io_bytes", "bytes", done),
        ("path_pieces", "count", of(&path["totals"]["pieces"])),
        ("path", "nanoseconds", of(&path["totals"]["time_ns"])),
    ]
}

/// The value types in the form that the readers print.
fn types(input: &Path) -> Value {
    let types = expected(input).into_iter();
    types
        .map(|(kind, unit, total)| json!([kind, unit, total.to_string()]))
        .collect()
}

/// The location at which three functions are inlined into each other, in the form that the readers
/// print.
fn inlined() -> Value {
    json!({
        "address": (0x40_1000).to_string(),
        "file": "/usr/lib/libdemo.so",
        "build_id": "000102030405060708090a0b0c0d0e0f10111213",
        "lines": [
            ["inner", "src/inner.h", 3],
            ["middle", "", 0],
            [hostile()[5].replace('\\', "\\\\").replace('\u{1b}', "\\u{1b}"), "src/main.c", u32::MAX],
        ],
    })
}

#[test]
fn pprof_totals_match_the_subcommands() {
    let (_folder, input) = profile();
    let file = exported(&input, &["--format", "pprof", ALL], "all.pb.gz");
    let Some(found) = node("pprof.mjs", &[&file]) else {
        return;
    };
    assert_eq!(found["types"], types(&input));
    assert_eq!(found["inlined"], json!([inlined()]));
    assert_eq!(found["time"], "1700000000000000000");
    assert_eq!(found["duration"], "100000000");
    assert_eq!(found["period"], json!(["cpu", "nanoseconds", "1000000"]));
    assert_eq!(found["default"], "cpu");
    assert_eq!(found["problems"], json!([]));
    for label in [
        "process",
        "pid",
        "thread",
        "tid",
        "class",
        "reason",
        "operation",
        "device",
        "file",
    ] {
        assert!(found["labels"][label].as_u64() > Some(0), "{label}");
    }
}

#[test]
fn googles_pprof_reads_it_with_the_same_counts() {
    let (folder, input) = profile();
    let file = exported(&input, &["--format", "pprof", ALL], "all.pb.gz");
    let expected = expected(&input);
    let Some(mut pprof) = pprof() else { return };
    let run = pprof
        .arg("-raw")
        .arg(&file)
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let raw = String::from_utf8(run.stdout).unwrap();
    let samples = raw
        .split_once("Samples:\n")
        .unwrap()
        .1
        .split_once("Locations\n")
        .unwrap()
        .0;
    let mut lines = samples.lines();
    let types: Vec<String> = lines
        .next()
        .unwrap()
        .split(' ')
        .map(|kind| kind.replace("[dflt]", ""))
        .collect();
    let wanted: Vec<String> = expected
        .iter()
        .map(|(kind, unit, _)| format!("{kind}/{unit}"))
        .collect();
    assert_eq!(types, wanted);
    let mut totals = vec![0_u64; types.len()];
    // A line of labels begins with a label's name, a line of samples with its values.
    for line in lines.filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())) {
        let Some((values, _)) = line.split_once(": ") else {
            continue;
        };
        for (total, value) in totals.iter_mut().zip(values.split_whitespace()) {
            *total += value.parse::<u64>().unwrap();
        }
    }
    assert_eq!(totals, expected.iter().map(|(.., total)| *total).collect::<Vec<u64>>());
    assert!(raw.contains("000102030405060708090a0b0c0d0e0f10111213"), "{raw}");
}

#[test]
fn opentelemetry_messages_match_the_subcommands() {
    let (_folder, input) = profile();
    let file = exported(&input, &["--format", "otlp", ALL], "all.otlp");
    let Some(found) = python("otlp.py", &[&file]) else {
        return;
    };
    // The first resource need not have every type.
    let sorted = |types: &Value| {
        let mut types: Vec<String> = types.as_array().unwrap().iter().map(Value::to_string).collect();
        types.sort();
        types
    };
    assert_eq!(sorted(&found["types"]), sorted(&types(&input)));
    assert_eq!(found["inlined"], json!([inlined()]));
    assert_eq!(found["problems"], json!([]));
    let resources = found["resources"].as_array().unwrap();
    let one = |key: &str, value: &str| {
        let mut found = resources.iter().filter(|one| one[key] == value);
        let first = found.next().unwrap_or_else(|| panic!("{key} {value}: {resources:?}"));
        assert!(found.next().is_none(), "{key} {value}: {resources:?}");
        first
    };
    let service = one("process.linux.cgroup", "/system.slice/demo.service");
    assert_eq!(
        (&service["service.name"], &service["container.id"]),
        (&json!("demo"), &Value::Null)
    );
    let container = one("container.id", CONTAINER);
    for (key, expected) in [
        ("service.name", "web"),
        ("container.name", "web"),
        ("container.runtime", "containerd"),
        ("k8s.container.name", "web"),
        ("k8s.pod.name", "shop-0"),
        ("k8s.namespace.name", "prod"),
    ] {
        assert_eq!(container[key], expected, "{key}");
    }
    for label in [
        "process.executable.name",
        "process.pid",
        "thread.name",
        "thread.id",
        "ngmi.fault.class",
        "ngmi.wait.reason",
        "file.path",
    ] {
        assert!(found["attributes"][label].as_u64() > Some(0), "{label}");
    }
}

#[test]
fn inferno_draws_folded_stacks() {
    let (_folder, input) = profile();
    for (at, table) in [
        (0, "samples"),
        (2, "waits"),
        (4, "faults"),
        (7, "requests"),
        (10, "path"),
    ] {
        for (offset, weight) in ["count", "time"].into_iter().enumerate() {
            let file = exported(
                &input,
                &["--format=folded", "--table", table, "--weight", weight],
                "stacks.folded",
            );
            let total = expected(&input)[at + offset].2;
            let folded = std::fs::read_to_string(&file).unwrap();
            let weights = folded
                .lines()
                .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
            assert_eq!(weights.sum::<u64>(), total, "{table} {weight}");
            assert!(!folded.chars().any(|c| c.is_control() && c != '\n'), "{folded}");
            let Some(mut inferno) = inferno() else { return };
            let run = inferno.arg(&file).output().unwrap();
            let (svg, said) = (
                String::from_utf8(run.stdout).unwrap(),
                String::from_utf8(run.stderr).unwrap(),
            );
            assert!(run.status.success() && !said.contains("gnored"), "{said}");
            assert!(
                svg.contains(&format!("total_samples=\"{total}\"")),
                "{table} {weight}: {total}"
            );
        }
    }
}
