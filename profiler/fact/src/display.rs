//! Display names of frames, and which process is the command: one rule for profile, reports and summary.

use std::borrow::Cow;

use super::{FrameId, Location, MappedFile, ModuleId, ProcessId, Tables};
use base::addr::{Avma, KernelOffset};
use base::event::FileId;

/// Code with an unknown name counts as one function per page, since one blob would otherwise be a thousand functions.
const PAGE: u64 = 4096;

/// Start of the page that contains an address.
fn page_of(address: u64) -> u64 {
    address / PAGE * PAGE
}

/// Display name of memory that processes share without a file.
const SHARED_MEMORY: &str = "[shared anonymous memory]";

impl Tables {
    /// The process that runs the recorded command: the first without a recorded parent. `None` for recordings of
    /// running processes and of the whole system.
    pub fn command_process(&self) -> Option<ProcessId> {
        if self.recording.scope != "command" {
            return None;
        }
        let roots = self
            .processes
            .iter()
            .zip(0..)
            .filter(|(process, _)| process.parent.is_none());
        roots
            .min_by_key(|(process, id)| (process.start, *id))
            .map(|(_, id)| ProcessId(id))
    }

    /// Display name of a module; `[unknown]` for an id that the tables do not have.
    pub fn module_name(&self, module: ModuleId) -> &str {
        self.modules
            .get(module.index())
            .map_or("[unknown]", |module| module.name.as_str())
    }

    /// The innermost function at a frame, or a placeholder where its name is unknown.
    pub fn function_name(&self, frame: FrameId) -> Cow<'_, str> {
        if let Some(name) = self.names.get(&frame) {
            return Cow::Borrowed(
                name.inline_chain
                    .first()
                    .map_or(&*name.symbol, |inner| &*inner.function),
            );
        }
        match self.frames.get(frame.index()) {
            Some(frame) => Cow::Owned(self.address_name(&frame.location)),
            None => Cow::Borrowed("[unknown]"),
        }
    }

    /// Placeholder for a function name where only the address is known.
    pub fn address_name(&self, location: &Location) -> String {
        match location {
            Location::Module { module, svma } => {
                let base = self.modules.get(module.index()).map_or(0, |module| module.base_svma.0);
                nameless(self.module_name(*module), page_of(svma.0.wrapping_sub(base)))
            }
            Location::FileOffset { module, offset } => {
                nameless(self.module_name(*module), page_of(offset.0)) + " (file offset)"
            }
            Location::Kernel { module, offset } => {
                format!("{} {}", self.module_name(*module), signed(*offset))
            }
            Location::Jit { module, start, .. } => format!("{:#x} {}", start.0, self.module_name(*module)),
            Location::Anonymous {
                module, avma: Avma(0), ..
            } => self.module_name(*module).to_owned(),
            Location::Anonymous { module, avma, .. } => {
                format!("{:#x} {}", page_of(avma.0), self.module_name(*module))
            }
            Location::Unmapped { avma, .. } => format!("{:#x} [unmapped]", page_of(avma.0)),
            Location::Truncated(reason) => format!("[truncated: {}]", reason.name()),
        }
    }
}

/// Name of a nameless function: its file, and where it starts there.
pub fn nameless(file: &str, start: u64) -> String {
    format!("{file} + {start:#x}")
}

/// The offset part of a name built by [`nameless`].
pub fn place_of_nameless(name: &str) -> Option<&str> {
    let (file, digits) = name.rsplit_once(" + 0x")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| &name[file.len() + 1..])
}

/// The last part of a path; the whole path of devices and the kernel's own files: `1` says nothing, `/dev/pts/1` does.
pub fn short_path(path: &str) -> &str {
    if ["/dev/", "/proc/", "/sys/"].iter().any(|start| path.starts_with(start)) {
        return path;
    }
    let last = path.rsplit('/').find(|part| !part.is_empty());
    last.unwrap_or(path)
}

impl MappedFile {
    /// Memory that processes share without a file: the kernel keeps it as a deleted file of this name (mm/shmem.c: `shmem_zero_setup`).
    fn is_shared_memory(&self) -> bool {
        self.deleted && &*self.path == "/dev/zero"
    }

    /// Its path, marked if it was deleted, or a placeholder for an unknown path.
    pub fn display_path(&self) -> String {
        if self.is_shared_memory() {
            return SHARED_MEMORY.to_owned();
        }
        let FileId {
            major, minor, inode, ..
        } = self.id;
        let path = if self.path.is_empty() {
            format!("[device {major}:{minor} inode {inode}]")
        } else {
            self.path.to_string()
        };
        if self.deleted && !path.ends_with(" (deleted)") {
            path + " (deleted)"
        } else {
            path
        }
    }

    /// The last part of its path, or its placeholder.
    pub fn short_name(&self) -> String {
        if self.path.is_empty() || self.is_shared_memory() {
            return self.display_path();
        }
        short_path(&self.path).to_owned()
    }
}

/// Kernel modules may be below `_text`: their offsets wrap.
fn signed(offset: KernelOffset) -> String {
    let below = offset.0.wrapping_neg();
    if below < offset.0 {
        format!("- {below:#x}")
    } else {
        format!("+ {:#x}", offset.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Module, ModuleKind, TruncationReason};
    use base::addr::{FileOffset, Svma};
    use base::event::FileId;

    fn names(locations: &[Location]) -> Vec<String> {
        let module = Module {
            kind: ModuleKind::File,
            name: "libx.so".into(),
            path: String::new(),
            file: FileId::default(),
            build_id: Vec::new(),
            base_svma: Svma(0x40_0000),
            deleted: false,
            problem: None,
        };
        let tables = Tables {
            modules: vec![module],
            ..Tables::default()
        };
        locations.iter().map(|location| tables.address_name(location)).collect()
    }

    #[test]
    fn unnamed_functions_are_distinguished_from_named() {
        assert_eq!(place_of_nameless(&nameless("my lib + 1.so", 0x1f0)), Some("+ 0x1f0"));
        for name in [
            "main",
            "operator+(A, B)",
            "fun_1f0",
            "libx.so + 0x",
            "libx.so + 0x10 (file offset)",
        ] {
            assert_eq!(place_of_nameless(name), None, "{name}");
        }
    }

    #[test]
    fn addresses_in_files_and_kernel_are_relative() {
        let module = ModuleId(0);
        let kernel = |offset| Location::Kernel {
            module,
            offset: KernelOffset(offset),
        };
        let offset = FileOffset(0x2010);
        let file = [
            Location::Module {
                module,
                svma: Svma(0x40_1234),
            },
            Location::FileOffset { module, offset },
        ];
        assert_eq!(names(&file), ["libx.so + 0x1000", "libx.so + 0x2000 (file offset)"]);
        assert_eq!(
            names(&[kernel(0x20), kernel(u64::MAX - 0xf)]),
            ["libx.so + 0x20", "libx.so - 0x10"]
        );
    }

    #[test]
    fn files_have_meaningful_short_names() {
        let file = |path: &str, deleted| MappedFile {
            path: path.into(),
            deleted,
            ..MappedFile::default()
        };
        for (path, deleted, short, whole) in [
            ("/usr/lib/libx.so", false, "libx.so", "/usr/lib/libx.so"),
            ("/usr/lib/libx.so", true, "libx.so", "/usr/lib/libx.so (deleted)"),
            // What a person types.
            ("/dev/pts/1", false, "/dev/pts/1", "/dev/pts/1"),
            ("/dev/zero", false, "/dev/zero", "/dev/zero"),
            ("/dev/zero", true, SHARED_MEMORY, SHARED_MEMORY),
            ("", false, "[device 0:0 inode 0]", "[device 0:0 inode 0]"),
        ] {
            let file = file(path, deleted);
            assert_eq!(
                (file.short_name().as_str(), file.display_path().as_str()),
                (short, whole)
            );
        }
        assert_eq!(
            [short_path("a/b/"), short_path("/"), short_path("/proc/7/maps")],
            ["b", "/", "/proc/7/maps"]
        );
    }

    #[test]
    fn other_addresses_are_absolute() {
        let (module, process) = (ModuleId(0), ProcessId(0));
        let locations = [
            Location::Jit {
                module,
                process,
                start: Avma(0x7f00),
                offset: 9,
                code: 0,
            },
            Location::Anonymous {
                module,
                process,
                avma: Avma(0x7f_0123),
            },
            Location::Anonymous {
                module,
                process,
                avma: Avma(0),
            },
            Location::Unmapped {
                process,
                avma: Avma(0x9909),
            },
            Location::Truncated(TruncationReason::Limit),
        ];
        let expected = [
            "0x7f00 libx.so",
            "0x7f0000 libx.so",
            "libx.so",
            "0x9000 [unmapped]",
            "[truncated: frame limit]",
        ];
        assert_eq!(names(&locations), expected);
    }
}
