//! The words of help, messages, documents and comments: plain English.

use crate::{expect_none, has_extension, mentions, sources};

/// Words that plain English does not use as this project's texts once did, and what to write.
const ODD_WORDS: &[(&str, &str)] = &[
    ("told", "shown, printed, reported"),
    ("tell", "show, print, report, distinguish"),
    ("tells", "shows, prints, reports"),
    ("telling", "showing"),
    ("nobody", "no process, no thread, unknown"),
    ("somebody", "another thread, a user"),
    ("for want of", "waiting for"),
    ("so many", "N"),
    ("watched", "traced"),
    ("culprit", "finding"),
    ("clue", "finding"),
    ("crowd", "merged threads"),
];

/// Files whose texts are still to be rewritten. One that no longer needs it must leave this list.
const TO_REWRITE: &[&str] = &[
    "docs/profile.md",
    "docs/waits.md",
    "fuzz/fuzz_targets/http.rs",
    "profiler/src/capture/capabilities.rs",
    "profiler/src/capture/detached.rs",
    "profiler/src/capture/drain.rs",
    "profiler/src/capture/missed.rs",
    "profiler/src/capture/opener/helper.rs",
    "profiler/src/capture/perf_maps.rs",
    "profiler/src/capture/session.rs",
    "profiler/src/capture/wire.rs",
    "profiler/src/cli/args/internal.rs",
    "profiler/src/cli/scratch.rs",
    "profiler/src/cli/serve.rs",
    "profiler/src/cli/terminal.rs",
    "profiler/src/fact/fault.rs",
    "profiler/src/fact/pages/file.rs",
    "profiler/src/fact/sanitize/words.rs",
    "profiler/src/record/command.rs",
    "profiler/src/record/conversion.rs",
    "profiler/src/record/finish.rs",
    "profiler/src/record/keeper_tests.rs",
    "profiler/src/record/mod.rs",
    "profiler/src/record/session.rs",
    "profiler/src/record/table_maker.rs",
    "profiler/src/report/check/budget.rs",
    "profiler/src/report/summary/tests.rs",
    "profiler/tests/e2e/identity.rs",
    "profiler/tests/faults/mapped.rs",
    "profiler/tests/privilege/environment.rs",
    "profiler/tests/privilege/stolen.rs",
    "profiler/tests/privilege/unreadable.rs",
    "profiler/tests/waits_report/tables.rs",
];

/// What of a line is read by people: of Rust the comment and the string literals, of a document all but code.
fn prose<'l>(path: &str, line: &'l str) -> Vec<&'l str> {
    if !has_extension(path, "rs") {
        return line.split('`').step_by(2).collect();
    }
    let comment = line
        .find("// ")
        .or_else(|| line.find("//!"))
        .or_else(|| line.find("///"));
    let (code, comment) = line.split_at(comment.unwrap_or(line.len()));
    let strings = code.split('"').skip(1).step_by(2);
    strings.chain(comment.split('`').step_by(2)).collect()
}

#[test]
fn texts_are_plain_english() {
    let texts = sources().into_iter().filter(|source| {
        (has_extension(&source.path, "rs") || has_extension(&source.path, "md"))
            && !source.path.starts_with("docs/history/")
            && !source.path.ends_with("tidy/words.rs")
    });
    let mut odd = Vec::new();
    for source in texts {
        for (line, number) in source.text.lines().zip(1..) {
            let lower = line.to_lowercase();
            let texts = prose(&source.path, &lower);
            for (word, better) in ODD_WORDS {
                // Sanitizing replaces people's names by it.
                if *word == "somebody" && (source.path.contains("sanitize") || line.contains("/somebody")) {
                    continue;
                }
                if texts.iter().any(|text| mentions(text, word)) {
                    odd.push(format!("{}:{number}: \"{word}\": write {better}", source.path));
                }
            }
        }
    }
    let is_known = |path: &str, line: &String| line.strip_prefix(path).is_some_and(|rest| rest.starts_with(':'));
    let done = TO_REWRITE
        .iter()
        .filter(|path| !odd.iter().any(|line| is_known(path, line)));
    expect_none(
        &done
            .map(|path| format!("{path}: plain English: take it off the list"))
            .collect::<Vec<_>>(),
    );
    odd.retain(|line| !TO_REWRITE.iter().any(|path| is_known(path, line)));
    expect_none(&odd);
}
