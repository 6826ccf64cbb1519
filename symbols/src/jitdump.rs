//! jitdump files: the functions that a JIT compiler generated, with their times and moves. Format:
//! `tools/perf/Documentation/jitdump-specification.txt` in the kernel's source.

use linux_perf_data::Endianness;
use linux_perf_data::jitdump::{
    JitCodeDebugInfoRecord, JitCodeLoadRecord, JitCodeMoveRecord, JitDumpHeader, JitDumpRecordHeader, JitDumpRecordType,
};
use linux_perf_data::linux_perf_event_reader::RawData;
use rustc_hash::FxHashMap;

use crate::spans::{Span, Spans};

/// Longer names are truncated.
const MAX_NAME: usize = 4096;
/// Additional functions, and additional source locations, are dropped and counted.
const MAX_FUNCTIONS: usize = 4 << 20;
/// Minimum size of a debug info entry: two numbers, an address and the end of a name.
const MIN_DEBUG_ENTRY: u64 = 17;
/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`: times are the CPU's cycles.
const FLAG_ARCH_TIMESTAMP: u64 = 1;

/// Why a file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum JitDumpError {
    /// The header has another format, or is incomplete.
    #[error("not a jitdump file: {0}")]
    Header(String),
    /// Times can't be compared with those of the recording.
    #[error("the jitdump file counts time in CPU cycles: have the program use CLOCK_MONOTONIC")]
    ArchTimestamp,
}

/// A compiled function, with the source location if the compiler recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitDumpSymbol<'a> {
    /// Its number in the file, which distinguishes it from earlier and later functions at the same
    /// address.
    pub index: u32,
    /// Its address in the process at the requested time.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its name; bytes that are not UTF-8 are replaced.
    pub name: &'a str,
    /// Its source file.
    pub file: Option<&'a str>,
    /// The line at the address, from 1.
    pub line: Option<u32>,
}

/// The functions of a jitdump file.
#[derive(Debug, Default)]
pub struct JitDump {
    pid: u32,
    functions: Vec<Function>,
    files: Vec<String>,
    spans: Spans<u32>,
    bad_records: u64,
    truncated_bytes: u64,
}

/// Offset into the code, index of the file, and line; sorted.
type Lines = Vec<(u64, u32, u32)>;

#[derive(Debug)]
struct Function {
    name: String,
    size: u64,
    lines: Lines,
}

/// State of reading the records in order.
#[derive(Default)]
struct Reader {
    dump: JitDump,
    spans: Vec<Span<u32>>,
    /// Function and address by the compiler's number for it.
    by_code_index: FxHashMap<u64, (u32, u64)>,
    file_indexes: FxHashMap<String, u32>,
    line_count: usize,
    /// Debug info precedes its function.
    pending_lines: Option<(u64, Lines)>,
}

impl JitDump {
    /// Reads the contents of a jitdump file, in either byte order. Invalid records are counted, as
    /// is an incomplete one at the end: the process may have been killed while it wrote.
    ///
    /// Errors: [`JitDumpError`].
    pub fn parse(contents: &[u8]) -> Result<Self, JitDumpError> {
        let header =
            JitDumpHeader::parse(RawData::Single(contents)).map_err(|error| JitDumpError::Header(error.to_string()))?;
        if header.flags & FLAG_ARCH_TIMESTAMP != 0 {
            return Err(JitDumpError::ArchTimestamp);
        }
        let endian = if &header.magic == b"JiTD" {
            Endianness::BigEndian
        } else {
            Endianness::LittleEndian
        };
        let mut reader = Reader::default();
        reader.dump.pid = header.pid;
        let mut rest = contents.get(header.total_size as usize..).unwrap_or_default();
        while let Some((record, body, after)) = split_record(endian, rest) {
            reader.record(endian, &record, body);
            rest = after;
        }
        let mut dump = reader.dump;
        dump.truncated_bytes = rest.len() as u64;
        dump.spans = Spans::new(reader.spans.into_iter());
        Ok(dump)
    }

    /// The function at `address` at `time_ns` (`CLOCK_MONOTONIC`): the last one loaded or moved
    /// there before that.
    pub fn lookup(&self, time_ns: u64, address: u64) -> Option<JitDumpSymbol<'_>> {
        let span = self.spans.lookup(time_ns, address)?;
        let index = span.value?;
        let function = self.functions.get(index as usize)?;
        let offset = address - span.start;
        let place = function
            .lines
            .partition_point(|(start, ..)| *start <= offset)
            .checked_sub(1);
        let place = place.and_then(|index| function.lines.get(index));
        Some(JitDumpSymbol {
            index,
            start: span.start,
            size: span.end - span.start,
            name: &function.name,
            file: place
                .and_then(|(_, file, _)| self.files.get(*file as usize))
                .map(String::as_str),
            line: place.map(|(.., line)| *line).filter(|line| *line != 0),
        })
    }

    /// The process that wrote the file.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Number of invalid records.
    pub fn bad_records(&self) -> u64 {
        self.bad_records.saturating_add(self.spans.dropped())
    }

    /// Bytes of an incomplete record at the end of the file.
    pub fn truncated_bytes(&self) -> u64 {
        self.truncated_bytes
    }
}

/// The first record, its body, and the rest. `None` if it is incomplete, or claims to be shorter
/// than its header, so the start of the next one is unknown.
fn split_record(endian: Endianness, bytes: &[u8]) -> Option<(JitDumpRecordHeader, &[u8], &[u8])> {
    let header = JitDumpRecordHeader::parse(endian, RawData::Single(bytes)).ok()?;
    let (record, after) = bytes.split_at_checked(header.total_size as usize)?;
    Some((header, record.get(JitDumpRecordHeader::SIZE..)?, after))
}

impl Reader {
    fn record(&mut self, endian: Endianness, header: &JitDumpRecordHeader, body: &[u8]) {
        let body = RawData::Single(body);
        let understood = match header.record_type {
            JitDumpRecordType::JIT_CODE_LOAD => JitCodeLoadRecord::parse(endian, body)
                .ok()
                .and_then(|record| self.load(header.timestamp, &record)),
            JitDumpRecordType::JIT_CODE_MOVE => JitCodeMoveRecord::parse(endian, body)
                .ok()
                .and_then(|record| self.move_code(header.timestamp, &record)),
            JitDumpRecordType::JIT_CODE_DEBUG_INFO => self.debug_info(endian, body),
            // No relevant records follow JIT_CODE_CLOSE, and other kinds have other purposes.
            _ => Some(()),
        };
        self.dump.bad_records += u64::from(understood.is_none());
    }

    fn load(&mut self, time: u64, record: &JitCodeLoadRecord<'_>) -> Option<()> {
        let size = record.code_bytes.len() as u64;
        let start = record.code_addr;
        let end = start.checked_add(size).filter(|end| *end > start)?;
        if self.dump.functions.len() >= MAX_FUNCTIONS {
            return None;
        }
        let lines = self
            .pending_lines
            .take()
            .filter(|(address, _)| *address == start)
            .map(|(_, lines)| lines);
        let function = u32::try_from(self.dump.functions.len()).ok()?;
        let name = record.function_name.as_slice();
        let name = String::from_utf8_lossy(name.get(..MAX_NAME).unwrap_or(&name)).into_owned();
        self.dump.functions.push(Function {
            name,
            size,
            lines: lines.unwrap_or_default(),
        });
        self.by_code_index.insert(record.code_index, (function, start));
        self.spans.push(Span {
            time,
            start,
            end,
            value: Some(function),
        });
        Some(())
    }

    fn move_code(&mut self, time: u64, record: &JitCodeMoveRecord) -> Option<()> {
        let (function, old_start) = self.by_code_index.get_mut(&record.code_index)?;
        let size = self.dump.functions.get(*function as usize)?.size;
        let (start, end) = (record.new_code_addr, record.new_code_addr.checked_add(size)?);
        // The function's own size is used: that of the move may be invalid.
        self.spans.push(Span {
            time,
            start: *old_start,
            end: old_start.saturating_add(size),
            value: None,
        });
        self.spans.push(Span {
            time,
            start,
            end,
            value: Some(*function),
        });
        *old_start = start;
        Some(())
    }

    fn debug_info(&mut self, endian: Endianness, body: RawData<'_>) -> Option<()> {
        let mut count = body;
        let mut skipped = [0; 8];
        count.read_exact(&mut skipped).ok()?;
        let mut number = [0; 8];
        count.read_exact(&mut number).ok()?;
        let entries = if endian == Endianness::BigEndian {
            u64::from_be_bytes(number)
        } else {
            u64::from_le_bytes(number)
        };
        // The parser allocates memory for as many entries as the record claims.
        if entries > body.len() as u64 / MIN_DEBUG_ENTRY || self.line_count > MAX_FUNCTIONS {
            return None;
        }
        let record = JitCodeDebugInfoRecord::parse(endian, body).ok()?;
        let mut lines = Vec::with_capacity(record.entries.len());
        for entry in &record.entries {
            let offset = entry.code_addr.checked_sub(record.code_addr)?;
            let path = entry.file_path.as_slice();
            let path = String::from_utf8_lossy(path.get(..MAX_NAME).unwrap_or(&path)).into_owned();
            lines.push((offset, self.file(path)?, entry.line));
        }
        lines.sort_by_key(|(offset, ..)| *offset);
        self.line_count = self.line_count.saturating_add(lines.len());
        self.pending_lines = Some((record.code_addr, lines));
        Some(())
    }

    fn file(&mut self, path: String) -> Option<u32> {
        if let Some(index) = self.file_indexes.get(&path) {
            return Some(*index);
        }
        let index = u32::try_from(self.dump.files.len()).ok()?;
        self.dump.files.push(path.clone());
        self.file_indexes.insert(path, index);
        Some(index)
    }
}

#[cfg(test)]
#[path = "jitdump_tests.rs"]
mod tests;
