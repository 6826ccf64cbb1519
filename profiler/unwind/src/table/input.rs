//! The input of a table, copied from the file: its owner may change it at any time, and the hashed
//! bytes must be the compiled ones.

use std::ops::Range;

use gimli::BaseAddresses;
use profiler_common::unwind::Arch;
use sha2::{Digest as _, Sha256};
use symbols::elf::{self, ElfFile, Section};
use zerocopy::IntoBytes as _;

use super::stubs::{self, Stubs};
use super::{TableError, functions, last_calls};
use base::table::Digest;

/// Maximum bytes of unwind information: those of ten libraries as large as libxul.so.
pub(super) const MAX_SECTIONS: usize = 256 << 20;

/// The input of a table. The compiler reads nothing else, so files with the same digest have the
/// same table.
pub struct Input {
    /// Digest of all other fields.
    pub digest: Digest,
    pub(super) arch: Arch,
    /// Stated addresses of the executable segments.
    pub(super) code: Vec<Range<u64>>,
    /// Entry address, which the kernel or the loader jumps to.
    pub(super) entry: Option<u64>,
    pub(super) stubs: Vec<Stubs>,
    /// Calls to functions whose callers have no caller.
    pub(super) last_calls: Vec<Range<u64>>,
    pub(super) eh_frame: Vec<u8>,
    pub(super) debug_frame: Vec<u8>,
    /// Base addresses for relative pointers in the sections: those of `.eh_frame`, `.text`, `.got`.
    starts: [Option<u64>; 3],
}

impl Input {
    /// Reads the input from `elf`.
    ///
    /// # Errors
    /// [`TableError::Processor`], [`TableError::TooLarge`].
    pub fn of(elf: &ElfFile) -> Result<Self, TableError> {
        let arch = match elf.arch() {
            elf::Arch::X86_64 => Arch::X86_64,
            elf::Arch::Aarch64 => Arch::Aarch64,
            elf::Arch::Other(machine) => return Err(TableError::Processor(machine)),
        };
        let (eh_frame, debug_frame) = (elf.section(".eh_frame"), elf.section(".debug_frame"));
        let size = |section: &Option<Section>| section.as_ref().map_or(0, |section| section.bytes.len());
        if size(&eh_frame).saturating_add(size(&debug_frame)) > MAX_SECTIONS {
            return Err(TableError::TooLarge);
        }
        let start = |name| elf.section_svma(name).map(|svma| svma.start);
        let bytes = |section: Option<Section>| section.map_or_else(Vec::new, |section| section.bytes.to_owned_bytes());
        let executable = elf.segments().iter().filter(|segment| segment.executable);
        let mut input = Self {
            digest: Digest::default(),
            arch,
            code: executable
                .map(|segment| segment.svma..segment.svma.saturating_add(segment.memory_size))
                .collect(),
            entry: functions::entry_of(elf),
            stubs: stubs::find(elf, arch),
            last_calls: last_calls::find(elf),
            starts: [
                eh_frame.as_ref().map(|section| section.svma.start),
                start(".text"),
                start(".got"),
            ],
            eh_frame: bytes(eh_frame),
            debug_frame: bytes(debug_frame),
        };
        input.digest = input.hash();
        Ok(input)
    }

    pub(super) fn bases(&self) -> BaseAddresses {
        let [eh_frame, text, got] = self.starts;
        let mut bases = BaseAddresses::default();
        if let Some(start) = eh_frame {
            bases = bases.set_eh_frame(start);
        }
        if let Some(start) = text {
            bases = bases.set_text(start);
        }
        if let Some(start) = got {
            bases = bases.set_got(start);
        }
        bases
    }

    /// Each count is hashed before the counted items, so different inputs never produce the same
    /// bytes.
    fn hash(&self) -> Digest {
        let Self {
            digest: _,
            arch,
            code,
            entry,
            stubs,
            last_calls,
            eh_frame,
            debug_frame,
            starts,
        } = self;
        let mut hash = Sha256::new();
        let mut number = |number: u64| hash.update(number.to_le_bytes());
        number(match arch {
            Arch::X86_64 => 1,
            Arch::Aarch64 => 2,
        });
        for ranges in [code, last_calls] {
            number(ranges.len() as u64);
            for range in ranges {
                number(range.start);
                number(range.end);
            }
        }
        for address in [*entry].iter().chain(starts) {
            number(u64::from(address.is_some()));
            number(address.unwrap_or(0));
        }
        number(stubs.len() as u64);
        for Stubs { svma, rows, alone: _ } in stubs {
            [svma.start, svma.end, rows.len() as u64]
                .into_iter()
                .for_each(&mut number);
            for (at, row) in rows {
                number(*at);
                number(row.as_bytes().iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
            }
        }
        let has_others = !stubs.iter().any(|stubs| stubs.alone);
        if !has_others {
            number(u64::MAX);
        }
        number(eh_frame.len() as u64);
        number(debug_frame.len() as u64);
        hash.update(eh_frame);
        hash.update(debug_frame);
        hash.finalize().into()
    }
}
