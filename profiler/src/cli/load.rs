//! `ngmi load`: opens a profile in the Firefox Profiler, and serves its symbols and sources; with `--merge` after it has put
//! a browser's own markers into a copy.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use symbols::Config;

use super::args::Load;
use super::serve::{self, Served};
use super::trim;
use crate::fact::FactSource as _;
use crate::fact::reduce::budget::{Budget, Collector};
use crate::profile::merge_gecko;
use crate::record::finish::write_profile;
use crate::record::spool::Output;
use crate::terminal::print_note;

pub fn run(args: &Load) -> Result<ExitCode> {
    let environment = std::env::vars_os().collect();
    let servers = args.servers.clone().into();
    let open = |profile: Served| {
        serve::run(
            profile,
            &args.serve,
            (&args.sources.source_root, &servers),
            &environment,
        )
    };
    match (&args.merge, &args.output) {
        (None, _) => {
            let profile = Served::open(&args.profile)?;
            profile.expect_whole()?;
            open(profile)?;
        }
        (Some(theirs), Some(output)) => merge(&args.profile, theirs, output)?,
        (Some(theirs), None) => {
            // Removed at the end, like its folder.
            let folder = tempfile::Builder::new()
                .prefix("ngmi-merged-")
                .tempdir_in(Config::scratch_folder())?;
            let merged = folder.path().join("merged.json.gz");
            merge(&args.profile, theirs, &merged)?;
            open(Served::open(&merged)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a profile with a browser's own markers.
fn merge(profile: &Path, theirs: &Path, output: &Path) -> Result<()> {
    let mut output = Output::create(output)?;
    let mut source = trim::read(profile)?;
    // A profile within its budget keeps its samples.
    let mut collector = Collector::new(Budget {
        samples: usize::MAX,
        ..Budget::default()
    });
    let mut tables = source.replay(&mut collector)?;
    drop(source);
    let shown = theirs.display();
    let mut file = File::open(theirs)
        .with_context(|| format!("cannot read {shown}; name the file that Firefox (MOZ_PROFILER_SHUTDOWN) or Chrome (--trace-startup-file) wrote"))?;
    let merged =
        merge_gecko(&mut file, &mut tables, &mut collector).with_context(|| format!("cannot merge {shown}"))?;
    tables.recording.notes.extend(merged.problems());
    let collected = collector.finish(&mut tables);
    write_profile(&mut output, &tables, &collected)?;
    output.finish()?;
    print_note(merged);
    Ok(())
}
