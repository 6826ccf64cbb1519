//! `ngmi io`: prints the block requests of a recording as tables, or as rows for other programs.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Io;
use super::events::{print, with_scratch};
use super::missing::About;
use super::source;
use crate::report::io::export::{COLUMNS, row};
use crate::report::io::{Facts, IoReport, Selector, View, text};
use crate::report::select::Selection;

pub const REQUESTS: About = About {
    name: "block requests",
    noun: "block",
    hook: "",
    watched: Some(": tracing was on, but everything was in memory; `ngmi record --cold` evicts files first"),
    not_asked_for: ": block requests were not traced; record again without `--block off`, as root",
};

pub fn run(args: &Io) -> Result<ExitCode> {
    let selection = Selection {
        devices: args.devices.clone(),
        operations: args.operations.clone(),
        ..args.filters.selection(&args.input)?
    };
    let input = args.input.display();
    with_scratch(|scratch| {
        let mut facts = Facts::beyond_memory(&scratch.rows());
        let (tables, _) = source::read(&args.input, &mut facts)?;
        let seen = tables.recording.requests_seen;
        if facts.is_empty() {
            let why = REQUESTS.why_none(&tables.recording, seen);
            bail!("{input} contains no block requests{why}");
        }
        REQUESTS.warn_of_budget(facts.len() as u64, seen);
        let view = View::new(&tables, &facts);
        let selector = Selector::new(&view, &selection).with_context(|| input.to_string())?;
        print(
            args.output.format(),
            &COLUMNS,
            |rows| {
                let all = view.requests();
                let mut selected = all.filter_map(|mut asked| selector.narrows(&view, &mut asked).then_some(asked));
                selected.try_for_each(|asked| rows.row(&row(&view, &asked)))
            },
            || IoReport::new(&view, &selector),
            |mut out, report| text::write(&mut out, report, args.output.top),
        )
    })
}
