//! Budgets as people write them, and their errors.

use super::*;
use fact::WaitReason;

fn wrong(text: &str) -> String {
    let errors = Budget::parse(text).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n") + "\n"
}

#[test]
fn limits_are_in_the_unit_that_their_key_names() {
    let text = "[allow]\npercent = 2.5\n[total]\nfaults = 100_000\nwall_ms = 1500\n\n[file.\"libxul.so\"]\ndisk_wait_ms = 0.25\n\
                bytes_read = { limit = 0x10, percent = 10 }\ncow_pages = { plus = 3 }\nfaults = {}\n";
    let budget = Budget::parse(text).unwrap();
    assert_eq!(budget.allow, Some(Allowance::of_percent(2.5)));
    let of = |line| budget.entries.iter().find(|entry| entry.line == Some(line)).unwrap();
    assert_eq!(
        (of(4).metric, of(4).limit, of(4).by),
        (Metric::Faults, Some(100_000), By::Total)
    );
    assert_eq!(of(5).limit, Some(1_500_000_000));
    assert_eq!(
        (of(8).metric, of(8).limit),
        (Metric::Wait(WaitReason::Disk), Some(250_000))
    );
    assert_eq!((of(8).by, of(8).name.as_str()), (By::File, "libxul.so"));
    assert_eq!(
        (of(9).limit, of(9).allow),
        (Some(16), Some(Allowance::of_percent(10.0)))
    );
    assert_eq!(of(10).allow, Some(Allowance { percent: 0.0, plus: 3 }));
    assert_eq!((of(11).limit, of(11).allow), (None, None));
    assert_eq!(budget.entries.len(), 6);
}

#[test]
fn every_error_has_its_line() {
    let errors = wrong(
        "[total]\nfault = 3\nfaults = -1\n[files.x]\n[file.x]\nwall_ms = 1\ncpu_ms = \"2\"\n[thread]\nfaults = 1\n",
    );
    for part in [
        "line 2: unknown metric `fault`; similar: `fault_wait_ms`, `faults`, `major_faults`, `path_fault_ms`\n",
        "line 3: `faults` must be a whole number, 0 or more",
        "line 4: unknown table `files`; expected one of [total], [phase], [file], [section], [function], [thread], [markers] or [allow]",
        "line 6: `wall_ms` is not available by file; move it below [total]",
        "line 7: `cpu_ms` must be a number of milliseconds, 0 or more",
        "line 9: `faults` needs the name of a thread: write `[thread.\"NAME\"]`",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert!(wrong("").contains("limits nothing") && wrong("[total\n").contains("line 1"));
    assert!(wrong("total = 3").contains("write `[total]`"));
    for bad in ["nan", "inf", "-0.5", "1e300", "true"] {
        assert!(wrong(&format!("[total]\ncpu_ms = {bad}")).contains("line 2"), "{bad}");
    }
    assert!(
        wrong("[allow]\npercent = -1\n[total]\nfaults = { limit = 1, more = 2 }")
            .contains("line 4: unknown key `more`")
    );
    assert!(wrong("[total]\nfaults = 1\nfaults = 2").contains("line 3"));
}

#[test]
fn metrics_of_paths_may_have_a_dot() {
    let text = "[total]\npath.disk_ms = 5\n\"path.lock_ms\" = { limit = 1 }\npath_cpu_ms = 2\n[thread.a]\npath.nothing_ms = 1\n";
    let errors = wrong(text);
    assert!(
        errors.starts_with("line 6: unknown metric `path_nothing_ms`; similar: "),
        "{errors}"
    );
    assert!(wrong("[total]\n\"wall.ms\" = 1").contains("unknown metric `wall.ms`"));
    let budget = Budget::parse(text.split("[thread").next().unwrap()).unwrap();
    let found: Vec<(String, Option<u64>)> = (budget.entries.iter())
        .map(|entry| (entry.metric.key(), entry.limit))
        .collect();
    let expected = [("path_disk_ms", 5), ("path_lock_ms", 1), ("path_cpu_ms", 2)];
    assert_eq!(found, expected.map(|(key, ms)| (key.to_owned(), Some(ms * 1_000_000))));
}

#[test]
fn the_number_of_windows_is_limited() {
    let windows = |count: usize| {
        let window = |number: usize| format!("[markers.\"{}..\"]\nfaults = 1\n", 1000 - number);
        (0..count).map(window).collect::<String>()
    };
    assert_eq!(Budget::parse(&windows(64)).unwrap().windows().len(), 64);
    // The line of the first that is too many, although the parser sorts by name.
    assert_eq!(
        wrong(&windows(66)),
        "line 129: too many windows in [markers]: 66; the limit is 64\n"
    );
}
