//! Prints the summary in at most twelve lines of 80 columns.

use std::fmt::{self, Write as _};

use super::{Asleep, FaultSummary, MainThread, PathSummary, Summary, nameless};
use crate::findings::Finding;
use crate::text::{WIDTH, bytes, columns, count, duration, estimate, fit, fit_middle, percent};
use base::plural::{counted, loss};

/// Maximum number of lines.
const LINES: usize = 12;
/// Maximum number of findings.
const FINDINGS: usize = 3;
/// The longest string that Chromium's engine can hold (`String::kMaxLength` of V8), in bytes; Firefox takes twice that.
const LONGEST_TEXT: u64 = (1 << 29) - 24;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.lines() {
            writeln!(f, "{}", fit(&line, WIDTH))?;
        }
        Ok(())
    }
}

impl Summary {
    /// At most twelve lines. Findings precede the functions that held up the main thread; the hottest functions get the remaining
    /// lines.
    fn lines(&self) -> Vec<String> {
        let (mut lines, mut held_up, mut rest) = (Vec::new(), Vec::new(), self.rest());
        if let Some(main) = &self.main_thread {
            let (line, not_running) = match &self.asleep {
                Some(asleep) => (Self::asleep_line(main, asleep), asleep.wall_ns),
                None => (Self::main_line(main), main.wall_ns.saturating_sub(main.cpu_ns)),
            };
            lines.push(line);
            held_up = self.waits.iter().flat_map(|waits| waits.lines(not_running)).collect();
        }
        let hottest = usize::from(!self.hottest.is_empty());
        let room = |taken: usize| LINES.saturating_sub(taken + rest.len());
        // The first line shows what it waited for. Which of it decided is less than what was found.
        let waited = held_up.len().min(1);
        held_up.splice(waited..waited, self.path.as_ref().and_then(PathSummary::line));
        let found = self
            .findings
            .len()
            .min(FINDINGS)
            .min(room(lines.len() + waited + hottest));
        held_up.truncate(room(lines.len() + found + hottest));
        lines.extend(held_up.iter().take(waited).cloned());
        lines.extend(self.findings.iter().take(found).map(Finding::line));
        lines.extend(held_up.into_iter().skip(waited));
        if let Some(cost) = self.cost.as_ref().filter(|_| !self.losses.is_empty())
            && lines.len() + rest.len() + 2 <= LINES
        {
            let output = rest.len() - usize::from(self.output.is_some());
            rest.insert(output, cost.line("cost:    "));
        }
        lines.extend(self.hottest_lines(LINES.saturating_sub(lines.len() + rest.len())));
        lines.extend(rest);
        lines
    }

    fn main_line(main: &MainThread) -> String {
        if !main.is_commands {
            return Self::busiest_line(main);
        }
        let rest = main.wall_ns.saturating_sub(main.cpu_ns);
        let numbers = format!(
            ": main thread {} = {} on CPU ({}) + {} off-CPU",
            duration(main.wall_ns),
            duration(main.cpu_ns),
            percent(main.cpu_ns, main.wall_ns),
            duration(rest)
        );
        fit(&main.process, WIDTH.saturating_sub(columns(&numbers))) + &numbers
    }

    fn asleep_line(main: &MainThread, asleep: &Asleep) -> String {
        let head = format!("no thread ran in {}: ", duration(main.wall_ns));
        let threads = counted(asleep.threads, "thread");
        if asleep.processes > 1 {
            return format!("{head}{threads} in {}", counted(asleep.processes, "process"));
        }
        let rest = format!(" ({}), {threads}", main.pid);
        let room = WIDTH.saturating_sub(columns(&head) + columns(&rest));
        format!("{head}{}{rest}", fit_middle(&main.process, room))
    }

    /// The line for a recording without a command, where the busiest thread is not necessarily a main thread.
    fn busiest_line(main: &MainThread) -> String {
        let head = "busiest thread: ";
        let numbers = format!(
            ", {} on CPU ({}) of {}",
            duration(main.cpu_ns),
            percent(main.cpu_ns, main.wall_ns),
            duration(main.wall_ns)
        );
        let name = match main.name.as_str() {
            // The kernel truncates thread names.
            name if main.process.starts_with(name) => main.process.clone(),
            name => format!("{}, {name}", main.process),
        };
        let id = format!(" ({})", main.tid);
        let room = WIDTH.saturating_sub(columns(head) + columns(&id) + columns(&numbers));
        format!("{head}{}{id}{numbers}", fit_middle(&name, room))
    }

    fn hottest_lines(&self, room: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for (function, index) in self.hottest.iter().take(room).zip(0..) {
            let head = if index == 0 { "hottest:" } else { "" };
            let head = format!("{head:<9}{:>7} ", estimate(function.samples, self.samples));
            let module = function
                .module
                .as_ref()
                // The name of a function without a symbol already contains its module.
                .filter(|module| !function.function.starts_with(&format!("{module} + ")))
                .filter(|module| !function.function.ends_with(&format!(" {module}")))
                .map_or(String::new(), |module| format!(" ({})", fit_middle(module, 24)));
            let width = WIDTH.saturating_sub(columns(&head) + columns(&module));
            lines.push(head + &fit_middle(&function.function, width) + &module);
        }
        lines
    }

    fn rest(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let of = if self.samples > 0 {
            format!(
                " of {} in {}",
                counted(self.threads, "thread"),
                counted(self.processes, "process")
            )
        } else {
            String::new()
        };
        lines.push(format!(
            "samples: {}{of}, {} of CPU time",
            count(self.samples),
            duration(self.cpu_time_ns)
        ));
        lines.extend(self.faults.iter().flat_map(FaultSummary::lines));
        lines.push(self.lost_line());
        lines.extend(self.stacks.lines());
        lines.extend(nameless::line(&self.nameless, self.samples));
        if let Some((same, different)) = self.stacks.walks.checked {
            let all = same.saturating_add(different);
            lines.push(format!("walks:   {} of {} match framehop", count(same), count(all)));
        }
        lines.extend(self.left_out_line());
        lines.extend(self.thinning_line());
        lines.extend(self.output_line());
        lines
    }

    /// Losses; if there are none, the line also has the cost of the recording.
    fn lost_line(&self) -> String {
        let losses = self.losses.iter().map(|(name, lost)| loss(name, *lost));
        let line = list("lost:    ", losses, "nothing");
        match &self.cost {
            Some(cost) if self.losses.is_empty() => cost.line(&format!("{line}; cost ")),
            _ => line,
        }
    }

    /// What was left out so that the recording stays below its limit of cost.
    fn left_out_line(&self) -> Option<String> {
        let stacks = self.faults.as_ref().map_or(0, |faults| faults.stacks.thinned);
        self.cost.as_ref()?.limited.as_ref()?.line(stacks)
    }

    fn thinning_line(&self) -> Option<String> {
        let samples =
            (self.sample_thinning > 1).then(|| format!("each profile sample represents {}", self.sample_thinning));
        let marks = (self.marks_left_out > 0).then(|| format!("markers left out: {}", count(self.marks_left_out)));
        let folded = self.faults.as_ref().map_or(0, |faults| faults.folded);
        let faults = (folded > 0).then(|| format!("faults aggregated: {}", count(folded)));
        let sums = [(self.waits_folded, "waits"), (self.requests_folded, "requests")];
        let sums = sums.into_iter().filter(|(folded, _)| *folded > 0);
        let sums = sums.map(|(folded, what)| format!("{what} aggregated: {}", count(folded)));
        let together = (self.threads_together > 0).then(|| {
            format!(
                "threads merged: {} in {}",
                count(self.threads_together),
                counted(self.shared_rows, "shared row")
            )
        });
        let parts = samples
            .into_iter()
            .chain(marks)
            .chain(faults)
            .chain(sums)
            .chain(together);
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("thinned: {}", parts.join("; ")))
    }

    fn output_line(&self) -> Option<String> {
        let output = self.output.as_ref()?;
        let mut size = self
            .output_bytes
            .map_or(String::new(), |size| format!(", {}", bytes(size)));
        if let Some(text) = self.output_text_bytes.filter(|text| *text > LONGEST_TEXT) {
            let _ = write!(size, "; {} unpacked, too large for Chromium: `ngmi trim`", bytes(text));
        }
        Some(format!(
            "profile: {}{size}",
            fit(output, WIDTH.saturating_sub(9 + columns(&size)))
        ))
    }
}

/// As many items as fit in a line, and the number of further ones.
pub(super) fn list(head: &str, items: impl Iterator<Item = String>, none: &str) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        return format!("{head}{none}");
    }
    for shown in (1..=items.len()).rev() {
        let more = items.len() - shown;
        let rest = if more > 0 {
            format!(", {more} more")
        } else {
            String::new()
        };
        let line = format!("{head}{}{rest}", items[..shown].join(", "));
        if shown == 1 || columns(&line) <= WIDTH {
            return line;
        }
    }
    String::new()
}
