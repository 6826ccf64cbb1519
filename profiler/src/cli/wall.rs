//! A wall around verbs that only read recordings, which somebody else may have made: nothing is written but beside the output and where rows are put
//! aside, no program is run, nobody is connected to. The kernel's Landlock keeps it; docs/decisions/0002-sandbox.md says where there is none, and why.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use symbols::{Config, Debuginfod};

use super::args::Verb;
use crate::event::HookStatus;
use crate::record::reach::Reach;

/// What the newest kernel that this was written for can keep.
const NEWEST: ABI = ABI::V10;

/// Puts it up if the verb only reads, for the rest of the process, as far as the kernel has one. Before the first byte is read, while there is one thread: it holds
/// for that one and those that it starts.
pub fn around(verb: &Verb) {
    if let Some(outputs) = outputs(verb) {
        build(&outputs);
    }
}

/// As [`around`], for a verb that has begun otherwise.
pub fn around_output(output: &Path) {
    build(&[output]);
}

/// As [`around`], for the process that makes a recording's profile: what it writes to is handed to it.
pub fn around_conversion() {
    build(&[]);
}

fn build(outputs: &[&Path]) {
    let debuginfod = Debuginfod::from_env();
    // Of rows, and of binaries that lines are read from.
    let mut places = vec![Config::scratch_folder()];
    for &output in outputs {
        // What is there already may be a terminal or a pipe.
        places.push(folder_of(output));
        places.push(output.to_owned());
    }
    if let Some(debuginfod) = &debuginfod {
        // A folder that is not there yet can't be named to the kernel; one that can't be made is told when it is needed.
        let _ = std::fs::create_dir_all(&debuginfod.cache_directory);
        places.push(debuginfod.cache_directory.clone());
    }
    // A kernel without it, or a container that refuses it, leaves things as they were; `ngmi doctor` tells.
    let _ = restrict(&places, debuginfod.is_some());
}

/// Puts up another wall for the process that makes a recording's profile, once it knows which files that is about: it reads those and no others.
pub fn around_reads(reach: &Reach) {
    let _ = restrict_reads(reach);
}

/// From here on this thread and those that it starts open these files and folders for reading, and no others. False: the kernel keeps nothing of it.
///
/// # Errors
/// When the kernel has it and refuses.
pub fn restrict_reads(reach: &Reach) -> Result<bool, RulesetError> {
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = Ruleset::default().handle_access(reads)?.create()?;
    let mut rules = rules.add_rules(path_beneath_rules(&reach.folders, reads))?;
    for file in &reach.files {
        // A memory file has no path that a rule could be about; who has it open can read it.
        let _ = (&mut rules).add_rule(PathBeneath::new(file, AccessFs::ReadFile));
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// Whether this machine has it.
pub fn status() -> HookStatus {
    let has_it = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ABI::V1))
        .and_then(Ruleset::create)
        .is_ok();
    let why = "verbs that read recordings could write to all files of yours, if a recording misled them";
    let remedy = "a kernel from 5.13 on, with landlock among its `lsm=`; in a container, one that lets it through";
    HookStatus {
        noun: "wall".to_owned(),
        hook: "landlock".to_owned(),
        refused: (!has_it).then(|| why.to_owned()),
        remedy: (!has_it).then(|| remedy.to_owned()),
    }
}

/// From here on this thread and those that it starts write to these places and what is below, run no program, and connect only if they may. False: the
/// kernel keeps nothing of it.
///
/// # Errors
/// When the kernel has it and refuses.
pub fn restrict(places: &[PathBuf], connects: bool) -> Result<bool, RulesetError> {
    let writes = AccessFs::from_write(NEWEST);
    let mut rules = Ruleset::default()
        .handle_access(writes | AccessFs::Execute)?
        .scope(Scope::from_all(NEWEST))?;
    if !connects {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let rules = rules.create()?.add_rules(path_beneath_rules(places, writes))?;
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// Where the verb writes beside standard output; `None`: it does more than read a recording.
fn outputs(verb: &Verb) -> Option<Vec<&Path>> {
    let output = match verb {
        Verb::Trim(args) => Some(&args.output),
        Verb::Export(args) => Some(&args.output),
        Verb::Order(args) => args.output.as_ref(),
        Verb::Preload(args) if args.action.is_none() => args.output.as_ref(),
        Verb::Faults(args) => args.html.as_ref(),
        Verb::Check(args) => args.junit.as_ref(),
        Verb::Diff(args) => args.profile.as_ref(),
        Verb::Smaps(args) if args.pid().is_none() => None,
        Verb::Io(_) | Verb::Waits(_) | Verb::Lint(_) => None,
        _ => return None,
    };
    Some(output.into_iter().map(PathBuf::as_path).collect())
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => file.to_owned(),
    }
}
