//! `ngmi waits`: the waits of a recording as tables, or as rows for other programs.

use std::io;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Waits;
use super::output::to_stdout;
use super::source;
use super::span::{moment, times};
use super::terminal::tell;
use crate::fact::{Recording, Tables};
use crate::report::export;
use crate::report::waits::export::{COLUMNS, Exporter};
use crate::report::waits::{Facts, Selection, Selector, View, WaitReport, text};

pub fn run(args: Waits) -> Result<ExitCode> {
    let input = args.input.clone();
    let (top, stacks) = (args.top, args.stacks);
    let (csv, json, ndjson) = (args.csv, args.json, args.ndjson);
    let selection = Selection::try_from(args)?;
    let mut facts = Facts::default();
    let (tables, _) = source::read(&input, &mut facts)?;
    if facts.rows.is_empty() {
        bail!("{} holds no wait{}", input.display(), why_none(&tables.recording));
    }
    warn_of_budget(&tables);
    let view = View::new(&tables, &facts);
    let selector = Selector::new(&view, &selection).with_context(|| input.display().to_string())?;
    let mut selected = view.waits().filter(|wait| selector.takes(&view, wait));
    if csv || ndjson {
        let exporter = Exporter::new(&view);
        return to_stdout(&mut io::stdout().lock(), |out| {
            if ndjson {
                return selected.try_for_each(|wait| export::json_row(out, &COLUMNS, &exporter.row(&wait)));
            }
            export::csv_head(out, &COLUMNS)?;
            selected.try_for_each(|wait| export::csv_row(out, &exporter.row(&wait)))
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

/// Why a recording has no waits, and how to get one that has.
fn why_none(recording: &Recording) -> String {
    if recording.waits_seen > 0 {
        let seen = crate::report::text::count(recording.waits_seen);
        return format!(", though {seen} were seen: name the event log instead (`ngmi record --keep-events`)");
    }
    let of_waits = || recording.hooks.iter().filter(|hook| hook.noun == "switch");
    if let Some(hook) = of_waits().find(|hook| hook.refused.is_some()) {
        let reason = hook.refused.as_deref().unwrap_or_default();
        let how = hook
            .remedy
            .as_deref()
            .unwrap_or("`ngmi doctor` says what this machine allows");
        return format!(": the kernel refused {} ({reason}); {how}", hook.hook);
    }
    "; record them with `ngmi record --off-cpu all -- COMMAND`".to_owned()
}

/// A profile may hold only a part of them.
fn warn_of_budget(tables: &Tables) {
    let recording = &tables.recording;
    let folded = (recording.folded_waits.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.waits));
    if folded > 0 {
        let count = crate::report::text::count;
        tell(format_args!(
            "the profile has room for {} of the {} waits that were seen; the event log (`--keep-events`) has them all",
            count(recording.waits_seen.saturating_sub(folded)),
            count(recording.waits_seen)
        ));
    }
}
