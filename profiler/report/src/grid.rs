//! Tables for a terminal with 80 columns: a row has a name, and columns that are computed from its values.

mod group;

pub use group::{GroupName, GroupRow, GroupTable, GroupTables, Measure};
pub(crate) use group::{Grouping, Groupings, by, by_parts, group_lines, ranked};

use super::text::{bold, columns, fit};

/// A column: its title, its width, and how to show the values of a row. The second argument of
/// the function holds the values of all rows together, for shares.
pub struct Column<M>(pub &'static str, pub usize, pub fn(&M, &M) -> String);

/// The layout of a table.
pub struct Grid<M: 'static> {
    /// Largest width of a row's name; longer ones are cut.
    pub name: usize,
    /// Number of spaces before each column, in addition to its width.
    pub gap: usize,
    /// The columns after the name, aligned to the right.
    pub columns: &'static [Column<M>],
}

impl<M> Grid<M> {
    /// The line above the rows.
    pub(crate) fn head(&self, title: &str) -> String {
        bold(&self.line(title, |column| column.0.to_owned()))
    }

    /// The line of a row.
    pub(crate) fn row(&self, name: &str, values: &M, all: &M) -> String {
        self.line(name, |column| column.2(values, all))
    }

    /// A table of rows, which need not add up, with an empty line above; no lines if there are no rows.
    pub(crate) fn table<'r>(&self, title: &str, rows: impl Iterator<Item = (String, &'r M)>) -> Vec<String> {
        let mut lines = vec![String::new(), self.head(title)];
        lines.extend(rows.map(|(name, values)| self.row(&name, values, values)));
        if lines.len() == 2 { Vec::new() } else { lines }
    }

    fn line(&self, name: &str, show: impl Fn(&Column<M>) -> String) -> String {
        let mut line = fit(name, self.name);
        let room = self.name.saturating_sub(columns(&line));
        line.extend(std::iter::repeat_n(' ', room));
        for column in self.columns {
            // Padding of `format!` counts characters, not columns.
            let cell = show(column);
            let room = self.gap + column.1.saturating_sub(columns(&cell));
            line.extend(std::iter::repeat_n(' ', room));
            line.push_str(&cell);
        }
        line
    }
}

#[cfg(test)]
mod tests;
