//! Wait reports: collects waits as compact rows, selects and names them, and summarizes them in tables or exports one row per
//! wait.

mod causes;
pub mod export;
mod report;
mod rows;
mod select;
pub mod tally;
pub mod text;
pub(crate) mod view;

pub use report::WaitReport;
pub use rows::Facts;
pub use select::{Selection, Selector};
pub use view::View;
