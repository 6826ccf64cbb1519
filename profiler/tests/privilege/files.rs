//! Owners of the files that a recording under sudo leaves.

use std::os::unix::fs::chown;
use std::path::PathBuf;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle};
use crate::user::of_others;

const NOBODY: u32 = 65534;

/// Profile, log, cache of unwind tables, the remembered list of a cold start, and folders that are gone at the end.
#[test]
fn no_files_of_root_remain_under_sudo() {
    needs_capture!();
    let ngmi = Ngmi::record_as_sudo(NOBODY)
        .args(["--keep-events", "kept.events", "--cold"])
        .program("./burn", ["300"]);
    let folder = ngmi.dir().to_owned();
    Oracle::c("burn").copied(&folder.join("burn"));
    let own = ["cache", "state", "config", "data", "temporary"];
    for path in own
        .map(|name| folder.join(name))
        .iter()
        .chain([&folder, &folder.join("burn")])
    {
        if !path.exists() {
            std::fs::create_dir(path).unwrap();
        }
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let variables = [
        "XDG_CACHE_HOME",
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "TMPDIR",
    ];
    let ngmi = variables
        .into_iter()
        .zip(own)
        .fold(ngmi, |ngmi, (variable, name)| ngmi.env(variable, folder.join(name)));
    let outcome = ngmi.run();
    assert!(outcome.profile().main_of("burn").share("burn_here") > 0.8);
    assert!(outcome.file("kept.events").exists());
    let tables = walkdir(&folder.join("cache"));
    assert!(!tables.is_empty(), "the unwind tables are kept for the next recording");
    let mut others = Vec::new();
    of_others(&folder, NOBODY, &mut others);
    // The harness creates these two itself.
    others.retain(|path| !path.ends_with("stdout") && !path.ends_with("stderr"));
    assert_eq!(others, Vec::<PathBuf>::new());
    assert!(
        walkdir(&folder.join("temporary")).is_empty(),
        "folders of the recording are gone"
    );
}

/// Every file below a folder.
fn walkdir(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walkdir(&path));
        } else {
            found.push(path);
        }
    }
    found
}
