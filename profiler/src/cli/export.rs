//! `ngmi export`: converts a recording for other programs.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use super::args::{Export, ExportFormat, time_range};
use super::missing::About;
use super::output::{file_of, must_differ, to_stdout};
use super::scratch::Scratch;
use super::source::{self, Kind};
use super::{faults, io as requests, path, waits};
use crate::fact::{FactSink, Recording, Tables};
use crate::plural::counted;
use crate::profile::FOREIGN;
use crate::record::spool::Output;
use crate::report::export::Type;
use crate::report::interchange::parquet::Writer;
use crate::report::interchange::{Sums, Table, Weight, folded, otlp, pprof, samples};
use crate::report::select::Selection;
use crate::report::text::bytes as size_words;
use crate::report::{faults as faults_report, io as io_report, path as path_report, waits as waits_report};
use crate::terminal::print_note;

/// Size of the output buffer in bytes.
const BUFFER: usize = 1 << 18;

const SAMPLES: About = About {
    name: "samples",
    noun: "sample",
    hook: "",
    watched: Some(": no recorded thread ran long enough"),
    not_asked_for: ": sampling was off; record again with this version of ngmi",
};

/// A profile from another program contains none of the requested tables.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file} was written by {by} and contains CPU samples only: export them with `--table samples`, or record with ngmi"
)]
struct SamplesOnly {
    file: String,
    by: String,
}

/// Writing the output failed, as opposed to reading the input.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Unwritable(#[from] io::Error);

pub fn run(mut args: Export) -> Result<ExitCode> {
    if !args.tables.is_empty() {
        return export(&args);
    }
    args.tables = vec![Table::Faults];
    match export(&args) {
        Err(error) if error.is::<SamplesOnly>() => {
            print_note(format_args!("{error:#}; exporting the samples instead"));
            args.tables = vec![Table::Samples];
            export(&args)
        }
        other => other,
    }
}

fn export(args: &Export) -> Result<ExitCode> {
    let weight = weight(args)?;
    let (output, format) = (&args.output, args.format);
    let input = Source {
        file: &args.input,
        path_of: path_of(args)?,
    };
    let mut tables: Vec<Table> = Vec::new();
    for table in &args.tables {
        if !tables.contains(table) {
            tables.push(*table);
        }
    }
    if let (ExportFormat::Parquet | ExportFormat::Folded, [first, _, ..]) = (format, &tables[..]) {
        let name = first.name();
        bail!(
            "a file of this format contains one table; select it (--table {name}), and export the others to separate files"
        );
    }
    if let Some(output) = file_of(Some(output)) {
        must_differ(output, &args.input)?;
        let mut to = Output::create(output)?;
        let what = {
            let mut out = BufWriter::with_capacity(BUFFER, to.file());
            write(&input, &mut out, format, &tables, weight).map_err(|error| place(error, output))?
        };
        let bytes = to.finish()?;
        print_note(format_args!("{}: {what}, {}", output.display(), size_words(bytes)));
        return Ok(ExitCode::SUCCESS);
    }
    if format != ExportFormat::Folded && io::stdout().is_terminal() {
        bail!("this format is binary; name a file with -o, or pipe it to another program");
    }
    // An error before the first byte is not an error of the output.
    let mut failed = None;
    let written = to_stdout(&mut io::stdout(), |out| {
        match write(&input, out, format, &tables, weight) {
            Ok(_) => Ok(()),
            Err(error) => match error.downcast::<Unwritable>() {
                Ok(Unwritable(error)) => Err(error),
                Err(error) => {
                    failed = Some(error);
                    Ok(())
                }
            },
        }
    });
    failed.map_or(written, Err)
}

/// Names the output if writing it failed.
fn place(error: anyhow::Error, output: &Path) -> anyhow::Error {
    if !error.is::<Unwritable>() {
        return error;
    }
    let output = output.display();
    error.context(format!("cannot write {output}; free disk space, or name another file"))
}

/// What is exported.
struct Source<'a> {
    file: &'a Path,
    /// Whose critical path, and over which time span.
    path_of: Selection,
}

/// Whose critical path is exported.
fn path_of(args: &Export) -> Result<Selection> {
    let markers = args.markers.between();
    let is_default = args.threads.is_empty() && markers.is_none();
    if !is_default && !args.tables.contains(&Table::Path) {
        bail!("--thread, --from-marker, --to-marker and --span select a critical path: add --table path");
    }
    let (from, to) = time_range(&args.input, (None, None), markers)?;
    Ok(Selection {
        threads: args.threads.clone(),
        from,
        to,
        ..Selection::default()
    })
}

/// The weight of folded stacks.
fn weight(args: &Export) -> Result<Weight> {
    let weight = args.weight.unwrap_or_default();
    if args.weight.is_some() && args.format != ExportFormat::Folded {
        bail!("--weight requires --format folded: the other formats contain all measures");
    }
    for table in &args.tables {
        if !table.measures().iter().any(|(measured, ..)| *measured == weight) {
            bail!(
                "{}s have no {}; weigh them by time or count",
                table.row(),
                weight.name()
            );
        }
    }
    Ok(weight)
}

/// Writes all tables, and returns a description of what was written.
fn write(
    input: &Source<'_>,
    out: &mut (dyn Write + Send),
    format: ExportFormat,
    tables: &[Table],
    weight: Weight,
) -> Result<String> {
    if let (ExportFormat::Parquet, [table]) = (format, tables) {
        let rows = rows(input, out, *table)?;
        return Ok(rows_of(rows, *table));
    }
    let mut sums = Sums::new(tables);
    let recorded = read(input.file, &mut sums, tables)?;
    path::note_left_out(sums.left_out_of_path());
    sums.follow_path(&recorded, &input.path_of)
        .with_context(|| input.file.display().to_string())?;
    let mut written_rows = Vec::new();
    for table in tables {
        let here = sums.count(*table);
        if here == 0 && tables.len() == 1 {
            return Err(none(input.file, &recorded, *table));
        }
        // For a profile from another program, the reason was printed already.
        if here == 0 && recorded.recording.scope != FOREIGN {
            print_note(format_args!("{:#}", none(input.file, &recorded, *table)));
        }
        warn_of_budget(&recorded.recording, *table, here);
        written_rows.push(rows_of(here, *table));
    }
    let written = match format {
        ExportFormat::Pprof => pprof::write(out, &recorded, &mut sums),
        ExportFormat::Otlp => otlp::write(out, &recorded, &mut sums),
        ExportFormat::Folded | ExportFormat::Parquet => folded::write(out, &recorded, &mut sums, weight),
    };
    written.map_err(Unwritable)?;
    for sentence in sums.left_out() {
        print_note(format_args!("{sentence}"));
    }
    Ok(written_rows.join(", "))
}

/// The number of rows of a table: `1 sample`, `2 samples`.
fn rows_of(number: u64, table: Table) -> String {
    counted(number, table.row())
}

/// Reads the facts of a file, unless it cannot have any of these tables.
fn read(input: &Path, sink: &mut dyn FactSink, wanted: &[Table]) -> Result<Tables> {
    let (tables, kind) = source::read_any(input, sink)?;
    source::note_damage(input, &tables.recording);
    let Kind::Foreign(by) = kind else { return Ok(tables) };
    let only = SamplesOnly {
        file: input.display().to_string(),
        by,
    };
    if !wanted.contains(&Table::Samples) {
        return Err(only.into());
    }
    if wanted.len() > 1 {
        print_note(format_args!("{only}"));
    }
    Ok(tables)
}

/// Writes one row per event, and returns the number of rows.
fn rows(source: &Source<'_>, out: &mut (dyn Write + Send), table: Table) -> Result<u64> {
    let input = source.file;
    let scratch = Scratch::new();
    let written = match table {
        Table::Samples => {
            let mut facts = samples::Facts::beyond_memory(&scratch.rows());
            let tables = read(input, &mut facts, &[table])?;
            let notes = begin(input, &tables, table, u64::from(facts.len()))?;
            let exporter = samples::Exporter::new(&tables);
            parquet(out, &notes, (&samples::COLUMNS, &samples::TYPES), |rows| {
                facts.samples(|sample| rows.row(&exporter.row(sample)))
            })
        }
        Table::Faults => {
            use faults_report::export::{COLUMNS, Exporter, TYPES};
            let mut facts = faults_report::Facts::beyond_memory(&scratch.rows());
            let tables = read(input, &mut facts, &[table])?;
            let notes = begin(input, &tables, table, facts.rows.faults())?;
            let view = faults_report::View::new(&tables, &facts);
            let mut exporter = Exporter::new(&view);
            parquet(out, &notes, (&COLUMNS, &TYPES), |rows| {
                view.faults().try_for_each(|fault| rows.row(&exporter.row(&fault)))
            })
        }
        Table::Requests => {
            use io_report::export::{COLUMNS, TYPES, row};
            let mut facts = io_report::Facts::beyond_memory(&scratch.rows());
            let tables = read(input, &mut facts, &[table])?;
            let notes = begin(input, &tables, table, facts.len() as u64)?;
            let view = io_report::View::new(&tables, &facts);
            let mut requests = view.requests();
            parquet(out, &notes, (&COLUMNS, &TYPES), |rows| {
                requests.try_for_each(|asked| rows.row(&row(&view, &asked)))
            })
        }
        Table::Waits => {
            use waits_report::export::{COLUMNS, Exporter, TYPES};
            let mut facts = waits_report::Facts::beyond_memory(&scratch.rows());
            let tables = read(input, &mut facts, &[table])?;
            let notes = begin(input, &tables, table, facts.rows.len() as u64)?;
            let view = waits_report::View::new(&tables, &facts);
            let mut exporter = Exporter::new(&view);
            parquet(out, &notes, (&COLUMNS, &TYPES), |rows| {
                view.waits().try_for_each(|wait| rows.row(&exporter.row(&wait)))
            })
        }
        Table::Path => {
            use path_report::export::{COLUMNS, Exporter, TYPES};
            let mut facts = path_report::PathFacts::default();
            let tables = read(input, &mut facts, &[table])?;
            let notes = begin(input, &tables, table, u64::from(!facts.is_empty()))?;
            path::note_left_out(facts.left_out());
            let chosen = path_report::choose(&tables, &facts, &source.path_of);
            let view = path_report::PathView::new(&tables, facts, chosen.with_context(|| input.display().to_string())?);
            let exporter = Exporter::new(&view);
            parquet(out, &notes, (&COLUMNS, &TYPES), |rows| {
                view.pieces.iter().try_for_each(|piece| rows.row(&exporter.row(piece)))
            })
        }
    };
    scratch.was_whole()?;
    Ok(written.map_err(Unwritable)?)
}

/// Writes a Parquet file with these columns, and returns its number of rows.
fn parquet<'o>(
    out: &'o mut (dyn Write + Send),
    notes: &[(&str, String)],
    (columns, types): (&[&str], &[Type]),
    fill: impl FnOnce(&mut Writer<'o>) -> io::Result<()>,
) -> io::Result<u64> {
    let mut rows = Writer::new(out, columns, types, notes)?;
    fill(&mut rows)?;
    rows.finish()
}

/// The metadata of a file about the recording. Fails if there are no rows to write; warns if the
/// profile lacks some.
fn begin(input: &Path, tables: &Tables, table: Table, here: u64) -> Result<[(&'static str, String); 5]> {
    if here == 0 {
        return Err(none(input, tables, table));
    }
    let recording = &tables.recording;
    warn_of_budget(recording, table, here);
    Ok([
        ("ngmi.table", table.name().to_owned()),
        ("ngmi.version", recording.ngmi_version.clone()),
        ("ngmi.command", recording.command.join(" ")),
        ("ngmi.start_unix_ms", recording.start_unix_ms.to_string()),
        ("ngmi.kernel", recording.kernel.clone()),
    ])
}

/// The error for a recording without rows for a table: the reason, and how to record some.
fn none(input: &Path, tables: &Tables, table: Table) -> anyhow::Error {
    let recording = &tables.recording;
    let (about, seen) = about(recording, table);
    // Sums contain no unfinished requests: the profile did not lack space then.
    let why = if table == Table::Requests && seen > 0 && folded_requests(recording) == 0 {
        ": all requests were still in flight when the recording ended".to_owned()
    } else {
        about.why_none(recording, seen)
    };
    anyhow::anyhow!("{} contains no {}{why}", input.display(), about.name)
}

fn warn_of_budget(recording: &Recording, table: Table, here: u64) {
    match table {
        // Thinned samples have weights, so their times are complete.
        Table::Samples => {}
        Table::Waits | Table::Path => waits::warn_of_budget(recording),
        // A sum counts parts of requests, and no unfinished ones.
        Table::Requests => {
            let (folded, seen) = (folded_requests(recording), recording.requests_seen);
            if folded > 0 {
                requests::REQUESTS.warn_of_budget(seen.saturating_sub(folded), seen);
            }
        }
        Table::Faults => faults::FAULTS.warn_of_budget(here, recording.faults_seen),
    }
}

/// Number of requests that are only in sums in the profile.
fn folded_requests(recording: &Recording) -> u64 {
    (recording.folded_requests.iter()).fold(0, |sum, folded| sum.saturating_add(folded.requests))
}

fn about(recording: &Recording, table: Table) -> (About, u64) {
    match table {
        Table::Samples => (SAMPLES, recording.samples_seen),
        Table::Faults => (faults::FAULTS, recording.faults_seen),
        Table::Requests => (requests::REQUESTS, recording.requests_seen),
        Table::Waits | Table::Path => (waits::WAITS, recording.waits_seen),
    }
}
