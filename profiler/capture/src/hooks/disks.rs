//! Attaches the hooks of block requests, and reads the names and statistics of the devices.

use std::fs;

use aya::{Btf as Types, Ebpf};
use profiler_common::block::operation;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::btf::Btf;
use super::hook;
use base::event::{Device, DeviceName, HookStatus};

/// Programs on tracepoints of the block layer; each works without the others.
const TRACEPOINTS: [&str; 7] = [
    "block_bio_queue",
    "block_bio_complete",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_merge",
    "block_rq_requeue",
    "block_rq_complete",
];
/// Where the kernel lists its block devices.
const DEVICES: &str = "/sys/block";
/// Devices that are described, at most.
const DEVICES_LIMIT: usize = 4096;

/// Which block requests are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BlockMode {
    /// None.
    Off,
    /// Those of all devices, whichever process submitted them.
    #[default]
    All,
}

/// The programs that this mode needs.
pub fn programs(asked: BlockMode) -> &'static [&'static str] {
    match asked {
        BlockMode::Off => &[],
        BlockMode::All => &TRACEPOINTS,
    }
}

/// Attaches the hooks.
pub fn watch(ebpf: &mut Ebpf, types: &Types, asked: BlockMode, status: &mut Vec<HookStatus>) {
    let remedy = "no action needed: the data of this hook is left out (docs/io.md)";
    status.extend(hook::attach_tracepoints(
        ebpf,
        types,
        ("block", programs(asked)),
        remedy,
    ));
}

/// The bits of the running kernel's operation flags (`enum req_flag_bits`), and the log's flag for each.
#[derive(Debug, Clone, Default)]
pub struct Flags(Vec<(u32, u32)>);

impl Flags {
    /// Reads them from the running kernel, if requests are recorded.
    pub fn of_kernel(types: &Btf, asked: BlockMode) -> Self {
        if asked == BlockMode::Off {
            return Self::default();
        }
        let names = [
            ("__REQ_SYNC", operation::SYNC),
            ("__REQ_META", operation::META),
            ("__REQ_RAHEAD", operation::READ_AHEAD),
            ("__REQ_FUA", operation::FUA),
            ("__REQ_PREFLUSH", operation::PREFLUSH),
        ];
        let known = names
            .into_iter()
            .filter_map(|(name, ours)| Some((1_u32.checked_shl(types.enumerator(name)?)?, ours)));
        Self(known.collect())
    }

    /// Converts an operation to the log's flags.
    pub fn of_log(&self, kernels: u32) -> u32 {
        let flags = self.0.iter().filter(|(theirs, _)| kernels & theirs != 0);
        flags.fold(kernels & operation::MASK, |all, (_, ours)| all | ours)
    }
}

/// The devices of the machine, and those that were active.
#[derive(Debug, Default)]
pub struct Disks {
    before: Vec<DeviceName>,
    seen: FxHashSet<Device>,
}

impl Disks {
    /// Reads what the devices have counted so far, if requests are recorded.
    pub fn now(asked: BlockMode) -> Self {
        Self {
            before: match asked {
                BlockMode::Off => Vec::new(),
                BlockMode::All => devices(),
            },
            seen: FxHashSet::default(),
        }
    }

    /// Notes that a device was active.
    pub fn saw(&mut self, device: Device) {
        if self.seen.len() < DEVICES_LIMIT {
            self.seen.insert(device);
        }
    }

    /// The names and statistics of the active devices.
    pub fn names(&self) -> Vec<DeviceName> {
        if self.seen.is_empty() {
            return Vec::new();
        }
        let after = devices();
        let mut seen: Vec<Device> = self.seen.iter().copied().collect();
        seen.sort_unstable();
        let named = seen.into_iter().filter_map(|device| {
            let of = |list: &[DeviceName]| list.iter().find(|one| one.device == device).cloned();
            let before = of(&self.before);
            let now = of(&after).or_else(|| before.clone())?;
            Some(DeviceName {
                device,
                name: now.name,
                after: now.before,
                // A device that was added later started at zero.
                before: before.map(|one| one.before).unwrap_or_default(),
            })
        });
        named.collect()
    }
}

/// Every device with its statistics so far, in [`DeviceName::before`].
fn devices() -> Vec<DeviceName> {
    let Ok(folders) = fs::read_dir(DEVICES) else {
        return Vec::new();
    };
    let of = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        Some(DeviceName {
            device: device(read("dev")?.trim())?,
            name: name.replace('!', "/"), // the kernel replaces a slash by `!` there
            before: numbers(&read("stat").unwrap_or_default()),
            after: Vec::new(),
        })
    };
    folders
        .filter_map(|entry| of(entry.ok()?))
        .take(DEVICES_LIMIT)
        .collect()
}

/// `MAJOR:MINOR`
fn device(text: &str) -> Option<Device> {
    let (major, minor) = text.split_once(':')?;
    Some(Device {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_mapped_to_log_bits() {
        let flags = Flags(vec![(1 << 11, operation::SYNC), (1 << 19, operation::READ_AHEAD)]);
        assert_eq!(flags.of_log(0), 0);
        assert_eq!(flags.of_log(1 | 1 << 11), operation::WRITE | operation::SYNC);
        assert_eq!(flags.of_log(1 << 19 | 1 << 20), operation::READ_AHEAD);
        assert_eq!(flags.of_log(3), operation::DISCARD);
    }

    #[test]
    fn the_running_kernel_has_the_flags_and_devices_have_statistics() {
        let Ok(types) = Btf::of_kernel() else {
            println!("skipped: no {}", crate::hooks::btf::VMLINUX);
            return;
        };
        assert_eq!(Flags::of_kernel(&types, BlockMode::All).0.len(), 5);
        for device in devices() {
            assert!(device.before.len() >= 11, "{device:?}");
        }
    }

    #[test]
    fn device_numbers() {
        assert_eq!(device("259:3"), Some(Device { major: 259, minor: 3 }));
        assert_eq!((device("259"), device("a:b")), (None, None));
        assert_eq!(numbers("  1 2\t30\n"), [1, 2, 30]);
    }
}
