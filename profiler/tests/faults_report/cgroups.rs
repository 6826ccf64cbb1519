//! What processes belong to: the table by cgroup, the filter and the columns agree with each other.

use profiler::report::export;
use profiler::report::faults::export::{COLUMNS, Exporter};
use profiler::report::faults::{FaultReport, Selection, Selector, View};
use profiler::report::text::columns;

use super::synthetic::{Made, many};
use super::{collected, report, text};

const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// A hostile name, longer than a line.
const EVIL: &str = "/system.slice/\u{1b}[2J\u{202e}\n\"evil\",é.service";

fn made() -> Made {
    let mut made = many(3000);
    let inside = format!("/kubepods.slice/cri-containerd-{CONTAINER}.scope");
    let long = format!("{EVIL}/{}", "x".repeat(200));
    for (process, cgroup) in made.tables.processes.iter_mut().zip([inside, long]) {
        process.cgroup = Some(cgroup.into());
    }
    made.tables.processes[1].cgroup_inherited = true;
    made
}

fn only(cgroup: &str) -> Selection {
    Selection {
        cgroups: vec![cgroup.to_owned()],
        ..Selection::default()
    }
}

fn faults_by_container(report: &FaultReport) -> Vec<(Option<String>, u64)> {
    let rows = report.tables.rows("by_cgroup").iter();
    rows.map(|row| (row.text("container_id").map(str::to_owned), row.tally.faults))
        .collect()
}

#[test]
fn a_cgroup_has_the_faults_that_its_filter_selects() {
    let made = made();
    let all = report(&made, &Selection::default());
    let mut expected = [0, 0];
    for fault in &made.faults {
        let process = made.tables.threads[fault.thread.index()].process;
        expected[process.index()] += fault.count();
    }
    let mut rows = faults_by_container(&all);
    rows.sort();
    assert_eq!(rows, [(None, expected[1]), (Some(CONTAINER.to_owned()), expected[0])]);
    assert_eq!(all.totals.faults, expected[0] + expected[1]);
    for (pattern, faults) in [
        ("/kubepods.slice", expected[0]),
        (&CONTAINER[..12], expected[0]),
        (EVIL, expected[1]),
        ("*evil*", expected[1]),
        ("/", expected[0] + expected[1]),
    ] {
        assert_eq!(report(&made, &only(pattern)).totals.faults, faults, "{pattern}");
    }
}

#[test]
fn a_name_of_no_cgroup_is_an_error() {
    let (tables, facts) = collected(&made());
    let view = View::new(&tables, &facts);
    let error = Selector::new(&view, &only("\u{1b}nothing")).unwrap_err().to_string();
    assert!(
        error.starts_with("no cgroup with faults matches `") && !error.contains('\u{1b}'),
        "{error}"
    );
    let (tables, facts) = collected(&many(10));
    let view = View::new(&tables, &facts);
    let error = Selector::new(&view, &only("/")).unwrap_err().to_string();
    assert!(error.ends_with("without cgroups of version 2"), "{error}");
}

#[test]
fn hostile_cgroups_fit_on_a_line() {
    let shown = text(&report(&made(), &Selection::default()), 10);
    assert!(
        shown.contains("by cgroup") && shown.contains(&CONTAINER[..12]),
        "{shown}"
    );
    for line in shown.lines() {
        assert!(columns(line) <= 80 && !line.contains(char::is_control), "{line:?}");
    }
    let one = text(&report(&many(10), &Selection::default()), 10);
    let has_title = |line: &str| !line.starts_with(' ') || !line.contains("waited");
    assert!(!one.contains("cgroup") && one.lines().all(has_title), "{one}");
}

#[test]
fn rows_show_what_a_process_belongs_to() {
    let made = made();
    let (tables, facts) = collected(&made);
    let view = View::new(&tables, &facts);
    let mut exporter = Exporter::new(&view);
    let mut out = Vec::new();
    for fault in view.faults() {
        export::json_row(&mut out, &COLUMNS, &exporter.row(&fault)).unwrap();
    }
    for line in String::from_utf8(out).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let of = |key: &str| row[key].as_str();
        let process = tables
            .processes
            .iter()
            .find(|process| row["pid"] == process.pid)
            .unwrap();
        assert_eq!(of("cgroup"), process.cgroup.as_deref());
        assert_eq!(row["cgroup_inherited"], process.cgroup_inherited);
        let is_first = process.pid == tables.processes[0].pid;
        assert_eq!(of("container_id"), is_first.then_some(CONTAINER));
        assert_eq!((of("container"), of("pod")), (None, None));
        let unit = EVIL.rsplit('/').next().filter(|_| !is_first);
        let scope = format!("cri-containerd-{CONTAINER}.scope");
        assert_eq!(of("unit"), unit.or(Some(&scope)));
    }
}
