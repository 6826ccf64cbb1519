//! Options and messages of `ngmi path`, on a recording without surprises.

use crate::harness::Ngmi;
use crate::harness::skip::needs_capture;
use crate::run::{path, record};

#[test]
fn tables_fit_a_terminal_and_a_profile_has_the_same_path() {
    needs_capture!();
    let Some(run) = record("join", |_| None) else { return };
    let text = path(&run.outcome, &["--top", "5"]);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for title in [
        "by reason",
        "by thread",
        "by function",
        "the longest links of the chain",
    ] {
        assert!(text.contains(title), "{title}: {text}");
    }
    let csv = path(&run.outcome, &["--csv"]);
    let of_profile = Ngmi::subcommand("path")
        .arg(run.outcome.file("out.json.gz"))
        .arg("--csv");
    let of_profile = of_profile.run().expect_code(0).stdout.clone();
    let spans = |csv: &str| {
        let rows = csv.lines().skip(1);
        let first = |row: &str| row.split(',').take(5).collect::<Vec<_>>().join(",");
        rows.map(first).collect::<Vec<_>>()
    };
    assert_eq!(spans(&of_profile), spans(&csv));
}

#[test]
fn what_has_no_path_is_refused_with_a_reason() {
    needs_capture!();
    let Some(run) = record("join", |_| None) else { return };
    let refused = |args: &[&str], words: &[&str]| {
        let ngmi = Ngmi::subcommand("path").arg(run.outcome.file("log")).args(args);
        ngmi.run().expect_refusal(words);
    };
    refused(&["--thread", "nonsense"], &["no thread", "nonsense"]);
    refused(&["--from", "5000"], &["lived from", "--from"]);
    refused(&["--from", "2", "--to", "1"], &["--from is not before --to"]);
    refused(&["--from-marker", "nonsense"], &["no markers"]);
}
