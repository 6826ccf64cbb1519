//! The files that a subcommand writes, which its sandbox lets through.

use std::path::{Path, PathBuf};

use super::args::Action;

/// The files that a subcommand writes in addition to standard output; `None`: it does more than read
/// a recording, and has no sandbox.
pub fn of(subcommand: &Action) -> Option<Vec<&Path>> {
    let output = match subcommand {
        Action::Trim(args) => Some(&args.output),
        Action::Export(args) => Some(&args.output),
        Action::Load(args) if args.output.is_some() => args.output.as_ref(),
        Action::Order(args) => args.output.as_ref(),
        Action::Preload(args) if args.action.is_none() => args.output.as_ref(),
        Action::Faults(args) => args.html.as_ref(),
        Action::Check(args) => args.junit.as_ref(),
        Action::Diff(args) => args.profile.as_ref(),
        Action::Smaps(args) if args.pid().is_none() => None,
        Action::Io(_) | Action::Waits(_) | Action::Path(_) | Action::Lint(_) => None,
        _ => return None,
    };
    Some(output.into_iter().map(PathBuf::as_path).collect())
}
