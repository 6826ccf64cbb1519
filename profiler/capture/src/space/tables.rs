//! Unwind tables and address spaces, as the walker finds them in the kernel's maps.
//!
//! Tables come from the recorder and are treated as hostile: every property that the walker relies on is checked, and
//! the walker itself can read nothing outside its maps.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, bail};
use aya::Ebpf;
use aya::maps::{HashMap, Map, MapData};
use memmap2::{Mmap, MmapMut, MmapOptions};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use profiler_common::Loss;
use profiler_common::space::{CodeRange, FRAME_POINTERS, MAX_PLACES, PENDING, Run, TABLE};
use profiler_common::unwind::{PageRows, Row, TABLE_PAGE};
use rustc_hash::{FxHashMap, FxHashSet};
use zerocopy::{Immutable, IntoBytes};

use super::ranges::{GRACE, Room};
use super::segments::parts;
use super::spaces::{Code, Piece, Spaces};
use crate::hooks::arch::ARCH;
use crate::hooks::load::Sizes;
use crate::hooks::losses::Losses;
use crate::proc::page_cache::page_size;
use base::event::Segment;
use base::plural::counted;
use base::table::TableView;

/// The kernel maps whole pages.
const PAGE: u64 = 4096;
/// Bytes that are written through one window: what is mapped counts as memory of this process.
const WINDOW: usize = 1 << 20;
/// Executable segments of one file, at most.
pub const SEGMENTS_LIMIT: usize = 64;

/// An array in the kernel that is written through windows into its memory.
struct Array(MapData);

impl Array {
    fn take(ebpf: &mut Ebpf, name: &str) -> anyhow::Result<Self> {
        match ebpf.take_map(name) {
            Some(Map::Array(map)) => Ok(Self(map)),
            _ => bail!("the eBPF object has no array {name}: run `scripts/build-ebpf`"),
        }
    }

    /// Writes adjacent elements. The caller ensures that they are within the array.
    fn write<T: IntoBytes + Immutable>(&self, first: u32, elements: &[T]) -> std::io::Result<()> {
        let mut offset = u64::from(first) * size_of::<T>() as u64;
        for bytes in elements.as_bytes().chunks(WINDOW) {
            let lead = usize::try_from(offset % PAGE).unwrap_or_default();
            self.window(offset - offset % PAGE, lead + bytes.len())?[lead..].copy_from_slice(bytes);
            offset += bytes.len() as u64;
        }
        Ok(())
    }

    /// The bytes from the start of a page.
    fn window(&self, offset: u64, len: usize) -> std::io::Result<MmapMut> {
        // SAFETY: the memory is the kernel's array, which otherwise only eBPF programs read; this process has no
        // reference into it.
        unsafe { MmapOptions::new().offset(offset).len(len).map_mut(&self.0.fd().as_fd()) }
    }
}

/// How often the runs of spaces have changed, where the walker sees it: until the count changes, it uses what it has
/// looked up.
///
/// The window always exists: after an unreported change the walker would use ranges that belong to other spaces by
/// then.
struct Changes(MmapMut);

impl Changes {
    fn new(array: &Array) -> anyhow::Result<Self> {
        let mut changes = Self(array.window(0, size_of::<u64>())?);
        changes.announce();
        Ok(changes)
    }

    /// Reports that the kernel's maps have changed.
    fn announce(&mut self) {
        // SAFETY: a whole page is mapped, and eBPF programs read whole words.
        let counter = unsafe { AtomicU64::from_ptr(self.0.as_mut_ptr().cast()) };
        counter.fetch_add(1, Ordering::Release);
    }
}

/// A table in the kernel.
struct Placed {
    first_page: u32,
    pages: u32,
    /// The stated address of its first page.
    base: u64,
    segments: Vec<Segment>,
}

/// What the kernel side knows.
pub struct UnwindTables {
    rows: Array,
    pages: Array,
    ranges: Array,
    runs_by_space: HashMap<MapData, u64, u64>,
    changes: Changes,
    sizes: Sizes,
    rows_used: u32,
    pages_used: u32,
    placed: FxHashMap<Code, Placed>,
    without: FxHashSet<Code>,
    room: Room,
    runs: FxHashMap<u64, Run>,
    /// Spaces without capacity for their run, and the number of their ranges.
    waiting: FxHashMap<u64, u32>,
    /// When they are tried again.
    next_try: Instant,
}

impl UnwindTables {
    /// Takes the maps out of the object.
    pub fn new(ebpf: &mut Ebpf, sizes: Sizes) -> anyhow::Result<Self> {
        let spaces = ebpf
            .take_map("SPACES")
            .context("the eBPF object has no map SPACES: run `scripts/build-ebpf`")?;
        Ok(Self {
            rows: Array::take(ebpf, "ROWS")?,
            pages: Array::take(ebpf, "PAGES")?,
            ranges: Array::take(ebpf, "RANGES")?,
            runs_by_space: HashMap::try_from(spaces)?,
            changes: Changes::new(&Array::take(ebpf, "SPACES_CHANGED")?)?,
            sizes,
            rows_used: 0,
            pages_used: 0,
            placed: FxHashMap::default(),
            without: FxHashSet::default(),
            room: Room::new(sizes.ranges),
            runs: FxHashMap::default(),
            waiting: FxHashMap::default(),
            next_try: Instant::now(),
        })
    }

    /// Bytes of the tables loaded so far.
    pub fn bytes(&self) -> u64 {
        u64::from(self.rows_used) * size_of::<Row>() as u64 + u64::from(self.pages_used) * size_of::<PageRows>() as u64
    }

    /// Notes that this code has no table.
    pub fn add_none(&mut self, code: Code) {
        self.without.insert(code);
    }

    /// Loads a table.
    ///
    /// # Errors
    /// When it is invalid, or exceeds the capacity.
    pub fn add(&mut self, code: Code, segments: Vec<Segment>, table: OwnedFd) -> anyhow::Result<()> {
        if self.placed.contains_key(&code) {
            return Ok(());
        }
        if segments.len() > SEGMENTS_LIMIT {
            bail!(
                "its {} executable segments exceed the limit of {SEGMENTS_LIMIT}",
                segments.len()
            );
        }
        let bytes = sealed(table)?;
        let view = TableView::from_bytes(&bytes)?;
        if view.arch != ARCH {
            bail!("its unwind table is for another processor");
        }
        let (pages, rows) = (view.pages.len() - 1, view.rows.len());
        let room = |used: u32, size: u32, count: usize| {
            let count = u32::try_from(count).ok()?;
            used.checked_add(count).filter(|&end| end <= size)
        };
        let (Some(rows_end), Some(pages_end)) = (
            room(self.rows_used, self.sizes.rows, rows),
            room(self.pages_used, self.sizes.pages, pages),
        ) else {
            bail!(
                "its unwind table has {} in {}, which exceeds the free capacity of {} and {}",
                counted(rows as u64, "row"),
                counted(pages as u64, "page"),
                counted(u64::from(self.sizes.rows - self.rows_used), "row"),
                counted(u64::from(self.sizes.pages - self.pages_used), "page")
            );
        };
        let page_rows: Vec<PageRows> = view
            .pages
            .array_windows::<2>()
            .map(|[first, end]| PageRows {
                first: self.rows_used + first.get(),
                end: self.rows_used + end.get(),
            })
            .collect();
        self.rows.write(self.rows_used, view.rows)?;
        self.pages.write(self.pages_used, &page_rows)?;
        let placed = Placed {
            first_page: self.pages_used,
            pages: pages_end - self.pages_used,
            base: view.first_page.wrapping_mul(TABLE_PAGE),
            segments,
        };
        self.placed.insert(code, placed);
        (self.rows_used, self.pages_used) = (rows_end, pages_end);
        Ok(())
    }

    /// Updates the kernel's view of the address spaces.
    pub fn publish(&mut self, spaces: &mut Spaces, losses: &mut Losses) {
        self.publish_at(Instant::now(), spaces, losses);
    }

    fn publish_at(&mut self, now: Instant, spaces: &mut Spaces, losses: &mut Losses) {
        for id in spaces.take_gone() {
            let _ = self.runs_by_space.remove(&id); // it may be absent
            self.changes.announce();
            self.waiting.remove(&id);
            if let Some(run) = self.runs.remove(&id) {
                self.room.give_back(run, now);
            }
        }
        let mut due: FxHashSet<u64> = spaces.take_changed().into_iter().collect();
        due.extend(self.retry(now));
        for id in due {
            self.place(id, now, spaces, losses);
        }
    }

    /// The spaces without a run that may fit by now: capacity returns when others end or grow, which is not reported.
    /// They are not tried more often than this grace period.
    fn retry(&mut self, now: Instant) -> Vec<u64> {
        if self.waiting.is_empty() || now < self.next_try {
            return Vec::new();
        }
        self.next_try = now + GRACE;
        let largest = self.room.largest(now);
        let fits = self.waiting.iter().filter(|&(_, &count)| count <= largest);
        fits.map(|(&id, _)| id).collect()
    }

    /// Writes the run of a space. Without capacity for it, the space has no run until there is some.
    fn place(&mut self, id: u64, now: Instant, spaces: &Spaces, losses: &mut Losses) {
        let mut ranges: Vec<CodeRange> = spaces
            .pieces(id)
            .flat_map(|(start, piece)| self.ranges(start, piece))
            .take(MAX_PLACES as usize + 1)
            .collect();
        ranges.dedup_by(|next, last| join(last, next));
        let count = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        let taken = self.room.take(count, now);
        let written = taken.filter(|run| {
            self.ranges.write(run.first, &ranges).is_ok() && self.runs_by_space.insert(id, run.to_word(), 0).is_ok()
        });
        let old = if let Some(run) = written {
            self.waiting.remove(&id);
            self.runs.insert(id, run)
        } else {
            // Counted once, however often it is tried again.
            if self.waiting.insert(id, count).is_none() {
                losses.count(Loss::SpaceTableFull, 1);
            }
            let _ = self.runs_by_space.remove(&id); // no run is better than a wrong one
            if let Some(unused) = taken {
                self.room.give_back(unused, now);
            }
            self.runs.remove(&id)
        };
        // At once: the new tables allow walking stacks of this space.
        self.changes.announce();
        if let Some(old) = old {
            self.room.give_back(old, now);
        }
    }

    /// The ranges of a piece: usually one.
    fn ranges(&self, start: u64, piece: Piece) -> Vec<CodeRange> {
        let range = CodeRange {
            start,
            end: piece.end,
            unwinding: PENDING,
            ..CodeRange::default()
        };
        let Some(placed) = self.placed.get(&piece.code) else {
            let known = piece.code == Code::Made || self.without.contains(&piece.code);
            let unwinding = if known { FRAME_POINTERS } else { PENDING };
            return vec![CodeRange { unwinding, ..range }];
        };
        let mapped = piece.offset..piece.offset.saturating_add(piece.end.wrapping_sub(start));
        let parts = parts(&placed.segments, mapped, page_size());
        let start_of = |offset: u64| start.wrapping_add(offset.wrapping_sub(piece.offset));
        let ends = parts.iter().skip(1).map(|(offset, _)| start_of(*offset));
        let ends: Vec<u64> = ends.chain([piece.end]).collect();
        let range_of = |((offset, svma), end): (&(u64, Option<u64>), u64)| {
            let start = start_of(*offset);
            let range = CodeRange { start, end, ..range };
            let Some(svma) = svma else {
                let unwinding = FRAME_POINTERS;
                return CodeRange { unwinding, ..range };
            };
            CodeRange {
                bias: start.wrapping_sub(*svma).wrapping_add(placed.base),
                first_page: placed.first_page,
                pages: placed.pages,
                unwinding: TABLE,
                ..range
            }
        };
        parts.iter().zip(ends).map(range_of).collect()
    }
}

/// Merges two adjacent ranges that are walked alike: compilers at run time map a page at a time, and the bytes before
/// a segment in its first page use the same rows.
fn join(last: &mut CodeRange, next: &CodeRange) -> bool {
    let alike = CodeRange {
        start: last.start,
        end: last.end,
        ..*next
    };
    let joins = last.end == next.start && last.unwinding != PENDING && *last == alike;
    if joins {
        last.end = next.end;
    }
    joins
}

/// Maps a memory file that can no longer change.
fn sealed(file: OwnedFd) -> anyhow::Result<Mmap> {
    let wanted = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK;
    let seals = fcntl(&file, FcntlArg::F_GET_SEALS).context("an unwind table must be in a memory file")?;
    if !SealFlag::from_bits_truncate(seals).contains(wanted) {
        bail!("an unwind table must be in a sealed memory file");
    }
    // SAFETY: the seals keep the file from being written or shrunk.
    Ok(unsafe { Mmap::map(&File::from(file))? })
}

#[cfg(test)]
mod tests;
