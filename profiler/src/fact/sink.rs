//! Where facts come from, and who takes them.

use super::{
    Cause, FaultFact, MappedFileId, Mark, Noun, PagesReadFact, ProcessId, RequestFact, SampleFact, Tables, Visit,
    WaitFact,
};

/// A stream of facts with the tables that they refer to.
pub trait FactSource {
    /// Hands every fact to `sink`, times ascending per thread, and returns the finished tables.
    ///
    /// # Errors
    /// When the source can't be read at all; damage that leaves the rest readable is a loss in [`super::Recording::losses`].
    fn replay(&mut self, sink: &mut dyn FactSink) -> anyhow::Result<Tables>;
}

/// Takes facts. Ids are valid in the tables handed along (which still grow).
pub trait FactSink {
    /// A CPU sample.
    fn sample(&mut self, tables: &Tables, sample: &SampleFact);
    /// A marker: something with a name at a time.
    fn mark(&mut self, tables: &Tables, mark: &Mark);
    /// A page fault; they come in the order in which they ended.
    fn fault(&mut self, _: &Tables, _: &FaultFact) {}
    /// A page fault, told before, was in the memory without bytes in the file (`.bss`) that follows a file's mapping. Only the log can say.
    fn bss(&mut self, _: &Tables, _: &FaultFact, _: MappedFileId) {}
    /// Pages that were read.
    fn pages_read(&mut self, _: &Tables, _: &PagesReadFact) {}
    /// A thread did not run; waits come in the order in which they ended.
    fn wait(&mut self, _: &Tables, _: &WaitFact) {}
    /// A block request; they come in the order in which they were complete.
    fn request(&mut self, _: &Tables, _: &RequestFact) {}
    /// Why a fault or a wait, told before, took so long; where that is known.
    fn joined(&mut self, _: &Tables, _: &Cause) {}
    /// A process ended a while ago, and no fact of it comes any more: what is kept of it one by one may be summed up. Only the log can say; a profile
    /// hands out one thread after another.
    fn over(&mut self, _: &Tables, _: ProcessId) {}
    /// Whether it looks at the stacks of such facts; those of others may be left out, which takes most of the time and memory of a replay.
    fn wants_stacks(&self, _: Noun) -> bool {
        true
    }
    /// It can show the number of each stack and frame that it keeps of what it was told: the others may be given up then.
    fn shows_stacks(&self) -> bool {
        false
    }
    /// Shows them; they get new numbers.
    fn visit(&mut self, _: &mut dyn Visit) {}
    /// The tables have these stacks left after that. True: they are too many, and it keeps less from now on.
    fn keeps_less(&mut self, _: &Tables) -> bool {
        false
    }
}
