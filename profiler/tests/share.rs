//! `ngmi share` against the test's own storage, which enforces the documented protocol; and with all kinds of failures.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod profile_synthetic;
#[path = "share/storage.rs"]
mod storage;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use profile_synthetic::everything;
use storage::{Mood, Storage};

/// A profile, and a home for stored tokens.
struct Place {
    folder: tempfile::TempDir,
    profile: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("p.json.gz");
        let mut gzip = flate2::write::GzEncoder::new(fs::File::create(&profile).unwrap(), flate2::Compression::fast());
        gzip.write_all(&everything().json()).unwrap();
        gzip.finish().unwrap();
        Self { folder, profile }
    }

    fn ngmi(&self, api: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
        command.arg("share").args(arguments);
        self.run(command, api)
    }

    fn run(&self, mut command: Command, api: &str) -> Output {
        command
            .env("NGMI_PROFILER_API", api)
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("HOME", "/home/alice")
            .env_remove("HTTP_PROXY")
            .env_remove("http_proxy")
            .env_remove("ALL_PROXY")
            .env_remove("all_proxy")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn share(&self, api: &str) -> Output {
        self.ngmi(api, &["--yes", self.profile.to_str().unwrap()])
    }

    fn list(&self) -> PathBuf {
        self.folder.path().join("state/ngmi/shared.json")
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn failed_with(output: &Output, words: &str) {
    let said = stderr(output);
    assert!(!output.status.success() && said.contains(words), "{said}");
    assert!(output.stdout.is_empty(), "no link: {}", stdout(output));
}

#[test]
fn shared_listed_and_deleted() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    let shared = place.share(&storage.url);
    assert!(shared.status.success(), "{}", stderr(&shared));
    let link = stdout(&shared).trim().to_owned();
    assert_eq!(link, "https://share.example/short1", "the short link");
    let kept = storage.kept();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0], fs::read(&place.profile).unwrap(), "unchanged, byte for byte");
    // What it reveals was printed before.
    for word in ["command lines:", "--flag", "paths:", "kernel 6.18.0", "--sanitize"] {
        assert!(stderr(&shared).contains(word), "{word}: {}", stderr(&shared));
    }
    // The deletion token is readable by the user only, and stored nowhere else.
    let list = fs::read_to_string(place.list()).unwrap();
    let right = storage.last_jwt();
    assert!(list.contains(&right));
    assert_eq!(fs::metadata(place.list()).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!stdout(&shared).contains(&right) && !stderr(&shared).contains(&right));

    let listed = place.ngmi(&storage.url, &["--list"]);
    assert!(
        stdout(&listed).contains(&link) && stdout(&listed).contains("p.json.gz"),
        "{}",
        stdout(&listed)
    );
    assert!(!stdout(&listed).contains(&right));
    failed_with(
        &place.ngmi(&storage.url, &["--delete", "https://share.example/other"]),
        "was not shared from this machine",
    );
    let deleted = place.ngmi(&storage.url, &["--delete", &link]);
    assert!(deleted.status.success(), "{}", stderr(&deleted));
    assert!(storage.kept().is_empty());
    assert_eq!(stdout(&place.ngmi(&storage.url, &["--list"])), "");
}

#[test]
fn externally_deleted_profiles_are_forgotten() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    let link = stdout(&place.share(&storage.url)).trim().to_owned();
    storage.forget_all();
    let deleted = place.ngmi(&storage.url, &["--delete", &link]);
    assert!(
        deleted.status.success() && stderr(&deleted).contains("already deleted"),
        "{}",
        stderr(&deleted)
    );
    assert_eq!(stdout(&place.ngmi(&storage.url, &["--list"])), "");
}

#[test]
fn a_wrong_deletion_token_deletes_nothing_and_is_kept() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    let link = stdout(&place.share(&storage.url)).trim().to_owned();
    let list = fs::read_to_string(place.list()).unwrap();
    fs::write(
        place.list(),
        list.replace(&storage.last_jwt(), "eyJhIjoxfQ.eyJhIjoxfQ.x"),
    )
    .unwrap();
    failed_with(
        &place.ngmi(&storage.url, &["--delete", &link]),
        "rejected the deletion token",
    );
    assert_eq!(storage.kept().len(), 1);
    assert!(stdout(&place.ngmi(&storage.url, &["--list"])).contains(&link));
}

#[test]
fn sanitized_and_as_plain_json() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    let plain = place.folder.path().join("p.json");
    let mut facts = everything();
    facts.tables.processes[0].path = "/home/alice/tool".into();
    facts.tables.processes[0].command_line = vec!["/home/alice/tool".into(), "--password=hunter2".into()].into();
    fs::write(&plain, facts.json()).unwrap();
    let shared = place.ngmi(&storage.url, &["--yes", "--sanitize", plain.to_str().unwrap()]);
    assert!(shared.status.success(), "{}", stderr(&shared));
    let kept = unpacked(&storage.kept()[0]);
    assert!(!kept.contains("alice") && !kept.contains("hunter2"));
    assert_eq!(profile::lint(kept.as_bytes()), Vec::<String>::new());
    let shared = place.ngmi(&storage.url, &["--yes", plain.to_str().unwrap()]);
    assert!(shared.status.success(), "{}", stderr(&shared));
    assert!(
        unpacked(&storage.kept()[1]).contains("hunter2"),
        "compressed, otherwise unchanged"
    );
}

/// A database server overwrites its arguments; a sharer's name may occur outside paths.
#[test]
fn account_names_are_removed_and_programs_kept() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    let plain = place.folder.path().join("p.json");
    let mut facts = everything();
    let process = &mut facts.tables.processes[0];
    process.path = "/usr/lib/postgresql/15/bin/postgres".into();
    process.command_line = vec!["postgres: carol payroll_db 10.20.30.40 SELECT".into()].into();
    facts.tables.threads[1].name = "alice.smith-io".into();
    facts.tables.files[0].path = "/tmp/build-alice.smith/acme_2024.csv".into();
    fs::write(&plain, facts.json()).unwrap();
    let plain = plain.to_str().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    let arguments = ["share", "--yes", "--sanitize", "--remove-name", "acme", plain];
    command.args(arguments).env("USER", "alice.smith");
    let shared = place.run(command, &storage.url);
    assert!(shared.status.success(), "{}", stderr(&shared));
    let kept = unpacked(&storage.kept()[0]);
    for word in ["alice", "smith", "carol", "payroll", "10.20", "acme"] {
        assert!(!kept.contains(word), "{word}");
    }
    for word in [
        "\"somebody-io\"",
        "/tmp/build-somebody/somebody_2024.csv",
        "[\"postgres\"]",
    ] {
        assert!(kept.contains(word), "{word}");
    }
}

/// A name where nothing is replaced, as in a field that the sanitizer does not know: ngmi's own words.
#[test]
fn a_remaining_name_is_reported_and_blocks_sharing() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    let profile = place.profile.to_str().unwrap();
    let named = ["--yes", "--sanitize", "--remove-name", "Command", profile];
    let refused = place.ngmi(&storage.url, &named);
    failed_with(&refused, "`Command` in ngmi.recording.scope: command");
    failed_with(&refused, "--keep-name");
    assert!(storage.kept().is_empty() && !place.list().exists());
    let kept = place.ngmi(&storage.url, &[&named[..], &["--keep-name", "command"]].concat());
    assert!(kept.status.success(), "{}", stderr(&kept));
    assert_eq!(storage.kept().len(), 1);
    failed_with(&place.ngmi(&storage.url, &["--keep-name", "x", profile]), "--sanitize");
}

#[test]
fn a_common_word_does_not_block_sharing() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    for user in ["main", "data", "root"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
        let profile = place.profile.to_str().unwrap();
        command
            .args(["share", "--yes", "--sanitize", profile])
            .env("USER", user);
        let shared = place.run(command, &storage.url);
        assert!(shared.status.success(), "{}", stderr(&shared));
        // An account with a common name reveals nothing.
        let is_listed = stderr(&shared).contains("common words, therefore") && stderr(&shared).contains(user);
        assert_eq!(is_listed, user != "root", "{}", stderr(&shared));
    }
    assert!(unpacked(&storage.kept()[0]).contains("\"main\""), "the function");
}

fn unpacked(bytes: &[u8]) -> String {
    std::io::read_to_string(flate2::read::GzDecoder::new(bytes)).unwrap()
}

#[test]
fn nothing_is_sent_without_confirmation() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    let asked = place.ngmi(&storage.url, &[place.profile.to_str().unwrap()]);
    failed_with(&asked, "add --yes");
    assert!(storage.kept().is_empty());
    assert!(!place.list().exists());
}

#[test]
fn upload_errors_have_a_remedy_and_keep_nothing() {
    let place = Place::new();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    failed_with(&place.share(&address), "check the network");
    for (mood, words) in [
        (Mood::Refuse(413), "ngmi trim"),
        (Mood::Refuse(500), "try again later"),
        (Mood::Refuse(406), "refused: 406"),
        (Mood::Refuse(302), "refused: 302"),
        (Mood::HangUp, "check the network"),
        (Mood::HangUpInTheAnswer, "check the network"),
        (Mood::SayNonsense, "deletion token"),
    ] {
        let storage = Storage::start(mood);
        let output = place.share(&storage.url);
        failed_with(&output, words);
        assert!(
            !stderr(&output).contains('\u{1b}'),
            "a server can't send commands to a terminal"
        );
        assert!(!place.list().exists(), "{mood:?}");
    }
    failed_with(&place.share("http://storage.example"), "is not a valid upload URL");
}

/// If ngmi ends while it waits for the short link, the user can still delete the profile.
#[test]
fn the_deletion_token_is_saved_first() {
    let place = Place::new();
    let (list, seen) = (place.list(), Arc::new(Mutex::new(String::new())));
    let at_shorten = seen.clone();
    let storage = Storage::watched(Mood::Kind, move |question| {
        if question.starts_with("POST /api/shorten") {
            *at_shorten.lock().unwrap() = fs::read_to_string(&list).unwrap_or_default();
        }
    });
    let shared = place.share(&storage.url);
    assert!(shared.status.success(), "{}", stderr(&shared));
    let seen = seen.lock().unwrap().clone();
    assert!(seen.contains(&storage.last_jwt()), "{seen}");
    let listed = fs::read_to_string(place.list()).unwrap();
    assert_eq!(listed.matches(&storage.last_jwt()).count(), 1, "{listed}");
    assert!(listed.contains("https://share.example/short1"));
}

#[test]
fn without_space_for_the_deletion_token_nothing_is_uploaded() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    let mut command = Command::new("sh");
    // As on a full disk: no file can be written.
    let limited = "trap '' XFSZ; ulimit -f 0; exec \"$0\" share --yes \"$1\"";
    command
        .args(["-c", limited, env!("CARGO_BIN_EXE_ngmi")])
        .arg(&place.profile);
    failed_with(&place.run(command, &storage.url), "not uploaded");
    assert!(storage.kept().is_empty() && !place.list().exists());
    let folder = fs::read_dir(place.list().parent().unwrap()).unwrap();
    assert_eq!(folder.count(), 1, "the lock");
}

#[test]
fn an_unsaved_deletion_token_is_printed() {
    let place = Place::new();
    let state = place.folder.path().join("state");
    let storage = Storage::watched(Mood::Kind, move |question| {
        if question.starts_with("POST /api/compressed-store") {
            fs::remove_dir_all(&state).unwrap();
            fs::write(&state, "no folder").unwrap();
        }
    });
    let shared = place.share(&storage.url);
    failed_with(&shared, "the deletion token could not be saved");
    assert_eq!(storage.kept().len(), 1);
    let said = stderr(&shared);
    assert!(said.contains("https://profiler.firefox.com/public/token1/"), "{said}");
    let command = format!(
        "  printf 'Authorization: Bearer %s' '{}' | curl -X DELETE -H 'Accept: application/vnd.firefox-profiler+json;version=1.0' -H @- '{}profile/token1'\n",
        storage.last_jwt(),
        storage.url
    );
    assert!(said.contains(&command), "{said}");
}

#[test]
fn oversized_input_is_rejected_before_reading() {
    let place = Place::new();
    let large = place.folder.path().join("large.json.gz");
    let file = fs::File::create(&large).unwrap();
    (&file).write_all(&[0x1f, 0x8b]).unwrap();
    file.set_len((150 << 20) + 1).unwrap();
    let output = place.ngmi("http://127.0.0.1:1", &["--yes", large.to_str().unwrap()]);
    failed_with(&output, "151 MiB, but the limit is 150 MiB");
    assert!(stderr(&output).contains("ngmi trim --from --to --process"));
}

#[test]
fn invalid_profiles_are_rejected() {
    let place = Place::new();
    let no_profile = place.folder.path().join("x");
    fs::write(&no_profile, "hello").unwrap();
    failed_with(
        &place.ngmi("http://127.0.0.1:1", &["--yes", no_profile.to_str().unwrap()]),
        "is not a profile",
    );
    fs::write(&no_profile, "ngmi-log and events").unwrap();
    for how in ["--yes", "--sanitize"] {
        failed_with(
            &place.ngmi("http://127.0.0.1:1", &[how, no_profile.to_str().unwrap()]),
            "is an event log; convert it first",
        );
    }
    let whole = fs::read(&place.profile).unwrap();
    fs::write(&no_profile, &whole[..whole.len() - 1]).unwrap();
    failed_with(
        &place.ngmi("http://127.0.0.1:1", &["--yes", no_profile.to_str().unwrap()]),
        "it is damaged or incomplete",
    );
    let absent: &Path = &place.folder.path().join("absent\u{1b}[2J");
    // Escaped, not interpreted.
    failed_with(
        &place.ngmi("http://127.0.0.1:1", &["--yes", absent.to_str().unwrap()]),
        "absent\\u{1b}[2J",
    );
}

#[test]
fn an_unprintable_list_is_a_failure() {
    let (place, storage) = (Place::new(), Storage::start(Mood::Kind));
    assert!(place.share(&storage.url).status.success());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    for (stdout, is_fine) in [(Stdio::from(full), false), (Stdio::from(closed), true)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
        command.args(["share", "--list"]).stdout(stdout);
        let listed = place.run(command, &storage.url);
        assert_eq!(listed.status.success(), is_fine, "{}", stderr(&listed));
        let is_reported = stderr(&listed).contains("cannot write to standard output");
        assert_eq!(is_reported, !is_fine, "{}", stderr(&listed));
    }
}
