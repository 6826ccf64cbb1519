//! Block I/O reports: collects requests, selects and names them, and summarizes them in tables or exports one row per request.

mod devices;
pub mod export;
mod files;
mod kept;
mod report;
mod rows;
pub(crate) mod select;
pub mod tally;
pub mod text;
mod text_devices;
pub(crate) mod view;
mod warn;

pub use report::IoReport;
pub use rows::{Asked, Facts};
pub use select::{Selection, Selector};
pub use view::View;
