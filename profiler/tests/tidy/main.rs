//! The shape of the source: file length, headers, direction of imports, allowed places of `unsafe`, no
//! machine-specific paths.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails should stop immediately"
)]

mod circles;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum number of lines in a source file.
const LINE_LIMIT: usize = 400;

/// What a layer must not refer to: `(folder, words, why)`.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("profiler/base/src", CORE, CORE_WHY),
    ("profiler/task/src", CORE, CORE_WHY),
    ("profiler/fact/src", CORE, CORE_WHY),
    ("profiler/unwind/src", CORE, CORE_WHY),
    ("profiler/profile/src", CORE, CORE_WHY),
    ("profiler/report/src", CORE, CORE_WHY),
    ("profiler/fact/src/replay", &["crate::reduce"], ROOMS_WHY),
    ("profiler/fact/src/reduce", &["crate::replay", "unwind::"], ROOMS_WHY),
    ("profiler/profile/src", &["fact::replay"], DOWN_WHY),
    ("profiler/report/src", &["fact::replay"], DOWN_WHY),
    (
        "profiler/capture/src",
        &["symbols::elf", "framehop", "gimli"],
        "capture is privileged and small: it parses no file of the recorded program and builds no profile",
    ),
    ("profiler/src/record", &["crate::cli"], DOWN_WHY),
    ("profiler/src/terminal.rs", &["crate::cli", "crate::record"], DOWN_WHY),
    (
        "symbols/src",
        &["profiler::", "profiler_common", "aya"],
        "symbols does not depend on eBPF or profiles",
    ),
    (
        "web/src",
        &["profiler::", "profiler_common", "aya"],
        "web does not depend on eBPF",
    ),
    (
        "profiler-common/src",
        &["std::fs", "std::process", "std::net", "aya"],
        "record formats are bytes and nothing else",
    ),
];

/// The layers that are crates, and which of them each may depend on.
const CRATES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("task", &["base"]),
    ("unwind", &["base", "task"]),
    ("fact", &["base", "task", "unwind"]),
    ("profile", &["base", "fact"]),
    ("report", &["base", "fact"]),
    ("capture", &["base"]),
];

/// What the core layers must not refer to.
const CORE: &[&str] = &[
    "std::process",
    "std::fs",
    "std::net",
    "std::env",
    "std::os::",
    "nix::",
    "libc::",
    "aya",
    "crate::capture",
    "crate::record",
    "crate::cli",
];
const CORE_WHY: &str = "the core is pure: no system call, and it never calls the shells around it";
const ROOMS_WHY: &str = "replay and reduce know the vocabulary of facts, not each other";
const DOWN_WHY: &str = "data flows one way, down the layers of docs/architecture.md";

/// Where `unsafe` is allowed.
const UNSAFE_IN: &[&str] = &["profiler-ebpf/src/", "profiler/capture/src/", "symbols/src/"];

/// One tracked file.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Whether it is compiled for tests only: tests may use the machine.
    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// The code without comments and without its unit tests at the end.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        self.text[..tests]
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(n, line)| (n + 1, line))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every tracked or new text file.
fn sources() -> Vec<Source> {
    let list = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root())
        .output()
        .expect("git lists the source");
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    let paths = String::from_utf8(list.stdout).unwrap();
    let read = |path: &str| {
        Some(Source {
            path: path.to_owned(),
            text: std::fs::read_to_string(root().join(path)).ok()?,
        })
    };
    let sources: Vec<Source> = paths
        .split('\0')
        .filter(|path| !path.is_empty())
        .filter_map(read)
        .collect();
    assert!(sources.len() > 30, "the source is incomplete: {} files", sources.len());
    sources
}

fn rust() -> impl Iterator<Item = Source> {
    sources().into_iter().filter(|source| has_extension(&source.path, "rs"))
}

/// Whether a file is a module or below it: `a/b.rs` and `a/b/c.rs` are in `a/b`.
fn is_in(path: &str, module: &str) -> bool {
    let rest = path.strip_prefix(module);
    rest.is_some_and(|rest| rest == ".rs" || rest.is_empty() || rest.starts_with('/'))
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Whether the line contains the word separately: `aya` occurs in `aya::Ebpf`, not in `himalayan`.
fn mentions(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let ends_open = word.ends_with("::");
        !before.is_some_and(|c| is_part(c) || c == ':') && (ends_open || !after.is_some_and(is_part))
    })
}

/// Fails with all findings at once.
#[track_caller]
fn expect_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn files_are_short() {
    let long = rust().filter(|source| source.text.lines().count() >= LINE_LIMIT);
    expect_none(
        &long
            .map(|source| format!("{}: {} lines", source.path, source.text.lines().count()))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn files_have_a_header_comment() {
    let silent = rust().filter(|source| !source.text.starts_with("//! "));
    expect_none(
        &silent
            .map(|source| format!("{}: does not start with `//! `", source.path))
            .collect::<Vec<_>>(),
    );
}

/// A module with children is `name.rs` next to `name/`. Modules that several tests share are `mod.rs`: cargo takes
/// `tests/name.rs` for a test, and a file that `#[path]` includes has its children next to it.
#[test]
fn modules_have_their_name() {
    let unnamed = rust().filter(|source| source.path.contains("/src/") && source.path.ends_with("/mod.rs"));
    expect_none(
        &unnamed
            .map(|source| format!("{}: is named `mod.rs`: move it next to its folder", source.path))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn imports_flow_one_way() {
    let mut findings = Vec::new();
    for source in rust() {
        for (folder, words, why) in FORBIDDEN {
            if source.is_test() || !is_in(&source.path, folder) {
                continue;
            }
            for (number, line) in source.code() {
                findings.extend(
                    words
                        .iter()
                        .filter(|word| mentions(line, word))
                        .map(|word| format!("{}:{number}: `{word}`: {why}", source.path)),
                );
            }
        }
    }
    expect_none(&findings);
}

/// What the vocabulary of facts must not refer to: what makes facts, and what makes them fewer.
#[test]
fn facts_depend_on_neither_capture_nor_output() {
    let rooms = ["profiler/fact/src/replay", "profiler/fact/src/reduce"];
    let mut findings = Vec::new();
    for source in rust() {
        let path = &source.path;
        let is_vocabulary = is_in(path, "profiler/fact/src") && !rooms.iter().any(|room| is_in(path, room));
        if is_vocabulary {
            let imports = source
                .code()
                .filter(|(_, line)| line.contains("replay::") || line.contains("reduce::"));
            findings.extend(imports.map(|(number, line)| format!("{}:{number}: {line}", source.path)));
        }
    }
    expect_none(&findings);
}

/// Each layer's crate depends only on layers above it: a new line here is a decision.
#[test]
fn crates_depend_on_the_layers_above() {
    let mut findings = Vec::new();
    for (name, above) in CRATES {
        let manifest = std::fs::read_to_string(root().join(format!("profiler/{name}/Cargo.toml"))).unwrap();
        let dependencies = manifest.lines().filter_map(|line| line.split(['.', ' ']).next());
        let ours = dependencies.filter(|found| CRATES.iter().any(|(name, _)| name == found));
        findings.extend(
            ours.filter(|found| !above.contains(found))
                .map(|found| format!("profiler/{name}: depends on {found}: {DOWN_WHY}")),
        );
    }
    expect_none(&findings);
}

#[test]
fn unsafe_is_allowed_only_with_a_reason() {
    let mut findings = Vec::new();
    for source in rust().filter(|source| source.path != "profiler/tests/tidy/main.rs") {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in source.code() {
            let code = line.split("//").next().unwrap_or_default();
            let is_unsafe = ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"]
                .iter()
                .any(|form| code.contains(form));
            if !is_unsafe {
                continue;
            }
            if !source.is_test() && !UNSAFE_IN.iter().any(|folder| source.path.starts_with(folder)) {
                findings.push(format!("{}:{number}: unsafe outside of {UNSAFE_IN:?}", source.path));
            }
            let above = &lines[number.saturating_sub(9)..number];
            if code.contains("unsafe {") && !above.iter().any(|line| line.contains("SAFETY:")) {
                findings.push(format!("{}:{number}: unsafe without a SAFETY line above", source.path));
            }
        }
    }
    expect_none(&findings);
}

#[test]
fn no_machine_specific_paths() {
    // Built here, so this file does not match itself.
    let paths = [
        ["/wo", "rk/"].concat(),
        ["/ro", "ot/"].concat(),
        ["/home", "/user"].concat(),
    ];
    let mut findings = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            for path in &paths {
                // Below a folder of the project it is another folder with that name.
                let absolute = line.match_indices(path.as_str()).any(|(at, _)| {
                    !line[..at]
                        .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '}' | '-' | '_' | ')' | '*'))
                });
                if absolute {
                    findings.push(format!("{}:{}: {path}", source.path, number + 1));
                }
            }
        }
    }
    expect_none(&findings);
}

#[test]
fn no_toolchain_is_pinned() {
    let pinned = sources().into_iter().filter(|source| {
        Path::new(&source.path)
            .file_name()
            .is_some_and(|name| name == "rust-toolchain.toml" || name == "rust-toolchain")
    });
    expect_none(
        &pinned
            .map(|source| format!("{}: another toolchain can't be downloaded", source.path))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn links_in_documents_exist() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| has_extension(&source.path, "md")) {
        let folder = root().join(&source.path).parent().unwrap().to_owned();
        for target in link_targets(&source.text) {
            if !folder.join(target).exists() {
                findings.push(format!("{}: ({target}) does not exist", source.path));
            }
        }
    }
    expect_none(&findings);
}

/// Every path below a top-level folder of the project exists. Documents about the past may name removed files.
#[test]
fn documents_name_files_that_exist() {
    let folders = [
        "profiler/",
        "profiler-ebpf/",
        "profiler-common/",
        "symbols/",
        "web/",
        "docs/",
        "benches/",
        "scripts/",
        "tests/",
        "fuzz/",
    ];
    let mut findings = Vec::new();
    let is_document = |path: &str| has_extension(path, "md") && !path.starts_with("docs/history/");
    for source in sources().iter().filter(|source| is_document(&source.path)) {
        for code in source.text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
            let name = code.split([' ', ':']).next().unwrap_or_default();
            if folders.iter().any(|folder| name.starts_with(folder)) && !root().join(name).exists() {
                findings.push(format!("{}: `{name}` does not exist", source.path));
            }
        }
    }
    expect_none(&findings);
}

/// Relative targets of `[text](target)`.
fn link_targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

#[test]
fn the_readme_commands_work() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for path in ["scripts/test", "CHANGELOG.md", "docs/architecture.md"] {
        assert!(readme.contains(path), "README.md does not mention {path}");
        assert!(root().join(path).exists(), "{path} does not exist");
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "deny.toml", ".ci/run"] {
        assert!(root().join(file).exists(), "{file} does not exist");
    }
}
