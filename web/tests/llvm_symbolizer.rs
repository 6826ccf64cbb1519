//! Compares names and lines of a thousand addresses of each program with llvm-symbolizer's.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod harness;

use std::process::Command;

use harness::questions::{programs, server_of, symbolicate};
use serde_json::Value;
use symbols::server::SourceRoots;

/// Symbols of one address in comparable form, from the innermost frame outwards.
#[derive(Debug, PartialEq, Eq)]
struct Symbolized {
    lines: Vec<u64>,
    files: Vec<String>,
    functions: Vec<String>,
}

fn base_name(path: &str) -> String {
    // `git:REPOSITORY:PATH:REVISION`: a file of the standard library.
    let path = path
        .strip_prefix("git:")
        .and_then(|special| special.split(':').nth(1))
        .unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// The last component of a function name, without arguments and hash: demanglers differ in the rest.
fn plain(name: &str) -> String {
    let is_hash = |(_, end): &(&str, &str)| {
        end.len() == 17 && end.starts_with('h') && end[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let name = name.rsplit_once("::").filter(is_hash).map_or(name, |(name, _)| name);
    let mut name = name.to_owned();
    for (found, instead) in [
        // Partially demangled Rust names.
        ("$LT$", "<"),
        ("$GT$", ">"),
        ("$u7b$", "{"),
        ("$u7d$", "}"),
        // Angle brackets and parentheses that do not nest.
        ("operator<", "operator_lt"),
        ("operator>", "operator_gt"),
        ("operator()", "operator_call"),
        ("->", ""),
        ("[abi:cxx11]", ""),
    ] {
        name = name.replace(found, instead);
    }
    let mut depth = 0_i32;
    let outside = |c: &char| {
        depth += i32::from(*c == '<' || *c == '(');
        let keep = depth == 0;
        depth -= i32::from(*c == '>' || *c == ')');
        keep
    };
    let kept: String = name.chars().filter(outside).collect();
    let kept = kept.trim_end().trim_end_matches(" const").trim_end();
    let last = kept.rsplit("::").next().unwrap_or_default();
    last.split(' ')
        .next_back()
        .unwrap_or_default()
        .trim_start_matches('_')
        .to_owned()
}

fn ours(frame: &Value) -> Symbolized {
    let inlines = frame["inlines"].as_array().cloned().unwrap_or_default();
    let all: Vec<&Value> = inlines.iter().chain([frame]).collect();
    Symbolized {
        lines: all.iter().map(|frame| frame["line"].as_u64().unwrap_or(0)).collect(),
        files: all
            .iter()
            .map(|frame| base_name(frame["file"].as_str().unwrap_or("??")))
            .collect(),
        functions: all
            .iter()
            .map(|frame| plain(frame["function"].as_str().unwrap_or("??")))
            .collect(),
    }
}

fn theirs(answer: &Value) -> Symbolized {
    let all = answer["Symbol"].as_array().unwrap();
    // Without debug info, it reports the object file from the symbol table.
    let is_source = |name: &&str| !name.is_empty() && !name.contains("-cgu.");
    let name = |frame: &Value| frame["FileName"].as_str().filter(is_source).unwrap_or("??").to_owned();
    Symbolized {
        lines: all.iter().map(|frame| frame["Line"].as_u64().unwrap_or(0)).collect(),
        files: all.iter().map(|frame| base_name(&name(frame))).collect(),
        functions: all
            .iter()
            .map(|frame| plain(frame["FunctionName"].as_str().unwrap_or("??")))
            .collect(),
    }
}

#[test]
fn names_and_lines_match_llvm_symbolizer() {
    let folder = tempfile::tempdir().unwrap();
    for program in programs(folder.path()) {
        let addresses = program.addresses(1000);
        let words = addresses.iter().map(|address| format!("0x{address:x}"));
        let mut command = Command::new("llvm-symbolizer");
        command.args(["--output-style=JSON", "--inlines", "--demangle"]);
        let Ok(output) = command
            .arg(format!("--obj={}", program.path.display()))
            .args(words)
            .output()
        else {
            println!("skipped: llvm-symbolizer is not installed");
            return;
        };
        let answers: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let server = server_of(folder.path(), program.named(&[]), SourceRoots::default());
        let answer = server.ask("/symbolicate/v5", &symbolicate(&program, &addresses));
        let frames = answer["results"][0]["stacks"][0].as_array().unwrap();
        assert_eq!((frames.len(), answers.len()), (addresses.len(), addresses.len()));
        let (mut lines, mut functions) = (0, 0);
        for (frame, answer) in frames.iter().zip(&answers) {
            let (ours, theirs) = (ours(frame), theirs(answer));
            if (&ours.lines, &ours.files) != (&theirs.lines, &theirs.files) {
                lines += 1;
                println!(
                    "{}: {:?} {:?}",
                    program.library.name,
                    (&ours.lines, &ours.files),
                    (&theirs.lines, &theirs.files)
                );
            } else if ours.functions != theirs.functions {
                functions += 1;
                println!("{}: {:?} {:?}", program.library.name, ours.functions, theirs.functions);
            }
        }
        assert_eq!(lines, 0, "every line and file of every inline frame is the same");
        // The comparison does not handle templates within operators.
        assert!(functions * 100 <= addresses.len(), "{functions} other names");
    }
}
