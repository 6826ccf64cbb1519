//! The bytes of a document: magic, version, a header in JSON, and columns of little-endian numbers, each at a multiple of eight; all of it
//! in gzip.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

const MAGIC: &[u8; 8] = b"NGMIPAGE";
const VERSION: u32 = 1;
/// Most of what the best level saves, in a fraction of its time.
const LEVEL: u32 = 4;
/// Stands for nothing.
pub const NONE: u32 = u32::MAX;
/// Stands for a value of 4.29 thousand million or more, which is kept beside.
const LONG: u32 = u32::MAX - 1;

/// A column, as the header tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    name: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    count: usize,
    /// Values that do not fit: (row, value).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    long: Vec<(usize, u64)>,
}

/// Columns, as they are handed in.
#[derive(Debug, Default)]
pub struct Container {
    described: Vec<Described>,
    columns: Vec<Vec<u8>>,
}

impl Container {
    /// Adds numbers of a byte.
    pub fn u8(&mut self, name: &'static str, values: Vec<u8>) {
        self.add(name, "u8", values.len(), values, Vec::new());
    }

    /// Adds numbers of two bytes.
    pub fn u16(&mut self, name: &'static str, values: &[u16]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.add(name, "u16", values.len(), bytes, Vec::new());
    }

    /// Adds numbers of four bytes.
    pub fn u32(&mut self, name: &'static str, values: &[u32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.add(name, "u32", values.len(), bytes, Vec::new());
    }

    /// Adds times in ns, or offsets in bytes; `None`: unknown.
    pub fn wide(&mut self, name: &'static str, values: &[Option<u64>]) {
        self.long(name, "time", values.iter().copied());
    }

    /// Adds values each of which is no less than the one before.
    pub fn ascending(&mut self, name: &'static str, values: &[u64]) {
        let mut before = 0;
        let deltas = values.iter().map(|value| {
            let delta = value.saturating_sub(before);
            before = before.max(*value);
            Some(delta)
        });
        self.long(name, "delta", deltas);
    }

    fn long(&mut self, name: &'static str, kind: &'static str, values: impl ExactSizeIterator<Item = Option<u64>>) {
        let count = values.len();
        let mut long = Vec::new();
        let mut bytes = Vec::with_capacity(count * 4);
        for (row, value) in values.enumerate() {
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
            bytes.extend_from_slice(&short.to_le_bytes());
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

    /// For the header.
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// Writes it all, compressed.
    pub fn write(&self, out: impl Write, header: &impl Serialize) -> io::Result<()> {
        let mut out = GzEncoder::new(out, Compression::new(LEVEL));
        let header = serde_json::to_vec(header)?;
        let length = u32::try_from(header.len()).map_err(|_| io::Error::other("more names than a page can hold"))?;
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

/// Up to the next multiple of eight; what comes before `len` is one already.
fn pad(out: &mut impl Write, len: usize) -> io::Result<()> {
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
        container.u8("a", vec![1, 2, 3]);
        container.ascending("b", &[5, 5, 1 << 33]);
        container.wide("c", &[None, Some(7), Some(u64::from(LONG))]);
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
