//! A disk of one's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A disk that reads nothing ahead, so that each page that is touched is a read: where the code is, newer kernels read around also what was
/// advised to be read at random (`mm/filemap.c`: `do_sync_mmap_readahead`).
pub struct Disk {
    device: String,
    /// Where it is mounted.
    pub folder: PathBuf,
}

impl Disk {
    /// Made in this folder; `None`: this machine has none to give.
    pub fn new(folder: &Path) -> Option<Self> {
        let image = folder.join("image");
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let mounted = folder.join("disk");
        fs::create_dir(&mounted).unwrap();
        let script = "PATH=$PATH:/usr/sbin:/sbin; mke2fs -q -t ext4 \"$1\" && device=$(losetup --show -f \"$1\") && \
                      echo 0 >/sys/block/${device#/dev/}/queue/read_ahead_kb && mount \"$device\" \"$2\" && echo \"$device\"";
        let made = Command::new("sh")
            .args(["-c", script, "sh"])
            .args([&image, &mounted])
            .output()
            .unwrap();
        if !made.status.success() {
            println!("skipped: no disk of our own: {}", String::from_utf8_lossy(&made.stderr));
            return None;
        }
        Some(Self {
            device: String::from_utf8(made.stdout).unwrap().trim().to_owned(),
            folder: mounted,
        })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let script = "PATH=$PATH:/usr/sbin:/sbin; umount \"$1\"; losetup -d \"$2\"";
        let _ = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&self.folder)
            .arg(&self.device)
            .status();
    }
}
