//! The arguments that the subcommands about events share: filters, and the format of the output.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Arg, Args};

use crate::cli::source;
use crate::cli::span::times;
use crate::report::between::Between;
use crate::report::export::Form;
use crate::report::select::Selection;
use crate::terminal::print_note;

/// Filters by what all events have. Their help is in the `ORDER` of each subcommand.
#[derive(Debug, Args)]
pub struct EventFilters {
    #[arg(long = "file", value_name = "NAME")]
    pub(crate) files: Vec<String>,
    #[arg(long = "process", value_name = "PID|NAME")]
    pub(crate) processes: Vec<String>,
    #[arg(long = "thread", value_name = "TID|NAME")]
    pub(crate) threads: Vec<String>,
    #[arg(
        long = "cgroup",
        value_name = "PATH|NAME",
        help = "Only processes in this cgroup or one below it (path, or name of a unit, container or pod (NAMESPACE/NAME))"
    )]
    pub(crate) cgroups: Vec<String>,
    #[arg(long = "function", value_name = "NAME")]
    pub(crate) functions: Vec<String>,
    #[arg(long, value_name = "NAME")]
    pub(crate) under: Vec<String>,
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, conflicts_with_all = ["from_marker", "span"])]
    pub(crate) from: Option<String>,
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, conflicts_with_all = ["to_marker", "span"])]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) markers: MarkerRange,
}

impl EventFilters {
    /// The selection of these filters alone; reads the recording if they name markers.
    pub(crate) fn selection(&self, input: &Path) -> anyhow::Result<Selection> {
        let (from, to) = time_range(
            input,
            (self.from.as_deref(), self.to.as_deref()),
            self.markers.between(),
        )?;
        Ok(Selection {
            files: self.files.clone(),
            processes: self.processes.clone(),
            threads: self.threads.clone(),
            cgroups: self.cgroups.clone(),
            functions: self.functions.clone(),
            under: self.under.clone(),
            from,
            to,
            ..Selection::default()
        })
    }
}

/// The time range of `--from` and `--to`, or of markers; reads the recording if there are some.
pub(crate) fn time_range(
    input: &Path,
    (from, to): (Option<&str>, Option<&str>),
    markers: Option<Between>,
) -> anyhow::Result<(Option<Duration>, Option<Duration>)> {
    let (from, to) = times(from, to)?;
    let Some(mut between) = markers else {
        return Ok((from, to));
    };
    let (tables, _) = source::read(input, &mut between)?;
    let range = between.range(&tables).with_context(|| input.display().to_string())?;
    if let Some(chosen) = between.chosen(&tables) {
        print_note(chosen);
    }
    Ok((range.0.or(from), range.1.or(to)))
}

/// The time range that markers select.
#[derive(Debug, Args)]
pub struct MarkerRange {
    /// Only from the start of the first marker with this name (of the program, or a page's
    /// performance.mark)
    #[arg(long, value_name = "NAME")]
    from_marker: Option<String>,
    /// Only up to the end of the first marker with this name, after that of --from-marker
    #[arg(long, value_name = "NAME")]
    to_marker: Option<String>,
    /// Only during the longest marker with this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from_marker", "to_marker"])]
    span: Option<String>,
}

impl MarkerRange {
    /// `None` without any of the options.
    pub(crate) fn between(&self) -> Option<Between> {
        if let Some(span) = &self.span {
            return Some(Between::during(span.clone()));
        }
        let is_some = self.from_marker.is_some() || self.to_marker.is_some();
        is_some.then(|| Between::new(self.from_marker.clone(), self.to_marker.clone()))
    }
}

/// The format of the output.
#[derive(Debug, Args)]
pub struct EventOutput {
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "10", value_parser = super::values::whole::<usize>, conflicts_with = "format")]
    pub(crate) top: usize,
    #[arg(long, group = "format")]
    pub(crate) csv: bool,
    /// Print the tables as JSON, with all rows
    #[arg(long, group = "format")]
    pub(crate) json: bool,
    /// Like --csv, with each row as a JSON object
    #[arg(long, group = "format")]
    pub(crate) ndjson: bool,
}

impl EventOutput {
    /// The requested format.
    pub(crate) fn format(&self) -> OutputFormat {
        OutputFormat::of(self.csv, self.ndjson, self.json)
    }
}

/// What a subcommand prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// A row per event.
    Rows(Form),
    /// The whole report as JSON.
    Json,
    /// Tables for a terminal.
    Text,
}

impl OutputFormat {
    pub(super) fn of(csv: bool, ndjson: bool, json: bool) -> Self {
        match (csv, ndjson, json) {
            (true, ..) => Self::Rows(Form::Csv),
            (_, true, _) => Self::Rows(Form::JsonLines),
            (_, _, true) => Self::Json,
            _ => Self::Text,
        }
    }
}

/// Names of options in the order of the help, each with its help if the subcommand's own arguments do not have it.
pub(super) type HelpOrder = [(&'static str, &'static str)];

/// Puts an argument at its place in the help.
pub(super) fn ordered(arg: Arg, order: &HelpOrder) -> Arg {
    let Some(place) = order.iter().position(|(name, _)| arg.get_id() == *name) else {
        return arg;
    };
    let help = order[place].1;
    let arg = arg.display_order(place);
    if help.is_empty() { arg } else { arg.help(help) }
}
