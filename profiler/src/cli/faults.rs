//! `ngmi faults`: prints the page faults of a recording as tables, as a list, or as rows for other
//! programs.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Faults;
use super::events::{print, with_scratch};
use super::explorer;
use super::missing::About;
use super::source::{self, Kind};
use crate::fact::{Recording, Tables};
use crate::report::faults::export::{COLUMNS, Exporter};
use crate::report::faults::{Facts, FaultReport, Selector, View, list, text};
use crate::report::select::Selection;

pub const FAULTS: About = About {
    name: "page faults",
    noun: "fault",
    hook: "",
    watched: Some(": tracing was on, but none occurred"),
    not_asked_for: "; record them with `ngmi record --faults all -- COMMAND`",
};

pub fn run(args: &Faults) -> Result<ExitCode> {
    let selection = Selection {
        classes: args.classes.clone(),
        major: args.major,
        waited: args.waited,
        ..args.filters.selection(&args.input)?
    };
    if let Some(html) = &args.html {
        return explorer::page(&args.input, html, &selection);
    }
    let input = args.input.display();
    with_scratch(|scratch| {
        let mut facts = Facts::beyond_memory(&scratch.rows());
        let (tables, kind) = source::read(&args.input, &mut facts)?;
        facts.is_without_mappings = kind == Kind::Profile;
        if facts.rows.is_empty() {
            bail!("{input} contains no page faults{}", why_none(&tables.recording));
        }
        warn_of_budget(&tables, facts.rows.faults());
        let view = View::new(&tables, &facts);
        let selector = Selector::new(&view, &selection).with_context(|| input.to_string())?;
        print(
            args.output.format(),
            &COLUMNS,
            |rows| {
                let mut exporter = Exporter::new(&view);
                let mut selected = view.faults().filter(|fault| selector.takes(&view, fault));
                selected.try_for_each(|fault| rows.row(&exporter.row(&fault)))
            },
            || (!args.list).then(|| FaultReport::new(&view, &selector)),
            |mut out, report| match report {
                Some(report) => text::write(&mut out, report, args.output.top),
                None => list::write(&mut out, &view, &selector),
            },
        )
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
