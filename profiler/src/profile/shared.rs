//! The tables that all threads share: frames, functions, stacks, symbols, sources, strings.
//!
//! A frame becomes one row for each function inlined at its address, outermost first; a stack likewise. Rows of a
//! frame or stack follow each other in the order of the tables, which is how the reader finds them again.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::categories::Category;
use super::columns::{Column, Repeat};
use super::place;
use super::write::WriteError;
use crate::fact::{Frame, FrameId, FrameName, Location, ModuleId, SourceFrame, StackId, Tables};

/// What the format marks with −1: no address, no library, no resource.
const NONE: i64 = -1;
/// JavaScript counts exactly up to here.
const JS_MAX: u64 = (1 << 53) - 1;
/// `ResourceType.Library`
const RESOURCE_LIBRARY: u32 = 1;

/// A row of the frame table: a function at an address.
#[derive(Debug, Clone, Copy)]
struct FrameRow {
    /// Relative to the library, of the call instruction rather than after it.
    address: i64,
    lib: i64,
    inline_depth: u32,
    category: u8,
    func: u32,
    native_symbol: Option<u32>,
    line: Option<u32>,
}

/// What makes two frames the same function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Func {
    name: u32,
    /// Its resource; resources are the modules, with the same numbers.
    module: Option<ModuleId>,
    source: Option<u32>,
}

/// A symbol that frames lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct NativeSymbol {
    name: u32,
    module: ModuleId,
    start: u64,
    size: Option<u64>,
}

/// Numbers distinct things in the order of their first appearance.
#[derive(Debug)]
struct Interner<T> {
    rows: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    fn new() -> Self {
        Self {
            rows: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }

    fn number(&mut self, thing: T) -> Result<u32, WriteError> {
        if let Some(number) = self.numbers.get(&thing) {
            return Ok(*number);
        }
        let number = row_number(self.rows.len())?;
        self.rows.push(thing.clone());
        self.numbers.insert(thing, number);
        Ok(number)
    }
}

/// The front end keeps row numbers in signed 32-bit integers.
fn row_number(len: usize) -> Result<u32, WriteError> {
    i32::try_from(len)
        .map(i32::unsigned_abs)
        .map_err(|_| WriteError::TooLarge)
}

/// The shared tables of a profile.
#[derive(Debug)]
pub struct Shared<'a> {
    tables: &'a Tables,
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
    /// Lays out every frame and stack of the tables.
    pub fn new(tables: &'a Tables) -> Result<Self, WriteError> {
        let mut shared = Self {
            tables,
            strings: Interner::new(),
            sources: Interner::new(),
            funcs: Interner::new(),
            symbols: Interner::new(),
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
            shared.add_frame(frame, tables.names.get(&FrameId(id)))?;
        }
        let end = row_number(shared.frames.len())?;
        shared.frame_starts.push(end);
        for index in 0..tables.stacks.len() {
            shared.add_stack(index)?;
        }
        Ok(shared)
    }

    /// Number of a string in the profile's string array.
    pub fn string(&mut self, text: Cow<'a, str>) -> Result<u32, WriteError> {
        self.strings.number(text)
    }

    /// Row of a stack's innermost function.
    pub fn stack_row(&self, stack: StackId) -> Option<u32> {
        self.stack_ends.get(stack.index()).copied()
    }

    /// Start and size of each row of `nativeSymbols`, exactly.
    pub fn symbol_ranges(&self) -> impl Iterator<Item = String> + Clone {
        self.symbols
            .rows
            .iter()
            .map(|symbol| place::encode_range(symbol.start, symbol.size))
    }

    fn add_frame(&mut self, frame: &Frame, name: Option<&'a FrameName>) -> Result<(), WriteError> {
        let location = &frame.location;
        let module = location.module();
        if module.is_some_and(|module| module.index() >= self.tables.modules.len()) {
            return Err(WriteError::Inconsistent("a frame's module"));
        }
        let start = row_number(self.frames.len())?;
        self.frame_starts.push(start);
        let mut row = FrameRow {
            address: self.relative_address(frame),
            lib: module.map_or(NONE, |module| i64::from(module.0)),
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
            };
            row.native_symbol = Some(self.symbols.number(symbol)?);
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
                Some(self.sources.number(file)?)
            }
            None => None,
        };
        self.funcs.number(Func { name, module, source })
    }

    /// As the symbol server counts it; [`NONE`] where that does not fit its 32 bits.
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
            // Neither addresses at run time nor file offsets mean anything to a symbol server.
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

impl Serialize for Shared<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tables = serializer.serialize_struct("shared", 8)?;
        tables.serialize_field("stackTable", &StackTable(self))?;
        tables.serialize_field("frameTable", &FrameTable(&self.frames))?;
        tables.serialize_field("funcTable", &FuncTable(&self.funcs.rows))?;
        tables.serialize_field("resourceTable", &ResourceTable(&self.resource_names))?;
        tables.serialize_field("nativeSymbols", &NativeSymbols(self))?;
        tables.serialize_field("sources", &Sources(&self.sources.rows))?;
        let none: [(); 0] = [];
        let locations = serde_json::json!({"length": 0, "source": none, "line": none, "column": none});
        tables.serialize_field("sourceLocationTable", &locations)?;
        tables.serialize_field("stringArray", &self.strings.rows)?;
        tables.end()
    }
}

struct StackTable<'a>(&'a Shared<'a>);

impl Serialize for StackTable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serializer.serialize_struct("stackTable", 3)?;
        table.serialize_field("length", &self.0.stack_frames.len())?;
        table.serialize_field("frame", &self.0.stack_frames)?;
        table.serialize_field("prefixOffset", &self.0.stack_prefix_offsets)?;
        table.end()
    }
}

struct FrameTable<'a>(&'a [FrameRow]);

impl Serialize for FrameTable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.0;
        let mut table = serializer.serialize_struct("frameTable", 12)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("address", &Column(rows, |row: &FrameRow| row.address))?;
        table.serialize_field("lib", &Column(rows, |row: &FrameRow| row.lib))?;
        table.serialize_field("inlineDepth", &Column(rows, |row: &FrameRow| row.inline_depth))?;
        table.serialize_field("category", &Column(rows, |row: &FrameRow| row.category))?;
        table.serialize_field("subcategory", &Repeat(0, rows.len()))?;
        table.serialize_field("func", &Column(rows, |row: &FrameRow| row.func))?;
        table.serialize_field("nativeSymbol", &Column(rows, |row: &FrameRow| row.native_symbol))?;
        table.serialize_field("innerWindowID", &Repeat(0, rows.len()))?;
        table.serialize_field("line", &Column(rows, |row: &FrameRow| row.line))?;
        table.serialize_field("column", &Repeat((), rows.len()))?;
        table.serialize_field("originalLocation", &Repeat((), rows.len()))?;
        table.end()
    }
}

struct FuncTable<'a>(&'a [Func]);

impl Serialize for FuncTable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.0;
        let mut table = serializer.serialize_struct("funcTable", 9)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("name", &Column(rows, |row: &Func| row.name))?;
        table.serialize_field("isJS", &Repeat(false, rows.len()))?;
        table.serialize_field("relevantForJS", &Repeat(false, rows.len()))?;
        let resource = |row: &Func| row.module.map_or(NONE, |module| i64::from(module.0));
        table.serialize_field("resource", &Column(rows, resource))?;
        table.serialize_field("source", &Column(rows, |row: &Func| row.source))?;
        table.serialize_field("lineNumber", &Repeat((), rows.len()))?;
        table.serialize_field("columnNumber", &Repeat((), rows.len()))?;
        table.serialize_field("originalLocation", &Repeat((), rows.len()))?;
        table.end()
    }
}

struct ResourceTable<'a>(&'a [u32]);

impl Serialize for ResourceTable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serializer.serialize_struct("resourceTable", 4)?;
        table.serialize_field("length", &self.0.len())?;
        table.serialize_field("name", self.0)?;
        table.serialize_field("host", &Repeat((), self.0.len()))?;
        table.serialize_field("type", &Repeat(RESOURCE_LIBRARY, self.0.len()))?;
        table.end()
    }
}

struct NativeSymbols<'a>(&'a Shared<'a>);

impl Serialize for NativeSymbols<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Shared { tables, symbols, .. } = self.0;
        let rows = symbols.rows.as_slice();
        let address = |row: &NativeSymbol| {
            let base = tables
                .modules
                .get(row.module.index())
                .map_or(0, |module| module.base_svma.0);
            row.start.saturating_sub(base).min(JS_MAX)
        };
        let mut table = serializer.serialize_struct("nativeSymbols", 5)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("libIndex", &Column(rows, |row: &NativeSymbol| row.module.0))?;
        table.serialize_field("address", &Column(rows, address))?;
        table.serialize_field("name", &Column(rows, |row: &NativeSymbol| row.name))?;
        table.serialize_field(
            "functionSize",
            &Column(rows, |row: &NativeSymbol| row.size.map(|size| size.min(JS_MAX))),
        )?;
        table.end()
    }
}

struct Sources<'a>(&'a [u32]);

impl Serialize for Sources<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = self.0.len();
        let mut table = serializer.serialize_struct("sources", 7)?;
        table.serialize_field("length", &len)?;
        table.serialize_field("id", &Repeat((), len))?;
        table.serialize_field("filename", self.0)?;
        table.serialize_field("startLine", &Repeat(1, len))?;
        table.serialize_field("startColumn", &Repeat(1, len))?;
        table.serialize_field("sourceMapURL", &Repeat((), len))?;
        table.serialize_field("content", &Repeat((), len))?;
        table.end()
    }
}
