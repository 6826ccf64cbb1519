//! Locks: which ones threads waited for, and which threads held them meanwhile. docs/waits.md has the rules.
//!
//! [`facts`] collects facts; [`identity`] finds the lock of a wait, [`heap`] divides and names those without a variable, [`holds`] which thread had it when, [`doing`] what
//! that thread did, [`preemption`] which one ran instead, [`inversion`] for whom that was wrong, and [`patterns`] names what is typical. [`view`] joins them for the [`report`].

pub mod doing;
pub mod export;
pub mod facts;
pub mod heap;
pub mod holds;
pub mod identity;
pub mod in_turn;
pub mod inversion;
pub mod patterns;
pub mod preemption;
pub mod report;
pub mod tally;
pub mod text;
pub mod view;

pub use facts::LockFacts;
pub use report::LockReport;
pub use view::LockView;

#[cfg(test)]
mod tests;
