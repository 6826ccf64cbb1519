//! Functions, inline chains and lines from a Breakpad symbol file, read by samply-symbols.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use samply_symbols::debugid::DebugId;
use samply_symbols::{
    FrameDebugInfo, FramesLookupResult, LookupAddress, SourceFilePath, SymbolManager, SymbolMap, SyncAddressInfo,
};
use tokio::runtime::Runtime;

use super::debug_files::{DebugFiles, Location};
use super::{AddressName, SourceFrame};
use crate::demangle::demangle;

/// Maximum inline depth; outer levels beyond it are dropped.
const MAX_INLINE_DEPTH: usize = 512;

/// The symbols of one module.
pub(super) struct SymbolFile {
    map: SymbolMap<DebugFiles>,
    files: Arc<DebugFiles>,
    /// Set after a panic inside samply-symbols.
    broken: Cell<bool>,
}

/// How far a name reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// A `FUNC` with its size.
    Function,
    /// A `PUBLIC`, which may end anywhere before the next symbol.
    ToNext,
}

impl SymbolFile {
    /// Reads a file whose contents were checked when it was downloaded. `None`: it is damaged, or
    /// for another build.
    pub(super) fn load(runtime: &Runtime, file: &File, id: DebugId) -> Option<Self> {
        let manager = SymbolManager::with_helper(DebugFiles::of_symbols(file)?);
        let location = Location::First(Path::new("symbols.sym").to_owned());
        let load = || runtime.block_on(manager.load_symbol_map_from_location(location, None));
        let map = catch_unwind(AssertUnwindSafe(load)).ok()?.ok()?;
        (map.debug_id() == id).then(|| Self {
            map,
            files: manager.helper(),
            broken: Cell::new(false),
        })
    }

    /// Whether the file was truncated while it was read.
    pub(super) fn was_cut(&self) -> bool {
        self.files.was_cut()
    }

    /// The function at an address relative to the module's base.
    pub(super) fn lookup(&self, address: u32) -> Option<(AddressName, Extent)> {
        if self.broken.get() {
            return None;
        }
        // A damaged file can make samply-symbols panic. Then names are missing.
        let lookup = || self.map.lookup_sync(LookupAddress::Relative(address));
        let found = catch_unwind(AssertUnwindSafe(lookup)).unwrap_or_else(|_| {
            self.broken.set(true);
            None
        })?;
        Some(describe(found)).filter(|(name, _)| !name.symbol.is_empty())
    }
}

fn describe(found: SyncAddressInfo) -> (AddressName, Extent) {
    let (frames, extent) = match found.frames {
        Some(FramesLookupResult::Available(frames)) => (frames, Extent::Function),
        _ => (Vec::new(), Extent::ToNext),
    };
    let symbol = demangle(&found.symbol.name);
    let mut inline_chain: Vec<_> = frames
        .into_iter()
        .take(MAX_INLINE_DEPTH)
        .map(|frame| source_frame(frame, &symbol))
        .collect();
    if inline_chain.is_empty() {
        inline_chain.push(SourceFrame {
            function: symbol.clone(),
            file: None,
            line: None,
        });
    }
    let name = AddressName {
        symbol,
        is_nameless: false,
        symbol_start: found.symbol.address,
        symbol_size: found.symbol.size,
        inline_chain,
    };
    (name, extent)
}

fn source_frame(frame: FrameDebugInfo, symbol: &str) -> SourceFrame {
    let name = frame.function.filter(|name| !name.is_empty());
    SourceFrame {
        function: name.map_or_else(|| symbol.to_owned(), |name| demangle(&name)),
        file: frame
            .file_path
            .map(SourceFilePath::into_raw_path)
            .filter(|path| !path.is_empty()),
        line: frame.line_number.filter(|line| *line != 0),
    }
}
