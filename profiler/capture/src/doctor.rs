//! Tries everything that a recording needs, step by step, and reports what to do about each refusal.

use profiler_common::config::Config;

use crate::checks;
use crate::hooks::ahead;
use crate::hooks::arch;
use crate::hooks::attach::{self, Nouns};
use crate::hooks::btf::{self, Btf};
use crate::hooks::exact_touch;
use crate::hooks::faults::{self, FaultMode};
use crate::hooks::hook::row;
use crate::hooks::load::{self, Sizes};
use crate::hooks::pid_namespace;
use crate::hooks::selection::Tables;
use crate::hooks::waits::{self, OffCpu};
use crate::proc::confinement::Confinement;
use crate::proc::{capabilities, machine};
use base::event::HookStatus;

/// The oldest supported kernel: it introduced `bpf_task_pt_regs`.
const OLDEST_KERNEL: (u32, u32) = (5, 15);
/// The default rate of `ngmi record`.
const USUAL_RATE: u32 = 1000;

/// What this machine supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doctor {
    /// One row for each check; `noun` is `machine` for checks of anything but a hook.
    pub rows: Vec<HookStatus>,
    /// Why nothing can be recorded; `None`: `ngmi record` works.
    pub refused: Option<String>,
}

/// Loads, attaches and detaches each hook. Also works without privilege, and then reports what is missing.
pub fn doctor() -> Doctor {
    let mut rows = vec![kernel_version()];
    rows.extend(privilege());
    rows.extend([rate(), paranoia()]);
    let tried = try_hooks(&mut rows);
    let (_, symbols) = checks::kernel_symbols();
    rows.extend([symbols, checks::mapping_query()]);
    rows.extend(checks::cgroup_usage());
    rows.extend(exact_touch::rows());
    Doctor {
        rows,
        refused: tried.err().map(|error| format!("{error:#}")),
    }
}

fn try_hooks(rows: &mut Vec<HookStatus>) -> anyhow::Result<()> {
    let mut config = Config::NOTHING;
    let types = Btf::of_kernel();
    let reason = types.as_ref().err().map(ToString::to_string);
    rows.push(machine(
        btf::VMLINUX,
        reason,
        "use a kernel built with CONFIG_DEBUG_INFO_BTF",
    ));
    let types = types?;
    rows.extend(btf::locate(&types, &mut config).into_iter().map(checks::missing_field));
    let namespace = pid_namespace(&mut config);
    let contained = namespace.refused.clone();
    rows.push(namespace);
    let refused = load::walker_refused(&types);
    config.walk = u32::from(refused.is_none());
    faults::configure(&mut config, FaultMode::default(), &types);
    waits::configure(&mut config, OffCpu::default(), &types);
    rows.push(checks::walker(refused));
    let cpus = machine::cpus()?;
    let loaded = load::load(ahead::Loader::begin(), &config, Sizes::for_machine(1, 1, 0), &types);
    let reason = loaded.as_ref().err().map(|error| format!("{error:#}"));
    rows.push(machine("eBPF maps", reason, load::privilege_remedy()));
    let mut hooks = attach::attach(
        loaded.map_err(|error| error.context(load::privilege_remedy()))?,
        &cpus,
        Nouns {
            asleep: true,
            ..Nouns::default()
        },
        &Tables::default(),
    )?;
    attach::sample(
        &mut hooks,
        &cpus,
        USUAL_RATE.min(machine::highest_rate().unwrap_or(USUAL_RATE)).max(1),
    );
    rows.append(&mut hooks.status.clone());
    attach::require(&hooks)?;
    contained.map_or(Ok(()), |reason| Err(anyhow::Error::msg(reason)))
}

fn machine(name: &str, refused: Option<String>, remedy: &str) -> HookStatus {
    row("machine", name, refused, remedy)
}

fn kernel_version() -> HookStatus {
    let (release, architecture) = machine::kernel();
    let (major, minor) = OLDEST_KERNEL;
    let refused = match machine::version(&release) {
        Some(version) if version < OLDEST_KERNEL => Some(format!("older than {major}.{minor}")),
        _ if arch::OBJECT.is_none() => Some(format!("no eBPF object for {architecture} yet")),
        _ => None,
    };
    let remedy = format!("use an x86-64 or arm64 machine with kernel {major}.{minor} or newer");
    machine(&format!("kernel {release} {architecture}"), refused, &remedy)
}

/// Checks for root, or for the file capabilities that ngmi gives an ordinary user.
fn privilege() -> Vec<HookStatus> {
    let user = nix::unistd::geteuid();
    if user.is_root() {
        let confinement = Confinement::of_root();
        let refused = confinement.as_ref().and_then(Confinement::reason);
        let remedy = confinement.map_or("", |confinement| confinement.remedy());
        return vec![machine("privilege: root", refused, remedy)];
    }
    let granted = capabilities::granted();
    let remedy = format!(
        "`sudo setcap {} $(realpath ngmi)`, or record with sudo (docs/privilege.md)",
        capabilities::RECIPE
    );
    if !granted.records() {
        let remedy = "`ngmi record` asks for it through sudo; `sudo ngmi doctor` shows what works as root; file capabilities work without sudo \
                      (docs/privilege.md)";
        let missing = if granted.names().is_empty() {
            String::new()
        } else {
            format!(", with {} only", granted.names())
        };
        return vec![machine(
            "privilege",
            Some(format!("this is user {user}, not root{missing}")),
            remedy,
        )];
    }
    let one = |one: capabilities::Capability| {
        let refused =
            (!granted.has(one)).then(|| format!("ngmi's file does not have it; missing without it: {}", one.without));
        machine(one.name, refused, &remedy)
    };
    let limits = machine(
        "other users' processes, -a, disks",
        Some(
            "with file capabilities, only your own processes that can't gain rights (no_new_privs) can be recorded"
                .to_owned(),
        ),
        "record with sudo",
    );
    capabilities::NEEDED.into_iter().map(one).chain([limits]).collect()
}

/// In a container, whether its process numbers are known.
fn pid_namespace(config: &mut Config) -> HookStatus {
    let refused = pid_namespace::configure(config).err();
    let name = match config.pid_namespace_level {
        0 => "pid namespace",
        _ => "pid namespace: this container's (only its processes)",
    };
    machine(
        name,
        refused.map(|error| format!("{error:#}")),
        load::privilege_remedy(),
    )
}

fn rate() -> HookStatus {
    let highest = machine::highest_rate();
    let refused = highest
        .filter(|&highest| highest < USUAL_RATE)
        .map(|_| format!("below the default rate of {USUAL_RATE}"));
    let name = highest.map_or("unknown".to_owned(), |highest| highest.to_string());
    let remedy = format!("`sudo sysctl kernel.perf_event_max_sample_rate={USUAL_RATE}`");
    machine(&format!("at most {name} samples per second"), refused, &remedy)
}

/// Reports a setting that the kernel checks only for unprivileged users.
fn paranoia() -> HookStatus {
    let level = machine::setting("/proc/sys/kernel/perf_event_paranoid");
    let name = level.map_or("unknown".to_owned(), |level| level.to_string());
    machine(
        &format!("kernel.perf_event_paranoid {name} (irrelevant for root)"),
        None,
        "",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_remedy() {
        let doctor = doctor();
        for row in &doctor.rows {
            println!("{row:?}");
            assert_eq!(
                row.refused.is_some(),
                row.remedy.as_ref().is_some_and(|remedy| !remedy.is_empty()),
                "{row:?}"
            );
        }
        if nix::unistd::geteuid().is_root() {
            assert_eq!(doctor.refused, None);
        } else {
            assert!(doctor.refused.is_some_and(|why| why.contains("sudo")));
        }
    }
}
