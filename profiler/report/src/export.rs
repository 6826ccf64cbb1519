//! Writers of rows and reports for other programs: CSV, newline-delimited JSON and JSON.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use serde_json::ser::Formatter;

use super::text::{escaped, is_unsafe};
pub use base::addr::ns;

/// A value in one column of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Cell<'a> {
    /// Unknown or absent.
    None,
    /// A whole number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// A name.
    Text(Cow<'a, str>),
}

macro_rules! from {
    ($($type:ty, $value:ident => $cell:expr;)*) => {
        $(impl<'a> From<$type> for Cell<'a> {
            fn from($value: $type) -> Self {
                $cell
            }
        })*
    };
}

from! {
    u64, number => Self::Number(number);
    u32, number => Self::Number(number.into());
    Duration, time => Self::Number(ns(time));
    bool, flag => Self::Flag(flag);
    &'a str, text => Self::Text(text.into());
    String, text => Self::Text(text.into());
    Cow<'a, str>, text => Self::Text(text);
}

impl<T: Into<Self>> From<Option<T>> for Cell<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Defines the columns of exported rows, a line per column: its name, its type, and its value in a row.
macro_rules! columns {
    ($(#[$doc:meta])* $vis:vis fn $name:ident<$life:lifetime>($row:ident: $type:ty);
     $($column:literal: $kind:ident = $value:expr;)*) => {
        /// Column names in order; new columns are appended.
        pub const COLUMNS: [&str; [$($column),*].len()] = [$($column),*];

        /// Type of each column.
        pub const TYPES: [crate::export::Type; COLUMNS.len()] = [$(crate::export::Type::$kind),*];

        $(#[$doc])*
        $vis fn $name<$life>($row: $type) -> [crate::export::Cell<$life>; COLUMNS.len()] {
            [$($value.into()),*]
        }
    };
}
pub(crate) use columns;

/// The type of a column's cells; any cell may also be [`Cell::None`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Names.
    Text,
    /// Amounts, below 2^63.
    Number,
    /// Identifiers, which are never added up: up to 2^64.
    Id,
    /// Yes or no.
    Flag,
}

/// The output format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values below a line of column names.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

/// A writer of rows.
pub struct RowWriter<'o, W> {
    out: &'o mut W,
    form: Form,
    columns: &'static [&'static str],
}

impl<'o, W: Write> RowWriter<'o, W> {
    /// Starts the output; CSV begins with the column names.
    ///
    /// # Errors
    /// If writing fails.
    pub fn begin(out: &'o mut W, form: Form, columns: &'static [&'static str]) -> io::Result<Self> {
        if form == Form::Csv {
            csv_head(out, columns)?;
        }
        Ok(Self { out, form, columns })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// If writing fails.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        match self.form {
            Form::Csv => csv_row(self.out, cells),
            Form::JsonLines => json_row(self.out, self.columns, cells),
        }
    }
}

/// Writes the line of column names.
///
/// # Errors
/// If writing fails.
pub fn csv_head(out: &mut impl Write, columns: &[&str]) -> io::Result<()> {
    writeln!(out, "{}", columns.join(","))
}

/// Writes a row in the format of RFC 4180. Control characters in names are escaped as in a string literal, which keeps each row on one line.
///
/// # Errors
/// If writing fails.
pub fn csv_row(out: &mut impl Write, cells: &[Cell<'_>]) -> io::Result<()> {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::None => {}
            Cell::Number(number) => write!(out, "{number}")?,
            Cell::Flag(flag) => write!(out, "{flag}")?,
            Cell::Text(text) => csv_text(out, text)?,
        }
    }
    out.write_all(b"\n")
}

fn csv_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    if text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b",\"\\".contains(&byte))
    {
        return out.write_all(text.as_bytes());
    }
    write!(out, "\"{}\"", escaped(text.as_bytes()).replace('"', "\"\""))
}

/// Writes a row as a JSON object on one line.
///
/// # Errors
/// If writing fails.
pub fn json_row(out: &mut impl Write, columns: &[&str], cells: &[Cell<'_>]) -> io::Result<()> {
    use serde::ser::{SerializeMap as _, Serializer as _};
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Harmless::default());
    let mut map = serializer.serialize_map(Some(cells.len()))?;
    for (column, cell) in columns.iter().zip(cells) {
        map.serialize_entry(column, cell)?;
    }
    map.end()?;
    out.write_all(b"\n")
}

/// Writes a value as indented JSON with a final newline.
///
/// # Errors
/// If writing fails.
pub fn json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let harmless = Harmless {
        pretty: Some(serde_json::ser::PrettyFormatter::new()),
    };
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, harmless))?;
    out.write_all(b"\n")
}

/// A JSON formatter that also escapes, like `\u009b`, whatever a terminal would interpret, not only what JSON forbids.
#[derive(Default)]
struct Harmless {
    pretty: Option<serde_json::ser::PrettyFormatter<'static>>,
}

macro_rules! as_pretty {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, out: &mut W $(, $argument: $kind)*) -> io::Result<()> {
            match &mut self.pretty {
                Some(pretty) => pretty.$name(out $(, $argument)*),
                None => serde_json::ser::CompactFormatter.$name(out $(, $argument)*),
            }
        })*
    };
}

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, bad)) = rest.char_indices().find(|(_, c)| is_unsafe(*c)) {
            let (before, after) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            for unit in bad.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = after.get(bad.len_utf8()..).unwrap_or_default();
        }
        out.write_all(rest.as_bytes())
    }

    as_pretty! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_csv_row_is_one_line_whatever_the_names_are() {
        let cells = [
            Cell::None,
            Cell::Number(u64::MAX),
            Cell::Flag(true),
            Cell::Text("plain".into()),
            Cell::Text("a, \"b\"\nc\x1b[31m".into()),
            Cell::Text("".into()),
        ];
        let row = written(|out| csv_row(out, &cells));
        assert_eq!(
            row,
            ",18446744073709551615,true,plain,\"a, \"\"b\"\"\\nc\\u{1b}[31m\",\n"
        );
    }

    #[test]
    fn json_escapes_terminal_control_characters() {
        let evil = "a\u{9b}31m\u{202e}\n\"\\🦀";
        let text = written(|out| json(out, &[evil]));
        assert!(!text.trim_end().replace('\n', "").chars().any(is_unsafe), "{text}");
        assert!(text.contains("\\u009b31m\\u202e\\n"), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [evil]);
        let row = written(|out| {
            json_row(
                out,
                &["time_ns", "pid", "tid"],
                &[Cell::Number(5), Cell::None, Cell::Text(evil.into())],
            )
        });
        assert!(row.starts_with(r#"{"time_ns":5,"pid":null,"tid":"a\u009b31m"#), "{row}");
        assert_eq!(row.lines().count(), 1);
    }
}
