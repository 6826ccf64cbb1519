//! An overlay over two file systems.

use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount, umount};

/// An overlay of two file systems, whose files have other numbers than `stat` and mappings show.
pub struct Overlay(tempfile::TempDir);

impl Overlay {
    /// With a copy of this program, `other`. `None`: the kernel has no overlays, or not of this file system.
    pub fn with(program: &Path) -> Option<Self> {
        let overlay = Self(tempfile::tempdir().unwrap());
        for name in ["lower", "memory", "merged"] {
            std::fs::create_dir(overlay.at(name)).unwrap();
        }
        std::fs::copy(program, overlay.at("lower/other")).unwrap();
        overlay.mount("memory", "tmpfs", None).unwrap();
        for name in ["upper", "work"] {
            std::fs::create_dir(overlay.at("memory").join(name)).unwrap();
        }
        let root = overlay.0.path().display();
        let layers = format!("lowerdir={root}/lower,upperdir={root}/memory/upper,workdir={root}/memory/work");
        match overlay.mount("merged", "overlay", Some(&layers)) {
            Ok(()) => Some(overlay),
            Err(why) => {
                println!("skipped: no overlay: {why}");
                None
            }
        }
    }

    fn mount(&self, place: &str, kind: &str, options: Option<&str>) -> nix::Result<()> {
        let none: Option<&str> = None;
        mount(none, &self.at(place), Some(kind), MsFlags::empty(), options)
    }

    /// A file or folder of it; the overlay itself is `merged`.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        for name in ["merged", "memory"] {
            let _ = umount(&self.at(name));
        }
    }
}
