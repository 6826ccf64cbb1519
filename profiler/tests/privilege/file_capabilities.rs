//! A recording with file capabilities: it is complete, and the command gets none of the privileges.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::harness::procfs;
use crate::harness::skip::needs_capture;
use crate::user::{ALL, USER, User, said, status};

/// Numbers in include/uapi/linux/capability.h, as a set.
const NEEDED: u64 = 1 << 39 | 1 << 38 | 1 << 34 | 1 << 40;

const SCRIPT: &str = "/usr/bin/id -u; while read -r line; do case $line in Cap[IPEA]*|NoNew*) echo $line;; esac; done </proc/self/status; \
                      echo libraries=$LD_LIBRARY_PATH temporary=$TMPDIR; /bin/ls -l /proc/self/fd; ./id-of-root -u; ./burn 500";

#[test]
fn a_user_records_without_root() {
    needs_capture!();
    let Some(user) = User::with(ALL) else { return };
    std::fs::copy("/usr/bin/id", user.path("id-of-root")).unwrap();
    std::fs::set_permissions(user.path("id-of-root"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    let output = user
        .ngmi("record")
        .args(["--save-only", "-o", "out.json.gz", "--", "/bin/sh", "-c", SCRIPT])
        // The command gets even what the C library removes from the environment of a privileged program.
        .env("LD_LIBRARY_PATH", "/somewhere")
        .env("TMPDIR", user.folder.path())
        // In a debug build, a user who sets the object would gain ngmi's privileges: ignored here.
        .env("NGMI_EBPF_OBJECT", "/no/such/object")
        .output()
        .unwrap();
    let profile = user.profile(&output);
    assert!(profile.main_of("burn").share("burn_here") > 0.9);
    assert!(profile.main_of("burn").cpu_ms() >= 490.0);
    let lines: Vec<String> = said(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines[0], USER.to_string());
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
        assert!(
            line.ends_with(" 0000000000000000"),
            "the command has privileges: {line}"
        );
    }
    assert!(lines.contains(&"NoNewPrivs: 1".to_owned()), "{lines:?}");
    let folder = user.folder.path().display();
    assert!(
        lines.contains(&format!("libraries=/somewhere temporary={folder}")),
        "{lines:?}"
    );
    // The test runner may have left descriptors open for all children.
    let bare = user.runs("/bin/ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let count = |text: &str| text.lines().filter(|line| line.contains(" -> ")).count();
    assert_eq!(count(&said(&output)), count(&said(&bare)), "descriptors: {lines:?}");
    assert_eq!(
        lines.iter().filter(|line| **line == USER.to_string()).count(),
        2,
        "a set-user-id program gains nothing: {lines:?}"
    );
    std::fs::remove_file(user.path("id-of-root")).unwrap();
    assert_eq!(user.files_of_others(), Vec::<std::path::PathBuf>::new());
}

/// The privileged helper drops all other capabilities of the file, and the recorder drops all of them.
#[test]
fn each_process_keeps_only_the_capabilities_it_needs() {
    needs_capture!();
    let Some(user) =
        User::with("cap_bpf,cap_perfmon,cap_sys_admin,cap_sys_ptrace,cap_dac_override,cap_setuid,cap_kill+ep")
    else {
        return;
    };
    let mut recorder = user
        .ngmi("record")
        .args(["--save-only", "-o", "out.json.gz", "--", "./burn", "3000"])
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let runs = |pid: u32, name: &str| procfs::command_line(pid).iter().any(|word| word == name);
    let [capture, burn] = loop {
        assert!(Instant::now() < end, "the recording does not begin");
        let all = procfs::descendants(recorder.id());
        let find = |name| all.iter().copied().find(|&pid| runs(pid, name));
        // Before it becomes the command, its command line contains ngmi's words.
        let is_command = |pid: &u32| !runs(*pid, "__exec") && !runs(*pid, "record");
        if let (Some(capture), Some(burn)) = (find("__capture"), find("./burn").filter(is_command)) {
            break [capture, burn];
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let set = |pid, name| u64::from_str_radix(&status(pid, name), 16).unwrap();
    for pid in [recorder.id(), burn] {
        for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(set(pid, name), 0, "process {pid}: {name}");
        }
    }
    assert_eq!(set(capture, "CapPrm"), NEEDED & (1 << 39 | 1 << 38));
    assert_eq!(set(capture, "CapEff"), NEEDED & (1 << 39 | 1 << 38));
    assert_eq!((set(capture, "CapInh"), set(capture, "CapAmb")), (0, 0));
    assert_eq!(status(burn, "NoNewPrivs"), "1");
    assert!(recorder.wait().unwrap().success());
}

#[test]
fn the_doctor_explains_each_capability() {
    needs_capture!();
    let Some(user) = User::with("cap_bpf,cap_perfmon+ep") else {
        return;
    };
    let output = user.ngmi("doctor").arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = |name: &str| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter()
            .find(|row| row["hook"] == name)
            .unwrap_or_else(|| panic!("no row {name}"))
            .clone()
    };
    assert!(row("cap_bpf")["refused"].is_null() && row("cap_perfmon")["refused"].is_null());
    assert!(
        row("cap_syslog")["refused"]
            .as_str()
            .unwrap()
            .contains("kernel functions")
    );
    assert!(row("cap_syslog")["remedy"].as_str().unwrap().contains(ALL));
    let output = user.records(&["--", "./burn", "500"]);
    assert!(user.profile(&output).main_of("burn").share("burn_here") > 0.9);
}
