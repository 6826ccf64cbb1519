//! What a profile tells whoever reads it, in sentences for the one who is about to share it.

use std::collections::BTreeSet;

use super::text::fit;
use crate::fact::budget::Collected;
use crate::fact::sanitize::Person;
use crate::fact::strings::{self, Kind};
use crate::fact::{MarkKind, Tables};

/// Examples of each kind.
const EXAMPLES: usize = 3;
/// Characters of an example.
const LENGTH: usize = 60;

/// Sentences, the most telling first. The facts are not changed.
pub fn reveals(tables: &mut Tables, collected: &mut Collected, person: &Person) -> Vec<String> {
    let mut lines = Vec::new();
    let names = person.names();
    let lists = strings::programs(tables, collected).map(|program| program.command_line);
    let commands: BTreeSet<String> = lists.filter(|line| line.len() > 1).map(|line| line.join(" ")).collect();
    lines.push(match commands.len() {
        0 => "command lines: no arguments".to_owned(),
        count => format!("command lines: {count}, such as {}", examples(&commands)),
    });
    let (mut paths, mut of_person) = (BTreeSet::new(), 0_usize);
    strings::each(tables, collected, &mut |kind, text| {
        if kind == Kind::Path && text.starts_with('/') {
            paths.insert(text.clone());
        }
        of_person += usize::from(names.in_text(kind, text).is_some());
    });
    let own = commands
        .iter()
        .filter(|line| names.in_text(Kind::Text, line).is_some())
        .count();
    lines.push(who(person, of_person + own));
    // The person's own paths say most.
    let telling: BTreeSet<String> = {
        let own = paths.iter().filter(|path| names.in_text(Kind::Path, path).is_some());
        own.cloned().collect()
    };
    lines.push(format!(
        "paths: {} of programs, libraries, data files and sources, such as {}",
        paths.len(),
        examples(if telling.is_empty() { &paths } else { &telling })
    ));
    lines.push(format!(
        "names: of {} processes, {} threads and {} functions",
        tables.processes.len(),
        tables.threads.len(),
        tables.names.len()
    ));
    let marks = collected.threads.iter().flat_map(|thread| &thread.marks);
    let own = marks
        .filter(|mark| matches!(mark.kind, MarkKind::Program { .. }))
        .count();
    if own > 0 {
        lines.push(format!(
            "texts: {own} markers that the program wrote; a browser's may hold addresses of pages"
        ));
    }
    if !tables.sources.is_empty() {
        let sources: BTreeSet<String> = tables.sources.keys().cloned().collect();
        lines.push(format!(
            "sources: the text of {} files, such as {}",
            sources.len(),
            examples(&sources)
        ));
    }
    let recording = &tables.recording;
    lines.push(format!(
        "machine: kernel {} on {}, {} CPUs, the time of the recording, and what every thread did when",
        fit(&recording.kernel, LENGTH),
        fit(&recording.arch, LENGTH),
        recording.cpus
    ));
    lines.push("no environment variables, no memory contents; addresses in the kernel are offsets".to_owned());
    lines
}

fn who(person: &Person, times: usize) -> String {
    if times == 0 {
        return "user and machine: not named".to_owned();
    }
    let names = person.homes.iter().chain(person.identifying());
    let names: BTreeSet<String> = names.cloned().collect();
    format!("user and machine: {}, in {times} places", examples(&names))
}

fn examples(all: &BTreeSet<String>) -> String {
    let some: Vec<String> = all.iter().take(EXAMPLES).map(|text| fit(text, LENGTH)).collect();
    if some.is_empty() {
        "none".to_owned()
    } else {
        some.join(", ")
    }
}
