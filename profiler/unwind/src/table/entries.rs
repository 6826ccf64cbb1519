//! The entries of one section: one per function (FDE), and shared ones (CIE), which are read once.

use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, FrameDescriptionEntry, PartialFrameDescriptionEntry, UnwindOffset,
    UnwindSection,
};
use rustc_hash::FxHashMap;

use super::Slice;

/// The entry of a function.
pub(super) type Fde<'b> = FrameDescriptionEntry<Slice<'b>>;
/// A shared entry.
type Cie<'b> = CommonInformationEntry<Slice<'b>>;

/// `.eh_frame` or `.debug_frame`.
pub(super) struct Entries<'b, S> {
    pub(super) section: S,
    pub(super) bases: &'b BaseAddresses,
    /// Shared entries by offset; `None`: unreadable, and not retried.
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

    /// Calls `each` with every function's entry in section order, and with `None` for an unreadable
    /// one.
    pub(super) fn each<E>(&mut self, mut each: impl FnMut(Option<Fde<'b>>) -> Result<(), E>) -> Result<(), E> {
        let mut entries = self.section.entries(self.bases);
        loop {
            match entries.next() {
                Ok(Some(CieOrFde::Fde(partial))) => each(parse(&mut self.cies, &partial))?,
                Ok(Some(CieOrFde::Cie(_))) => {}
                Ok(None) => return Ok(()),
                // gimli stops here.
                Err(_) => return each(None),
            }
        }
    }

    /// Reads the function's entry at an offset of the section.
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
