//! Start and end of functions according to `.eh_frame`: the only information about functions
//! without symbols.

use std::ops::Range;

use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EhFrameOffset, EndianSlice, ParsedEhFrameHdr, RunTimeEndian, UnwindSection as _,
};
use object::Object as _;

use crate::elf::{ElfFile, Section};

/// Maximum number of listed functions: four times those of the largest programs.
const MAX_FUNCTIONS: usize = 1 << 23;

/// The encoding of the number of entries in `.eh_frame_hdr` by all linkers. Wider numbers overflow
/// in gimli.
const DW_EH_PE_UDATA4: u8 = 3;

type Slice<'data> = EndianSlice<'data, RunTimeEndian>;

/// The sections that [`FunctionRanges`] reads, kept alive.
pub(crate) struct UnwindSections {
    eh_frame: Section,
    eh_frame_hdr: Option<Section>,
    endian: RunTimeEndian,
    address_size: u8,
}

impl UnwindSections {
    /// Reads the unwind sections of `elf`; `None` if it has no `.eh_frame`.
    pub(crate) fn of(elf: &ElfFile) -> Option<Self> {
        let object = elf.object().ok()?;
        Some(Self {
            eh_frame: elf.section(".eh_frame")?,
            eh_frame_hdr: elf.section(".eh_frame_hdr"),
            endian: if object.is_little_endian() {
                RunTimeEndian::Little
            } else {
                RunTimeEndian::Big
            },
            address_size: if object.is_64() { 8 } else { 4 },
        })
    }
}

/// A function of `.eh_frame`.
pub(crate) struct Described {
    pub range: Range<u64>,
    /// A signal handler returns to it. Unwinders look one byte before a return address, so its
    /// entry begins there, before the function.
    pub is_signal_return: bool,
}

/// Function ranges by address.
pub(crate) struct FunctionRanges<'data> {
    eh_frame: EhFrame<Slice<'data>>,
    bases: BaseAddresses,
    eh_frame_svma: u64,
    index: Index<'data>,
}

enum Index<'data> {
    /// The linker's sorted table.
    Header(ParsedEhFrameHdr<Slice<'data>>),
    /// Start and end of every function, and whether it is a signal's return, sorted, for files
    /// without that table.
    List(Vec<(u64, u64, bool)>),
}

impl<'data> FunctionRanges<'data> {
    pub(crate) fn new(sections: &'data UnwindSections) -> Self {
        let UnwindSections {
            eh_frame,
            eh_frame_hdr,
            endian,
            address_size,
        } = sections;
        let mut bases = BaseAddresses::default().set_eh_frame(eh_frame.svma.start);
        let usual = |section: &&Section| section.bytes.get(2) == Some(&DW_EH_PE_UDATA4);
        let header = eh_frame_hdr.as_ref().filter(usual).and_then(|section| {
            bases = bases.clone().set_eh_frame_hdr(section.svma.start);
            EhFrameHdr::new(&section.bytes, *endian)
                .parse(&bases, *address_size)
                .ok()
        });
        let mut eh_frame = EhFrame::new(&sections.eh_frame.bytes, *endian);
        eh_frame.set_address_size(*address_size);
        let index = match header.filter(|header| header.table().is_some()) {
            Some(header) => Index::Header(header),
            None => Index::List(list(&eh_frame, &bases)),
        };
        Self {
            eh_frame,
            eh_frame_svma: sections.eh_frame.svma.start,
            bases,
            index,
        }
    }

    /// The function that covers `svma`.
    pub(crate) fn range_of(&self, svma: u64) -> Option<Described> {
        self.last_before(svma).filter(|found| found.range.contains(&svma))
    }

    /// The last function that starts at or before `svma`.
    pub(crate) fn last_before(&self, svma: u64) -> Option<Described> {
        match &self.index {
            Index::Header(header) => {
                let table = header.table()?;
                // Not `fde_for_address`, which subtracts without a check.
                let entry = table
                    .lookup(svma, &self.bases)
                    .ok()?
                    .direct()
                    .ok()?
                    .checked_sub(self.eh_frame_svma)?;
                let offset = EhFrameOffset(usize::try_from(entry).ok()?);
                let fde = self
                    .eh_frame
                    .fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset)
                    .ok()?;
                let range = fde.initial_address()..fde.initial_address().checked_add(fde.len())?;
                (range.start <= svma).then_some(Described {
                    range,
                    is_signal_return: fde.is_signal_trampoline(),
                })
            }
            Index::List(list) => {
                let index = list.partition_point(|(start, ..)| *start <= svma).checked_sub(1)?;
                let (start, end, is_signal_return) = list.get(index).copied()?;
                Some(Described {
                    range: start..end,
                    is_signal_return,
                })
            }
        }
    }
}

fn list(eh_frame: &EhFrame<Slice<'_>>, bases: &BaseAddresses) -> Vec<(u64, u64, bool)> {
    let mut functions = Vec::new();
    let mut entries = eh_frame.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        if let Some(end) = fde.initial_address().checked_add(fde.len()) {
            functions.push((fde.initial_address(), end, fde.is_signal_trampoline()));
        }
        if functions.len() >= MAX_FUNCTIONS {
            break;
        }
    }
    functions.sort_unstable();
    functions
}
