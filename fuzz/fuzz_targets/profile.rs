//! Profiles made of anything: read, shown, cut, cleaned of the person, and written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler::addr::Timestamp;
use profiler::fact::reduce::budget::{Budget, Collector};
use profiler::fact::reduce::sanitize::{Person, sanitize};
use profiler::fact::reduce::trim::{Cut, trim};
use profiler::fact::{FactSource, Tables};
use profiler::profile::{ProfileSource, lint, write};
use profiler::report::Summary;

fn middle(tables: &Tables) -> Timestamp {
    let (start, end) = (tables.recording.start.0, tables.recording.end.0);
    Timestamp(start / 2 + end / 2)
}

fuzz_target!(|json: &[u8]| {
    lint(json);
    let Ok(mut source) = ProfileSource::new(json) else {
        return;
    };
    // A budget that nothing hostile fits into: it has to be folded.
    let mut collector = Collector::new(Budget { samples: 8, marks: 8 });
    let Ok(mut tables) = source.replay(&mut collector) else {
        return;
    };
    let mut collected = collector.finish(&mut tables);
    let _ = Summary::new(&tables, &collected).to_string();
    let mut person = Person::default();
    person.add_seen(&mut tables, &mut collected);
    sanitize(&mut tables, &mut collected, &person);
    let _ = write(&tables, &collected, &mut std::io::sink());
    for (from, to) in [(None, Some(middle(&tables))), (Some(middle(&tables)), None)] {
        let cut = Cut {
            from,
            to,
            processes: None,
        };
        if let Ok((tables, collected)) = trim(&mut source, &cut) {
            let _ = write(&tables, &collected, &mut std::io::sink());
        }
    }
});
