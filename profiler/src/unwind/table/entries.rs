//! The entries of one section: each function's (FDE), and the ones they share (CIE), which are read once.

use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, FrameDescriptionEntry, PartialFrameDescriptionEntry, UnwindOffset,
    UnwindSection,
};
use rustc_hash::FxHashMap;

use super::Slice;

/// A function's entry.
pub(super) type Fde<'b> = FrameDescriptionEntry<Slice<'b>>;
/// An entry that functions share.
type Cie<'b> = CommonInformationEntry<Slice<'b>>;

/// `.eh_frame` or `.debug_frame`.
pub(super) struct Entries<'b, S> {
    pub(super) section: S,
    pub(super) bases: &'b BaseAddresses,
    /// By offset; `None`: it can't be read, and is not tried again.
    cies: FxHashMap<usize, Option<Cie<'b>>>,
}

impl<'b, S: UnwindSection<Slice<'b>>> Entries<'b, S> {
    pub(super) fn new(section: S, bases: &'b BaseAddresses) -> Self {
        Self {
            section,
            bases,
            cies: FxHashMap::default(),
        }
    }

    /// Calls `each` with every function's entry, in the section's order, and with `None` for one that can't be read.
    pub(super) fn each<E>(&mut self, mut each: impl FnMut(Option<Fde<'b>>) -> Result<(), E>) -> Result<(), E> {
        let mut entries = self.section.entries(self.bases);
        loop {
            match entries.next() {
                Ok(Some(CieOrFde::Fde(partial))) => each(parse(&mut self.cies, &partial))?,
                Ok(Some(CieOrFde::Cie(_))) => {}
                Ok(None) => return Ok(()),
                // gimli goes no further.
                Err(_) => return each(None),
            }
        }
    }

    /// The function's entry at an offset of the section.
    pub(super) fn fde(&mut self, offset: usize) -> Option<Fde<'b>> {
        let partial = self.section.partial_fde_from_offset(self.bases, offset.into()).ok()?;
        parse(&mut self.cies, &partial)
    }
}

fn parse<'b, S: UnwindSection<Slice<'b>>>(
    cies: &mut FxHashMap<usize, Option<Cie<'b>>>,
    partial: &PartialFrameDescriptionEntry<'_, S, Slice<'b>>,
) -> Option<Fde<'b>> {
    let fde = partial.parse(|section, bases, offset| {
        let read = || section.cie_from_offset(bases, offset).ok();
        let cie = cies.entry(UnwindOffset::into(offset)).or_insert_with(read);
        cie.clone().ok_or(gimli::Error::NotCieId(0))
    });
    fde.ok()
}
