//! What a recording has to satisfy before anything is loaded: valid numbers, and processes that may be recorded.

use anyhow::{Context as _, bail};
use profiler_common::stack::STACK_CLASSES;

use super::file_capabilities;
use super::terms::{Scope, Terms};
use crate::proc::selection::Selection;
use crate::proc::{machine, procfs};
use base::plural::counted;

/// The highest sampling rate, per second and CPU.
pub const HZ_LIMIT: u32 = 100_000;
/// Processes named with `-p`, at most.
const PIDS_LIMIT: usize = 4096;
/// Conditions of a selection, at most.
const SELECTION_LIMIT: usize = 4096;
/// Thread groups that are never recorded, at most, in addition to our own.
pub const EXCLUDE_LIMIT: usize = 2;

/// Checks the terms and the processes, corrects what can be corrected, and returns warnings.
pub fn check(terms: &mut Terms, pids: &mut [u32]) -> anyhow::Result<Vec<String>> {
    if !(1..=HZ_LIMIT).contains(&terms.sample_hz) {
        bail!(
            "invalid rate of {} samples per second: use -F with 1 to {HZ_LIMIT}",
            terms.sample_hz
        );
    }
    let largest = STACK_CLASSES.iter().max().copied().unwrap_or(0);
    if terms.stack_copy as usize > largest {
        bail!(
            "cannot copy {} bytes of stack: the limit is {largest}",
            terms.stack_copy
        );
    }
    if terms.exclude_pids.len() > EXCLUDE_LIMIT {
        bail!("too many processes to leave out: the limit is {EXCLUDE_LIMIT}");
    }
    let mut warnings = file_capabilities::limit(terms)?;
    check_pids(terms, pids)?;
    if let Some(highest) = machine::highest_rate().filter(|&highest| highest > 0 && highest < terms.sample_hz) {
        warnings.push(format!(
            "the kernel allows {highest} samples per second, not {}: run `sudo sysctl kernel.perf_event_max_sample_rate={}` to raise the limit",
            terms.sample_hz, terms.sample_hz
        ));
        terms.sample_hz = highest;
    }
    Ok(warnings)
}

fn check_pids(terms: &mut Terms, pids: &mut [u32]) -> anyhow::Result<()> {
    if !terms.scope.is_of_machine() && !(1..=PIDS_LIMIT).contains(&pids.len()) {
        bail!(
            "cannot record {}: name 1 to {PIDS_LIMIT} with -p",
            counted(pids.len() as u64, "process")
        );
    }
    for pid in pids {
        *pid = recordable(*pid, terms)?;
    }
    if let Scope::Selected(selection) = &mut terms.scope {
        check_selection(selection)?;
    }
    Ok(())
}

/// Fails if a selection has too many values, or a process that does not exist.
fn check_selection(selection: &mut Selection) -> anyhow::Result<()> {
    let Selection { chosen, excluded, .. } = selection;
    let count = chosen.len() + excluded.len();
    if count == 0 || count > SELECTION_LIMIT {
        bail!(
            "cannot select threads by {}: name 1 to {SELECTION_LIMIT}",
            counted(count as u64, "condition")
        );
    }
    for pid in chosen.pids.iter_mut().chain(&mut excluded.pids) {
        *pid = existing(*pid)?.pid;
    }
    Ok(())
}

fn existing(pid: u32) -> anyhow::Result<procfs::Identity> {
    procfs::identity(pid).with_context(|| format!("there is no process {pid}; `ps -e` lists the running ones"))
}

/// The thread group of a process or thread, if it exists and may be recorded.
fn recordable(pid: u32, terms: &Terms) -> anyhow::Result<u32> {
    let process = existing(pid)?;
    file_capabilities::judge(&process, terms)?;
    Ok(process.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::disks::BlockMode;
    use crate::hooks::faults::Faults;
    use crate::hooks::waits::OffCpu;

    fn terms() -> Terms {
        Terms {
            scope: Scope::Command,
            user: None,
            sample_hz: 1000,
            stack_copy: 65536,
            check_walks: false,
            self_account: false,
            max_overhead: None,
            faults: Faults::default(),
            off_cpu: OffCpu::default(),
            block: BlockMode::default(),
            exact_touch: false,
            exclude_pids: Vec::new(),
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let own = std::process::id();
        assert!(check(&mut terms(), &mut [own]).is_ok());
        let bad = [
            Terms {
                sample_hz: 0,
                ..terms()
            },
            Terms {
                sample_hz: 10_000_000,
                ..terms()
            },
            Terms {
                stack_copy: 65537,
                ..terms()
            },
            Terms {
                exclude_pids: vec![1, 2, 3],
                ..terms()
            },
        ];
        for mut bad in bad {
            assert!(check(&mut bad, &mut [own]).is_err(), "{bad:?}");
        }
        for bad in [&mut [][..], &mut [0], &mut [u32::MAX], &mut vec![own; PIDS_LIMIT + 1]] {
            assert!(check(&mut terms(), bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_rate_over_the_kernel_limit_is_lowered_with_a_warning() {
        let Some(highest) = machine::highest_rate().filter(|&highest| highest < HZ_LIMIT) else {
            println!("skipped: this kernel allows every rate");
            return;
        };
        let mut terms = Terms {
            sample_hz: HZ_LIMIT,
            ..terms()
        };
        assert_eq!(check(&mut terms, &mut [std::process::id()]).unwrap().len(), 1);
        assert_eq!(terms.sample_hz, highest);
    }

    #[test]
    fn a_thread_id_selects_its_process() {
        let pid = std::process::id();
        std::thread::spawn(move || {
            let mut pids = [nix::unistd::gettid().as_raw().unsigned_abs()];
            check(&mut terms(), &mut pids).unwrap();
            assert_eq!(pids, [pid]);
        })
        .join()
        .unwrap();
    }
}
