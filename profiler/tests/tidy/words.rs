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

/// Where a word is the name of an account; lower case, as lines are compared.
const ACCOUNTS: &[&str] = &["\"nobody\"", "user=nobody", "{nobody}", "/somebody", "somebody@"];

/// The parts of a line that people read: comments and string literals in Rust, everything but code in documents.
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
            let words = line.to_lowercase();
            let lower = ACCOUNTS.iter().fold(words, |line, account| line.replace(account, ""));
            let texts = prose(&source.path, &lower);
            for (word, better) in ODD_WORDS {
                // Sanitizing replaces people's names with it.
                if *word == "somebody" && source.path.contains("sanitize") {
                    continue;
                }
                if texts.iter().any(|text| mentions(text, word)) {
                    odd.push(format!("{}:{number}: \"{word}\": write {better}", source.path));
                }
            }
        }
    }
    expect_none(&odd);
}
