//! Opens mapped files: through the descriptors that capture passed on, or by path if the file is still the same.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::memfd::{MFdFlags, memfd_create};
use rustc_hash::FxHashMap;
use symbols::elf::ElfFile;

use crate::capture::files::open::open_without_links;
use crate::capture::files::same_file::require_same;
use crate::capture::proc::open_files;
use crate::capture::socket::wire::Mapped;
use crate::event::FileId;
use crate::unwind::Binaries;

/// The name of its mappings.
const VDSO: &str = "[vdso]";

/// The code that the kernel maps into every process, from the running kernel.
#[derive(Debug, Clone)]
pub struct Vdso(Option<Arc<[u8]>>);

impl Vdso {
    /// Reads our own: all 64-bit processes of a boot have the same. Call it before root is given up.
    pub fn of_this_kernel() -> Self {
        Self(read_vdso().map(Into::into))
    }

    /// An unnamed file with its bytes; `None`: there is no vdso, or no memory for the file.
    fn file(&self) -> Option<File> {
        let bytes = self.0.as_ref()?;
        let mut file = File::from(memfd_create("vdso", MFdFlags::MFD_CLOEXEC).ok()?);
        file.write_all(bytes).ok()?;
        Some(file)
    }

    /// As an ELF file.
    ///
    /// # Errors
    /// When it could not be read, in words.
    pub fn elf(&self) -> Result<ElfFile, String> {
        let bytes = self.0.clone().ok_or("the kernel's vdso could not be read")?;
        ElfFile::from_bytes(bytes).map_err(|error| error.to_string())
    }
}

fn read_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?.min(1 << 20)];
    let mut memory = File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(start)).ok()?;
    memory.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// A file that was requested before, or the reason why it is not available.
type Opened = Result<Arc<ElfFile>, String>;

/// Opens the files of mappings.
#[derive(Debug)]
pub struct OpenBinaries {
    /// The files that were passed on, or the reason why one was not.
    passed: FxHashMap<FileId, Result<File, String>>,
    vdso: Vdso,
    /// The vdso as an unnamed file, which the symbolizer can open.
    vdso_file: Option<File>,
    open: RefCell<FxHashMap<(FileId, String), Opened>>,
    /// Files that root opened by name.
    held: RefCell<FxHashMap<(FileId, String), File>>,
    is_root: bool,
}

impl OpenBinaries {
    /// Takes over what capture passed on; nothing for a log that is converted later.
    pub fn new(mapped: Vec<(Mapped, Option<File>)>, vdso: Vdso) -> Self {
        let mut passed = FxHashMap::default();
        for (mapping, file) in mapped {
            let why = mapping
                .problem
                .unwrap_or_else(|| "not passed on by the privileged helper".to_owned());
            passed.insert(mapping.file, file.ok_or(why));
        }
        Self {
            passed,
            vdso_file: vdso.file(),
            vdso,
            open: RefCell::default(),
            held: RefCell::default(),
            is_root: nix::unistd::geteuid().is_root(),
        }
    }

    fn open_elf(&self, id: FileId, path: &str, build_id: &[u8]) -> Result<ElfFile, String> {
        if path == VDSO {
            return self.vdso.elf();
        }
        let by_path =
            || symbols::open_patiently(Path::new(path), open_without_links).map_err(|error| error.to_string());
        let (file, certain) = match self.passed.get(&id) {
            Some(Ok(file)) => (file.try_clone().map_err(|error| error.to_string())?, true),
            Some(Err(why)) => (by_path().map_err(|error| format!("{why}; {error}"))?, false),
            None => (by_path()?, false),
        };
        let held = if certain { None } else { file.try_clone().ok() };
        let is_same = certain || (build_id.is_empty() && require_same(&file, id).is_ok());
        let elf = ElfFile::open(file).map_err(|error| error.to_string())?;
        let same_build = !build_id.is_empty() && elf.build_id() == build_id;
        if !is_same && !same_build {
            return Err("the file was replaced since it was mapped".to_owned());
        }
        if let Some(held) = held.filter(|held| self.is_root && !open_files::is_of_the_last(held)) {
            self.held.borrow_mut().insert((id, path.to_owned()), held);
        }
        Ok(elf)
    }

    /// Whether the file was truncated while stacks were unwound with it.
    pub fn was_cut(&self, id: FileId, path: &str) -> bool {
        let open = self.open.borrow();
        let known = open.iter().filter(|((file, name), _)| *file == id && name == path);
        known.flat_map(|(_, opened)| opened).any(|elf| elf.was_cut())
    }

    /// Forgets the files that stacks were unwound with: their mapped pages count as memory, and symbols are read from other mappings.
    pub fn unmap(&self) {
        self.open.borrow_mut().clear();
    }

    /// A path that opens the file now, even if its name has changed. For root it leads to the very file that was
    /// checked: the name may mean another one by the time that it is opened.
    pub fn open_path(&self, id: FileId, path: &str, build_id: &[u8]) -> PathBuf {
        let by_descriptor = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        match self.passed.get(&id) {
            _ if path == VDSO => self.vdso_file.as_ref().map_or_else(PathBuf::new, by_descriptor),
            Some(Ok(file)) => by_descriptor(file),
            _ if self.is_root => {
                let opened = self.elf(id, path, build_id).is_ok();
                let held = self.held.borrow();
                let file = held.get(&(id, path.to_owned())).filter(|_| opened);
                // Beyond the limit of open files, only its name is left.
                let by_name = || if opened { PathBuf::from(path) } else { PathBuf::new() };
                file.map_or_else(by_name, by_descriptor)
            }
            _ => PathBuf::from(path),
        }
    }
}

impl Binaries for OpenBinaries {
    fn elf(&self, id: FileId, path: &str, build_id: &[u8]) -> Result<Arc<ElfFile>, String> {
        let key = (id, path.to_owned());
        if let Some(known) = self.open.borrow().get(&key) {
            return known.clone();
        }
        let opened = self.open_elf(id, path, build_id).map(Arc::new);
        self.open.borrow_mut().insert(key, opened.clone());
        opened
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_vdso_is_an_elf_file() {
        let binaries = OpenBinaries::new(Vec::new(), Vdso::of_this_kernel());
        let elf = binaries.elf(FileId::default(), "[vdso]", &[]).unwrap();
        assert!(elf.section(".eh_frame").is_some());
    }

    #[test]
    fn a_different_file_with_the_same_name_is_rejected() {
        let binaries = OpenBinaries::new(Vec::new(), Vdso(None));
        let exe = std::env::current_exe().unwrap();
        let meta = std::fs::metadata(&exe).unwrap();
        let path = exe.to_string_lossy();
        let right = FileId {
            major: libc::major(meta.dev()),
            minor: libc::minor(meta.dev()),
            inode: meta.ino(),
            generation: 0,
        };
        assert!(binaries.elf(right, &path, &[]).is_ok());
        let wrong = FileId {
            inode: right.inode + 1,
            ..right
        };
        assert!(binaries.elf(wrong, &path, &[]).unwrap_err().contains("replaced"));
        assert!(
            binaries
                .elf(wrong, &path, b"another build")
                .unwrap_err()
                .contains("replaced")
        );
        assert!(binaries.elf(right, "/dev/null", &[]).is_err());
    }
}
