//! An order of a file's functions for the linker: those that ran, as they came. docs/order.md.

pub mod format;
pub mod model;
pub mod prediction;
pub mod text;
pub mod touch;

pub use format::Format;
pub use prediction::{Layout, Prediction};
pub use touch::{Touched, Touches};
