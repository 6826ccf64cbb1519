//! `ngmi maps`: its output for a process with known mappings, by both methods.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;

use crate::harness::{Ngmi, Outcome};

/// A copy of `sleep` under a chosen name, which runs until the test ends.
struct Sleeper {
    child: Child,
    program: PathBuf,
    _folder: tempfile::TempDir,
}

impl Sleeper {
    fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        copy(Path::new("/bin/sleep"), &program);
        let child = Command::new(&program).arg("100").spawn().unwrap();
        // The loader has finished when the process waits in the kernel: clock_nanosleep on x86-64 or arm64.
        let call = format!("/proc/{}/syscall", child.id());
        while !std::fs::read_to_string(&call).is_ok_and(|call| call.starts_with("230 ") || call.starts_with("115 ")) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Self {
            child,
            program,
            _folder: folder,
        }
    }

    fn maps(&self, args: &[&str]) -> Outcome {
        Ngmi::subcommand("maps")
            .arg(self.child.id().to_string())
            .args(args)
            .run()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies in another process: a file open for writing here would be inherited by processes that other tests start, and could not
/// be executed.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

fn has_query() -> bool {
    let has = capture::space::maps::kernel_has_query().unwrap();
    if !has {
        crate::harness::skip::skip("no PROCMAP_QUERY before kernel 6.11");
    }
    has
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

/// Start address and build ID of the program's code, from the JSON output.
fn code(listed: &Value, program: &Path) -> (String, Value) {
    let own = |mapping: &&Value| mapping["path"] == program.to_str().unwrap() && mapping["permissions"] == "r-xp";
    let mapping = listed["mappings"].as_array().unwrap().iter().find(own).unwrap();
    (
        mapping["start"].as_str().unwrap().to_owned(),
        mapping["build_id"].clone(),
    )
}

/// The build ID as read by binutils.
fn build_id_of(path: &Path) -> String {
    let notes = Command::new("readelf").arg("-n").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&notes.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    line.unwrap().to_owned()
}

#[test]
fn names_cannot_write_terminal_escapes() {
    let sleeper = Sleeper::named("a\nb\x1b[2J\u{202e}c");
    let outcome = sleeper.maps(&[]);
    outcome.expect_code(0);
    for line in outcome.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    assert!(
        outcome.stdout.contains(r"/a\nb\u{1b}[2J\u{202e}c"),
        "{}",
        outcome.stdout
    );
    let listed = json(&sleeper.maps(&["--json"]));
    let (start, _) = code(&listed, &sleeper.program);
    let outcome = sleeper.maps(&["--addr", &start]);
    outcome.expect_code(0);
    assert!(outcome.stdout.contains(r"a\nb\u{1b}[2J"), "{}", outcome.stdout);
}

#[test]
fn an_address_is_normalised() {
    let sleeper = Sleeper::named("asleep");
    let expected = build_id_of(&sleeper.program);
    let listed = json(&sleeper.maps(&["--json", "--exec"]));
    let (start, build_id) = code(&listed, &sleeper.program);
    assert_eq!(build_id, expected.as_str());
    let address = u64::from_str_radix(start.trim_start_matches("0x"), 16).unwrap() + 0x123;
    let outcome = sleeper.maps(&["--json", "-a", &format!("{address:x}"), "-a", "0x10"]);
    outcome.expect_code(1);
    let found = &json(&outcome)["addresses"];
    assert_eq!(found[0]["build_id"], expected.as_str());
    // `sleep` is position-independent: its code segment has the same offset in the file and in
    // memory.
    assert_eq!(found[0]["svma"], found[0]["file_offset"]);
    let offset = u64::from_str_radix(found[0]["file_offset"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    assert_eq!(offset & 0xfff, 0x123);
    assert_eq!(found[1]["mapping"], Value::Null);
    let outcome = sleeper.maps(&["-a", "0x10"]);
    outcome.expect_code(1);
    assert_eq!(outcome.stdout, "0x10  no mapping\n");
}

#[test]
fn both_ways_print_the_same() {
    if !has_query() {
        return;
    }
    let sleeper = Sleeper::named("asleep");
    let start = code(&json(&sleeper.maps(&["--json"])), &sleeper.program).0;
    let questions: [&[&str]; 5] = [
        &[],
        &["--exec"],
        &["--json"],
        &["--addr", &start],
        &["--addr", &start, "--json"],
    ];
    for question in questions {
        let [ioctl, text] = ["ioctl", "text"].map(|way| sleeper.maps(&[question, &["--way", way]].concat()));
        ioctl.expect_code(0);
        assert_eq!(
            ioctl.stdout.replace("PROCMAP_QUERY", "/proc/PID/maps"),
            text.stdout,
            "{question:?}"
        );
    }
}

#[test]
fn processes_without_mappings_are_distinguished() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    let stat = format!("/proc/{pid}/stat");
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    for way in [&[][..], &["--way", "text"]] {
        let run = || Ngmi::subcommand("maps").arg(&pid).args(way).run();
        run().expect_refusal(&["has ended", &pid]);
    }
    child.wait().unwrap();
    Ngmi::subcommand("maps")
        .arg(&pid)
        .run()
        .expect_refusal(&["no such process", "pgrep"]);
    Ngmi::subcommand("maps").arg("0").run().expect_refusal(&["0"]);
    if nix::unistd::geteuid().is_root()
        && std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n")
    {
        Ngmi::subcommand("maps")
            .arg("2")
            .run()
            .expect_refusal(&["kernel thread"]);
    }
}

#[test]
fn another_users_process_needs_sudo() {
    if !nix::unistd::geteuid().is_root() {
        crate::harness::skip::skip("not root: cannot switch to another user");
        return;
    }
    let sleeper = Sleeper::named("asleep");
    let folder = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let ngmi = folder.path().join("ngmi");
    copy(&crate::harness::ngmi::binary(), &ngmi);
    let pid = sleeper.child.id().to_string();
    let refused = std::os::unix::process::CommandExt::uid(Command::new(&ngmi).args(["maps", &pid]).env_clear(), 65534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains(&format!("sudo ngmi maps {pid}")),
        "{said}"
    );
}
