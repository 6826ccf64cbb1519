//! Serializes the shared tables as JSON, column by column.

use serde::{Serialize, Serializer};
use serde_json::json;

use super::columns::{Repeat, column, object};
use super::{FrameRow, Func, NONE, Shared};

/// Largest integer that JavaScript represents exactly, with all smaller ones.
const JS_MAX: u64 = (1 << 53) - 1;
/// `ResourceType.Library`
const RESOURCE_LIBRARY: u32 = 1;

impl Serialize for Shared<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none: [(); 0] = [];
        let tables = object! {
            "stackTable": stack_table(self),
            "frameTable": frame_table(&self.frames),
            "funcTable": func_table(&self.funcs),
            "resourceTable": resource_table(&self.resource_names),
            "nativeSymbols": native_symbols(self),
            "sources": sources(self),
            "sourceLocationTable": json!({"length": 0, "source": none, "line": none, "column": none}),
            "stringArray": &*self.strings,
        };
        tables.serialize(serializer)
    }
}

fn stack_table(shared: &Shared<'_>) -> impl Serialize {
    object! {
        "length": shared.stack_frames.len(),
        "frame": &shared.stack_frames,
        "prefixOffset": &shared.stack_prefix_offsets,
    }
}

fn frame_table(rows: &[FrameRow]) -> impl Serialize {
    object! {
        "length": rows.len(),
        "address": column(rows, |row| row.address),
        "lib": column(rows, |row| row.lib),
        "inlineDepth": column(rows, |row| row.inline_depth),
        "category": column(rows, |row| row.category),
        "subcategory": Repeat(0, rows.len()),
        "func": column(rows, |row| row.func),
        "nativeSymbol": column(rows, |row| row.native_symbol),
        "innerWindowID": Repeat(0, rows.len()),
        "line": column(rows, |row| row.line),
        "column": Repeat((), rows.len()),
        "originalLocation": Repeat((), rows.len()),
    }
}

fn func_table(rows: &[Func]) -> impl Serialize {
    object! {
        "length": rows.len(),
        "name": column(rows, |row| row.name),
        "isJS": Repeat(false, rows.len()),
        "relevantForJS": Repeat(false, rows.len()),
        "resource": column(rows, |row| row.module.map_or(NONE, |module| i64::from(module.0))),
        "source": column(rows, |row| row.source),
        "lineNumber": Repeat((), rows.len()),
        "columnNumber": Repeat((), rows.len()),
        "originalLocation": Repeat((), rows.len()),
    }
}

fn resource_table(names: &[u32]) -> impl Serialize {
    object! {
        "length": names.len(),
        "name": names,
        "host": Repeat((), names.len()),
        "type": Repeat(RESOURCE_LIBRARY, names.len()),
    }
}

fn native_symbols(shared: &Shared<'_>) -> impl Serialize {
    let (modules, rows) = (&shared.tables.modules, &*shared.symbols);
    object! {
        "length": rows.len(),
        "libIndex": column(rows, |row| shared.left.library(row.module, row.is_named)),
        "address": column(rows, |row| {
            let base = modules.get(row.module.index()).map_or(0, |module| module.base_svma.0);
            row.start.saturating_sub(base).min(JS_MAX)
        }),
        "name": column(rows, |row| row.name),
        "functionSize": column(rows, |row| row.size.map(|size| size.min(JS_MAX))),
    }
}

fn sources(shared: &Shared<'_>) -> impl Serialize {
    let rows = &*shared.sources;
    object! {
        "length": rows.len(),
        "id": Repeat((), rows.len()),
        "filename": rows,
        "startLine": Repeat(1, rows.len()),
        "startColumn": Repeat(1, rows.len()),
        "sourceMapURL": Repeat((), rows.len()),
        "content": column(rows, |row| {
            let path = shared.strings.get(*row as usize)?;
            shared.tables.sources.get(&**path)
        }),
    }
}
