//! `ngmi io`: the block requests of a recording as tables, or as rows for other programs.

use std::io;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Io;
use super::output::to_stdout;
use super::source;
use super::span::times;
use super::terminal::tell;
use crate::fact::{Recording, Tables};
use crate::report::export;
use crate::report::io::export::{COLUMNS, row};
use crate::report::io::{Facts, IoReport, Selection, Selector, View, text};
use crate::report::text::count;

pub fn run(args: Io) -> Result<ExitCode> {
    let input = args.input.clone();
    let top = args.top;
    let (csv, json, ndjson) = (args.csv, args.json, args.ndjson);
    let selection = Selection::try_from(args)?;
    let mut facts = Facts::default();
    let tables = source::read(&input, &mut facts)?;
    if facts.is_empty() {
        bail!(
            "{} holds no block request{}",
            input.display(),
            why_none(&tables.recording)
        );
    }
    warn_of_budget(&tables, facts.len() as u64);
    let view = View::new(&tables, &facts);
    let selector = Selector::new(&view, &selection).with_context(|| input.display().to_string())?;
    if csv || ndjson {
        let selected = view.requests().filter(|(request, _)| selector.takes(&view, request));
        let mut selected = selected.filter_map(|(request, parts)| {
            let chosen: Vec<_> = parts
                .iter()
                .filter(|part| selector.takes_part(&view, part))
                .copied()
                .collect();
            let is_wanted = !selector.chooses_parts() || !chosen.is_empty();
            is_wanted.then(|| row(&view, request, &chosen))
        });
        return to_stdout(&mut io::stdout().lock(), |out| {
            if csv {
                export::csv_head(out, &COLUMNS)?;
                selected.try_for_each(|cells| export::csv_row(out, &cells))
            } else {
                selected.try_for_each(|cells| export::json_row(out, &COLUMNS, &cells))
            }
        });
    }
    let report = IoReport::new(&view, &selector);
    if json {
        return to_stdout(&mut io::stdout().lock(), |out| export::json(out, &report));
    }
    to_stdout(&mut anstream::stdout(), |out| text::write(out, &report, top))
}

impl TryFrom<Io> for Selection {
    type Error = anyhow::Error;

    fn try_from(args: Io) -> Result<Self> {
        let (from, to) = times(args.from, args.to)?;
        Ok(Self {
            devices: args.devices,
            files: args.files,
            processes: args.processes,
            threads: args.threads,
            functions: args.functions,
            under: args.under,
            operations: args.operations,
            from,
            to,
        })
    }
}

/// Why a recording has no requests, and how to get one that has.
fn why_none(recording: &Recording) -> String {
    if recording.requests_seen > 0 {
        let seen = count(recording.requests_seen);
        return format!(", though {seen} were seen: name the event log instead (`ngmi record --keep-events`)");
    }
    let of_block = || recording.hooks.iter().filter(|hook| hook.noun == "block");
    let refused = of_block().find(|hook| hook.refused.is_some());
    match refused {
        _ if of_block().any(|hook| hook.refused.is_none()) => {
            ", though devices were watched: everything was in memory; `ngmi record --cold` drops it from there first"
                .to_owned()
        }
        Some(hook) => {
            let reason = hook.refused.as_deref().unwrap_or_default();
            let how = hook
                .remedy
                .as_deref()
                .unwrap_or("`ngmi doctor` says what this machine allows");
            format!(": the kernel refused {} ({reason}); {how}", hook.hook)
        }
        None => ": devices were not watched; record again with this version of ngmi".to_owned(),
    }
}

/// A profile may hold only a part of them.
fn warn_of_budget(tables: &Tables, here: u64) {
    let seen = tables.recording.requests_seen;
    if seen > here {
        tell(format_args!(
            "the profile has room for {} of the {} requests that were seen; the event log (`--keep-events`) has them all",
            count(here),
            count(seen)
        ));
    }
}
