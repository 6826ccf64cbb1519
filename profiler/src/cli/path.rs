//! `ngmi path`: prints the critical path of a thread as tables, or its pieces as rows for other programs.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::{Path, time_range};
use super::events::print;
use super::source;
use super::waits::{WAITS, warn_of_budget};
use crate::report::path::export::{COLUMNS, Exporter};
use crate::report::path::{PathFacts, PathReport, PathView, choose, text};
use crate::report::select::Selection;
use crate::terminal::print_note;

pub fn run(args: &Path) -> Result<ExitCode> {
    let selection = selection(args)?;
    let input = args.input.display();
    let mut facts = PathFacts::default();
    let (tables, _) = source::read(&args.input, &mut facts)?;
    if facts.is_empty() {
        let why = WAITS.why_none(&tables.recording, tables.recording.waits_seen);
        bail!("{input} contains no waits{why}");
    }
    warn_of_budget(&tables.recording);
    note_left_out(facts.left_out());
    let chosen = choose(&tables, &facts, &selection).with_context(|| input.to_string())?;
    let view = PathView::new(&tables, facts, chosen);
    print(
        args.output.format(),
        &COLUMNS,
        |rows| {
            let exporter = Exporter::new(&view);
            view.pieces.iter().try_for_each(|piece| rows.row(&exporter.row(piece)))
        },
        || PathReport::new(&view),
        |mut out, report| text::write(&mut out, report, args.output.top),
    )
}

/// Notes what a path is followed without.
pub fn note_left_out(left_out: u64) {
    if left_out > 0 {
        print_note(format_args!(
            "{left_out} waits, samples and requests were left out (memory limit): the path counts waits among them as \
             time on a CPU; record a shorter time"
        ));
    }
}

fn selection(args: &Path) -> Result<Selection> {
    let (from, to) = time_range(
        &args.input,
        (args.from.as_deref(), args.to.as_deref()),
        args.markers.between(),
    )?;
    Ok(Selection {
        threads: args.threads.clone(),
        processes: args.processes.clone(),
        from,
        to,
        ..Selection::default()
    })
}
