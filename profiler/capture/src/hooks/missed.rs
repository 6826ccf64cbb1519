//! Runs of our eBPF programs that the kernel skipped, by program.
//!
//! While a program is under way on a CPU, the kernel does not run it there again, and counts the skipped run (`recursion_misses`). A kernel
//! that preempts programs on tracepoints does so for any thread that runs there meanwhile (docs/waits.md).

use std::fmt::Write as _;

use aya::Ebpf;
use aya::programs::Program;

use super::arch::EXCEPTION_TWINS;
use super::faults::TWINS;
use crate::proc::procfs;

/// Programs of which runs were skipped, by name, with the number of runs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Missed(Vec<(String, u64)>);

impl Missed {
    /// Reads the kernel's count for each loaded program.
    pub fn read(ebpf: &Ebpf) -> Self {
        Self::of(
            ebpf.programs()
                .filter_map(|(name, program)| Some((name, misses(program)?))),
            EXCEPTION_TWINS,
        )
    }

    fn of<'n>(programs: impl Iterator<Item = (&'n str, u64)>, exceptions: &[[&str; 2]]) -> Self {
        let mut all: Vec<(String, u64)> = programs.map(|(name, count)| (name.to_owned(), count)).collect();
        // Where a twin ran, nothing is missing: at most the lesser number is lost, and it counts as the first one's.
        for &[first, again] in TWINS.iter().chain(exceptions) {
            let of = |name| all.iter().find(|(of, _)| of == name).map_or(0, |(_, count)| *count);
            let both = of(first).min(of(again));
            for (name, count) in &mut all {
                match name.as_str() {
                    name if name == first => *count = both,
                    name if name == again => *count = 0,
                    _ => {}
                }
            }
        }
        all.retain(|(_, count)| *count > 0);
        all.sort_unstable();
        Self(all)
    }

    /// Runs of all programs.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// A sentence for people with each program and its count; `None` if nothing was skipped.
    pub fn sentence(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let mut text =
            "the kernel skipped some of ngmi's eBPF programs, which were already running on that CPU (".to_owned();
        for (index, (name, count)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{name} {count}"); // a String takes everything
        }
        text.push_str("): their events are lost; docs/waits.md lists the kernels that do this");
        Some(text)
    }
}

/// `recursion_misses` of the program's descriptor (kernel/bpf/syscall.c, `bpf_prog_show_fdinfo`). `None`: it is not loaded, or the kernel does not show it.
fn misses(program: &Program) -> Option<u64> {
    procfs::fdinfo(program.fd().ok()?, "recursion_misses:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_programs_are_named_and_twins_merged() {
        let missed = Missed::of(
            [
                ("task_newtask", 2),
                ("sched_switch", 0),
                ("fault_entry", 7),
                ("fault_entry_again", 3),
                ("fault_exit", 4),
                ("block_rq_issue", u64::MAX),
            ]
            .into_iter(),
            &[],
        );
        assert_eq!(missed.count(), u64::MAX);
        let text = missed.sentence().unwrap();
        let names = format!("(block_rq_issue {}, fault_entry 3, task_newtask 2)", u64::MAX);
        assert!(text.contains(&names), "{text}");
        assert_eq!(Missed::of([("fault_entry", 7)].into_iter(), &[]).sentence(), None);
    }

    #[test]
    fn the_twins_of_an_exception_are_merged() {
        let of = |counts: [u64; 2]| {
            let names = ["memory_abort", "memory_abort_again"];
            Missed::of(names.into_iter().zip(counts), &[names])
        };
        assert_eq!(of([0, 4]).sentence(), None);
        assert_eq!(of([5, 0]).count(), 0);
        assert_eq!(of([5, 4]).count(), 4);
        assert!(of([5, 4]).sentence().unwrap().contains("(memory_abort 4)"));
    }
}
