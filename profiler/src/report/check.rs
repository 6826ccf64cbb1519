//! Budgets: what figures of a recording may be at most, and which of them are over.

pub mod budget;
pub mod github;
pub mod judge;
pub mod junit;
pub mod text;

pub use budget::{Allowance, Budget};
pub use judge::{Judgement, judge};
