//! `ngmi waits`: prints the waits of a recording as tables, or as rows for other programs.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Waits;
use super::events::{print, with_scratch};
use super::missing::About;
use super::source;
use super::span::moment;
use crate::fact::Recording;
use crate::report::select::Selection;
use crate::report::waits::export::{COLUMNS, Exporter};
use crate::report::waits::{Facts, Selector, View, WaitReport, text};

pub const WAITS: About = About {
    name: "waits",
    noun: "switch",
    // CPU times need the other hook even without waits.
    hook: "sched_wak",
    watched: Some(": tracing was on, but all recorded threads ran without interruption"),
    not_asked_for: "; record them with `ngmi record --off-cpu all -- COMMAND`",
};

pub fn run(args: &Waits) -> Result<ExitCode> {
    if args.locks {
        return super::locks::run(args);
    }
    let selection = selection(args)?;
    let input = args.input.display();
    with_scratch(|scratch| {
        let mut facts = Facts::beyond_memory(&scratch.rows());
        let (tables, _) = source::read(&args.input, &mut facts)?;
        if facts.rows.is_empty() {
            let why = WAITS.why_none(&tables.recording, tables.recording.waits_seen);
            bail!("{input} contains no waits{why}");
        }
        warn_of_budget(&tables.recording);
        let view = View::new(&tables, &facts);
        let selector = Selector::new(&view, &selection).with_context(|| input.to_string())?;
        print(
            args.output.format(),
            &COLUMNS,
            |rows| {
                let mut exporter = Exporter::new(&view);
                let mut selected = view.waits().filter(|wait| selector.takes(&view, wait));
                selected.try_for_each(|wait| rows.row(&exporter.row(&wait)))
            },
            || WaitReport::new(&view, &selector),
            |mut out, report| text::write(&mut out, report, args.output.top, args.stacks),
        )
    })
}

/// What the options select.
pub fn selection(args: &Waits) -> Result<Selection> {
    let shared = args.filters.selection(&args.input)?;
    let at_least = args.at_least.as_deref().map(|text| moment(text, "--at-least"));
    Ok(Selection {
        reasons: args.reasons.clone(),
        at_least: at_least.transpose()?.unwrap_or_default(),
        ..shared
    })
}

/// Warns if the profile contains only part of the waits, and sums of the rest.
pub fn warn_of_budget(recording: &Recording) {
    let folded = (recording.folded_waits.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.waits));
    let seen = recording.waits_seen;
    if folded > 0 {
        WAITS.warn_of_budget(seen.saturating_sub(folded), seen);
    }
}
