//! Profiles of Firefox's profiler and traces of Chrome made of anything: what is merged can be written and read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler::addr::Timestamp;
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::reduce::sanitize::{Person, sanitize};
use profiler::fact::{FactSource, Process, ProcessId, Recording, Tables, Thread, ThreadId};
use profiler::profile::{ProfileSource, lint, merge_gecko, write};

const START: Timestamp = Timestamp(5_000_000_000);

/// A browser and a child process, which was born during the recording.
fn tables() -> Tables {
    let mut tables = Tables {
        recording: Recording {
            start: START,
            end: Timestamp(START.0 + 100_000_000),
            ..Recording::default()
        },
        processes: vec![
            Process::born(7, "browser".into(), START),
            Process::born(8, "browser".into(), START),
        ],
        threads: vec![
            Thread::born(ProcessId(0), 7, "browser".into(), START),
            Thread::born(ProcessId(1), 8, "Isolated Web Co".into(), START),
            Thread::born(ProcessId(1), 9, "DOM Worker".into(), START),
        ],
        ..Tables::default()
    };
    for (main, process) in [0, 1].into_iter().zip(&mut tables.processes) {
        process.main_thread = Some(ThreadId(main));
        tables.threads[main as usize].is_main = true;
    }
    tables
}

fuzz_target!(|text: &[u8]| {
    let mut tables = tables();
    let mut collector = Collector::new(Budget { samples: 8, marks: 64 });
    let Ok(merged) = merge_gecko(&mut &text[..], &mut tables, &mut collector) else {
        return;
    };
    let _ = (merged.to_string(), merged.problems());
    let mut collected = collector.finish(&mut tables);
    for is_sanitized in [false, true] {
        if is_sanitized {
            let mut person = Person::default();
            person.add_seen(&mut tables, &mut collected);
            sanitize(&mut tables, &mut collected, &person);
        }
        let mut json = Vec::new();
        write(&tables, &collected, &mut json).expect("the facts can be written");
        assert_eq!(lint(&json[..]), Vec::<String>::new());
        let mut again = Collector::new(Budget::default());
        let read = ProfileSource::new(&json[..]).and_then(|mut source| Ok(source.replay(&mut again)));
        assert!(matches!(read, Ok(Ok(_))), "the profile can be read");
    }
});
