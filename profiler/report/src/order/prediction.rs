//! Predicts the page costs of the recorded run with the new order and with the current one, by the same model.

use serde::Serialize;
use symbols::elf::{FunctionSymbol, Segment};

use super::model::{Cost, Walk};
use super::touch::Touched;

/// Alignment of functions in bytes, as compilers choose it.
const ALIGNMENT: u64 = 16;
/// Number of points of the curve.
const POINTS: usize = 10;

/// Location of functions in a file.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// Functions by address.
    pub functions: &'a [FunctionSymbol],
    /// Segments of the file.
    pub segments: &'a [Segment],
    /// Page size of the recorded machine in bytes.
    pub page: u64,
}

/// Comparison of the current order with the new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prediction {
    /// Number of functions in the new order.
    pub functions: usize,
    /// Number of functions in the file.
    pub of: usize,
    /// Total size in bytes of the ordered functions.
    pub bytes: u64,
    /// Cost in the current order.
    pub today: Cost,
    /// Cost in the new order.
    pub ordered: Cost,
    /// Costs after each tenth of the functions: number of functions, current cost, new cost.
    pub curve: Vec<(usize, Cost, Cost)>,
    /// Pages of code with a recorded fault.
    pub faulted_pages: u64,
}

impl Layout<'_> {
    /// The first executable segment.
    fn code(&self) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.executable)
    }

    /// File offset of a function.
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

    /// Start and end of the code in the file, in bytes.
    pub fn bytes(&self) -> (u64, u64) {
        self.code().map_or((0, 0), |code| {
            (code.file_offset, code.file_offset.saturating_add(code.file_size))
        })
    }

    /// Simulates the functions as they ran, in both orders. The new order places them consecutively from the position of the file's
    /// first function.
    pub fn predict(&self, touched: &[Touched], faulted_pages: u64) -> Prediction {
        let (_, end) = self.bytes();
        let (mut today, mut ordered) = (Walk::new(end, self.page), Walk::new(end, self.page));
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
    use base::addr::{PAGE, Timestamp};

    #[test]
    fn scattered_functions_are_placed_together() {
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
            page: PAGE,
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
            page: PAGE,
        };
        let touched = [Touched {
            function: 0,
            time: Timestamp(0),
        }];
        assert_eq!(layout.predict(&touched, 0).functions, 1);
    }
}
