//! `ngmi check`: checks the metrics of a recording against a budget, for CI.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Check;
use super::output::{must_differ, must_differ_from, print_json, print_styled, to_file_or_stdout, to_stdout};
use super::runs::{self, Wanted, WantedPaths};
use crate::report::check::budget::MAX_BYTES;
use crate::report::check::{Allowance, Budget, github, judge, junit, text};

pub fn run(args: &Check) -> Result<ExitCode> {
    let mut budget = match &args.budget {
        Some(path) => read(path)?,
        None => Budget::of_totals(),
    };
    if let Some(percent) = args.allow {
        if !(0.0..=1e6).contains(&percent) {
            bail!("--allow is {percent}; give a percentage of at least 0, as in `--allow 5`");
        }
        budget.allow = budget.allow.or(Some(Allowance::of_percent(percent)));
    }
    if args.against.is_empty() && budget.entries.iter().all(|entry| entry.limit.is_none()) {
        bail!("the budget limits nothing by itself; set a number in its entries, or name a baseline with --against");
    }
    if let Some(path) = &args.junit {
        keeps_inputs(args, path)?;
    }
    let between = args.markers.between();
    let windows = budget.windows().into_iter().map(str::to_owned).collect();
    // Asked for: as many waits as `ngmi path` takes.
    let paths = budget.paths().map(|threads| WantedPaths {
        most: usize::MAX,
        threads,
    });
    let wanted = Wanted {
        between,
        windows,
        paths,
    };
    let measured = runs::read(&args.inputs, &wanted)?;
    let baseline = (!args.against.is_empty())
        .then(|| runs::read(&args.against, &wanted))
        .transpose()?;
    let judgement = judge(&budget, &measured, baseline.as_ref());
    if let Some(path) = &args.junit {
        to_file_or_stdout(Some(path), |mut out| junit::write(&mut out, &judgement))?;
    }
    if args.json {
        print_json(&judgement)?;
    } else {
        print_styled(|mut out| text::write(&mut out, &judgement))?;
    }
    if args.github {
        let budget = args.budget.as_deref().map(Path::to_string_lossy);
        to_stdout(&mut io::stdout().lock(), |out| {
            github::write(out, &judgement, budget.as_deref())
        })?;
    }
    let is_exceeded = judgement.over().next().is_some();
    let is_unknown = judgement.unknown().next().is_some();
    Ok(ExitCode::from(match (is_exceeded, is_unknown) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 0,
    }))
}

/// Refuses to replace the budget or a recording, which a folder may contain.
fn keeps_inputs(args: &Check, junit: &Path) -> Result<()> {
    if let Some(budget) = &args.budget {
        must_differ_from(junit, budget, "budget")?;
    }
    let recordings = [runs::files(&args.inputs)?, runs::files(&args.against)?];
    recordings
        .iter()
        .flatten()
        .try_for_each(|file| must_differ(junit, file))
}

fn read(path: &Path) -> Result<Budget> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read the budget {shown}"))?;
    let mut text = String::new();
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    let read = read.with_context(|| format!("cannot read the budget {shown}"))?;
    if read as u64 > MAX_BYTES {
        bail!("the budget {shown} is longer than a MiB; name a TOML file with limits");
    }
    Budget::parse(&text).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|error| format!("{shown}: {error}")).collect();
        anyhow::anyhow!("invalid budget\n{}", lines.join("\n"))
    })
}
