//! Function order for the linker: the functions of a file that ran, by first use. See docs/order.md.

pub mod format;
pub mod model;
pub mod prediction;
pub mod text;
pub mod touch;

pub use format::Format;
pub use prediction::{Layout, Prediction};
pub use touch::{Touched, Touches};
