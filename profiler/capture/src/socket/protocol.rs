//! What the privileged helper does on each message: a state machine without system calls. The peer is treated as
//! hostile: anything unexpected ends the recording, and no repeated message uses unbounded memory.

use rustc_hash::FxHashSet;

use super::wire::{Request, TableOf};
use crate::privilege::terms::{Scope, Terms};
use crate::space::spaces::Code;

/// Different files that may have a table, or lack one, in one recording. It exceeds the number of files that can be
/// named to the peer, some of which are expected and never mapped.
pub const CODES_LIMIT: usize = 1 << 17;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<D> {
    /// Record these processes (none: the whole system) into this log.
    Begin {
        /// Thread groups or threads.
        pids: Vec<u32>,
        /// The command as typed.
        command: Vec<String>,
        /// The event log.
        log: D,
    },
    /// Load a table.
    Table {
        /// The code it is for.
        code: Code,
        /// The message's description of it.
        of: TableOf,
        /// Its bytes; `None`: there was no memory for them.
        table: Option<D>,
    },
    /// This code has no table.
    NoTable(Code),
    /// Nothing: it was answered before.
    Ignore,
    /// Drain and end.
    End,
}

/// The phase of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Recording,
    Ended,
}

/// The state of one recording, according to its messages.
#[derive(Debug)]
pub struct Protocol {
    scope: Scope,
    phase: Phase,
    /// Code that has an answer: the first one counts.
    answered: FxHashSet<Code>,
}

impl Protocol {
    /// The state before the first message.
    pub fn new(terms: &Terms) -> Self {
        Self {
            scope: terms.scope.clone(),
            phase: Phase::Waiting,
            answered: FxHashSet::default(),
        }
    }

    /// Takes a message and the descriptor attached to it.
    ///
    /// # Errors
    /// When it is not allowed in this phase: then the recording has ended, and nothing else is accepted.
    pub fn accept<D>(&mut self, request: Request, descriptor: Option<D>) -> Result<Action<D>, &'static str> {
        let action = match (self.phase, request) {
            (Phase::Waiting, Request::Start(start)) => {
                let pids = match (&self.scope, start.pid) {
                    (Scope::Command, Some(pid)) => Ok(vec![pid]),
                    (Scope::Command, None) => Err("Start without the command's process"),
                    (_, Some(_)) => Err("Start with a process, which these terms do not allow"),
                    (Scope::Pids(pids), None) => Ok(pids.clone()),
                    (Scope::System | Scope::Selected(_), None) => Ok(Vec::new()),
                };
                let log = descriptor.ok_or("Start without the event log");
                let with_log = log.and_then(|log| Ok((pids?, log)));
                with_log.map(|(pids, log)| (Phase::Recording, begin_with(pids, start.command, log)))
            }
            (Phase::Waiting, _) => Err("a message before Start"),
            (Phase::Recording, Request::Start(_)) => Err("Start a second time"),
            (Phase::Recording, Request::Table(of)) => {
                let code = of.file.map_or(Code::Vdso, Code::File);
                let table = descriptor;
                self.answer(code, Action::Table { code, of, table })
            }
            (Phase::Recording, Request::NoTable(file)) => {
                let code = Code::File(file);
                self.answer(code, Action::NoTable(code))
            }
            (Phase::Recording, Request::Stop) => Ok((Phase::Ended, Action::End)),
            (Phase::Ended, _) => Err("a message after the end"),
        };
        let (phase, action) = action.inspect_err(|_| self.phase = Phase::Ended)?;
        self.phase = phase;
        Ok(action)
    }

    fn answer<D>(&mut self, code: Code, action: Action<D>) -> Result<(Phase, Action<D>), &'static str> {
        if !self.answered.insert(code) {
            return Ok((Phase::Recording, Action::Ignore));
        }
        if self.answered.len() > CODES_LIMIT {
            return Err("tables for too many files");
        }
        Ok((Phase::Recording, action))
    }
}

fn begin_with<D>(pids: Vec<u32>, command: Vec<String>, log: D) -> Action<D> {
    Action::Begin { pids, command, log }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::socket::wire::Start;
    use base::event::FileId;

    fn terms(scope: Scope) -> Terms {
        Terms {
            scope,
            user: Some(1000),
            sample_hz: 1000,
            stack_copy: 0,
            check_walks: false,
            faults: crate::hooks::faults::Faults::default(),
            off_cpu: crate::hooks::waits::OffCpu::default(),
            block: crate::hooks::disks::BlockMode::default(),
            exact_touch: false,
            self_account: false,
            max_overhead: None,
            exclude_pids: Vec::new(),
        }
    }

    fn start(pid: Option<u32>) -> Request {
        let command = Vec::new();
        Request::Start(Start { pid, command })
    }

    fn file(inode: u64) -> FileId {
        FileId {
            inode,
            ..FileId::default()
        }
    }

    fn table(file: Option<FileId>) -> Request {
        let (name, segments) = (String::new(), Vec::new());
        Request::Table(TableOf { file, name, segments })
    }

    #[test]
    fn start_contains_only_the_command() {
        let begun = |scope, pid, log: Option<u8>| Protocol::new(&terms(scope)).accept(start(pid), log);
        let pids_of = |begun| match begun {
            Ok(Action::Begin { pids, log: 7, .. }) => Some(pids),
            _ => None,
        };
        assert_eq!(pids_of(begun(Scope::Command, Some(5), Some(7))), Some(vec![5]));
        assert_eq!(pids_of(begun(Scope::Pids(vec![1]), None, Some(7))), Some(vec![1]));
        assert_eq!(pids_of(begun(Scope::System, None, Some(7))), Some(Vec::new()));
        assert!(begun(Scope::Command, None, Some(7)).is_err());
        assert!(begun(Scope::Command, Some(5), None).is_err());
        assert!(begun(Scope::Pids(vec![1]), Some(5), Some(7)).is_err());
        assert!(begun(Scope::System, Some(5), Some(7)).is_err());
    }

    #[test]
    fn the_answers_of_a_recording_have_a_limit() {
        let mut protocol = Protocol::new(&terms(Scope::System));
        protocol.accept(start(None), Some(())).unwrap();
        for inode in 0..CODES_LIMIT as u64 {
            let action = protocol.accept::<()>(Request::NoTable(file(inode)), None);
            assert_eq!(action, Ok(Action::NoTable(Code::File(file(inode)))));
        }
        assert_eq!(
            protocol.accept::<()>(Request::NoTable(file(0)), None),
            Ok(Action::Ignore)
        );
        assert!(protocol.accept::<()>(table(None), None).is_err());
        assert!(
            protocol.accept::<()>(Request::Stop, None).is_err(),
            "the recording has ended"
        );
    }

    fn requests() -> impl Strategy<Value = Request> {
        prop_oneof![
            proptest::option::of(0_u32..3).prop_map(start),
            proptest::option::of(0_u64..3).prop_map(|inode| table(inode.map(file))),
            (0_u64..3).prop_map(|inode| Request::NoTable(file(inode))),
            Just(Request::Stop),
        ]
    }

    proptest! {
        /// One start, before everything else; one answer for each code file; nothing after the end
        /// or after a rejected message.
        #[test]
        fn no_request_sequence_exceeds_the_limit(sequence in proptest::collection::vec((requests(), proptest::option::of(0_u8..3)), 0..12)) {
            let mut protocol = Protocol::new(&terms(Scope::Command));
            let (mut has_begun, mut has_ended, mut answered) = (false, false, Vec::new());
            for (request, descriptor) in sequence {
                let was = (has_begun, has_ended);
                let action = protocol.accept(request.clone(), descriptor);
                match action {
                    Err(_) => has_ended = true,
                    Ok(Action::Begin { pids, log, .. }) => {
                        prop_assert_eq!(was, (false, false));
                        prop_assert_eq!(start(Some(pids[0])), request);
                        prop_assert_eq!((pids.len(), Some(log)), (1, descriptor));
                        has_begun = true;
                    }
                    Ok(Action::Table { code, .. } | Action::NoTable(code)) => {
                        prop_assert_eq!(was, (true, false));
                        prop_assert!(code != Code::Made && !answered.contains(&code));
                        answered.push(code);
                    }
                    Ok(Action::Ignore) => prop_assert_eq!(was, (true, false)),
                    Ok(Action::End) => {
                        prop_assert_eq!(was, (true, false));
                        has_ended = true;
                    }
                }
            }
        }
    }
}
