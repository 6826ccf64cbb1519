//! Facts as answers: tables and figures that verbs print.

pub mod faults;
pub mod summary;
pub mod text;

pub use summary::Summary;
