//! From the event log to the profile: read, unwind, name, write. The last step of both `record` and `convert`.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, Builder};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use profiler_common::Loss;
use serde::{Deserialize, Serialize};
use symbols::OnDownload;

use super::advice;
use super::binaries::OpenBinaries;
use super::gecko;
use super::names;
use super::path_track::path_track;
use super::servers::NameServers;
use super::sources::{self, SourcePlaces};
use super::spool::Output;
use crate::addr::ns;
use crate::capture::hooks::meter;
use crate::capture::proc::memory;
use crate::event::read::LogReader;
use crate::event::write::LogWriter;
use crate::event::{Event, Header};
use crate::fact::Tables;
use crate::fact::reduce::budget::{Budget, Collected, Collector};
use crate::fact::reduce::merged;
use crate::fact::replay::log::LogSource;
use crate::plural::counted;
use crate::profile::gzip;
use crate::report::Summary;

/// Options for finishing a log.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Where to find the sources of hot functions, which are put into the profile; `None`: leave them out.
    pub sources: Option<SourcePlaces>,
    /// Servers for names that this machine does not have.
    pub servers: NameServers,
    /// Maximum number of samples in the profile.
    pub max_samples: u32,
    /// Whether to append unwound stacks and names to the log.
    pub complete_log: bool,
    /// Whether kernel names may be read from this machine: the log is from this boot and has none.
    pub this_boot: bool,
    /// Whether to read only the mapped files, which are handed over, and their debug info. A log that was kept names files anywhere.
    pub reads_only_mapped: bool,
    /// Files whose file systems did not answer during the recording.
    pub left_out: Vec<PathBuf>,
    /// Notes on the recording, for the profile.
    pub notes: Vec<String>,
}

/// A log to finish.
pub struct OpenLog {
    path: PathBuf,
    file: File,
    reader: LogReader<File>,
}

impl OpenLog {
    /// Reads the header and finds the chunks.
    ///
    /// # Errors
    /// When the file is not an event log.
    pub fn new(mut file: File, path: PathBuf) -> Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let reader = LogReader::new(file.try_clone()?).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path, file, reader })
    }

    /// The log's header; `None`: damaged.
    pub fn header(&self) -> Option<&Header> {
        self.reader.header()
    }
}

/// Creates the profile of `log` in `output`, and the summary; call [`place`] next.
///
/// # Errors
/// When the log can't be read, or the profile can't be written.
pub fn finish(log: OpenLog, output: &mut Output, binaries: &OpenBinaries, plan: &Plan) -> Result<Summary> {
    let progress = Bars::new();
    memory::keep_no_large_pieces();
    let OpenLog { path, mut file, reader } = log;
    let log_path = path.as_path();
    let bar = progress.bytes("unwinding", reader.len_bytes());
    let mut source = LogSource::new(reader, binaries);
    source.on_progress(|bytes| bar.set_position(bytes));
    if !plan.complete_log {
        source.forget_stacks();
    }
    let budget = Budget {
        samples: plan.max_samples as usize,
        ..Budget::default()
    };
    let mut collector = Collector::new(budget);
    let mut tables =
        gecko::replay(&mut source, &mut collector).with_context(|| format!("cannot read {}", log_path.display()))?;
    bar.finish_and_clear();
    if tables.threads.is_empty() {
        return Err(nothing_in(&tables, log_path));
    }
    let bar = progress.steps("naming");
    let named = |tables: &mut Tables| {
        let servers = plan.servers.config(Some(shown_in(bar.clone())));
        names::resolve(tables, (source.files(), binaries), servers, &|done, all| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            bar.set_message("naming");
        });
        if plan.this_boot {
            names::resolve_kernel(tables);
        }
    };
    if plan.complete_log {
        // Before the budget drops stacks: the log is exact.
        named(&mut tables);
        let resolved = Event::Resolved(source.collect_resolved(&tables));
        append(&mut file, &resolved).with_context(|| format!("cannot complete {}", log_path.display()))?;
    }
    let mut collected = collector.finish(&mut tables);
    merged::gather(merged::THREADS, &mut tables, &mut collected);
    // A kept log has names, but perhaps not those of a server that is named now.
    let asks_others = !plan.servers.urls.is_empty() || plan.servers.debuginfod().is_some();
    if !plan.complete_log && (!source.is_complete() || asks_others) {
        named(&mut tables);
    }
    drop(source);
    if let Some(places) = &plan.sources {
        sources::include(&mut tables, &collected, &places.roots());
    }
    tables.recording.notes.extend_from_slice(&plan.notes);
    let left_out = symbols::patience::left_out();
    tables.recording.notes.extend(
        left_out
            .iter()
            .map(|path| format!("{} was left out: its file system does not answer", path.display())),
    );
    tables.recording.notes.extend(plan.servers.without_cache());
    let nameless = advice::advise(&mut tables, &collected, &plan.servers);
    bar.finish_and_clear();
    let bar = progress.spinner("writing");
    let mut summary = write_and_sum(output, &tables, &collected)?;
    summary.nameless = nameless;
    bar.finish_and_clear();
    // The process ends soon: to free each part would only take time.
    std::mem::forget((tables, collected));
    if let Some(cost) = &mut summary.cost {
        // The process does nothing else; its start and the messages to it are included.
        cost.conversion_ns = Some(ns(meter::cpu_time()));
    }
    Ok(summary)
}

/// Writes the profile, and sums it up meanwhile.
fn write_and_sum(output: &mut Output, tables: &Tables, collected: &Collected) -> Result<Summary> {
    thread::scope(|scope| {
        let sum = || Summary::new(tables, collected);
        let summing = Builder::new().name("summary".into()).spawn_scoped(scope, sum)?;
        let text_bytes = write_profile(output, tables, collected)?;
        let mut summary = summing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        summary.output_text_bytes = Some(text_bytes);
        Ok(summary)
    })
}

/// Moves the finished profile to its path, and adds the path to the summary.
///
/// # Errors
/// When the disk is full or the folder is gone.
pub fn place(output: Output, summary: &mut Summary) -> Result<()> {
    summary.output = Some(output.path().display().to_string());
    summary.output_bytes = Some(output.finish()?);
    Ok(())
}

/// Writes the profile, compressed, and returns the size of its text in bytes.
///
/// # Errors
/// When it can't be written.
pub fn write_profile(output: &mut Output, tables: &Tables, collected: &Collected) -> Result<u64> {
    let place = format!("cannot write {}", output.path().display());
    let path = path_track(tables, collected);
    let stats = gzip::gzip(output.file(), gzip::OF_PROFILES, |out| {
        Ok(profile::write_with_path(tables, collected, path.as_ref(), out)?)
    });
    Ok(stats.context(place)?.bytes)
}

/// A log without a thread.
#[derive(Debug, thiserror::Error)]
#[error("{} contains no recorded thread, so there is nothing to show; see `ngmi doctor`", .0.display())]
pub struct Empty(PathBuf);

/// The reason why a log has nothing to show.
fn nothing_in(tables: &Tables, log: &Path) -> anyhow::Error {
    match tables.recording.lost(Loss::LogDamaged) {
        Some(chunks) => anyhow!(
            "{} contains no readable thread ({} damaged)",
            log.display(),
            counted(chunks, "chunk")
        ),
        None => Empty(log.to_owned()).into(),
    }
}

/// Appends an event to an otherwise complete log.
fn append(log: &mut File, event: &Event<'_>) -> std::io::Result<()> {
    let mut writer = LogWriter::append(log)?;
    writer.event(event)?;
    writer.finish().map(drop)
}

/// Shows downloads next to a bar.
fn shown_in(bar: ProgressBar) -> OnDownload {
    Arc::new(move |name, bytes| bar.set_message(format!("{name} ({})", HumanBytes(bytes))))
}

/// Progress bars, shown only on a terminal, and only when something takes longer than a moment.
struct Bars;

impl Bars {
    fn new() -> Self {
        Self
    }

    fn bytes(&self, what: &'static str, len: u64) -> ProgressBar {
        self.styled(
            ProgressBar::new(len),
            what,
            "{msg:>10} [{bar:40}] {bytes}/{total_bytes}",
        )
    }

    fn steps(&self, what: &'static str) -> ProgressBar {
        self.styled(ProgressBar::new(0), what, "{msg:>10} [{bar:40}] {pos}/{len}")
    }

    fn spinner(&self, what: &'static str) -> ProgressBar {
        self.styled(ProgressBar::new_spinner(), what, "{msg:>10} {spinner}")
    }

    #[expect(clippy::unused_self, reason = "a bar belongs to its set")]
    fn styled(&self, bar: ProgressBar, what: &'static str, template: &str) -> ProgressBar {
        let bar = bar.with_message(what);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}
