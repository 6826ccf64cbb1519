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
    let selection = selection(args)?;
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
        let conditions = selection.reasons.contains(&WaitReason::Condition);
        let locks = LockView::new(&view, lanes.lanes(&tables), &selector, conditions);
        let left_out = unknown.max(locks.left_out);
        if left_out > 0 {
            print_note(format_args!(
                "{left_out} waits were left out (memory limit): holders count as running during theirs; record a \
                 shorter time"
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
