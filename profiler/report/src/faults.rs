//! Reports of page faults: collects them as compact rows, selects and names them, and sums them into tables or exports a row per fault.

mod account;
pub mod export;
pub mod list;
mod pages;
pub mod phase;
mod report;
mod rows;
mod select;
mod spots;
pub mod tally;
pub mod text;
mod text_pages;
pub(crate) mod view;
pub mod warn;

pub use report::FaultReport;
pub use rows::Facts;
pub use select::{Selection, Selector};
pub use view::View;
