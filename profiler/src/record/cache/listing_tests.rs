//! Which files are listed, and which are left alone.

use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::*;

/// A folder deeper than those that programs share.
fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn write(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "x").unwrap();
}

/// The files listed below `within` for a command that maps nothing.
fn listed(within: &Path, arguments: &[&OsStr], also: &[PathBuf]) -> Result<Listing> {
    let command: Vec<OsString> = [OsStr::new("x")].iter().chain(arguments).map(OsString::from).collect();
    let environment = Environment::from([("HOME".into(), within.join("home").into_os_string())]);
    let mut listing = list(Sources {
        program: &within.join("no such program"),
        mapped: &[],
        command: &command,
        also,
        environment: &environment,
    })?;
    // The program's folder belongs to the test: its files are checked separately.
    listing.entries.retain(|entry| entry.path.starts_with(within));
    Ok(listing)
}

fn paths(listing: &Listing, within: &Path) -> Vec<String> {
    let mut paths: Vec<String> = listing
        .entries
        .iter()
        .map(|entry| entry.path.strip_prefix(within).unwrap().to_string_lossy().into_owned())
        .collect();
    paths.sort_unstable();
    paths
}

#[test]
fn arguments_name_files_and_folders_in_every_spelling() {
    let folder = folder();
    let at = |name: &str| folder.path().join("work").join(name);
    for name in [
        "model.bin",
        "page.html",
        "option",
        "profile/a",
        "profile/sub/b",
        "other",
    ] {
        write(&at(name));
    }
    let option = OsString::from_iter([OsStr::new("--model="), at("option").as_os_str()]);
    let page = OsString::from_iter([OsStr::new("file://"), at("page.html").as_os_str()]);
    let arguments = [
        at("model.bin").into_os_string(),
        option,
        page,
        at("profile").into_os_string(),
        "--headless".into(),
        "".into(),
        at("missing").into_os_string(),
    ];
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    let listing = listed(&folder.path().join("work"), &arguments, &[]).unwrap();
    assert_eq!(
        paths(&listing, &folder.path().join("work")),
        ["model.bin", "option", "page.html", "profile/a", "profile/sub/b"]
    );
}

#[test]
fn special_files_are_skipped_and_loops_end() {
    let folder = folder();
    let tree = folder.path().join("tree");
    write(&tree.join("file"));
    write(&folder.path().join("target"));
    mkfifo(&tree.join("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    fs::write(tree.join("empty"), "").unwrap();
    fs::hard_link(tree.join("file"), tree.join("same file")).unwrap();
    symlink(&tree, tree.join("loop")).unwrap();
    symlink("self", tree.join("self")).unwrap();
    symlink("/dev/zero", tree.join("device")).unwrap();
    symlink("../target", tree.join("link")).unwrap();
    let odd = tree.join(OsStr::from_bytes(b"caf\xe9\n\x1b[31m"));
    write(&odd);
    let listing = listed(folder.path(), &[tree.as_os_str()], &[]).unwrap();
    // A file with two names counts once.
    assert_eq!(listing.entries.len(), 3, "{:?}", listing.entries);
    assert!(listing.entries.iter().any(|entry| entry.path == odd));
    assert!(listing.entries.iter().any(|entry| entry.path == tree.join("link")));
}

#[test]
fn shared_folders_are_scanned_only_if_named() {
    let folder = folder();
    let home = folder.path().join("home");
    write(&home.join("diary"));
    write(&home.join(".cache/thing"));
    let listing = listed(
        folder.path(),
        &[OsStr::new("/usr"), OsStr::new("/"), home.as_os_str()],
        &[],
    )
    .unwrap();
    assert!(listing.entries.is_empty(), "{:?}", listing.entries);
    assert_eq!(listing.notes.len(), 3);
    assert!(listing.notes[0].contains("--cold-file /usr"), "{:?}", listing.notes);
    let listing = listed(folder.path(), &[], &[home]).unwrap();
    assert_eq!(listing.entries.len(), 2);
}

#[test]
fn named_files_must_exist() {
    let folder = folder();
    let missing = folder.path().join("missing");
    let error = format!("{:#}", listed(folder.path(), &[], &[missing]).unwrap_err());
    assert!(error.contains("--cold-file") && error.contains("missing"), "{error}");
    let pipe = folder.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    assert!(listed(folder.path(), &[], &[pipe]).is_err());
}

#[test]
fn a_huge_folder_is_truncated_with_a_note() {
    let folder = folder();
    let huge = folder.path().join("huge");
    fs::create_dir(&huge).unwrap();
    for number in 0..60 {
        fs::write(huge.join(number.to_string()), "x").unwrap();
    }
    let listing = up_to(
        50,
        Sources {
            program: Path::new("/no/such/program"),
            mapped: &[],
            command: &["x".into(), huge.into_os_string()],
            also: &[],
            environment: &Environment::new(),
        },
    )
    .unwrap();
    assert_eq!(listing.entries.len(), 50);
    assert_eq!(listing.notes.len(), 1);
    assert!(listing.notes[0].contains("more than 50 files"), "{:?}", listing.notes);
}

#[test]
fn a_program_includes_its_installed_files() {
    let folder = folder();
    let root = folder.path().canonicalize().unwrap();
    let environment = Environment::from([("HOME".into(), root.join("home").into_os_string())]);
    let folders = Folders::new(&environment);
    let installed = |program: &str| folders.installed_with(&root.join(program));
    write(&root.join("browser/browser"));
    assert_eq!(installed("browser/browser"), [(root.join("browser"), DEPTH_LIMIT)]);
    write(&root.join("jdk/bin/java"));
    write(&root.join("jdk/lib/modules"));
    assert_eq!(installed("jdk/bin/java"), [(root.join("jdk"), DEPTH_LIMIT)]);
    // A build directory and a working copy contain much that the program never opens.
    write(&root.join("target/release/program"));
    write(&root.join("target/CACHEDIR.TAG"));
    assert_eq!(installed("target/release/program"), [(root.join("target/release"), 0)]);
    write(&root.join("copy/.git/HEAD"));
    write(&root.join("copy/a.out"));
    assert_eq!(installed("copy/a.out"), [(root.join("copy"), 0)]);
    write(&root.join("home/a.out"));
    write(&root.join("home/.local/bin/tool"));
    for shared in ["home/a.out", "home/.local/bin/tool"] {
        assert_eq!(installed(shared), []);
    }
    for shared in ["/usr/bin/env", "/bin/sh", "/usr/lib/x86_64-linux-gnu/libc.so.6"] {
        assert_eq!(folders.installed_with(Path::new(shared)), [], "{shared}");
    }
    // For a link, both places count: that of the link may be a Python environment.
    write(&root.join("venv/lib/site"));
    fs::create_dir_all(root.join("venv/bin")).unwrap();
    symlink(root.join("browser/browser"), root.join("venv/bin/browser")).unwrap();
    let both = [(root.join("browser"), DEPTH_LIMIT), (root.join("venv"), DEPTH_LIMIT)];
    assert_eq!(installed("venv/bin/browser"), both);
}
