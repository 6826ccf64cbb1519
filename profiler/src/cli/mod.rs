//! The verbs, one thin file each.

pub mod args;
pub mod options;
pub mod terminal;

/// Runs the command line.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
