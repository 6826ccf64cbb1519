//! Block requests as an answer: collected, selected, named, summed up into tables, or exported a row a request.

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
