//! Which faults are asked for. Within one kind of condition any may fit, and every kind has to.

use std::time::Duration;

use super::view::View;
use crate::fact::fault::FaultClass;
use crate::fact::{FaultFact, Process, StackId, Thread};
use crate::report::functions::FunctionId;
use crate::report::select::{SelectError, Words, file_fits, fits, glob, id_or_name, stacks_under, takes};

const WORDS: Words = Words {
    verb: "faults",
    of: "faults",
};

/// What a person asked for; empty lists ask for everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Path, base name or pattern of a file.
    pub files: Vec<String>,
    /// Process id, or name or pattern.
    pub processes: Vec<String>,
    /// Thread id, or name or pattern.
    pub threads: Vec<String>,
    /// Classes.
    pub classes: Vec<FaultClass>,
    /// Name or pattern of the function that the fault belongs to.
    pub functions: Vec<String>,
    /// Name or pattern of a function anywhere in the stack.
    pub under: Vec<String>,
    /// Not before this time since the recording's start.
    pub from: Option<Duration>,
    /// Before this time since the recording's start.
    pub to: Option<Duration>,
    /// Only those that the kernel counts as major.
    pub major: bool,
    /// Only those that waited for a read.
    pub waited: bool,
}

/// A selection, looked up once in the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    files: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    functions: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    classes: Vec<FaultClass>,
    from: Duration,
    to: Option<Duration>,
    major: bool,
    waited: bool,
}

impl Selector {
    /// Looks names up.
    ///
    /// # Errors
    /// When nothing of the recording has such a name: probably a slip.
    pub fn new(view: &View<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let tables = view.tables;
        let files = fits(WORDS, &selection.files, &tables.files, ("file", "file"), file_fits)?;
        let processes = fits(
            WORDS,
            &selection.processes,
            &tables.processes,
            ("process", "process"),
            |process: &Process, pattern| id_or_name(process.pid, &process.name, pattern),
        )?;
        let mut threads = fits(
            WORDS,
            &selection.threads,
            &tables.threads,
            ("thread", "thread"),
            |thread: &Thread, pattern| id_or_name(thread.tid, &thread.name, pattern),
        )?;
        if let Some(processes) = processes {
            let of_process = (tables.threads.iter()).map(|thread| processes.get(thread.process.index()) == Some(&true));
            threads = Some(match threads {
                Some(threads) => threads
                    .iter()
                    .zip(of_process)
                    .map(|(one, other)| *one && other)
                    .collect(),
                None => of_process.collect(),
            });
        }
        let by_name = |patterns: &[String], option| {
            fits(
                WORDS,
                patterns,
                &view.functions.all,
                ("function", option),
                |function, pattern| glob(pattern, &function.name),
            )
        };
        Ok(Self {
            files,
            threads,
            functions: by_name(&selection.functions, "function")?,
            stacks: by_name(&selection.under, "under")?
                .map(|functions| stacks_under(view.tables, &view.functions, &functions)),
            classes: selection.classes.clone(),
            from: selection.from.unwrap_or_default(),
            to: selection.to,
            major: selection.major,
            waited: selection.waited,
        })
    }

    /// The fault is asked for.
    pub fn takes(&self, view: &View<'_>, fault: &FaultFact) -> bool {
        let time = fault.start.since(view.tables.recording.start);
        (!self.major || fault.major)
            && (!self.waited || fault.waited())
            && (self.classes.is_empty() || self.classes.contains(&fault.class))
            && time >= self.from
            && self.to.is_none_or(|to| time < to)
            && takes(self.files.as_deref(), fault.place.map(|place| place.file.index()))
            && takes(self.threads.as_deref(), Some(fault.thread.index()))
            && takes(self.stacks.as_deref(), fault.stack.map(StackId::index))
            && (self.functions.is_none()
                || takes(
                    self.functions.as_deref(),
                    view.function(fault).map(|FunctionId(id)| id as usize),
                ))
    }
}
