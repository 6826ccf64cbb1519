//! The bytes of a .BTF section: the kernel's own are mapped, so that they take no memory.

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::{Mmap, MmapOptions};

use super::VMLINUX;

/// The bytes of a .BTF section.
pub(super) enum Bytes {
    /// The kernel's own memory, since Linux 6.16 (`btf_sysfs_vmlinux_mmap` in `kernel/bpf/sysfs_btf.c`).
    Mapped(Mmap),
    /// A copy, of which the kernel writes one page at a time.
    Read(Vec<u8>),
}

impl Bytes {
    /// Those of the running kernel.
    pub(super) fn of_kernel() -> io::Result<Self> {
        let file = File::open(VMLINUX)?;
        // SAFETY: nothing writes to this memory or frees it: it is part of the kernel's read-only data.
        let mapped = unsafe { MmapOptions::new().map_copy_read_only(&file) };
        mapped.map_or_else(
            |_| Ok(Self::Read(std::fs::read(VMLINUX)?)),
            |mapped| Ok(Self::Mapped(mapped)),
        )
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Read(bytes) => bytes,
        }
    }
}
