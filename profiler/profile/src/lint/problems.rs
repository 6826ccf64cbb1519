//! Problems found by the lint, one line for each kind.

use std::collections::BTreeMap;

use crate::format::Index;

/// Maximum number of reported problems; a broken column has one in every row.
const MAX_PROBLEMS: usize = 100;

/// Problems with the number of rows that have them.
#[derive(Default)]
pub struct Problems(BTreeMap<String, u64>);

impl Problems {
    /// Adds one problem.
    pub fn add(&mut self, place: &str, problem: &dyn std::fmt::Display) {
        if self.0.len() < MAX_PROBLEMS {
            *self.0.entry(format!("{place}: {problem}")).or_default() += 1;
        }
    }

    /// The problems in words, sorted.
    pub fn into_list(self) -> Vec<String> {
        let describe = |(problem, count)| match count {
            1 => problem,
            _ => format!("{problem} ({count} times)"),
        };
        self.0.into_iter().map(describe).collect()
    }

    /// Checks that the columns of a table have its length.
    pub fn lengths(&mut self, table: &str, length: usize, columns: &[(&str, usize)]) {
        for (column, len) in columns {
            if *len != length {
                self.add(
                    table,
                    &format_args!("column {column} has {len} rows instead of {length}"),
                );
            }
        }
    }

    /// Checks that every reference of a column is a row of its target.
    pub fn references(&mut self, column: &str, indices: &[Index], missing: Missing, (target, rows): (&str, usize)) {
        for index in indices {
            let fits = match *index {
                None => missing == Missing::Null,
                Some(-1) if missing == Missing::MinusOne => true,
                Some(index) => usize::try_from(index).is_ok_and(|index| index < rows),
            };
            if !fits {
                self.add(
                    column,
                    &format_args!("refers to a row that {target} does not have ({rows} rows)"),
                );
            }
        }
    }

    /// Checks that times ascend from 0.
    pub fn sorted(&mut self, table: &str, times: impl Iterator<Item = f64>) {
        let mut last = 0.0;
        for time in times {
            if time.is_nan() || time < last {
                self.add(table, &"time decreases or starts below 0");
            }
            last = time;
        }
    }
}

/// How a column represents a missing reference.
#[derive(Clone, Copy, PartialEq)]
pub enum Missing {
    /// Never missing.
    Never,
    /// `null`
    Null,
    /// −1
    MinusOne,
}
