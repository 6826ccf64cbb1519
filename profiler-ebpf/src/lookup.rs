//! Looks up an address: the range of code that covers it, and the row of its table.

use core::ffi::{c_long, c_void};

use aya_ebpf::helpers::generated::bpf_loop;
use profiler_common::known_ranges::KnownRanges;
use profiler_common::space::{CodeRange, MAX_RANGES, Run};
use profiler_common::unwind::{PageRows, Row, TABLE_PAGE};

use crate::maps::{PAGES, RANGES, ROWS};

/// Steps of a search among the rows of a page, which has at most one row per byte.
const ROW_TURNS: u32 = TABLE_PAGE.trailing_zeros() + 1;
/// Steps of a search among the ranges of a space.
const RANGE_TURNS: u32 = MAX_RANGES.trailing_zeros() + 1;

/// Not a number of a range.
const NO_RANGE: u32 = u32::MAX;

/// In memory that, to the verifier, may change.
static mut ONE: u32 = 1;

/// 1, hidden from the verifier: it remembers that a number and the same number plus a constant are related (7.0 and later), and
/// would then follow each of the million paths through a search separately.
#[inline(always)]
fn one() -> u32 {
    // SAFETY: no program writes to it.
    unsafe { core::ptr::read_volatile(&raw const ONE) }
}

/// Finds the range that covers `address` in the run with the word `run`; often it is the one that covered the last address. False:
/// none does, and `range` is unchanged.
#[inline(always)]
pub fn range(range: &mut CodeRange, known: &mut KnownRanges, run: u64, address: u64) -> bool {
    if range.start <= address && address < range.end {
        return true;
    }
    if let Some(found) = known.recall(run, address) {
        *range = *found;
        return true;
    }
    match RANGES.get(range_before(run, address)) {
        Some(found) if address < found.end => {
            *range = *found;
            known.learn(run, range);
            true
        }
        _ => false,
    }
}

/// A search among ranges: those from `low` to `high`, which is excluded, have not been compared yet.
#[repr(C)]
struct Search {
    address: u64,
    low: u32,
    high: u32,
}

/// The number of the last range of the run with the word `run` that begins at `address` or before; [`NO_RANGE`]: there is none.
///
/// Exported, so that the verifier checks it once rather than with each path that leads here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn range_before(run: u64, address: u64) -> u32 {
    let run = Run::from_word(run);
    let mut search = Search {
        address,
        low: run.first,
        high: run.first.wrapping_add(run.count),
    };
    // SAFETY: the loop gets its own variable.
    unsafe { bpf_loop(RANGE_TURNS, halve as *mut c_void, (&raw mut search).cast(), 0) };
    if search.low == run.first {
        NO_RANGE
    } else {
        search.low.wrapping_sub(1)
    }
}

/// Compares the middle one. 1: none is left. A static function, for the reason in [`crate::walk`].
unsafe extern "C" fn halve(_: u32, search: *mut c_void) -> c_long {
    // SAFETY: `range_before` passes its own variable.
    let search = unsafe { &mut *search.cast::<Search>() };
    if search.low >= search.high {
        return 1;
    }
    let middle = search.low + (search.high - search.low) / 2;
    match RANGES.get(middle) {
        Some(range) if range.start <= search.address => search.low = middle + one(),
        Some(_) => search.high = middle,
        None => search.high = search.low,
    }
    0
}

/// The row for an address in a range with a table; where there is no row, the default one, which says so.
#[inline(always)]
pub fn row(range: &CodeRange, address: u64) -> Row {
    let place = address.wrapping_sub(range.bias);
    let page = place / TABLE_PAGE;
    if page >= u64::from(range.pages) {
        return Row::default();
    }
    let page = range.first_page.wrapping_add(page as u32);
    search(page, (place % TABLE_PAGE) as u16).unwrap_or_default()
}

/// Searches for the row of a byte in a page.
#[inline(always)]
fn search(page: u32, pc: u16) -> Option<Row> {
    let PageRows { first, end } = *PAGES.get(page)?;
    let (mut low, mut high) = (first, end);
    let one = one();
    for _ in 0..ROW_TURNS {
        if low >= high {
            break;
        }
        let middle = low + (high - low) / 2;
        if ROWS.get(middle)?.pc <= pc {
            low = middle + one;
        } else {
            high = middle;
        }
    }
    // If no row begins before the byte in its page, the row before the page's first one applies.
    ROWS.get(low.wrapping_sub(1)).copied()
}
