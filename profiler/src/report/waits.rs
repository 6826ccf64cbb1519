//! Waits as an answer: collected as compact rows, selected, named, summed up into tables, or exported a row a wait.

pub mod causes;
pub mod export;
pub mod report;
pub mod rows;
pub mod select;
pub mod tally;
pub mod text;
pub mod view;

pub use report::WaitReport;
pub use rows::{Facts, Rows};
pub use select::{Selection, Selector};
pub use view::View;
