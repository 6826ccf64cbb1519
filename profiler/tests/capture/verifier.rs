//! The kernel verifier's results for ngmi's programs.

use profiler::capture::hooks::ahead;
use profiler::capture::hooks::attach::{self, Nouns};
use profiler::capture::hooks::btf::{self, Btf};
use profiler::capture::hooks::faults::{self, FaultMode, FaultSource, Faults};
use profiler::capture::hooks::load::{self, Sizes};
use profiler::capture::hooks::selection::Tables;
use profiler::capture::hooks::waits::{self, OffCpu};
use profiler::capture::proc::cgroups;
use profiler::capture::proc::machine;
use profiler_common::config::Config;
use profiler_common::selection::{BY_CGROUP, BY_EXE, BY_NAME, BY_PID, BY_USER, CHOSEN};

use crate::harness::skipped;

/// Limit for a program, of the million instructions that the verifier follows: other kernels follow more paths.
const LIMIT: u32 = 400_000;

#[test]
fn every_program_is_far_from_the_verifiers_limit() {
    if skipped() {
        return;
    }
    let types = Btf::of_kernel().unwrap();
    let cpus = machine::cpus().unwrap();
    let mut beyond = Vec::new();
    let selection = everything();
    let combinations = [
        (0, &Tables::default(), None),
        (1, &Tables::default(), None),
        (1, &selection, None),
        // What is used where the kernel refuses tier 1.
        (1, &selection, Some(FaultSource::Tracepoint)),
    ];
    for (walk, selection, source) in combinations {
        if walk == 1 && load::walker_refused(&types).is_some() {
            continue;
        }
        let mut config = Config::NOTHING;
        btf::locate(&types, &mut config);
        (config.walk, config.stack_copy) = (walk, 65536);
        waits::configure(&mut config, OffCpu::default(), &types);
        faults::configure(&mut config, FaultMode::All, &types);
        let mut sizes = Sizes::for_machine(1, 1, 0);
        selection.configure(&mut config, &mut sizes, &types).unwrap();
        let loaded = load::load(ahead::Loader::begin(), &config, sizes, &types).unwrap();
        let nouns = Nouns {
            asleep: true,
            faults: Faults {
                source,
                ..Faults::default()
            },
            ..Nouns::default()
        };
        let mut hooks = attach::attach(loaded, &cpus, nouns, selection).unwrap();
        attach::sample(&mut hooks, &cpus, 1);
        attach::require(&hooks).unwrap();
        // Verifier errors (EACCES, EINVAL, E2BIG) are ngmi's bugs; EPERM is the kernel's policy.
        let wrong = ["os error 13", "os error 22", "os error 7)"];
        for status in &hooks.status {
            let refused = status.refused.as_deref().unwrap_or_default();
            assert!(!wrong.iter().any(|error| refused.contains(error)), "{status:?}");
        }
        for (name, program) in hooks.ebpf.programs() {
            // A program for another tier, or refused by this kernel, is not loaded.
            let Ok(info) = program.info() else { continue };
            // The kernel reports it since 5.16.
            let Some(verified) = info.verified_instruction_count() else {
                continue;
            };
            println!(
                "walk {walk} selection {} source {source:?} {name}: {verified} verified, {} bytes",
                selection.is_used(),
                info.size_translated().unwrap_or(0)
            );
            if verified >= LIMIT {
                beyond.push((name.to_owned(), verified));
            }
        }
    }
    assert!(beyond.is_empty(), "too many instructions: {beyond:?}");
}

/// A selection by each kind of condition.
fn everything() -> Tables {
    let all = BY_CGROUP | BY_NAME | BY_EXE | BY_USER | BY_PID;
    let hierarchies = cgroups::hierarchies().unwrap();
    let root = hierarchies
        .iter()
        .map(|hierarchy| cgroups::named("/", std::slice::from_ref(hierarchy)).unwrap());
    Tables {
        required: all,
        excluding: all,
        hierarchy: hierarchies.first().cloned(),
        cgroups: root.take(1).map(|cgroup| (cgroup, CHOSEN)).collect(),
        ..Tables::default()
    }
}
