//! What the subcommands about events have in common: rows beyond memory, and the formats of the output.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use serde::Serialize;

use super::args::OutputFormat;
use super::output::{print_json, print_styled, to_stdout};
use super::scratch::Scratch;
use crate::report::export::RowWriter;

/// Runs a subcommand with space for rows that exceed the memory limit.
pub fn with_scratch(run: impl FnOnce(&Arc<Scratch>) -> Result<ExitCode>) -> Result<ExitCode> {
    let scratch = Scratch::new();
    let code = run(&scratch)?;
    scratch.was_whole()?;
    Ok(code)
}

/// Prints the rows that `fill` writes if they are requested, otherwise the report.
pub fn print<R: Serialize>(
    format: OutputFormat,
    columns: &'static [&'static str],
    fill: impl FnOnce(&mut RowWriter<'_, &mut dyn Write>) -> io::Result<()>,
    report: impl FnOnce() -> R,
    text: impl FnOnce(&mut dyn Write, &R) -> io::Result<()>,
) -> Result<ExitCode> {
    match format {
        OutputFormat::Rows(form) => to_stdout(&mut io::stdout().lock(), |out| {
            fill(&mut RowWriter::begin(&mut (out as &mut dyn Write), form, columns)?)
        }),
        OutputFormat::Json => print_json(&report()),
        OutputFormat::Text => print_styled(|out| text(out, &report())),
    }
}
