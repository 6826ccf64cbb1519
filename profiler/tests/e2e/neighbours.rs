//! Other users of the machine can't access a served profile, even with what they read in the process list.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{ngmi, skip};
use crate::profile_synthetic;

/// Two users who own no files on the machine.
const PERSON: u32 = 64_131;
const NEIGHBOUR: u32 = 64_132;

/// `ngmi load`, started by `PERSON`.
struct Served {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    /// A script that replaces the browser and records its arguments.
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("ngmi-test-").tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::copy(ngmi::binary(), path("ngmi")).unwrap();
        std::fs::write(path("profile.json"), profile_synthetic::everything().json()).unwrap();
        let script = "#!/bin/sh\nprintf '%s\\n' \"$@\" > argv.part && mv argv.part argv\n";
        std::fs::write(path("xdg-open"), script).unwrap();
        std::fs::set_permissions(path("xdg-open"), PermissionsExt::from_mode(0o755)).unwrap();
        for file in [folder.path(), &path("profile.json")] {
            chown(file, Some(PERSON), Some(PERSON)).unwrap();
        }
        let child = Command::new(path("ngmi"))
            .args(["load", "profile.json"])
            .current_dir(folder.path())
            .uid(PERSON)
            .gid(PERSON)
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
            .env_remove("SUDO_UID")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(path("stderr")).unwrap())
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Arguments of the browser.
    fn argv(&self) -> String {
        let begin = Instant::now();
        while !self.path("argv").exists() {
            assert!(begin.elapsed() < Duration::from_mins(1), "no browser was started");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::read_to_string(self.path("argv")).unwrap().trim().to_owned()
    }

    /// The address of the profile, as shown in the terminal.
    fn profile(&self) -> String {
        let shown = std::fs::read_to_string(self.path("stderr")).unwrap();
        let encoded = shown.split("/from-url/").nth(1).unwrap().split('/').next().unwrap();
        encoded.replace("%3A", ":").replace("%2F", "/")
    }
}

/// The whole response to a GET by this user.
fn get(uid: u32, url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let (address, port) = host.split_once(':').unwrap();
    let script = format!(
        "exec 3<>/dev/tcp/{address}/{port} && printf 'GET /{path} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' >&3 && cat <&3"
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(Path::new("/"))
        .uid(uid)
        .gid(uid)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn other_users_cannot_fetch_a_served_profile() {
    if !nix::unistd::geteuid().is_root() {
        skip::skip("not root: cannot switch to two other users");
        return;
    }
    let served = Served::start();
    let argv = served.argv();
    let profile = served.profile();
    let token = profile.split('/').nth(3).unwrap();
    assert!(token.len() == 32 && !argv.contains(token), "{argv}: {token}");
    // The neighbour gets no byte, even with the link itself.
    for url in [&argv, &profile] {
        assert_eq!(get(NEIGHBOUR, url), "", "{url}");
    }
    assert!(
        get(PERSON, &profile).starts_with("HTTP/1.1 200"),
        "the profile belongs to the person"
    );
    assert!(
        get(0, &profile).starts_with("HTTP/1.1 200"),
        "root reads everything anyway"
    );
    // After the browser has connected, its arguments are useless.
    let answer = get(PERSON, &argv);
    assert!(answer.starts_with("HTTP/1.1 303") && answer.contains(token), "{answer}");
    assert!(get(PERSON, &argv).starts_with("HTTP/1.1 404"));
    assert!(get(PERSON, &profile).starts_with("HTTP/1.1 200"));
}
