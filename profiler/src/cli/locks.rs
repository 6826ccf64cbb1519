//! `ngmi waits --locks`: prints which locks threads waited for, and what their holders did meanwhile.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Waits;
use super::events::{print, with_scratch};
use super::source;
use super::waits::{WAITS, selection, warn_of_budget};
use crate::fact::WaitReason;
use crate::report::locks::export::{COLUMNS, Exporter};
use crate::report::locks::{LockFacts, LockReport, LockView, text};
use crate::report::waits::{Selector, View};
use crate::terminal::print_note;

pub fn run(args: &Waits) -> Result<ExitCode> {
    let mut selection = selection(args)?;
    let conditions = selection.reasons.contains(&WaitReason::Condition);
    // Conditions are added to the locks.
    selection.reasons.retain(|reason| *reason != WaitReason::Condition);
    let input = args.input.display();
    with_scratch(|scratch| {
        let mut facts = LockFacts::beyond_memory(&scratch.rows());
        let (tables, _) = source::read(&args.input, &mut facts)?;
        if facts.waits.rows.is_empty() {
            let why = WAITS.why_none(&tables.recording, tables.recording.waits_seen);
            bail!("{input} contains no waits{why}");
        }
        warn_of_budget(&tables.recording);
        let LockFacts { waits, lanes } = facts;
        let unknown = lanes.left_out();
        let view = View::new(&tables, &waits);
        let selector = Selector::new(&view, &selection).with_context(|| input.to_string())?;
        let locks = LockView::new(&view, lanes.lanes(&tables), &selector, conditions);
        if unknown > 0 {
            print_note(format_args!(
                "holders count as running during {unknown} waits beyond the memory limit; record a shorter time"
            ));
        }
        if locks.left_out > 0 {
            print_note(format_args!(
                "{} waits for locks are missing in all sums (memory limit); select a shorter time with --from and --to",
                locks.left_out
            ));
        }
        print(
            args.output.format(),
            &COLUMNS,
            |rows| {
                let exporter = Exporter::new(&locks);
                let holds = exporter.rows();
                holds.iter().try_for_each(|hold| rows.row(&exporter.row(hold)))
            },
            || LockReport::new(&locks),
            |mut out, report| text::write(&mut out, report, args.output.top, args.stacks),
        )
    })
}
