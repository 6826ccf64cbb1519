//! The libraries and source files of a profile. Skips everything else, which takes a fraction of
//! the time of reading all facts, and also works for profiles from other programs.

use std::collections::HashSet;
use std::io::{self, Read};

use serde::Deserialize;
use symbols::server::{Library, Named};

use crate::format::Index;
use crate::input;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Outline {
    libs: Vec<Lib>,
    shared: Shared,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lib {
    name: String,
    path: String,
    debug_name: String,
    debug_path: String,
    breakpad_id: String,
    code_id: Option<String>,
    arch: Option<String>,
}

/// Profiles before format 60 have their strings in threads; their sources are unknown.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Shared {
    sources: Sources,
    string_array: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sources {
    filename: Vec<Index>,
}

/// Reads a profile, compressed or not.
///
/// # Errors
/// The input fails, or is not a profile.
pub fn named(mut profile: impl Read) -> io::Result<Named> {
    named_in(&input::read_all(&mut profile, input::LIMIT)?)
}

fn named_in(bytes: &[u8]) -> io::Result<Named> {
    let outline: Outline = serde_json::from_slice(bytes)?;
    let Shared { sources, string_array } = outline.shared;
    let wanted: HashSet<usize> = sources
        .filename
        .into_iter()
        .filter_map(|index| usize::try_from(index?).ok())
        .collect();
    let sources = string_array.into_iter().enumerate();
    Ok(Named {
        libraries: outline.libs.into_iter().map(library).collect(),
        sources: sources
            .filter_map(|(index, text)| wanted.contains(&index).then_some(text))
            .collect(),
    })
}

fn library(lib: Lib) -> Library {
    Library {
        name: lib.name,
        path: lib.path,
        debug_name: lib.debug_name,
        debug_path: lib.debug_path,
        breakpad_id: lib.breakpad_id,
        code_id: lib.code_id,
        arch: lib.arch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_sources_are_found_and_the_rest_is_skipped() {
        let profile = br#"{"meta": {"x": [1, {"y": 2}]}, "libs": [{"name": "a", "path": "/a", "debugName": "a", "debugPath": "/a",
            "breakpadId": "0", "codeId": null, "arch": "x86_64", "start": 3}],
            "shared": {"sources": {"length": 2, "filename": [2, 9]}, "stringArray": ["f", "g", "/a.c"]}, "threads": [{}]}"#;
        let named = named(&profile[..]).unwrap();
        assert_eq!(named.libraries[0].path, "/a");
        assert_eq!(named.sources, HashSet::from(["/a.c".to_owned()]));
        let old = super::named(&br#"{"meta": {}, "threads": []}"#[..]).unwrap();
        assert!(old.libraries.is_empty() && old.sources.is_empty());
        for broken in [&b"7"[..], br#"{"libs": 3}"#, br#"{"libs": []"#] {
            assert!(super::named(broken).is_err());
        }
    }
}
