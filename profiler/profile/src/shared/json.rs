//! Serializes the shared tables as JSON, column by column.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::columns::{Column, Repeat};
use super::{FrameRow, Func, NONE, NativeSymbol, Shared};

/// Largest integer that JavaScript represents exactly, with all smaller ones.
const JS_MAX: u64 = (1 << 53) - 1;
/// `ResourceType.Library`
const RESOURCE_LIBRARY: u32 = 1;

impl Serialize for Shared<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tables = serializer.serialize_struct("shared", 8)?;
        tables.serialize_field("stackTable", &StackTable(self))?;
        tables.serialize_field("frameTable", &FrameTable(&self.frames))?;
        tables.serialize_field("funcTable", &FuncTable(&self.funcs))?;
        tables.serialize_field("resourceTable", &ResourceTable(&self.resource_names))?;
        tables.serialize_field("nativeSymbols", &NativeSymbols(self))?;
        tables.serialize_field("sources", &Sources(self))?;
        let none: [(); 0] = [];
        let locations = serde_json::json!({"length": 0, "source": none, "line": none, "column": none});
        tables.serialize_field("sourceLocationTable", &locations)?;
        tables.serialize_field("stringArray", &*self.strings)?;
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
        let Shared {
            tables, symbols, left, ..
        } = self.0;
        let rows = &**symbols;
        let address = |row: &NativeSymbol| {
            let base = tables
                .modules
                .get(row.module.index())
                .map_or(0, |module| module.base_svma.0);
            row.start.saturating_sub(base).min(JS_MAX)
        };
        let library = |row: &NativeSymbol| left.library(row.module, row.is_named);
        let mut table = serializer.serialize_struct("nativeSymbols", 5)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("libIndex", &Column(rows, library))?;
        table.serialize_field("address", &Column(rows, address))?;
        table.serialize_field("name", &Column(rows, |row: &NativeSymbol| row.name))?;
        table.serialize_field(
            "functionSize",
            &Column(rows, |row: &NativeSymbol| row.size.map(|size| size.min(JS_MAX))),
        )?;
        table.end()
    }
}

struct Sources<'a>(&'a Shared<'a>);

impl Serialize for Sources<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Shared {
            tables,
            sources,
            strings,
            ..
        } = self.0;
        let rows = &**sources;
        let content = |row: &u32| {
            let path = strings.get(*row as usize)?;
            tables.sources.get(&**path)
        };
        let len = rows.len();
        let mut table = serializer.serialize_struct("sources", 7)?;
        table.serialize_field("length", &len)?;
        table.serialize_field("id", &Repeat((), len))?;
        table.serialize_field("filename", rows)?;
        table.serialize_field("startLine", &Repeat(1, len))?;
        table.serialize_field("startColumn", &Repeat(1, len))?;
        table.serialize_field("sourceMapURL", &Repeat((), len))?;
        table.serialize_field("content", &Column(rows, content))?;
        table.end()
    }
}
