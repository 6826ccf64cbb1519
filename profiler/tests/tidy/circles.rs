//! Files of different folders of a crate do not need each other in a circle: then a folder can be read, tested and moved
//! on its own. The imports come from `use` lines and from paths in the code.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, expect_none, rust};

/// The crates that are checked.
const CRATES: [&str; 11] = [
    "profiler/base",
    "profiler/task",
    "profiler/unwind",
    "profiler/fact",
    "profiler/profile",
    "profiler/report",
    "profiler/capture",
    "profiler/fixtures",
    "profiler",
    "symbols",
    "web",
];

/// The folders of `capture`: each uses only those before it, and nothing at the root, which joins them.
const CAPTURE: [&str; 7] = ["proc", "hooks", "space", "privilege", "socket", "files", "drain"];

/// A module as the names on its path; the root of the crate has none.
type Module = Vec<String>;
/// Which module each module names, with one of the names.
type Imports = BTreeMap<Module, BTreeMap<Module, String>>;

#[test]
fn folders_form_no_circles() {
    let findings: Vec<String> = CRATES.iter().flat_map(|name| circles(name, folder)).collect();
    expect_none(&findings);
}

/// There, a file with its folder is a topic.
#[test]
fn topics_of_the_ebpf_side_form_no_circles() {
    expect_none(&circles("profiler-ebpf", |_, module| module.first()));
}

/// Which modules of different parts of a crate need each other.
fn circles(name: &str, part: impl for<'m> Fn(&Imports, &'m Module) -> Option<&'m String>) -> Vec<String> {
    let imports = imports(name);
    let reachable: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|from| (from, reachable(&imports, from))).collect();
    let mut findings = Vec::new();
    for (from, uses) in &imports {
        for (to, item) in uses {
            let is_across = part(&imports, from) != part(&imports, to);
            if is_across && reachable[to].contains(from) {
                let path = |module: &Module| format!("{name}/src/{}", module.join("/"));
                findings.push(format!(
                    "{} uses {} ({item}), which needs it, too",
                    path(from),
                    path(to)
                ));
            }
        }
    }
    findings
}

#[test]
fn folders_of_capture_use_those_below() {
    let imports = imports("profiler/capture");
    let rank = |module: &Module| {
        let first = module.first()?;
        CAPTURE.iter().position(|folder| folder == first)
    };
    let mut findings = Vec::new();
    for (from, uses) in &imports {
        let Some(of) = rank(from) else { continue };
        let above = uses.keys().filter(|to| rank(to).is_none_or(|to| to > of));
        findings.extend(above.map(|to| format!("capture: {} uses {}", from.join("::"), to.join("::"))));
    }
    expect_none(&findings);
}

#[test]
fn imports_are_found() {
    let text = "use crate::a::{self, b::{C, d}, Other as E};\n// use crate::no;\nfn f() -> super::x::Y { \"crate::no\"; self::z() }";
    let found: Vec<String> = paths(text).iter().map(|path| path.join("::")).collect();
    let expected = [
        "crate::a::self",
        "crate::a::b::C",
        "crate::a::b::d",
        "crate::a::Other",
        "super::x::Y",
        "self::z",
    ];
    assert_eq!(found, expected);
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let all: BTreeSet<Module> = [module("a"), module("a::b"), module("c"), Vec::new()].into();
    let resolved = |from: &str, path: &str| resolve(&all, &module(from), &module(path)).map(|found| found.join("::"));
    assert_eq!(resolved("c", "crate::a::b::C").as_deref(), Some("a::b"));
    assert_eq!(resolved("a::b", "super::super::c::f").as_deref(), Some("c"));
    assert_eq!(resolved("a", "b::C").as_deref(), Some("a::b"));
    assert_eq!(resolved("a", "std::fs"), None);
}

/// What the modules of a crate name of each other. Modules for tests are left out.
fn imports(name: &str) -> Imports {
    let folder = format!("{name}/src/");
    let sources: BTreeMap<Module, Source> = rust()
        .filter(|source| !source.is_test() && !source.path.ends_with("_tests.rs"))
        .filter_map(|source| Some((module(source.path.strip_prefix(&folder)?), source)))
        .collect();
    assert!(sources.len() > 3, "{name}: {} files", sources.len());
    let all: BTreeSet<Module> = sources.keys().cloned().collect();
    let of = |(module, source): (&Module, &Source)| {
        let code = source.text.split("mod tests {").next().unwrap_or_default();
        let uses = paths(code).into_iter().filter_map(|path| {
            let to = resolve(&all, module, &path).filter(|to| to != module)?;
            Some((to, path.join("::")))
        });
        (module.clone(), uses.collect())
    };
    sources.iter().map(of).collect()
}

fn module(path: &str) -> Module {
    let mut names: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("lib" | "main")) {
        names.pop();
    }
    names
}

/// The folder at the top of a crate that a module is in; `None`: the root.
fn folder<'m>(imports: &Imports, module: &'m Module) -> Option<&'m String> {
    let first = module.first()?;
    let is_folder = imports
        .keys()
        .any(|other| other.len() > 1 && other.first() == Some(first));
    is_folder.then_some(first)
}

fn reachable<'m>(imports: &'m Imports, from: &Module) -> BTreeSet<&'m Module> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Module> = imports[from].keys().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(imports[next].keys());
        }
    }
    found
}

/// The module that has the item at a path; `None`: it is another crate's.
fn resolve(all: &BTreeSet<Module>, from: &Module, path: &[String]) -> Option<Module> {
    let first = path.first()?;
    let (mut at, rest) = match first.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => {
            let levels = path.iter().take_while(|name| *name == "super").count();
            (from[..from.len().checked_sub(levels)?].to_vec(), &path[levels..])
        }
        _ => {
            let child = [from.as_slice(), std::slice::from_ref(first)].concat();
            all.contains(&child).then(|| (from.clone(), path))?
        }
    };
    for name in rest {
        at.push(name.clone());
        if !all.contains(&at) {
            at.pop();
            break;
        }
    }
    Some(at)
}

/// Every path in the code of which the first name could be a module's.
fn paths(text: &str) -> Vec<Module> {
    let words = words(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let is_start = at == 0 || words[at - 1] != "::";
        let is_path = is_name(&words[at]) && is_start && words.get(at + 1).is_some_and(|next| next == "::");
        at = if words[at] == "use" {
            tree(&words, at + 1, &[], &mut found)
        } else if is_path {
            tree(&words, at, &[], &mut found)
        } else {
            at + 1
        };
    }
    found
}

/// Reads a path, or the tree of paths of a `use`, and returns what follows.
fn tree(words: &[String], mut at: usize, before: &[String], found: &mut Vec<Module>) -> usize {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let mut path = before.to_vec();
    while is_name(word(at)) {
        path.push(words[at].clone());
        at += 1;
        if word(at) != "::" {
            break;
        }
        at += 1;
    }
    if word(at) == "{" && (at == 0 || word(at - 1) == "::") {
        at += 1;
        while !matches!(word(at), "}" | "") {
            at = tree(words, at, &path, found).max(at + 1);
            at += usize::from(word(at) == ",");
        }
        return at + 1;
    }
    found.push(path);
    if word(at) == "as" { at + 2 } else { at }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') && word != "as"
}

/// Names, `::` and single characters; without comments and texts.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if letter == '"' {
            quoted(rest)
        } else if letter == '\'' {
            // A character, or the apostrophe of a lifetime.
            let inside = if rest[1..].starts_with('\\') { 2 } else { 1 };
            let end = rest[inside..].char_indices().nth(1);
            end.filter(|(_, letter)| *letter == '\'')
                .map_or(1, |(at, _)| inside + at + 1)
        } else {
            let name = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let length = if rest.starts_with("::") {
                2
            } else {
                name.max(letter.len_utf8())
            };
            if !letter.is_whitespace() {
                words.push(rest[..length].to_owned());
            }
            length
        };
        rest = &rest[length..];
    }
    words
}

/// The length of a text with its quotes.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = letter == '\\' && !is_escaped,
        }
    }
    text.len()
}
