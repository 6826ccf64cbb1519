//! The machine's properties: its kernel, CPUs, memory and settings.

use std::io;

use super::page_cache::page_size;

/// The link text of the first pid namespace (`PROC_PID_INIT_INO` of `include/linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether our pids are those that the kernel side sees.
pub fn in_first_pid_namespace() -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    namespace.map_or(true, |name| name.as_os_str() == FIRST_PID_NAMESPACE)
}

/// CPUs that are online.
pub fn cpus() -> io::Result<Vec<u32>> {
    aya::util::online_cpus().map_err(|(path, error)| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// The number of CPUs that may ever be online, at least 1: all CPU numbers are below it.
pub fn possible_cpus() -> u32 {
    let cpus = aya::util::nr_cpus();
    cpus.map_or(1, |count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// Memory of the machine, in bytes.
pub fn memory() -> u64 {
    let info = nix::sys::sysinfo::sysinfo();
    info.map_or(0, |info| info.ram_total())
}

/// End of the machine's memory as a physical address, in GiB; 0: unknown.
pub fn memory_end() -> u32 {
    memory_end_of(
        &std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default(),
        page_size(),
    )
}

/// A zone has its number of pages, holes included, before its first one (mm/vmstat.c: `zoneinfo_show_print`).
fn memory_end_of(zones: &str, page: u64) -> u32 {
    let (mut spanned, mut end) = (0, 0_u64);
    for line in zones.lines() {
        let mut words = line.split_ascii_whitespace();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match words.next() {
            Some("spanned") => spanned = number(words.next()),
            Some("start_pfn:") => end = end.max(number(words.next()).saturating_add(spanned)),
            _ => {}
        }
    }
    u32::try_from(end.saturating_mul(page).div_ceil(1 << 30)).unwrap_or(u32::MAX)
}

/// Reads a number from a file of /proc/sys; `None`: it is absent or not a number.
pub fn setting(path: &str) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The highest sampling rate that the kernel allows, per second.
pub fn highest_rate() -> Option<u32> {
    setting("/proc/sys/kernel/perf_event_max_sample_rate").and_then(|rate| u32::try_from(rate).ok())
}

/// The release and the architecture, as `uname` prints them.
pub fn kernel() -> (String, String) {
    let name = nix::sys::utsname::uname();
    let text = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
    name.map_or_else(
        |_| <(String, String)>::default(),
        |name| (text(name.release()), text(name.machine())),
    )
}

/// The running kernel's version: for `6.18.44-fc-v669`, 6.18.
pub fn kernel_version() -> Option<(u32, u32)> {
    version(&kernel().0)
}

/// The first two numbers of a release.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The random id of this boot; empty: unknown.
pub fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_with_the_last_zone() {
        let zones = "Node 0, zone    DMA32\n        spanned  1044480\n  start_pfn:           4096\nNode 0, zone   Normal\n        \
                     spanned  5505025\n  start_pfn:           1048576\nNode 0, zone  Movable\n        spanned  0\n  start_pfn: 0\n";
        let ends = [4096, 16384, 65536].map(|page| memory_end_of(zones, page));
        assert_eq!(ends, [26, 101, 401]);
        assert_eq!(memory_end_of("spanned x\nstart_pfn:", 4096), 0);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert!(version("5.4.0-26").unwrap() < (5, 15) && version("5.15.1").unwrap() >= (5, 15));
        assert_eq!(version("odd"), None);
    }
}
