//! A sandbox for subcommands that only read recordings, which may come from an untrusted source:
//! they write only next to the output and to the folder for temporary rows, run no program and open
//! no connection. The kernel's Landlock enforces it; docs/decisions/0002-sandbox.md says where it
//! is missing, and why.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use symbols::Config;

use super::reach::Reach;
use super::servers::NameServers;
use crate::event::HookStatus;

/// The newest Landlock ABI that this code knows.
const NEWEST: ABI = ABI::V10;

/// Applies the sandbox to the rest of the process, which writes only these outputs, as far as the
/// kernel supports it. Call it before the first byte is read, with a single thread: it applies to
/// that thread and to those that it starts.
pub fn around(outputs: &[&Path]) {
    around_outputs(outputs, &NameServers::from_env().caches());
}

/// The same, for a process that asks the servers with these cache folders.
fn around_outputs(outputs: &[&Path], caches: &[PathBuf]) {
    // For temporary rows, and for binaries that line information is read from.
    let mut places = vec![Config::scratch_folder()];
    for &output in outputs {
        // An existing output may be a terminal or a pipe.
        places.push(folder_of(output));
        places.push(output.to_owned());
    }
    for cache in caches {
        // The kernel needs an existing folder; if it can't be created, that is reported when it is
        // needed.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(cache);
        places.push(cache.clone());
    }
    // A kernel without Landlock, or a container that refuses it, changes nothing; `ngmi doctor`
    // reports it.
    let _ = restrict(&places, !caches.is_empty());
}

/// Like [`around`], for the process that writes a recording's profile: it inherits its output, and
/// may ask the servers with these cache folders.
pub fn around_conversion(caches: &[PathBuf]) {
    around_outputs(&[], caches);
}

/// Applies a second sandbox to the process that writes a recording's profile, once it knows the
/// recorded files: it reads only those.
pub fn around_reads(reach: &Reach) {
    let _ = restrict_reads(reach);
}

/// Allows this thread, and the threads that it starts, to open only these files and folders for
/// reading. False: the kernel does not enforce it.
///
/// # Errors
/// The kernel supports it, but refuses.
pub fn restrict_reads(reach: &Reach) -> Result<bool, RulesetError> {
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = Ruleset::default().handle_access(reads)?.create()?;
    let mut rules = rules.add_rules(path_beneath_rules(&reach.folders, reads))?;
    for file in &reach.files {
        // A memory file has no path for a rule; a process that has it open can read it.
        let _ = (&mut rules).add_rule(PathBeneath::new(file, AccessFs::ReadFile));
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// Whether this machine supports Landlock.
pub fn status() -> HookStatus {
    let has_it = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ABI::V1))
        .and_then(Ruleset::create)
        .is_ok();
    let why = "subcommands that read recordings could write to any of your files if a crafted recording exploited them";
    let remedy = "use a kernel 5.13 or newer, with landlock in its `lsm=`; in a container, allow it";
    HookStatus {
        noun: "sandbox".to_owned(),
        hook: "landlock".to_owned(),
        refused: (!has_it).then(|| why.to_owned()),
        remedy: (!has_it).then(|| remedy.to_owned()),
    }
}

/// Allows this thread, and the threads that it starts, to write only to these places and below, to
/// run no program, and to connect only if `connects`. False: the kernel does not enforce it.
///
/// # Errors
/// The kernel supports it, but refuses.
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

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => file.to_owned(),
    }
}
