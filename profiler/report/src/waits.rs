//! Wait reports: collects waits as compact rows, selects and names them, and summarizes them in tables or exports one row per
//! wait.

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
