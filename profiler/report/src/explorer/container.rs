//! The byte format of a document: magic, version, a JSON header, and columns of little-endian numbers, each aligned to eight bytes. The whole
//! is compressed with gzip.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

const MAGIC: &[u8; 8] = b"NGMIPAGE";
const VERSION: u32 = 2;
/// The gzip level: it saves most of what the best level saves, in a fraction of the time.
const LEVEL: u32 = 4;
/// Marks a missing value.
pub const NONE: u32 = u32::MAX;
/// Marks a value that is too large for 32 bits; the header's `long` list has it.
const LONG: u32 = u32::MAX - 1;

/// A column's description in the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    name: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    count: usize,
    /// Values that do not fit into 32 bits: (row, value).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    long: Vec<(usize, u64)>,
}

/// The columns of a document, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Container {
    described: Vec<Described>,
    columns: Vec<Vec<u8>>,
}

/// A number of fixed size in a column.
pub trait Number {
    /// Its type in the header.
    const TYPE: &'static str;

    /// Appends its bytes.
    fn append_to(self, bytes: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($Type:ident)*) => {
        $(impl Number for $Type {
            const TYPE: &'static str = stringify!($Type);

            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

numbers!(u8 u16 u32);

/// Defines a table of columns, each with the method of [`Container`] that adds it under its name.
macro_rules! columns {
    ($(#[$meta:meta])* $vis:vis struct $Table:ident {
        $($(#[$attribute:meta])* $column:ident: $Type:ty => $add:ident,)*
    }) => {
        $(#[$meta])*
        #[derive(Default)]
        $vis struct $Table {
            $($(#[$attribute])* $column: Vec<$Type>,)*
        }

        impl $Table {
            /// Adds the columns.
            $vis fn add_to(self, container: &mut crate::explorer::container::Container) {
                $(container.$add(stringify!($column), self.$column);)*
            }
        }
    };
}
pub(super) use columns;

impl Container {
    /// Adds a column of 8-bit, 16-bit or 32-bit numbers.
    pub fn numbers<T: Number>(&mut self, name: &'static str, values: impl IntoIterator<Item = T>) {
        let (mut count, mut bytes) = (0, Vec::new());
        for value in values {
            value.append_to(&mut bytes);
            count += 1;
        }
        self.add(name, T::TYPE, count, bytes, Vec::new());
    }

    /// Adds a column of times in ns, or sizes or offsets in bytes; `None` is unknown.
    pub fn wide(&mut self, name: &'static str, values: impl IntoIterator<Item = Option<u64>>) {
        self.long(name, "time", values);
    }

    /// Adds a column of values in ascending order, stored as differences.
    pub fn ascending(&mut self, name: &'static str, values: impl IntoIterator<Item = u64>) {
        let mut before = 0;
        let deltas = values.into_iter().map(|value| {
            let delta = value.saturating_sub(before);
            before = before.max(value);
            Some(delta)
        });
        self.long(name, "delta", deltas);
    }

    fn long(&mut self, name: &'static str, kind: &'static str, values: impl IntoIterator<Item = Option<u64>>) {
        let (mut count, mut bytes, mut long) = (0, Vec::new(), Vec::new());
        for (row, value) in values.into_iter().enumerate() {
            let short = match value {
                None => NONE,
                Some(value) => u32::try_from(value)
                    .ok()
                    .filter(|short| *short < LONG)
                    .unwrap_or_else(|| {
                        long.push((row, value));
                        LONG
                    }),
            };
            short.append_to(&mut bytes);
            count += 1;
        }
        self.add(name, kind, count, bytes, long);
    }

    fn add(&mut self, name: &'static str, kind: &'static str, count: usize, bytes: Vec<u8>, long: Vec<(usize, u64)>) {
        self.described.push(Described {
            name,
            kind,
            count,
            long,
        });
        self.columns.push(bytes);
    }

    /// The descriptions of all columns, for the header.
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// Writes the compressed document.
    pub fn write(&self, out: &mut dyn Write, header: &impl Serialize) -> io::Result<()> {
        let mut out = GzEncoder::new(out, Compression::new(LEVEL));
        let header = serde_json::to_vec(header)?;
        let length =
            u32::try_from(header.len()).map_err(|_| io::Error::other("the document's header exceeds 4 GiB"))?;
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&header)?;
        pad(&mut out, header.len())?;
        for column in &self.columns {
            out.write_all(column)?;
            pad(&mut out, column.len())?;
        }
        out.finish()?.flush()
    }
}

/// Pads to the next multiple of eight bytes; the position before the `len` bytes is already aligned.
fn pad(out: &mut dyn Write, len: usize) -> io::Result<()> {
    let missing = len.next_multiple_of(8) - len;
    out.write_all(&[0; 8][..missing])
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn columns_are_where_the_header_says() {
        let mut container = Container::default();
        container.numbers("a", [1_u8, 2, 3]);
        container.ascending("b", [5, 5, 1 << 33]);
        container.wide("c", [None, Some(7), Some(u64::from(LONG))]);
        let mut gz = Vec::new();
        container.write(&mut gz, &container.described().to_vec()).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&gz[..]).read_to_end(&mut bytes).unwrap();
        assert_eq!(&bytes[..8], MAGIC);
        let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let header: serde_json::Value = serde_json::from_slice(&bytes[16..16 + length]).unwrap();
        assert_eq!(header[1]["long"], serde_json::json!([[2, (1u64 << 33) - 5]]));
        assert_eq!(header[2]["long"], serde_json::json!([[2, LONG]]));
        let first = (16 + length).next_multiple_of(8);
        assert_eq!(bytes[first..first + 8], [1, 2, 3, 0, 0, 0, 0, 0]);
        let numbers: Vec<u32> = bytes[first + 8..first + 20]
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes(four.try_into().unwrap()))
            .collect();
        assert_eq!(numbers, [5, 0, LONG]);
        assert_eq!(bytes.len(), first + 8 + 16 + 16);
    }
}
