//! `ngmi convert`: writes a profile from an event log, including the log of a recorder that was
//! killed.

use std::fs::File;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::Convert;
use super::output::must_differ;
use crate::record::conversion::Maker;
use crate::record::finish::{self, OpenLog, Plan};
use crate::record::options::ResultOptions;
use crate::record::sandbox;
use crate::record::servers::NameServers;
use crate::record::sources::SourcePlaces;
use crate::record::spool::Output;

pub fn run(args: Convert) -> Result<ExitCode> {
    // A file system that never answers would keep this process from ending, so a separate process
    // writes the profile. It is started before the sandbox applies.
    let servers = NameServers::from(args.servers);
    let maker = Maker::start(None, None, &servers)?;
    sandbox::around(&[&args.output]);
    let result = ResultOptions::try_from(args.result)?;
    let file = File::open(&args.log).with_context(|| {
        format!(
            "cannot read {}; name an event log that `ngmi record` kept",
            args.log.display()
        )
    })?;
    let log = OpenLog::new(file.try_clone()?, args.log.clone())?;
    let this_boot = log.header().is_some_and(|header| {
        let ours = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        ours.is_ok_and(|ours| ours.trim() == header.boot_id.trim())
    });
    must_differ(&args.output, &args.log)?;
    let mut output = Output::create(&args.output)?;
    let environment = std::env::vars_os().collect();
    let plan = Plan {
        sources: (result.include_source).then(|| SourcePlaces::new(&args.sources.source_root, &environment)),
        // A foreign log could name any file as a build from Mozilla.
        servers: if this_boot { servers } else { servers.without_mozilla() },
        max_samples: result.max_samples,
        complete_log: false,
        this_boot,
        reads_only_mapped: false,
        left_out: Vec::new(),
        notes: Vec::new(),
    };
    drop(log);
    let mut summary = maker.make((&file, &args.log), &mut output, Vec::new(), plan)?;
    finish::place(output, &mut summary)?;
    let lost = super::show(&summary, result)?;
    Ok(if lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
