//! File ranges that a program needs from disk when it starts, as a list to read ahead. See docs/preload.md.

pub mod list;
pub mod model;
pub mod need;
pub mod plan;

pub use list::{List, ListError, Listed, Read};
pub use model::Model;
pub use need::{FileNeed, Needs};
pub use plan::{Range, plan};
