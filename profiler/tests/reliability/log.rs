//! The contents of a kept event log, read without the rest of `ngmi`.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use profiler::event::format::ChunkKind;
use profiler::event::read::LogReader;
use profiler::event::{Event, TaskExec, TaskExit, TaskNew};
use profiler_common::Loss;
use profiler_common::stack::FLAG_STACK_CUT;

/// Births, execs, exits, mappings and stacks of faults in a log, and the losses.
#[derive(Default)]
pub struct Log {
    /// Births while recording.
    pub births: Vec<TaskNew>,
    /// Execs while recording.
    pub execs: Vec<TaskExec>,
    /// Ends.
    pub exits: Vec<TaskExit>,
    /// Mappings of each process.
    pub mappings: HashMap<u32, u64>,
    /// Faults with a copied stack.
    pub copied: u64,
    /// Faults whose stack was cut before any byte of it was copied.
    pub cut: u64,
    /// Last value of each counter.
    pub losses: HashMap<Loss, u64>,
}

impl Log {
    /// Reads the whole log, which must be undamaged.
    pub fn read(path: &Path) -> Self {
        let mut reader = LogReader::new(File::open(path).unwrap()).unwrap();
        let mut log = Self::default();
        let mut events = reader.events(&[ChunkKind::Events]);
        while let Some(event) = events.next_event().unwrap() {
            match event {
                Event::TaskNew(task) if !task.existed => log.births.push(task),
                Event::TaskExec(exec) if !exec.existed => log.execs.push(exec),
                Event::TaskExit(exit) => log.exits.push(exit),
                Event::Mapping(mapping) => *log.mappings.entry(mapping.at.pid).or_default() += 1,
                Event::Fault(fault) => {
                    let is_empty = fault.stacks.copy.is_empty();
                    log.copied += u64::from(!is_empty);
                    log.cut += u64::from(is_empty && fault.stacks.flags & FLAG_STACK_CUT != 0);
                }
                Event::Loss { loss, count } => {
                    log.losses
                        .insert(Loss::from_number(loss).expect("a loss of the registry"), count);
                }
                _ => {}
            }
        }
        assert_eq!(reader.damaged_chunks(), 0, "{}", path.display());
        log
    }

    /// Count of this loss.
    pub fn lost(&self, loss: Loss) -> u64 {
        self.losses.get(&loss).copied().unwrap_or(0)
    }
}
