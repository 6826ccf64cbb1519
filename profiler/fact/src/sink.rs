//! The source and the consumer of facts.

use super::{
    Cause, EventKind, FaultFact, MappedFileId, Mark, PagesReadFact, ProcessId, RequestFact, SampleFact, Tables, Visit,
    WaitFact,
};

/// A stream of facts with the tables that they refer to.
pub trait FactSource {
    /// Hands every fact to `sink`, times ascending per thread and page faults and reads in the order of their times, and returns the finished tables.
    ///
    /// # Errors
    /// If the source can't be read at all; damage that leaves the rest readable is a loss in
    /// [`super::Recording::losses`].
    fn replay(&mut self, sink: &mut dyn FactSink) -> anyhow::Result<Tables>;
}

/// Consumes facts. Ids are valid in the tables passed along (which still grow).
pub trait FactSink {
    /// A CPU sample.
    fn sample(&mut self, tables: &Tables, sample: &SampleFact);
    /// A marker: a named instant or interval.
    fn mark(&mut self, tables: &Tables, mark: &Mark);
    /// A page fault; faults arrive in the order of their ends.
    fn fault(&mut self, _: &Tables, _: &FaultFact) {}
    /// A page fault, passed before, was in the memory without bytes in the file (`.bss`) that follows a file's
    /// mapping. Only the log knows.
    fn bss(&mut self, _: &Tables, _: &FaultFact, _: MappedFileId) {}
    /// Pages that were read into the page cache.
    fn pages_read(&mut self, _: &Tables, _: &PagesReadFact) {}
    /// A thread did not run; waits arrive in the order of their ends.
    fn wait(&mut self, _: &Tables, _: &WaitFact) {}
    /// A block request; requests arrive in order of completion.
    fn request(&mut self, _: &Tables, _: &RequestFact) {}
    /// Why a fault or a wait, passed before, took so long, if known.
    fn joined(&mut self, _: &Tables, _: &Cause) {}
    /// A process ended a while ago, and no more facts about it follow: its individually kept facts may be aggregated. Only the log knows this.
    fn process_ended(&mut self, _: &Tables, _: ProcessId) {}
    /// Whether it uses the stacks of such facts; others may be left out, which saves most of the time and memory of
    /// a replay.
    fn wants_stacks(&self, _: EventKind) -> bool {
        true
    }
    /// Whether it can visit each stack and frame number that it keeps: then the others may be dropped.
    fn shows_stacks(&self) -> bool {
        false
    }
    /// Visits them; they get new numbers.
    fn visit(&mut self, _: &mut dyn Visit) {}
    /// The tables have these stacks left after that. Returns true if they are too many, and keeps less from now on.
    fn shrink_if_too_many(&mut self, _: &Tables) -> bool {
        false
    }
}
