//! Memory that a user may not inspect is not in that user's recording: of programs that are executable but not
//! readable, of processes that hide, and of set-user-id programs, regardless of the recording's privileges.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome};
use crate::user::{ALL, User, said};

const NOBODY: u32 = 65534;
/// A string that tests/oracles/hiding.c has on its stack, and not in its file.
const WORD: &[u8] = b"swordfish-on-the-stack";

fn holds_word(log: &Path) -> bool {
    let log = std::fs::read(log).unwrap();
    assert!(log.len() > 1 << 16, "{} bytes", log.len());
    log.windows(WORD.len()).any(|bytes| bytes == WORD)
}

/// Root's copy, in the folder.
fn hiding(folder: &Path, name: &str, mode: u32) {
    let path = folder.join(name);
    Oracle::c("hiding").copied(&path);
    chown(&path, Some(0), Some(0)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn with_file_capabilities() {
    needs_capture!();
    let Some(user) = User::with(ALL) else { return };
    hiding(user.folder.path(), "open", 0o755);
    hiding(user.folder.path(), "closed", 0o711);
    for (command, dumpable, is_recorded) in [
        ("./open 300", 1, true),
        ("./closed 300", 0, false),
        ("./open 300 hide", 0, false),
    ] {
        let script = format!("{command}; ./burn 300");
        let words = [
            "--keep-events",
            "kept.events",
            "--check-walks",
            "--",
            "/bin/sh",
            "-c",
            &script,
        ];
        let output = user.records(&words);
        let profile = user.profile(&output);
        let said = said(&output);
        assert!(said.contains(&format!("dumpable={dumpable}")), "{said}");
        assert_eq!(holds_word(&user.path("kept.events")), is_recorded, "{command}");
        assert_eq!(
            said.contains("hid memory from the user"),
            !is_recorded,
            "{command}: {said}"
        );
        assert!(
            profile.main_of("burn").share("burn_here") > 0.8,
            "what runs after it is recorded"
        );
        for name in ["kept.events", "out.json.gz"] {
            std::fs::remove_file(user.path(name)).unwrap();
        }
    }
}

fn under_sudo(mode: u32, arguments: &str) -> (Outcome, bool) {
    let ngmi = Ngmi::record_as_sudo(NOBODY).args(["--keep-events", "kept.events", "--check-walks"]);
    let folder = ngmi.dir().to_owned();
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    Oracle::c("burn").copied(&folder.join("burn"));
    hiding(&folder, "hiding", mode);
    let script = format!("./hiding 300 {arguments}; ./burn 300");
    let outcome = ngmi.program("/bin/sh", ["-c", &script]).run();
    outcome.expect_code(0);
    assert!(outcome.profile().main_of("burn").share("burn_here") > 0.8);
    let holds_word = holds_word(&outcome.file("kept.events"));
    (outcome, holds_word)
}

#[test]
fn under_sudo_of_programs_with_other_rights() {
    needs_capture!();
    for (mode, arguments, is_recorded) in [
        (0o755, "", true),
        (0o4755, "", false),
        (0o2755, "", false),
        (0o711, "", false),
        // A browser's processes hide; they are the user's own, and were requested.
        (0o755, "hide", true),
    ] {
        let (outcome, holds_word) = under_sudo(mode, arguments);
        assert_eq!(holds_word, is_recorded, "{mode:o} {arguments}: {}", outcome.stderr);
        let is_said = outcome.stderr.contains("hid memory from the user");
        assert_eq!(is_said, !is_recorded, "{mode:o} {arguments}: {}", outcome.stderr);
    }
}
