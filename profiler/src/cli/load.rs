//! `ngmi load`: opens a profile in the Firefox Profiler, and serves its symbols and sources.

use std::process::ExitCode;

use anyhow::Result;

use super::args::Load;
use super::serve;

pub fn run(args: &Load) -> Result<ExitCode> {
    let environment = std::env::vars_os().collect();
    let servers = args.servers.clone().into();
    serve::run(
        &args.profile,
        &args.serve,
        (&args.sources.source_root, &servers),
        &environment,
    )?;
    Ok(ExitCode::SUCCESS)
}
