//! `ngmi io`: prints the block requests of a recording as tables, or as rows for other programs.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::args::Io;
use super::missing::About;
use super::output::to_stdout;
use super::scratch::Scratch;
use super::source;
use super::span::times;
use crate::report::export::{self, Form, Rows};
use crate::report::io::export::{COLUMNS, row};
use crate::report::io::{Facts, IoReport, Selection, Selector, View, text};

pub const REQUESTS: About = About {
    name: "requests",
    noun: "block",
    hook: "",
    watched: Some(": tracing was on, but everything was in memory; `ngmi record --cold` evicts files first"),
    not_asked_for: ": block I/O was not traced; record again with this version of ngmi",
};

pub fn run(args: Io) -> Result<ExitCode> {
    let scratch = Scratch::new();
    let code = show(args, &scratch)?;
    scratch.was_whole()?;
    Ok(code)
}

fn show(args: Io, scratch: &Arc<Scratch>) -> Result<ExitCode> {
    let input = args.input.clone();
    let top = args.top;
    let (csv, json, ndjson) = (args.csv, args.json, args.ndjson);
    let selection = Selection::try_from(args)?;
    let mut facts = Facts::beyond_memory(&scratch.rows());
    let (tables, _) = source::read(&input, &mut facts)?;
    if facts.is_empty() {
        bail!(
            "{} contains no block requests{}",
            input.display(),
            REQUESTS.why_none(&tables.recording, tables.recording.requests_seen)
        );
    }
    REQUESTS.warn_of_budget(facts.len() as u64, tables.recording.requests_seen);
    let view = View::new(&tables, &facts);
    let selector = Selector::new(&view, &selection).with_context(|| input.display().to_string())?;
    if let Some(form) = Form::asked_for(csv, ndjson) {
        let mut requests = view
            .requests()
            .filter_map(|mut asked| selector.narrows(&view, &mut asked).then_some(asked));
        return to_stdout(&mut io::stdout().lock(), |out| {
            let mut rows = Rows::begin(out, form, &COLUMNS)?;
            requests.try_for_each(|asked| rows.row(&row(&view, &asked)))
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
