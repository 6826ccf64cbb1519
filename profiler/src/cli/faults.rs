//! `ngmi faults`: prints the page faults of a recording as tables, as a list, or as rows for other
//! programs.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use source::Kind;

use super::args::Faults;
use super::explorer;
use super::missing::About;
use super::output::to_stdout;
use super::scratch::Scratch;
use super::source;
use crate::fact::{Recording, Tables};
use crate::report::export::{self, Form, Rows};
use crate::report::faults::export::{COLUMNS, Exporter};
use crate::report::faults::{Facts, FaultReport, Selection, Selector, View};

pub const FAULTS: About = About {
    name: "faults",
    noun: "fault",
    hook: "",
    watched: Some(": tracing was on, but none occurred"),
    not_asked_for: "; record them with `ngmi record --faults all -- COMMAND`",
};

pub fn run(mut args: Faults) -> Result<ExitCode> {
    if let Some(html) = args.html.take() {
        return explorer::page(&args.input.clone(), &html, &Selection::try_from(args)?);
    }
    let scratch = Scratch::new();
    let code = show(args, &scratch)?;
    scratch.was_whole()?;
    Ok(code)
}

fn show(args: Faults, scratch: &Arc<Scratch>) -> Result<ExitCode> {
    let input = args.input.clone();
    let top = args.top;
    let (list, csv, json, ndjson) = (args.list, args.csv, args.json, args.ndjson);
    let selection = Selection::try_from(args)?;
    let mut facts = Facts::beyond_memory(&scratch.rows());
    let (tables, kind) = source::read(&input, &mut facts)?;
    facts.is_without_mappings = kind == Kind::Profile;
    if facts.rows.is_empty() {
        bail!(
            "{} contains no page faults{}",
            input.display(),
            why_none(&tables.recording)
        );
    }
    warn_of_budget(&tables, facts.rows.len() as u64);
    let view = View::new(&tables, &facts);
    let selector = Selector::new(&view, &selection).with_context(|| input.display().to_string())?;
    let selected = view.faults().filter(|fault| selector.takes(&view, fault));
    if let Some(form) = Form::asked_for(csv, ndjson) {
        let mut exporter = Exporter::new(&view);
        return to_stdout(&mut io::stdout().lock(), |out| {
            let mut rows = Rows::begin(out, form, &COLUMNS)?;
            selected
                .into_iter()
                .try_for_each(|fault| rows.row(&exporter.row(&fault)))
        });
    }
    if list {
        return to_stdout(&mut anstream::stdout(), |out| {
            report::faults::list::write(out, &view, &selector)
        });
    }
    let report = FaultReport::new(&view, &selector);
    if json {
        return to_stdout(&mut io::stdout().lock(), |out| export::json(out, &report));
    }
    to_stdout(&mut anstream::stdout(), |out| {
        report::faults::text::write(out, &report, top)
    })
}

/// Why a recording has no faults, and how to record some.
pub fn why_none(recording: &Recording) -> String {
    FAULTS.why_none(recording, recording.faults_seen)
}

/// Warns if the profile contains only part of the faults.
pub fn warn_of_budget(tables: &Tables, here: u64) {
    FAULTS.warn_of_budget(here, tables.recording.faults_seen);
}
