//! Real stacks of programs that know their own call chains: unwound, and through a log to facts and back; and logs
//! with known contents.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A failed unwrap fails the test.

mod arm64;
mod beginning;
mod blocks;
mod by_tables;
mod facts;
mod faults;
mod futexes;
mod harness;
mod logs;
mod program;
mod waits;
mod walks;
