//! `ngmi faults`: the page faults of a recording as tables, as a list, or as rows for other programs.

use std::io;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use source::Kind;

use super::args::Faults;
use super::explorer;
use super::output::to_stdout;
use super::source;
use super::terminal::tell;
use crate::fact::{Recording, Tables};
use crate::report::export;
use crate::report::faults::export::{COLUMNS, Exporter};
use crate::report::faults::{Facts, FaultReport, Selection, Selector, View};

pub fn run(mut args: Faults) -> Result<ExitCode> {
    if let Some(html) = args.html.take() {
        return explorer::page(&args.input.clone(), &html, &Selection::try_from(args)?);
    }
    let input = args.input.clone();
    let top = args.top;
    let (list, csv, json, ndjson) = (args.list, args.csv, args.json, args.ndjson);
    let selection = Selection::try_from(args)?;
    let mut facts = Facts::default();
    let (tables, kind) = source::read(&input, &mut facts)?;
    facts.is_without_mappings = kind == Kind::Profile;
    if facts.rows.is_empty() {
        bail!("{} holds no page fault{}", input.display(), why_none(&tables.recording));
    }
    warn_of_budget(&tables, facts.rows.len() as u64);
    let view = View::new(&tables, &facts);
    let selector = Selector::new(&view, &selection).with_context(|| input.display().to_string())?;
    let selected = view.faults().filter(|fault| selector.takes(&view, fault));
    if csv {
        let mut exporter = Exporter::new(&view);
        return to_stdout(&mut io::stdout().lock(), |out| {
            export::csv_head(out, &COLUMNS)?;
            selected
                .into_iter()
                .try_for_each(|fault| export::csv_row(out, &exporter.row(&fault)))
        });
    }
    if ndjson {
        let mut exporter = Exporter::new(&view);
        return to_stdout(&mut io::stdout().lock(), |out| {
            selected
                .into_iter()
                .try_for_each(|fault| export::json_row(out, &COLUMNS, &exporter.row(&fault)))
        });
    }
    if list {
        return to_stdout(&mut anstream::stdout(), |out| {
            crate::report::faults::list::write(out, &view, &selector)
        });
    }
    let report = FaultReport::new(&view, &selector);
    if json {
        return to_stdout(&mut io::stdout().lock(), |out| export::json(out, &report));
    }
    to_stdout(&mut anstream::stdout(), |out| {
        crate::report::faults::text::write(out, &report, top)
    })
}

/// Why a recording has no faults, and how to get one that has.
pub fn why_none(recording: &Recording) -> String {
    if recording.faults_seen > 0 {
        let seen = crate::report::text::count(recording.faults_seen);
        return format!(", though {seen} were seen: name the event log instead (`ngmi record --keep-events`)");
    }
    let remedy = "record them with `ngmi record --faults all -- COMMAND`";
    let refused = recording
        .hooks
        .iter()
        .find(|hook| hook.noun == "fault" && hook.refused.is_some());
    let watched = recording
        .hooks
        .iter()
        .any(|hook| hook.noun == "fault" && hook.refused.is_none());
    match refused {
        _ if watched => ", though they were watched: nothing that was recorded made any".to_owned(),
        Some(hook) => {
            let reason = hook.refused.as_deref().unwrap_or_default();
            let how = hook
                .remedy
                .as_deref()
                .unwrap_or("`ngmi doctor` says what this machine allows");
            format!(": the kernel refused {} ({reason}); {how}", hook.hook)
        }
        None => format!("; {remedy}"),
    }
}

/// A profile may hold only a part of them.
pub fn warn_of_budget(tables: &Tables, here: u64) {
    let seen = tables.recording.faults_seen;
    if seen > here {
        let count = crate::report::text::count;
        tell(format_args!(
            "the profile has room for {} of the {} faults that were seen; the event log (`--keep-events`) has them all",
            count(here),
            count(seen)
        ));
    }
}
