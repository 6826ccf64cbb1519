//! Reports of page faults: collects them as compact rows, selects and names them, and sums them into tables or exports a row per fault.

pub mod account;
pub mod export;
pub mod list;
pub mod pages;
pub mod phase;
pub mod report;
pub mod rows;
pub mod select;
pub mod spots;
pub mod tally;
pub mod text;
mod text_pages;
pub mod view;
pub mod warn;

pub use report::FaultReport;
pub use rows::{Facts, Rows};
pub use select::{Selection, Selector};
pub use view::View;
