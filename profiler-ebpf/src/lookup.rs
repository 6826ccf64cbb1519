//! Looks up an address: the range of code that covers it, and the row of its table.

use profiler_common::known_ranges::KnownRanges;
use profiler_common::space::{CodeRange, MAX_RANGES, Run};
use profiler_common::unwind::{PageRows, Row, TABLE_PAGE};

use crate::maps::{PAGES, RANGES, ROWS};

/// Steps of a search among the rows of a page, which has at most one row per byte.
const ROW_TURNS: u32 = TABLE_PAGE.trailing_zeros() + 1;
/// Steps of a search among the ranges of a space.
const RANGE_TURNS: u32 = MAX_RANGES.trailing_zeros() + 1;

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
    if search_range(range, Run::from_word(run), address) {
        known.learn(run, range);
        return true;
    }
    false
}

/// As [`range`].
#[inline(always)]
fn search_range(range: &mut CodeRange, run: Run, address: u64) -> bool {
    let (mut low, mut high) = (run.first, run.first.wrapping_add(run.count));
    let one = one();
    for _ in 0..RANGE_TURNS {
        if low >= high {
            break;
        }
        let middle = low + (high - low) / 2;
        match RANGES.get(middle) {
            Some(range) if range.start <= address => low = middle + one,
            Some(_) => high = middle,
            None => return false,
        }
    }
    if low == run.first {
        return false;
    }
    match RANGES.get(low - 1) {
        Some(found) if address < found.end => {
            *range = *found;
            true
        }
        _ => false,
    }
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
