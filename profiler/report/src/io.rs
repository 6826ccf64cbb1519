//! Block I/O reports: collects requests, selects and names them, and summarizes them in tables or exports one row per request.

pub mod devices;
pub mod export;
pub mod files;
mod kept;
pub mod report;
pub mod rows;
pub mod select;
pub mod tally;
pub mod text;
mod text_devices;
pub mod view;
pub mod warn;

pub use report::IoReport;
pub use rows::{Asked, Facts};
pub use select::{Selection, Selector};
pub use view::View;
