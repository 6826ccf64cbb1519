//! CPUs that go online or offline while a recording runs.
//!
//! The kernel removes a CPU's perf events when it goes offline, and does not restore them
//! (`perf_event_exit_cpu_context` in kernel/events/core.c): from then on their time does not advance. The eBPF
//! programs on tracepoints are on every CPU anyway. So the list of CPUs is checked often, and at longer intervals
//! whether the events of the listed CPUs still run: a CPU that goes offline and back online between two checks, as
//! all but the first do when the machine sleeps, does not show in the list.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::attach::{self, Hooks};
use super::perf;
use crate::proc::machine;

const LIST: &str = "/sys/devices/system/cpu/online";
/// Interval of reading the list, which takes some microseconds.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of checking the events: reading an event's time interrupts its CPU.
const ASK: Duration = Duration::from_secs(1);

/// The CPUs as they were last seen.
#[derive(Debug)]
pub struct Cpus {
    list: Option<File>,
    text: Vec<u8>,
    hz: u32,
    looked: Instant,
    asked: Instant,
    /// How long each CPU's event has run, in ns.
    ran: FxHashMap<u32, u64>,
    /// Some listed CPUs could not be sampled yet.
    waiting: bool,
}

impl Cpus {
    /// Reads the list. Call it before the events are opened, to notice changes from then on.
    pub fn new(hz: u32) -> Self {
        let now = Instant::now();
        let list = File::open(LIST).ok();
        Self {
            text: list.as_ref().map(text).unwrap_or_default(),
            list,
            hz,
            looked: now,
            asked: now,
            ran: FxHashMap::default(),
            waiting: false,
        }
    }

    /// The sampling rate.
    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// Starts sampling CPUs that came online. Call it after the rings were drained: those of offline CPUs are closed.
    pub fn follow(&mut self, hooks: &mut Hooks) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let text = self.list.as_ref().map(text).unwrap_or_default();
        let has_changed = text != self.text;
        self.text = text;
        if self.asked.elapsed() >= ASK {
            self.asked = Instant::now();
            self.let_go_of_stopped(hooks);
        }
        if (has_changed || self.waiting)
            && let Ok(online) = machine::cpus()
        {
            self.waiting = !attend(hooks, &online, self.hz);
            self.ran.retain(|cpu, _| online.contains(cpu));
        }
    }

    /// Closes the events whose time does not advance, to have them opened again.
    fn let_go_of_stopped(&mut self, hooks: &mut Hooks) {
        let mut stopped = Vec::new();
        let events = if hooks.has_mappings {
            &hooks.mappings
        } else if hooks.coverage.is_limited() {
            return; // their time also stands still while no thread of the cgroups runs
        } else {
            &hooks.sampling
        };
        for (cpu, ring) in events {
            let Ok(ran) = perf::time_enabled(ring.as_fd()) else {
                continue;
            };
            if self.ran.insert(*cpu, ran) == Some(ran) {
                stopped.push(*cpu);
            }
        }
        self.waiting |= !stopped.is_empty();
        for cpu in stopped {
            self.ran.remove(&cpu);
            attach::release(hooks, cpu);
        }
    }
}

/// Opens events for the CPUs that are online and closes the others. False: a CPU takes no events yet.
fn attend(hooks: &mut Hooks, online: &[u32], hz: u32) -> bool {
    let watched: Vec<u32> = hooks.sampling.iter().map(|(cpu, _)| *cpu).collect();
    for &cpu in watched.iter().filter(|cpu| !online.contains(cpu)) {
        attach::release(hooks, cpu);
    }
    let new = online.iter().filter(|cpu| !watched.contains(cpu));
    let mut all = true;
    for &cpu in new {
        all &= attach::attend(hooks, cpu, hz).is_ok();
    }
    all
}

fn text(list: &File) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let len = list.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::perf::{Clock, Ring, Target};

    #[test]
    fn a_disabled_event_stops_its_clock() {
        let Ok(event) = perf::open_sampling(Clock::CpuClock, 0, 10, Target::All) else {
            println!("skipped: needs root");
            return;
        };
        let ring = Ring::new(event, 4096).unwrap();
        perf::enable(ring.as_fd()).unwrap();
        let time = || perf::time_enabled(ring.as_fd()).unwrap();
        let pause = || std::thread::sleep(Duration::from_millis(5));
        let first = time();
        pause();
        assert!(time() > first);
        perf::disable(ring.as_fd()).unwrap();
        let off = time();
        pause();
        assert_eq!(time(), off);
    }

    #[test]
    fn the_list_can_be_read_again() {
        let list = File::open(LIST).unwrap();
        let first = text(&list);
        assert!(first.starts_with(b"0"));
        assert_eq!(text(&list), first);
    }
}
