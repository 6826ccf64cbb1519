//! The tables that all threads share: frames, functions, stacks, symbols, sources, strings.
//!
//! A frame becomes one row per function inlined at its address, outermost first; likewise a stack.
//! The rows of a frame or stack are consecutive and in the order of the tables, which is how the
//! reader finds them.

pub(crate) mod categories;
pub(crate) mod columns;
mod json;
pub(crate) mod labels;
pub(crate) mod left;
pub(crate) mod place;

use std::borrow::Cow;
use std::ops::Range;

use self::categories::Category;
use self::left::{Left, is_named};
use crate::error::WriteError;
use base::intern::Interner;
use fact::{Frame, FrameId, FrameName, Location, ModuleId, SourceFrame, StackId, Tables};

/// The format's −1 for a missing value: no address, no library, no resource.
const NONE: i64 = -1;

/// A row of the frame table: a function at an address.
#[derive(Debug, Clone, Copy)]
struct FrameRow {
    /// Address relative to the library, of the call instruction rather than after it.
    address: i64,
    lib: i64,
    inline_depth: u32,
    category: u8,
    func: u32,
    native_symbol: Option<u32>,
    line: Option<u32>,
}

/// Identity of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Func {
    name: u32,
    /// Its resource; resources are the modules, with the same indices.
    module: Option<ModuleId>,
    source: Option<u32>,
}

/// A symbol that contains frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct NativeSymbol {
    name: u32,
    module: ModuleId,
    start: u64,
    size: Option<u64>,
    is_named: bool,
}

/// Numbers a value as the front end stores it.
fn number<T: Clone + Eq + std::hash::Hash>(rows: &mut Interner<T>, value: T) -> Result<u32, WriteError> {
    let most = 1 << 31;
    rows.add(value, most).ok_or(WriteError::TooLarge)
}

/// The front end stores row numbers as signed 32-bit integers.
fn row_number(len: usize) -> Result<u32, WriteError> {
    i32::try_from(len)
        .map(i32::unsigned_abs)
        .map_err(|_| WriteError::TooLarge)
}

/// The shared tables of a profile.
#[derive(Debug)]
pub struct Shared<'a> {
    tables: &'a Tables,
    left: Left,
    strings: Interner<Cow<'a, str>>,
    sources: Interner<u32>,
    funcs: Interner<Func>,
    symbols: Interner<NativeSymbol>,
    resource_names: Vec<u32>,
    frames: Vec<FrameRow>,
    /// First row of each frame, and the end.
    frame_starts: Vec<u32>,
    stack_frames: Vec<u32>,
    stack_prefix_offsets: Vec<u32>,
    /// Innermost row of each stack.
    stack_ends: Vec<u32>,
}

impl<'a> Shared<'a> {
    /// Adds all frames and stacks of the tables.
    pub fn new(tables: &'a Tables) -> Result<Self, WriteError> {
        let mut shared = Self {
            tables,
            left: Left::of(tables),
            strings: Interner::default(),
            sources: Interner::default(),
            funcs: Interner::default(),
            symbols: Interner::default(),
            resource_names: Vec::with_capacity(tables.modules.len()),
            frames: Vec::with_capacity(tables.frames.len()),
            frame_starts: Vec::with_capacity(tables.frames.len() + 1),
            stack_frames: Vec::with_capacity(tables.stacks.len()),
            stack_prefix_offsets: Vec::with_capacity(tables.stacks.len()),
            stack_ends: Vec::with_capacity(tables.stacks.len()),
        };
        for module in &tables.modules {
            let name = shared.string(Cow::Borrowed(&module.name))?;
            shared.resource_names.push(name);
        }
        for (frame, id) in tables.frames.iter().zip(0..) {
            let name = tables.names.get(&FrameId(id));
            shared.add_frame(frame, name, is_named(tables, FrameId(id)))?;
        }
        let end = row_number(shared.frames.len())?;
        shared.frame_starts.push(end);
        for index in 0..tables.stacks.len() {
            shared.add_stack(index)?;
        }
        Ok(shared)
    }

    /// Index of a string in the profile's string array.
    pub fn string(&mut self, text: Cow<'a, str>) -> Result<u32, WriteError> {
        number(&mut self.strings, text)
    }

    /// Adds a synthetic frame, after those of the tables.
    pub fn add_label(&mut self, name: Cow<'a, str>, category: Category) -> Result<u32, WriteError> {
        let row = row_number(self.frames.len())?;
        let func = self.func(name, None, None)?;
        self.frames.push(FrameRow {
            address: NONE,
            lib: NONE,
            inline_depth: 0,
            category: category as u8,
            func,
            native_symbol: None,
            line: None,
        });
        Ok(row)
    }

    /// Adds a stack that ends in a label, after those of the tables.
    pub fn add_labelled(&mut self, caller: Option<StackId>, label: u32) -> Result<u32, WriteError> {
        self.add_stack_row(self.stack_row(caller), label)
    }

    /// Adds a row of a synthetic stack, after those of the tables.
    pub fn add_stack_row(&mut self, caller: Option<u32>, frame: u32) -> Result<u32, WriteError> {
        let row = row_number(self.stack_frames.len())?;
        self.stack_frames.push(frame);
        self.stack_prefix_offsets.push(caller.map_or(0, |caller| row - caller));
        Ok(row)
    }

    /// Number of rows of the stack table so far.
    pub fn stack_rows(&self) -> usize {
        self.stack_frames.len()
    }

    /// Row of a stack's innermost function.
    pub fn stack_row(&self, stack: Option<StackId>) -> Option<u32> {
        self.stack_ends.get(stack?.index()).copied()
    }

    /// Rows of a frame, outermost function first.
    pub fn frame_rows(&self, frame: FrameId) -> Range<u32> {
        let row = |index: usize| self.frame_starts.get(index).copied().unwrap_or_default();
        row(frame.index())..row(frame.index() + 1)
    }

    /// The modules that are left to the front end's symbol servers.
    pub fn left(&self) -> &Left {
        &self.left
    }

    /// Start and size of each row of `nativeSymbols`, exactly.
    pub fn symbol_ranges(&self) -> impl Iterator<Item = String> + Clone {
        self.symbols
            .iter()
            .map(|symbol| place::encode_range(symbol.start, symbol.size))
    }

    fn add_frame(&mut self, frame: &Frame, name: Option<&'a FrameName>, is_named: bool) -> Result<(), WriteError> {
        let location = &frame.location;
        let module = location.module();
        if module.is_some_and(|module| module.index() >= self.tables.modules.len()) {
            return Err(WriteError::Inconsistent("a frame's module"));
        }
        let start = row_number(self.frames.len())?;
        self.frame_starts.push(start);
        let mut row = FrameRow {
            address: self.relative_address(frame),
            lib: module.map_or(NONE, |module| i64::from(self.left.library(module, is_named))),
            inline_depth: 0,
            category: Category::from(location) as u8,
            func: 0,
            native_symbol: None,
            line: None,
        };
        let Some(name) = name else {
            row.func = self.func(Cow::Owned(self.tables.address_name(location)), module, None)?;
            self.frames.push(row);
            return Ok(());
        };
        if let Some(module) = module {
            let symbol = self.string(Cow::Borrowed(&name.symbol))?;
            let symbol = NativeSymbol {
                name: symbol,
                module,
                start: name.symbol_start,
                size: name.symbol_size,
                is_named,
            };
            row.native_symbol = Some(number(&mut self.symbols, symbol)?);
        }
        if name.inline_chain.is_empty() {
            row.func = self.func(Cow::Borrowed(&name.symbol), module, None)?;
            self.frames.push(row);
        }
        for (SourceFrame { function, file, line }, depth) in name.inline_chain.iter().rev().zip(0..) {
            row.inline_depth = depth;
            row.func = self.func(Cow::Borrowed(function), module, file.as_deref())?;
            row.line = *line;
            self.frames.push(row);
        }
        Ok(())
    }

    fn func(&mut self, name: Cow<'a, str>, module: Option<ModuleId>, file: Option<&'a str>) -> Result<u32, WriteError> {
        let name = self.string(name)?;
        let source = match file {
            Some(file) => {
                let file = self.string(Cow::Borrowed(file))?;
                Some(number(&mut self.sources, file)?)
            }
            None => None,
        };
        number(&mut self.funcs, Func { name, module, source })
    }

    /// The address in the symbol server's form; [`NONE`] if it does not fit 32 bits.
    fn relative_address(&self, frame: &Frame) -> i64 {
        let address = match &frame.location {
            Location::Module { module, svma } => {
                let base = self
                    .tables
                    .modules
                    .get(module.index())
                    .map_or(0, |module| module.base_svma.0);
                svma.0.checked_sub(base)
            }
            Location::Kernel { offset, .. } => Some(offset.0),
            // Run-time addresses and file offsets mean nothing to a symbol server.
            _ => None,
        };
        let address = address.and_then(|address| address.checked_sub(u64::from(frame.is_return_address)));
        address
            .and_then(|address| u32::try_from(address).ok())
            .map_or(NONE, i64::from)
    }

    fn add_stack(&mut self, index: usize) -> Result<(), WriteError> {
        let node = self.tables.stacks[index];
        let frame = node.frame.index();
        let (Some(&start), Some(&end)) = (self.frame_starts.get(frame), self.frame_starts.get(frame + 1)) else {
            return Err(WriteError::Inconsistent("a stack's frame"));
        };
        let first = row_number(self.stack_frames.len())?;
        let mut offset = match node.parent {
            None => 0,
            Some(parent) if parent.index() < index => first - self.stack_ends[parent.index()],
            Some(_) => return Err(WriteError::Inconsistent("a stack's caller")),
        };
        for frame in start..end {
            self.stack_frames.push(frame);
            self.stack_prefix_offsets.push(offset);
            offset = 1;
        }
        self.stack_ends
            .push(row_number(self.stack_frames.len())?.saturating_sub(1));
        Ok(())
    }
}
