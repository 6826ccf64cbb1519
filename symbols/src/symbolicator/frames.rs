//! Inline chains with files and lines, from DWARF, read by samply-symbols.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use samply_symbols::{FrameDebugInfo, FramesLookupResult, LookupAddress, SourceFilePath, SymbolManager, SymbolMap};
use tokio::runtime::Runtime;

use super::SourceFrame;
use super::debug_files::{DebugFiles, Location};
use super::locate::Opened;
use super::split::Split;

/// Maximum inline depth; outer levels beyond it are dropped.
const MAX_INLINE_DEPTH: usize = 512;

pub(super) const NAMELESS_INLINED: &str = "[inlined function without a name]";

/// Whether a function has this name, possibly among others.
type IsSymbol<'a> = &'a dyn Fn(&str) -> bool;

/// The DWARF of one module.
pub(super) struct Frames<'runtime> {
    runtime: &'runtime Runtime,
    map: SymbolMap<DebugFiles>,
    files: Arc<DebugFiles>,
    /// Fallback for code that samply-symbols finds nothing for.
    split: Option<Split>,
    /// Set after a panic inside samply-symbols.
    broken: Cell<bool>,
}

impl<'runtime> Frames<'runtime> {
    /// Loads the DWARF of `opened`; `None` if it has no readable DWARF.
    pub(super) fn load(runtime: &'runtime Runtime, opened: &Opened) -> Option<Self> {
        if !opened.elf.has_section(".debug_info") {
            return None;
        }
        let manager = SymbolManager::with_helper(DebugFiles::new(&opened.elf)?);
        let load =
            || runtime.block_on(manager.load_symbol_map_from_location(Location::First(opened.path.clone()), None));
        let map = catch_unwind(AssertUnwindSafe(load)).ok()?.ok()?;
        Some(Self {
            runtime,
            map,
            files: manager.helper(),
            split: Split::of(&opened.elf, &opened.path),
            broken: Cell::new(false),
        })
    }

    /// Whether a file was truncated while it was read: lines may be wrong.
    pub(super) fn was_cut(&self) -> bool {
        self.files.was_cut() || self.split.as_ref().is_some_and(Split::was_cut)
    }

    /// The functions at `svma`, innermost first; empty if unknown. `symbol` is the name of the
    /// outermost one, and `is_symbol` tests for all of its names.
    pub(super) fn lookup(&self, svma: u64, symbol: &str, is_symbol: IsSymbol<'_>) -> Vec<SourceFrame> {
        if self.broken.get() {
            return Vec::new();
        }
        // Damaged DWARF can make samply-symbols panic. Then lines are missing, but not names.
        let lookup = || {
            let found = self.lookup_unguarded(svma, symbol, is_symbol);
            let split = self.split.as_ref().filter(|_| found.is_empty());
            split.map_or(found, |split| of_split(split.lookup(svma, MAX_INLINE_DEPTH), symbol))
        };
        catch_unwind(AssertUnwindSafe(lookup)).unwrap_or_else(|_| {
            self.broken.set(true);
            Vec::new()
        })
    }

    fn lookup_unguarded(&self, svma: u64, symbol: &str, is_symbol: IsSymbol<'_>) -> Vec<SourceFrame> {
        let Some(info) = self.map.lookup_sync(LookupAddress::Svma(svma)) else {
            return Vec::new();
        };
        let frames = match info.frames {
            Some(FramesLookupResult::Available(frames)) => frames,
            // The unit is in another file (`-gsplit-dwarf`), which samply-symbols caches.
            Some(FramesLookupResult::External(reference)) => self
                .runtime
                .block_on(self.map.lookup_external(&reference))
                .unwrap_or_default(),
            None => Vec::new(),
        };
        let outermost = frames.len().saturating_sub(1);
        let convert = |(depth, frame)| {
            let outermost = (depth == outermost).then_some((symbol, is_symbol));
            source_frame(frame, outermost)
        };
        frames
            .into_iter()
            .enumerate()
            .map(convert)
            .take(MAX_INLINE_DEPTH)
            .collect()
    }
}

/// Replaces missing names of frames with a placeholder.
fn of_split(mut frames: Vec<SourceFrame>, symbol: &str) -> Vec<SourceFrame> {
    let outermost = frames.len().saturating_sub(1);
    for (depth, frame) in frames
        .iter_mut()
        .enumerate()
        .filter(|(_, frame)| frame.function.is_empty())
    {
        let name = if depth == outermost { symbol } else { NAMELESS_INLINED };
        name.clone_into(&mut frame.function);
    }
    frames
}

/// `outermost` is the function's symbol with a test for all of its names.
fn source_frame(frame: FrameDebugInfo, outermost: Option<(&str, IsSymbol<'_>)>) -> SourceFrame {
    let function = match (frame.function.filter(|name| !name.is_empty()), outermost) {
        (Some(name), Some((_, is_symbol))) => with_its_underscore(name, is_symbol),
        (Some(name), None) => with_both_underscores(name),
        (None, Some((symbol, _))) => symbol.to_owned(),
        (None, None) => NAMELESS_INLINED.to_owned(),
    };
    SourceFrame {
        function,
        file: frame
            .file_path
            .map(SourceFilePath::into_raw_path)
            .filter(|path| !path.is_empty()),
        line: frame.line_number.filter(|line| *line != 0),
    }
}

/// An inlined function's name. samply-symbols removes one underscore from the front of plain C names: if one is left,
/// there were two. Otherwise it is unknown whether there was one: `get` may be inlined, and call `_get`.
fn with_both_underscores(name: String) -> String {
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte));
    if name.starts_with('_') && is_plain {
        format!("_{name}")
    } else {
        name
    }
}

/// The name of a function that has a symbol, with the underscore that samply-symbols removed.
fn with_its_underscore(name: String, is_symbol: IsSymbol<'_>) -> String {
    let whole = format!("_{name}");
    if !is_symbol(&name) && is_symbol(&whole) {
        whole
    } else {
        name
    }
}
