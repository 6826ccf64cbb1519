//! Writes rows as Parquet, with the same columns as CSV and JSON and with nulls for unknown values. Rows are written in groups, which bounds
//! memory; each group stores a distinct string once.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type as Schema;
use rustc_hash::FxHashMap;

use crate::export::{Cell, Type};

/// The largest number of rows in a group.
const ROWS: usize = 1 << 16;
/// The approximate limit for the distinct strings of a group, in bytes.
const BYTES: usize = 1 << 26;

/// A writer of rows into a Parquet file.
pub struct Writer<'o> {
    file: SerializedFileWriter<&'o mut (dyn Write + Send)>,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    /// The number of rows in all finished groups.
    written: u64,
}

/// A column of the current group.
struct Column {
    kind: Type,
    /// Definition levels: 0 is null, 1 a value.
    levels: Vec<i16>,
    values: Values,
    known: FxHashMap<Box<str>, ByteArray>,
}

enum Values {
    Text(Vec<ByteArray>),
    Number(Vec<i64>),
    Flag(Vec<bool>),
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => inner
            .downcast::<io::Error>()
            .map_or_else(io::Error::other, |error| *error),
        other => io::Error::other(other),
    }
}

impl<'o> Writer<'o> {
    /// Starts a file with these columns, and with notes about their source.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(
        out: &'o mut (dyn Write + Send),
        columns: &[&str],
        types: &[Type],
        notes: &[(&str, String)],
    ) -> io::Result<Self> {
        let fields = columns.iter().zip(types).map(|(name, kind)| field(name, *kind));
        let fields = fields.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let schema = Schema::group_type_builder("ngmi")
            .with_fields(fields)
            .build()
            .map_err(failed)?;
        let notes = notes
            .iter()
            .map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
        let properties = WriterProperties::builder()
            .set_created_by(concat!("ngmi version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::GZIP(GzipLevel::try_new(3).map_err(failed)?))
            .set_key_value_metadata(Some(notes.collect()))
            .build();
        Ok(Self {
            file: SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(failed)?,
            columns: types.iter().map(|kind| Column::new(*kind)).collect(),
            rows: 0,
            bytes: 0,
            written: 0,
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If writing fails, or if a cell does not have its column's type.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        if cells.len() != self.columns.len() {
            return Err(io::Error::other(
                "the number of cells in a row differs from the number of columns",
            ));
        }
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.bytes = self.bytes.saturating_add(column.push(cell)?);
        }
        self.rows += 1;
        if self.rows >= ROWS || self.bytes >= BYTES {
            self.group()?;
        }
        Ok(())
    }

    /// Finishes the file and returns its number of rows.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<u64> {
        if self.rows > 0 {
            self.group()?;
        }
        self.file.finish().map_err(failed)?;
        self.file.inner_mut().flush()?;
        Ok(self.written)
    }

    fn group(&mut self) -> io::Result<()> {
        let mut group = self.file.next_row_group().map_err(failed)?;
        for column in &mut self.columns {
            if let Some(mut writer) = group.next_column().map_err(failed)? {
                column.write(&mut writer).map_err(failed)?;
                writer.close().map_err(failed)?;
            }
        }
        group.close().map_err(failed)?;
        self.written = self.written.saturating_add(self.rows as u64);
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

fn field(name: &str, kind: Type) -> Result<Arc<Schema>, ParquetError> {
    let (physical, logical) = match kind {
        Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Type::Number => (Physical::INT64, None),
        Type::Id => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Type::Flag => (Physical::BOOLEAN, None),
    };
    let builder = Schema::primitive_type_builder(name, physical);
    let builder = builder.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
    builder.build().map(Arc::new)
}

impl Column {
    fn new(kind: Type) -> Self {
        Self {
            kind,
            levels: Vec::new(),
            values: match kind {
                Type::Text => Values::Text(Vec::new()),
                Type::Number | Type::Id => Values::Number(Vec::new()),
                Type::Flag => Values::Flag(Vec::new()),
            },
            known: FxHashMap::default(),
        }
    }

    /// Adds a cell, and returns the additional memory of a new string in bytes.
    fn push(&mut self, cell: &Cell<'_>) -> io::Result<usize> {
        let mut bytes = 0;
        let is_there = match (&mut self.values, cell) {
            (_, Cell::None) => false,
            (Values::Text(values), Cell::Text(text)) => {
                let value = self.known.get(text.as_ref()).cloned().unwrap_or_else(|| {
                    bytes = 2 * text.len();
                    let value = ByteArray::from(text.as_bytes().to_vec());
                    self.known.insert(text.as_ref().into(), value.clone());
                    value
                });
                values.push(value);
                true
            }
            (Values::Number(values), Cell::Number(number)) => {
                // A number beyond i64 is not a valid time or size.
                let value = match self.kind {
                    Type::Id => Some(number.cast_signed()),
                    _ => i64::try_from(*number).ok(),
                };
                values.extend(value);
                value.is_some()
            }
            (Values::Flag(values), Cell::Flag(flag)) => {
                values.push(*flag);
                true
            }
            _ => return Err(io::Error::other("a cell does not have its column's type")),
        };
        self.levels.push(i16::from(is_there));
        Ok(bytes)
    }

    /// Writes and clears the values.
    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = Some(&self.levels[..]);
        match &mut self.values {
            Values::Text(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Number(values) => {
                writer.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Flag(values) => {
                writer.typed::<BoolType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.levels.clear();
        self.known.clear();
        Ok(())
    }
}
