//! `ngmi waits`: prints the waits of a recording as tables, or as rows for other programs.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::args::Waits;
use super::missing::About;
use super::output::to_stdout;
use super::scratch::Scratch;
use super::source;
use super::span::{moment, times};
use crate::fact::Recording;
use crate::report::export::{self, Form, Rows};
use crate::report::waits::export::{COLUMNS, Exporter};
use crate::report::waits::{Facts, Selection, Selector, View, WaitReport, text};

pub const WAITS: About = About {
    name: "waits",
    noun: "switch",
    // CPU times need the other hook even without waits.
    hook: "sched_wak",
    watched: Some(": tracing was on, but all recorded threads ran without interruption"),
    not_asked_for: "; record them with `ngmi record --off-cpu all -- COMMAND`",
};

pub fn run(args: Waits) -> Result<ExitCode> {
    let scratch = Scratch::new();
    let code = show(args, &scratch)?;
    scratch.was_whole()?;
    Ok(code)
}

fn show(args: Waits, scratch: &Arc<Scratch>) -> Result<ExitCode> {
    let input = args.input.clone();
    let (top, stacks) = (args.top, args.stacks);
    let (csv, json, ndjson) = (args.csv, args.json, args.ndjson);
    let selection = Selection::try_from(args)?;
    let mut facts = Facts::beyond_memory(&scratch.rows());
    let (tables, _) = source::read(&input, &mut facts)?;
    if facts.rows.is_empty() {
        let why = WAITS.why_none(&tables.recording, tables.recording.waits_seen);
        bail!("{} contains no waits{why}", input.display());
    }
    warn_of_budget(&tables.recording);
    let view = View::new(&tables, &facts);
    let selector = Selector::new(&view, &selection).with_context(|| input.display().to_string())?;
    let mut selected = view.waits().filter(|wait| selector.takes(&view, wait));
    if let Some(form) = Form::asked_for(csv, ndjson) {
        let mut exporter = Exporter::new(&view);
        return to_stdout(&mut io::stdout().lock(), |out| {
            let mut rows = Rows::begin(out, form, &COLUMNS)?;
            selected.try_for_each(|wait| rows.row(&exporter.row(&wait)))
        });
    }
    let report = WaitReport::new(&view, &selector);
    if json {
        return to_stdout(&mut io::stdout().lock(), |out| export::json(out, &report));
    }
    to_stdout(&mut anstream::stdout(), |out| text::write(out, &report, top, stacks))
}

impl TryFrom<Waits> for Selection {
    type Error = anyhow::Error;

    fn try_from(args: Waits) -> Result<Self> {
        let (from, to) = times(args.from, args.to)?;
        let at_least = args
            .at_least
            .as_deref()
            .map(|text| moment(text, "--at-least"))
            .transpose()?;
        Ok(Self {
            processes: args.processes,
            threads: args.threads,
            reasons: args.reasons,
            files: args.files,
            functions: args.functions,
            under: args.under,
            from,
            to,
            at_least: at_least.unwrap_or_default(),
        })
    }
}

/// Warns if the profile contains only part of the waits, and sums of the rest.
pub fn warn_of_budget(recording: &Recording) {
    let folded = (recording.folded_waits.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.waits));
    let seen = recording.waits_seen;
    if folded > 0 {
        WAITS.warn_of_budget(seen.saturating_sub(folded), seen);
    }
}
