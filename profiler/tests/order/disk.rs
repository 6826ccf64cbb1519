//! A separate disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A disk without read-ahead, where each touched page is a read: newer kernels read around code even if it was
/// advised as random (`mm/filemap.c`: `do_sync_mmap_readahead`).
pub struct Disk {
    device: String,
    /// Mount point.
    pub folder: PathBuf,
}

impl Disk {
    /// Creates a disk in this folder; `None` if this machine can't.
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
            println!(
                "skipped: cannot create a disk: {}",
                String::from_utf8_lossy(&made.stderr)
            );
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
