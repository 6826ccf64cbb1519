//! Reads the tables of a profile, checking every reference.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ReadError;
use crate::exact::from_portable;
use crate::exact::references::StackRows;
use crate::format::{Index, RawExact, RawFrames, RawProfile, RawShared};
use crate::shared::place;
use fact::{Frame, FrameId, FrameName, Location, SourceFrame, StackId, StackNode, Tables};

/// Maximum bytes of names: a small file may refer to one long string a million times.
const NAMES_LIMIT: usize = 2 << 30;

/// Reads the tables that facts refer to.
pub fn tables(profile: &RawProfile<'_>) -> Result<(Tables, StackRows), ReadError> {
    let exact = profile.ngmi.as_ref().ok_or(ReadError::Foreign)?;
    let mut tables = Tables {
        recording: from_portable(exact.recording.clone())?,
        processes: list(&exact.processes)?,
        threads: list(&exact.threads)?,
        modules: list(&exact.modules)?,
        files: list(&exact.files)?,
        devices: list(&exact.devices)?,
        ..Tables::default()
    };
    check_tasks(&tables)?;
    for text in &exact.frames {
        let frame = place::decode(text).ok_or(ReadError::Damaged("frame"))?;
        check_frame(&frame, &tables)?;
        tables.frames.push(frame);
    }
    let starts = frame_starts(&profile.shared.frame_table, tables.frames.len())?;
    tables.names = names(&profile.shared, exact, &starts)?;
    for (filename, content) in profile
        .shared
        .sources
        .filename
        .iter()
        .zip(&profile.shared.sources.content)
    {
        if let Some(content) = content {
            let path = cell(&profile.shared.string_array, *filename)?;
            tables.sources.insert(path.clone(), content.clone());
        }
    }
    let rows = stacks((&profile.shared, exact.labels), &starts, &mut tables.stacks)?;
    Ok((tables, rows))
}

fn list<T: DeserializeOwned>(values: &[Value]) -> Result<Vec<T>, ReadError> {
    values
        .iter()
        .map(|value| from_portable(value.clone()).map_err(ReadError::Json))
        .collect()
}

fn check_tasks(tables: &Tables) -> Result<(), ReadError> {
    let (processes, threads) = (tables.processes.len(), tables.threads.len());
    let process_fits = tables.processes.iter().all(|process| {
        process.parent.is_none_or(|parent| parent.index() < processes)
            && process.main_thread.is_none_or(|main| main.index() < threads)
    });
    let thread_fits = tables.threads.iter().all(|thread| thread.process.index() < processes);
    let recording = &tables.recording;
    let devices = tables.devices.len();
    let folded_threads = recording.folded_faults.iter().map(|folded| folded.thread);
    let folded_threads = folded_threads.chain(recording.folded_waits.iter().map(|folded| folded.thread));
    let mut folded_threads = folded_threads.chain(recording.merged_threads.iter().map(|merged| merged.thread));
    let mut folded_files = recording.folded_reads.iter().map(|folded| folded.file);
    let mut folded_devices = recording.folded_requests.iter().map(|folded| folded.device);
    let folded_fits = folded_threads.all(|thread| thread.index() < threads)
        && folded_files.all(|file| file.index() < tables.files.len())
        && folded_devices.all(|device| device.index() < devices);
    if process_fits && thread_fits && folded_fits {
        Ok(())
    } else {
        Err(ReadError::Damaged("list of processes"))
    }
}

fn check_frame(frame: &Frame, tables: &Tables) -> Result<(), ReadError> {
    let process = match &frame.location {
        Location::Jit { process, .. } | Location::Anonymous { process, .. } | Location::Unmapped { process, .. } => {
            Some(process)
        }
        _ => None,
    };
    let module_fits = frame
        .location
        .module()
        .is_none_or(|module| module.index() < tables.modules.len());
    let process_fits = process.is_none_or(|process| process.index() < tables.processes.len());
    if module_fits && process_fits {
        Ok(())
    } else {
        Err(ReadError::Damaged("frame's module"))
    }
}

/// First row of each frame, and the end: a frame starts at inline depth 0. Labels follow.
fn frame_starts(raw: &RawFrames, frames: usize) -> Result<Vec<usize>, ReadError> {
    let len = raw.length;
    if [
        raw.inline_depth.len(),
        raw.func.len(),
        raw.native_symbol.len(),
        raw.line.len(),
    ] != [len; 4]
    {
        return Err(ReadError::Damaged("frame table"));
    }
    let mut starts = Vec::with_capacity(frames + 1);
    let mut depth = 0;
    for (row, found) in raw.inline_depth.iter().enumerate() {
        if *found == Some(0) {
            starts.push(row);
            depth = 0;
        } else if starts.is_empty() || *found != Some(depth) {
            return Err(ReadError::Damaged("inline depth"));
        }
        depth += 1;
    }
    if starts.len() < frames {
        return Err(ReadError::Damaged("number of frames"));
    }
    starts.push(len);
    starts.truncate(frames + 1);
    Ok(starts)
}

/// Resolves references within the shared tables.
struct Lookup<'a> {
    shared: &'a RawShared,
    /// Bytes of names so far.
    bytes: usize,
}

impl Lookup<'_> {
    fn string(&mut self, index: Index) -> Result<Arc<str>, ReadError> {
        let text = cell(&self.shared.string_array, index)?;
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > NAMES_LIMIT {
            return Err(ReadError::Damaged("length of names"));
        }
        Ok(text.as_str().into())
    }

    fn source_frame(&mut self, row: usize) -> Result<SourceFrame, ReadError> {
        let RawShared {
            frame_table,
            func_table,
            sources,
            ..
        } = self.shared;
        let func = frame_table.func[row];
        let source = *cell(&func_table.source, func)?;
        let file = match source {
            Some(_) => Some(self.string(*cell(&sources.filename, source)?)?),
            None => None,
        };
        let line = match frame_table.line[row] {
            Some(line) => Some(u32::try_from(line).map_err(|_| ReadError::Damaged("line"))?),
            None => None,
        };
        Ok(SourceFrame {
            function: self.string(*cell(&func_table.name, func)?)?,
            file,
            line,
        })
    }
}

fn cell<T>(column: &[T], index: Index) -> Result<&T, ReadError> {
    let cell = index
        .and_then(|index| usize::try_from(index).ok())
        .and_then(|index| column.get(index));
    cell.ok_or(ReadError::Damaged("row number"))
}

/// A frame has a name if it has a symbol; otherwise its function is named by the address.
fn names(shared: &RawShared, exact: &RawExact, starts: &[usize]) -> Result<FxHashMap<FrameId, FrameName>, ReadError> {
    let mut lookup = Lookup { shared, bytes: 0 };
    let mut names = FxHashMap::default();
    for (rows, id) in starts.windows(2).zip(0..) {
        let symbol = shared.frame_table.native_symbol[rows[0]];
        if symbol.is_none() {
            continue;
        }
        let range = cell(&exact.symbols, symbol)?;
        let (symbol_start, symbol_size) = place::decode_range(range).ok_or(ReadError::Damaged("symbol's range"))?;
        let symbol = lookup.string(*cell(&shared.native_symbols.name, symbol)?)?;
        let mut inline_chain = Vec::with_capacity(rows[1] - rows[0]);
        for row in (rows[0]..rows[1]).rev() {
            inline_chain.push(lookup.source_frame(row)?);
        }
        names.insert(
            FrameId(id),
            FrameName {
                symbol,
                symbol_start,
                symbol_size,
                inline_chain,
            },
        );
    }
    Ok(names)
}

/// The rows of a stack follow each other like those of its frame; its caller is a complete earlier
/// stack.
fn stacks(
    (shared, labels): (&RawShared, usize),
    starts: &[usize],
    stacks: &mut Vec<StackNode>,
) -> Result<StackRows, ReadError> {
    let damaged = || ReadError::Damaged("stack table");
    let raw = &shared.stack_table;
    let len = raw.length;
    if [raw.frame.len(), raw.prefix_offset.len()] != [len; 2] {
        return Err(damaged());
    }
    let mut rows = StackRows {
        stacks: vec![None; len],
        labels,
    };
    let mut row = 0;
    while row < len.min(labels) {
        let first = raw.frame[row]
            .and_then(|frame| usize::try_from(frame).ok())
            .ok_or_else(damaged)?;
        // The last start is the end of the table, not a frame.
        let frame = starts[..starts.len() - 1]
            .binary_search(&first)
            .map_err(|_| damaged())?;
        let offset = raw.prefix_offset[row]
            .and_then(|offset| usize::try_from(offset).ok())
            .ok_or_else(damaged)?;
        let parent = match offset {
            0 => None,
            _ => Some(
                row.checked_sub(offset)
                    .and_then(|caller| rows.stacks[caller])
                    .ok_or_else(damaged)?,
            ),
        };
        let end = row + starts[frame + 1] - first;
        for (inlined, expected) in (row..end).zip(first..) {
            let fits = raw.frame.get(inlined) == Some(&i64::try_from(expected).ok())
                && (inlined == row || raw.prefix_offset[inlined] == Some(1));
            if !fits {
                return Err(damaged());
            }
        }
        let id = u32::try_from(stacks.len()).map_err(|_| damaged())?;
        let frame = u32::try_from(frame).map_err(|_| damaged())?;
        stacks.push(StackNode {
            parent,
            frame: FrameId(frame),
        });
        rows.stacks[end - 1] = Some(StackId::new(id));
        row = end;
    }
    Ok(rows)
}
