//! File systems of each kind that a test can mount, unmounted when dropped.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// How to mount a folder: `$1` is an empty folder.
const KINDS: [(&str, &str); 3] = [
    ("tmpfs", "mount -t tmpfs none $1 && mkdir $1/top"),
    (
        "overlay",
        "mount -t tmpfs none $1 && mkdir $1/lower $1/upper $1/work $1/top && echo x >$1/lower/below && chmod 644 $1/lower/below &&
         mount -t overlay -o lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work none $1/top",
    ),
    (
        "btrfs",
        "mount -t tmpfs none $1 && mkdir $1/top && truncate -s 128M $1/image && mkfs.btrfs -q $1/image >/dev/null 2>&1 && mount -o loop $1/image $1/top",
    ),
];

/// A mounted file system.
pub struct Mounted {
    pub kind: &'static str,
    folder: tempfile::TempDir,
}

impl Mounted {
    /// One of each kind; `skip` is called with the reason for those that this machine refuses.
    pub fn each(skip: impl Fn(&str)) -> Vec<Self> {
        let mounted = KINDS.into_iter().filter_map(|(kind, script)| {
            let mounted = Self {
                kind,
                folder: tempfile::Builder::new().prefix("ngmi-mounted-").tempdir().unwrap(),
            };
            let done = Command::new("sh")
                .args(["-c", &format!("PATH=$PATH:/usr/sbin:/sbin; {script}"), "sh"])
                .arg(mounted.folder.path())
                .output()
                .unwrap();
            if !done.status.success() {
                let why = String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; ");
                skip(&format!("{kind} can't be mounted here: {why}"));
                return None;
            }
            for folder in [mounted.folder.path().to_owned(), mounted.top()] {
                use std::os::unix::fs::PermissionsExt as _;
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
            }
            Some(mounted)
        });
        mounted.collect()
    }

    /// Mount point, as the kernel names it.
    pub fn top(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("top")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let script = "umount -l \"$1/top\"; umount -l \"$1\"";
        let _ = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(self.folder.path())
            .output();
    }
}
