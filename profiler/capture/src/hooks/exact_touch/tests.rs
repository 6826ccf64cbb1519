//! Tests of `exact_touch` with a folder instead of the kernel's debug file system.

use super::*;

/// The value of another program, and the kernel's default.
const USUAL: u64 = 65536;

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.set(USUAL);
        machine
    }

    fn places(&self) -> Places {
        Places {
            debugfs: Debugfs::at(self.0.path()).unwrap(),
            folder: self.0.path().join("run"),
        }
    }

    fn begin(&self) -> (ExactTouch, Option<String>) {
        ExactTouch::begin_at(self.places()).unwrap()
    }

    fn set(&self, bytes: u64) {
        std::fs::write(self.0.path().join(SETTING), format!("{bytes}\n")).unwrap();
    }

    fn setting(&self) -> u64 {
        self.places().debugfs.read(SETTING).unwrap()
    }

    fn remembered(&self) -> PathBuf {
        self.0.path().join("run").join(REMEMBERED)
    }
}

/// Like SIGKILL of a recorder: its descriptors are closed, and nothing else happens.
fn kill(mut recorder: ExactTouch) {
    drop(recorder.remembered.take());
}

#[test]
fn a_recording_restores_the_setting() {
    let machine = Machine::new();
    let (mut one, message) = machine.begin();
    assert_eq!((machine.setting(), message), (page_size(), None));
    assert!(one.status().hook.contains("65536"), "{:?}", one.status());
    one.end().unwrap();
    assert_eq!(machine.setting(), USUAL);
    assert!(!machine.remembered().exists());
    // A second end does not affect the next recording.
    let (_other, _) = machine.begin();
    one.end().unwrap();
    drop(one);
    assert_eq!(machine.setting(), page_size());
}

#[test]
fn a_failed_recording_restores_the_setting() {
    let machine = Machine::new();
    drop(machine.begin());
    assert_eq!(machine.setting(), USUAL);
}

#[test]
fn the_last_of_several_restores_the_setting() {
    let machine = Machine::new();
    let (mut one, _) = machine.begin();
    let (mut other, message) = machine.begin();
    assert_eq!((other.before, message), (USUAL, None));
    let (mut third, _) = machine.begin();
    one.end().unwrap();
    third.end().unwrap();
    assert_eq!(machine.setting(), page_size());
    assert_eq!(machine.places().recover().unwrap(), None);
    assert_eq!(machine.setting(), page_size());
    other.end().unwrap();
    assert_eq!(machine.setting(), USUAL);
}

#[test]
fn settings_of_a_killed_recording_are_restored_and_reported() {
    let machine = Machine::new();
    kill(machine.begin().0);
    assert_eq!(machine.setting(), page_size());
    let message = machine.places().recover().unwrap().unwrap();
    assert!(message.contains("restored to 65536"), "{message}");
    assert_eq!((machine.setting(), machine.remembered().exists()), (USUAL, false));
    assert_eq!(machine.places().recover().unwrap(), None);
}

#[test]
fn the_value_before_a_killed_recording_is_known() {
    let machine = Machine::new();
    kill(machine.begin().0);
    let (mut next, message) = machine.begin();
    assert!(message.unwrap().contains("killed"));
    assert_eq!((next.before, machine.setting()), (USUAL, page_size()));
    next.end().unwrap();
    assert_eq!(machine.setting(), USUAL);
}

#[test]
fn one_of_two_is_killed() {
    let machine = Machine::new();
    let (one, other) = (machine.begin().0, machine.begin().0);
    kill(one);
    assert_eq!(machine.places().recover().unwrap(), None);
    drop(other);
    assert_eq!(machine.setting(), USUAL);
}

#[test]
fn a_value_set_by_the_user_meanwhile_is_kept() {
    let machine = Machine::new();
    let (mut one, _) = machine.begin();
    machine.set(16384);
    one.end().unwrap();
    assert_eq!((machine.setting(), machine.remembered().exists()), (16384, false));
}

#[test]
fn an_earlier_boot_and_nonsense_are_forgotten() {
    for text in ["another-boot\n1048576\n", "", "\u{0}\n", "x"] {
        let machine = Machine::new();
        drop(machine.begin());
        machine.set(page_size());
        std::fs::write(machine.remembered(), text).unwrap();
        assert_eq!(machine.places().recover().unwrap(), None, "{text:?}");
        assert_eq!((machine.setting(), machine.remembered().exists()), (page_size(), false));
    }
}

#[test]
fn a_file_writable_by_others_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::new();
    let folder = machine.0.path().join("run");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(ExactTouch::begin_at(machine.places()).is_err());
    std::fs::remove_dir(&folder).unwrap();
    std::os::unix::fs::symlink("/tmp", &folder).unwrap();
    assert!(ExactTouch::begin_at(machine.places()).is_err());
    assert_eq!(machine.setting(), USUAL);
}

#[test]
fn a_missing_setting_is_reported_with_a_remedy() {
    let machine = Machine::new();
    std::fs::remove_file(machine.0.path().join(SETTING)).unwrap();
    let error = format!("{:#}", ExactTouch::begin_at(machine.places()).unwrap_err());
    assert!(
        error.contains("CONFIG_DEBUG_FS") && error.contains("record without"),
        "{error}"
    );
    assert!(!machine.0.path().join("run").exists());
}
