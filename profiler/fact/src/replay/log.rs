//! The event log as a source of facts: exact, of any size, and replayable without root, kernel or (if complete)
//! binaries.

use std::io::{Read, Seek};

use anyhow::Context as _;
use profiler_common::Loss;
use profiler_common::unwind::Arch;
use rustc_hash::FxHashMap;

use crate::replay::events::{Findings, Preamble, Replay};
use crate::replay::files::FileIndex;
use crate::replay::marker_file;
use crate::replay::ordered::{self, Step};
use crate::replay::resolved::{self, EventStacks};
use crate::{FactSink, FactSource, Recording, StackNode, Tables};
use base::event::format::ChunkKind;
use base::event::read::LogReader;
use base::event::{Attachment, AttachmentKind, Event, Header};
use unwind::{Binaries, Modules, Walker};

/// Kinds of chunks read before the events.
const PREAMBLE: [ChunkKind; 7] = [
    ChunkKind::KernelSymbols,
    ChunkKind::Module,
    ChunkKind::Attachment,
    ChunkKind::Resolved,
    ChunkKind::Cost,
    ChunkKind::Owners,
    ChunkKind::Usage,
];

/// Maximum number of event stacks in a kept log: those of a gigabyte of browser log. Later events have similar
/// stacks, or need the binaries.
const NOTED_STACKS: usize = 1 << 23;

/// Facts from an event log.
pub struct LogSource<'b, R> {
    reader: LogReader<R>,
    binaries: &'b dyn Binaries,
    progress: Option<Box<dyn FnMut(u64) + 'b>>,
    unwound: Option<Unwound>,
    /// Maximum number of stacks.
    notes_stacks: Option<usize>,
    merges_anonymous: bool,
    /// Number of kept stacks at which nameless code becomes one frame; `None`: the default.
    merge_nameless_at: Option<usize>,
    complete: bool,
    gecko: Vec<Attachment>,
    beginning: Option<Beginning<'b>>,
}

/// What precedes the events.
struct Beginning<'b> {
    tables: Tables,
    modules: Modules<'b>,
    preamble: Preamble,
}

/// What a replay found in addition to the tables.
struct Unwound {
    noted_events: EventStacks,
    noted: Option<Vec<StackNode>>,
    files: FileIndex,
}

impl<'b, R: Read + Seek> LogSource<'b, R> {
    /// Facts from this log; opens its modules through `binaries`.
    pub fn new(reader: LogReader<R>, binaries: &'b dyn Binaries) -> Self {
        Self {
            reader,
            binaries,
            progress: None,
            unwound: None,
            notes_stacks: Some(NOTED_STACKS),
            merges_anonymous: false,
            merge_nameless_at: None,
            complete: false,
            gecko: Vec::new(),
            beginning: None,
        }
    }

    /// Does not keep the unwound stacks of a replay for [`Self::collect_resolved`].
    pub fn forget_stacks(&mut self) {
        self.notes_stacks = None;
    }

    /// For reports: nameless code in anonymous memory is one frame, and unwound stacks are not kept.
    pub fn merge_anonymous(&mut self) {
        self.forget_stacks();
        self.merges_anonymous = true;
    }

    /// Distinguishes nameless code in anonymous memory by address only until this many stacks are kept.
    pub fn merge_nameless_above(&mut self, most: usize) {
        self.merge_nameless_at = Some(most);
    }

    /// Keeps the unwound stacks of a replay until there are this many.
    pub fn note_stacks(&mut self, most: usize) {
        self.notes_stacks = Some(most);
    }

    /// After a replay: whether the log had everything that was unwound and named. If so, lookups would only produce
    /// a different recording.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Reads what precedes the events, ahead of a replay: what is known of the recording without them.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn begin(&mut self) -> anyhow::Result<&Recording> {
        let beginning = self.take_beginning()?;
        Ok(&self.beginning.insert(beginning).tables.recording)
    }

    /// Once the replay began: the profiles of Firefox's own profiler, whose markers it does not emit.
    pub fn take_gecko(&mut self) -> Vec<Attachment> {
        std::mem::take(&mut self.gecko)
    }

    /// Reports the progress of a replay, in bytes of [`LogReader::len_bytes`], a few times a second.
    pub fn on_progress(&mut self, progress: impl FnMut(u64) + 'b) {
        self.progress = Some(Box::new(progress));
    }

    /// The content of [`Event::Resolved`], after a replay whose stacks were kept; `tables` are those that it
    /// returned, with all stacks and with the names found since.
    pub fn collect_resolved(&self, tables: &Tables) -> Vec<u8> {
        let unwound = self.unwound.as_ref();
        unwound.map_or_else(Vec::new, |unwound| {
            let nodes = unwound.noted.as_deref().unwrap_or(&tables.stacks);
            resolved::encode(tables, nodes, &unwound.noted_events, &unwound.files)
        })
    }

    /// After a replay: the touched files and offsets, for symbol lookup.
    pub fn files(&self) -> Option<&FileIndex> {
        self.unwound.as_ref().map(|unwound| &unwound.files)
    }

    /// What precedes the events, which is read unless it was.
    fn take_beginning(&mut self) -> anyhow::Result<Beginning<'b>> {
        if let Some(beginning) = self.beginning.take() {
            return Ok(beginning);
        }
        let mut tables = Tables::default();
        let mut notes = Vec::new();
        tables.recording = self.reader.header().map_or_else(Recording::default, recording_of);
        tables.recording.sample_thinning = 1;
        if self.reader.header().is_none() {
            notes.push("the log's header is damaged: the recorded command and machine are unknown".to_owned());
        }
        let mut modules = Modules::new(self.binaries, arch_of(&tables.recording.arch));
        let preamble = self
            .preamble(&mut modules, &mut notes)
            .context("cannot read the event log")?;
        self.complete = preamble.resolved.is_some();
        tables.recording.notes = notes;
        Ok(Beginning {
            tables,
            modules,
            preamble,
        })
    }

    /// Reads the chunks that precede the event stream.
    fn preamble(&mut self, modules: &mut Modules<'b>, notes: &mut Vec<String>) -> std::io::Result<Preamble> {
        let mut preamble = Preamble::default();
        let mut run = self.reader.events(&PREAMBLE);
        while let Some(event) = run.next_event()? {
            match event {
                Event::KernelSymbol { offset, start, name } => {
                    preamble.kernel.insert(offset, (start, String::from_utf8_lossy(&name).into_owned()));
                }
                Event::Module(module) => modules.note(module),
                Event::Cost(more) => preamble.cost.get_or_insert_default().join(*more),
                Event::Owners(owners) => preamble.add_owners(*owners),
                Event::Usage(usage) => preamble.usage.add(*usage),
                Event::Attachment(file) if file.kind == AttachmentKind::Markers => {
                    let (markers, bad) = marker_file::parse(&file);
                    preamble.markers.extend(markers);
                    if bad > 0 {
                        let path = String::from_utf8_lossy(&file.path);
                        notes.push(format!("{path}: ignored lines that are not markers (start, end in ns, text): {bad}"));
                    }
                }
                Event::Attachment(file) if file.kind == AttachmentKind::Gecko => self.gecko.push(file),
                Event::Attachment(file) => notes.extend(preamble.jit.add(&file)),
                Event::Resolved(bytes) => match resolved::decode(&bytes) {
                    Ok(resolved) => preamble.resolved = Some(resolved),
                    Err(_) => notes.push(
                        "the names at the log's end can't be read; names are looked up again where the binaries are available"
                            .to_owned(),
                    ),
                },
                _ => {}
            }
        }
        preamble.markers.make_contiguous().sort_by_key(|marker| marker.start);
        Ok(preamble)
    }
}

impl<R: Read + Seek + Send> FactSource for LogSource<'_, R> {
    fn replay(&mut self, sink: &mut dyn FactSink) -> anyhow::Result<Tables> {
        let Beginning {
            tables,
            modules,
            preamble,
        } = self.take_beginning()?;
        let mut replay = Replay::new(tables, Walker::new(modules), preamble, sink);
        if let Some(most) = self.notes_stacks {
            replay.note_stacks(most);
        }
        if self.merges_anonymous {
            replay.merge_anonymous();
        }
        if let Some(most) = self.merge_nameless_at {
            replay.merge_nameless_above(most);
        }
        let progress = &mut self.progress;
        let late = ordered::each(&mut self.reader, |step| match step {
            Step::Event(event) => replay.event(event),
            Step::Position(bytes) => progress.iter_mut().for_each(|progress| progress(bytes)),
        });
        let late = late.context("cannot read the event log")?;
        let (mut tables, findings) = replay.finish();
        let Findings {
            stacks: noted_events,
            noted,
            files,
            mut losses,
        } = findings;
        let add = |losses: &mut FxHashMap<u32, u64>, loss: Loss, count: u64| {
            let sum = losses.entry(loss as u32).or_default();
            *sum = sum.saturating_add(count);
        };
        add(&mut losses, Loss::LogDamaged, self.reader.damaged_chunks());
        add(&mut losses, Loss::EventLate, late);
        tables.recording.losses = named(losses);
        self.unwound = Some(Unwound {
            noted_events,
            noted,
            files,
        });
        Ok(tables)
    }
}

/// Nonzero losses, by name.
fn named(losses: FxHashMap<u32, u64>) -> Vec<(String, u64)> {
    let mut losses: Vec<(u32, u64)> = losses.into_iter().filter(|(_, count)| *count > 0).collect();
    losses.sort_unstable();
    let name =
        |number| Loss::from_number(number).map_or_else(|| format!("loss {number}"), |loss| loss.name().to_owned());
    losses
        .into_iter()
        .map(|(number, count)| (name(number), count))
        .collect()
}

/// The processor of a recording, by the name that `uname -m` has for it.
fn arch_of(name: &str) -> Arch {
    if name == "aarch64" { Arch::Aarch64 } else { Arch::X86_64 }
}

fn recording_of(header: &Header) -> Recording {
    let header = header.clone();
    Recording {
        ngmi_version: header.ngmi_version,
        command: header.command,
        scope: header.scope,
        start: header.start,
        start_unix_ms: header.start_unix_ms,
        end: header.start,
        kernel: header.kernel,
        arch: header.arch,
        page_size: header.page_size,
        cpus: header.cpus,
        sample_hz: header.sample_hz,
        sample_event: header.sample_event,
        stack_copy: header.stack_copy,
        hooks: header.hooks,
        ..Recording::default()
    }
}
