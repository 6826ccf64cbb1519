//! `ngmi convert`: a profile from an event log, also of a recorder that was killed.

use std::fs::File;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::Convert;
use super::options::ResultOptions;
use crate::event::read::LogReader;
use crate::record::binaries::{OpenBinaries, Vdso};
use crate::record::finish::{self, Plan};
use crate::record::spool::Output;

pub fn run(args: Convert) -> Result<ExitCode> {
    let result = ResultOptions::try_from(args.result)?;
    let mut log = File::open(&args.log).with_context(|| {
        format!(
            "cannot read {}; name the log that `ngmi record` kept",
            args.log.display()
        )
    })?;
    let reader = LogReader::new(&log).with_context(|| format!("cannot read {}", args.log.display()))?;
    let boot = reader.header().map(|header| header.boot_id.clone());
    drop(reader);
    let this_boot = boot.is_some_and(|boot| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").is_ok_and(|ours| ours.trim() == boot.trim())
    });
    let output = Output::create(&args.output)?;
    let binaries = OpenBinaries::new(Vec::new(), Vdso::of_this_kernel());
    let plan = Plan {
        max_samples: result.max_samples,
        complete_log: false,
        this_boot,
    };
    let summary = finish::finish(&mut log, &args.log, output, &binaries, plan)?;
    let lost = super::show(&summary, result)?;
    Ok(if lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
