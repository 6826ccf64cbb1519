//! What the new order would take on the recorded run, beside what today's takes: both by the same model.

use serde::Serialize;
use symbols::elf::{FunctionSymbol, Segment};

use super::model::{Cost, Walk};
use super::touch::Touched;

/// Functions begin at multiples of this, as compilers place them.
const ALIGNMENT: u64 = 16;
/// Points of the curve.
const POINTS: usize = 10;

/// Where functions are.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// By address.
    pub functions: &'a [FunctionSymbol],
    /// Of the file.
    pub segments: &'a [Segment],
}

/// Today and tomorrow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prediction {
    /// Functions that are put in order.
    pub functions: usize,
    /// Of so many.
    pub of: usize,
    /// Their bytes.
    pub bytes: u64,
    /// As they lie today.
    pub today: Cost,
    /// In the new order.
    pub ordered: Cost,
    /// The same after each tenth of the functions: their number, today's cost and the new one.
    pub curve: Vec<(usize, Cost, Cost)>,
    /// Pages of code that the recording saw a fault on.
    pub faulted_pages: u64,
}

impl Layout<'_> {
    /// The bytes of the file where the functions' section begins, and the file ends.
    fn code(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.executable)
    }

    /// Where a function lies in the file.
    fn offset_of(&self, function: &FunctionSymbol) -> Option<u64> {
        let mut segments = self.segments.iter().filter(|segment| segment.executable);
        segments.find_map(|segment| {
            let at = function
                .svma
                .checked_sub(segment.svma)
                .filter(|at| *at < segment.file_size)?;
            segment.file_offset.checked_add(at)
        })
    }

    /// First and last byte of the code in the file.
    pub fn bytes(&self) -> (u64, u64) {
        self.code().map_or((0, 0), |code| {
            (code.file_offset, code.file_offset.saturating_add(code.file_size))
        })
    }

    /// Walks over the functions as they ran, in both orders. The new one puts them one behind the other where the first function of
    /// the file is today.
    pub fn predict(&self, touched: &[Touched], faulted_pages: u64) -> Prediction {
        let (_, end) = self.bytes();
        let (mut today, mut ordered) = (Walk::new(end), Walk::new(end));
        let mut next = self
            .functions
            .iter()
            .find_map(|first| self.offset_of(first))
            .unwrap_or(0);
        let (mut bytes, mut curve) = (0u64, Vec::new());
        let step = touched.len().div_ceil(POINTS).max(1);
        for (done, function) in (1..).zip(
            touched
                .iter()
                .filter_map(|touched| self.functions.get(touched.function)),
        ) {
            if let Some(offset) = self.offset_of(function) {
                today.run(offset, function.size);
            }
            ordered.run(next, function.size);
            bytes = bytes.saturating_add(function.size);
            let behind = next.saturating_add(function.size);
            next = behind.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
            if done % step == 0 || done == touched.len() {
                curve.push((done, today.cost(), ordered.cost()));
            }
        }
        Prediction {
            functions: touched.len(),
            of: self.functions.len(),
            bytes,
            today: today.cost(),
            ordered: ordered.cost(),
            curve,
            faulted_pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Timestamp;

    #[test]
    fn functions_that_are_spread_come_together() {
        let functions: Vec<FunctionSymbol> = (0..100)
            .map(|number| FunctionSymbol {
                svma: 0x10000 + number * 40960,
                size: 1024,
                name: format!("f{number}"),
                local: false,
                aliases: 0,
            })
            .collect();
        let segments = [Segment {
            file_offset: 0x1000,
            svma: 0x10000,
            file_size: 100 * 40960,
            memory_size: 100 * 40960,
            executable: true,
            writable: false,
        }];
        let layout = Layout {
            functions: &functions,
            segments: &segments,
        };
        let touched: Vec<Touched> = [90, 3, 50, 7, 20, 10, 60, 80]
            .map(|function| Touched {
                function,
                time: Timestamp(0),
            })
            .to_vec();
        let prediction = layout.predict(&touched, 8);
        assert_eq!((prediction.today.pages, prediction.today.reads), (8, 8));
        assert_eq!((prediction.ordered.pages, prediction.ordered.reads), (2, 1));
        assert_eq!((prediction.bytes, prediction.curve.len()), (8192, 8));
        let nothing = layout.predict(&[], 0);
        assert_eq!((nothing.functions, nothing.ordered), (0, Cost::default()));
    }

    #[test]
    fn sizes_at_the_end_of_all_addresses() {
        let functions = [FunctionSymbol {
            svma: 0,
            size: u64::MAX,
            name: "f".into(),
            local: false,
            aliases: 0,
        }];
        let layout = Layout {
            functions: &functions,
            segments: &[],
        };
        let touched = [Touched {
            function: 0,
            time: Timestamp(0),
        }];
        assert_eq!(layout.predict(&touched, 0).functions, 1);
    }
}
