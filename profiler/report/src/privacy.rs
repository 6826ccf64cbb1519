//! Describes the private information in a profile to the user who is about to share it.

use std::collections::BTreeSet;

use super::text::fit;
use fact::owner::{Owners, labels};
use fact::reduce::budget::Collected;
use fact::reduce::sanitize::{Person, PersonalNames};
use fact::reduce::strings::{self, Kind};
use fact::{Mark, MarkKind, Tables};

/// Maximum number of examples per line.
const EXAMPLES: usize = 3;
/// Maximum width of an example in columns.
const LENGTH: usize = 60;

/// Lines that describe what the profile reveals, the most sensitive first. The facts are not changed.
pub fn disclosures(tables: &mut Tables, collected: &mut Collected, person: &Person) -> Vec<String> {
    let mut lines = Vec::new();
    let names = person.names();
    let lists = strings::programs(tables, collected).map(|program| program.command_line);
    let commands: BTreeSet<String> = lists.filter(|line| line.len() > 1).map(|line| line.join(" ")).collect();
    lines.push(match commands.len() {
        0 => "command lines: no arguments".to_owned(),
        count => format!("command lines: {count}, e.g. {}", examples(&commands)),
    });
    let (mut paths, mut occurring) = (BTreeSet::new(), Occurring::default());
    strings::each(tables, collected, &mut |kind, text| {
        if kind == Kind::Path && text.starts_with('/') {
            paths.insert(text.clone());
        }
        occurring.add(&names, kind, text);
    });
    for line in &commands {
        occurring.add(&names, Kind::Text, line);
    }
    lines.push(occurring.line());
    // Paths that name the user are the most sensitive examples.
    let revealing: BTreeSet<String> = {
        let own = paths
            .iter()
            .filter(|path| names.in_text(Kind::Path, path).next().is_some());
        own.cloned().collect()
    };
    lines.push(format!(
        "paths: {} of programs, libraries, data files and sources, e.g. {}",
        paths.len(),
        examples(if revealing.is_empty() { &paths } else { &revealing })
    ));
    lines.push(format!(
        "names: processes: {}, threads: {}, functions: {}",
        tables.processes.len(),
        tables.threads.len(),
        tables.names.len()
    ));
    let owners = Owners::new(tables);
    let of_processes = owners.list.iter().map(|owner| &*owner.cgroup);
    let used = tables.recording.cgroup_usage.iter().map(|usage| usage.path.as_str());
    let cgroups: BTreeSet<&str> = of_processes.chain(used).collect();
    if !cgroups.is_empty() {
        let labels: BTreeSet<String> = labels(tables, cgroups.iter().copied()).into_iter().collect();
        lines.push(format!(
            "cgroups (units, containers, pods): {}, e.g. {}",
            cgroups.len(),
            examples(&labels)
        ));
    }
    let marks = || collected.threads.iter().flat_map(|thread| &thread.marks);
    let is_image = |mark: &&Mark| matches!(&mark.kind, MarkKind::Gecko(mark) if mark.image.is_some());
    let images = marks().filter(is_image).count();
    if images > 0 {
        lines.push(format!("screenshots of windows: {images}"));
    }
    let pages = tables.recording.gecko.as_ref().map_or(&[][..], |gecko| &gecko.pages);
    if !pages.is_empty() {
        let private = pages.iter().filter(|page| page.is_private).count();
        lines.push(format!("pages: {}, of which {private} private", pages.len()));
    }
    let own = marks()
        .filter(|mark| matches!(mark.kind, MarkKind::Program { .. } | MarkKind::Gecko(_)))
        .count();
    if own > 0 {
        lines.push(format!("program markers: {own}; a browser's may contain URLs"));
    }
    if !tables.sources.is_empty() {
        let sources: BTreeSet<String> = tables.sources.keys().cloned().collect();
        lines.push(format!(
            "source files with text: {}, e.g. {}",
            sources.len(),
            examples(&sources)
        ));
    }
    let recording = &tables.recording;
    lines.push(format!(
        "machine: kernel {} on {}, {} CPUs; time of the recording; activity of every thread over time",
        fit(&recording.kernel, LENGTH),
        fit(&recording.arch, LENGTH),
        recording.cpus
    ));
    lines.push("not included: environment variables and memory contents; kernel addresses are offsets".to_owned());
    lines
}

/// The names of users and machines that are in the profile: not all that this machine knows.
#[derive(Default)]
struct Occurring {
    names: BTreeSet<String>,
    /// Number of texts with a name.
    times: usize,
}

impl Occurring {
    fn add(&mut self, names: &PersonalNames, kind: Kind, text: &str) {
        let mut found = names.in_text(kind, text).map(str::to_owned).peekable();
        self.times += usize::from(found.peek().is_some());
        self.names.extend(found);
    }

    fn line(&self) -> String {
        if self.times == 0 {
            return "user and machine: not named in the profile".to_owned();
        }
        let (names, times) = (examples(&self.names), self.times);
        format!("user and machine names: {names}; occurrences: {times}")
    }
}

fn examples(all: &BTreeSet<String>) -> String {
    let some: Vec<String> = all.iter().take(EXAMPLES).map(|text| fit(text, LENGTH)).collect();
    if some.is_empty() {
        "none".to_owned()
    } else {
        some.join(", ")
    }
}
