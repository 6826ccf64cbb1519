//! Budgets: upper limits for the metrics of a recording, and which metrics exceed them.

pub mod budget;
pub mod github;
pub mod judge;
pub mod junit;
pub mod text;

pub use budget::{Allowance, Budget};
pub use judge::{Judgement, judge};
