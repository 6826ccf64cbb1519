//! What a request has to satisfy before anything is loaded: sane numbers, and processes that may be recorded.

use anyhow::{Context as _, bail};
use profiler_common::stack::STACK_CLASSES;

use super::wire::{Scope, Start};
use super::{borrowed, machine, procfs};

/// Samples a second and CPU, at most.
pub const HZ_LIMIT: u32 = 100_000;
/// Processes named by `-p`, at most.
const PIDS_LIMIT: usize = 4096;
/// Thread groups that are never recorded, at most, beside our own.
pub const EXCLUDE_LIMIT: usize = 2;

/// Checks a request, corrects what can be corrected, and returns what to warn of.
pub fn check(start: &mut Start) -> anyhow::Result<Vec<String>> {
    if !(1..=HZ_LIMIT).contains(&start.sample_hz) {
        bail!(
            "a rate of {} samples a second: give one from 1 to {HZ_LIMIT} with -F",
            start.sample_hz
        );
    }
    let largest = STACK_CLASSES.iter().max().copied().unwrap_or(0);
    if start.stack_copy as usize > largest {
        bail!("{} bytes of stack: at most {largest} can be copied", start.stack_copy);
    }
    if start.exclude_pids.len() > EXCLUDE_LIMIT {
        bail!("too many processes to leave out: at most {EXCLUDE_LIMIT}");
    }
    if !machine::in_first_pid_namespace() {
        bail!(
            "ngmi runs in a container that numbers processes for itself: run it outside, or with `docker run --pid=host --privileged`"
        );
    }
    let mut warnings = borrowed::limit(start)?;
    check_scope(&mut start.scope)?;
    if let Some(highest) = machine::highest_rate().filter(|&highest| highest > 0 && highest < start.sample_hz) {
        warnings.push(format!(
            "the kernel allows {highest} samples a second, not {}: `sudo sysctl kernel.perf_event_max_sample_rate={}` raises it",
            start.sample_hz, start.sample_hz
        ));
        start.sample_hz = highest;
    }
    Ok(warnings)
}

fn check_scope(scope: &mut Scope) -> anyhow::Result<()> {
    match scope {
        Scope::Command { pid } => *pid = recordable(*pid)?,
        Scope::Pids(pids) => {
            if pids.is_empty() || pids.len() > PIDS_LIMIT {
                bail!("{} processes: name 1 to {PIDS_LIMIT} with -p", pids.len());
            }
            for pid in pids {
                *pid = recordable(*pid)?;
            }
        }
        Scope::System => {}
    }
    Ok(())
}

/// The thread group of a process or thread, if it is there and may be recorded.
fn recordable(pid: u32) -> anyhow::Result<u32> {
    let process =
        procfs::identity(pid).with_context(|| format!("there is no process {pid}; `ps -e` lists those that run"));
    let process = process?;
    borrowed::judge(&process)?;
    Ok(process.pid)
}

#[cfg(test)]
mod tests {
    use super::super::disks::BlockMode;
    use super::super::faults::Faults;
    use super::super::waits::OffCpu;
    use super::*;

    fn start() -> Start {
        Start {
            scope: Scope::Command {
                pid: std::process::id(),
            },
            sample_hz: 1000,
            stack_copy: 65536,
            check_walks: false,
            self_account: false,
            faults: Faults::default(),
            off_cpu: OffCpu::default(),
            block: BlockMode::default(),
            exact_touch: false,
            exclude_pids: Vec::new(),
            command: Vec::new(),
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(check(&mut start()).is_ok());
        let bad = [
            Start {
                sample_hz: 0,
                ..start()
            },
            Start {
                sample_hz: 10_000_000,
                ..start()
            },
            Start {
                stack_copy: 65537,
                ..start()
            },
            Start {
                exclude_pids: vec![1, 2, 3],
                ..start()
            },
            Start {
                scope: Scope::Pids(Vec::new()),
                ..start()
            },
            Start {
                scope: Scope::Pids(vec![0]),
                ..start()
            },
            Start {
                scope: Scope::Pids(vec![u32::MAX]),
                ..start()
            },
        ];
        for mut bad in bad {
            assert!(check(&mut bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_rate_over_the_kernels_is_lowered_and_told() {
        let Some(highest) = machine::highest_rate().filter(|&highest| highest < HZ_LIMIT) else {
            println!("skipped: this kernel allows every rate");
            return;
        };
        let mut start = Start {
            sample_hz: HZ_LIMIT,
            ..start()
        };
        assert_eq!(check(&mut start).unwrap().len(), 1);
        assert_eq!(start.sample_hz, highest);
    }

    #[test]
    fn a_thread_stands_for_its_process() {
        let pid = std::process::id();
        std::thread::spawn(move || {
            let mut start = Start {
                scope: Scope::Pids(vec![nix::unistd::gettid().as_raw().unsigned_abs()]),
                ..start()
            };
            check(&mut start).unwrap();
            assert_eq!(start.scope, Scope::Pids(vec![pid]));
        })
        .join()
        .unwrap();
    }
}
