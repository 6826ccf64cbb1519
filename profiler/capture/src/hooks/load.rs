//! Loads the eBPF object into the kernel: programs, maps, configuration.

use std::borrow::Cow;
use std::thread;

use anyhow::Context as _;
use aya::Ebpf;
use profiler_common::config::Config;
use profiler_common::last_walk::LAST_WALKS;
use profiler_common::scope::ThreadState;
use profiler_common::space::MAX_PLACES;
use profiler_common::{ABI_SYMBOL, ABI_VERSION};
use zerocopy::IntoBytes;

use super::ahead::Loader;
use super::arch;
use super::btf::{Btf, WALKER_NEEDS};
use super::preempt;
use crate::proc::confinement::Confinement;
use crate::proc::{capabilities, machine};

/// Environment variable with the path of an object to load instead. In debug builds only: choosing the object of a
/// privileged program means having its privileges.
pub const OBJECT_VARIABLE: &str = "NGMI_EBPF_OBJECT";

/// Environment variable that turns off the walker, as if the kernel had no `bpf_loop`: stacks are then copied. In
/// debug builds only, for tests on newer kernels.
pub const NO_WALK_VARIABLE: &str = "NGMI_NO_WALK";

/// Environment variable with the size of the sample ring in bytes (a power of two of at least a page). In debug
/// builds only, for tests of a full ring.
pub const RING_VARIABLE: &str = "NGMI_RING_BYTES";

/// Bytes of the sample ring per CPU: samples of 64 KiB stacks at 1000 Hz take 66 MB per second, and this holds a
/// quarter of a second.
const BULK_BYTES_PER_CPU: u32 = 16 << 20;
/// The largest ring, however many CPUs there are.
const BULK_BYTES_LIMIT: u32 = 256 << 20;

/// Fraction of the machine's memory that the table of recorded threads may take; the kernel allocates all of it at
/// once and never swaps it. Threads beyond its capacity are not recorded, and counted.
const THREADS_SHARE: u64 = 64;
/// The usual capacity in threads, 23 MB: a command may start this many.
const USUAL_THREADS: u32 = 1 << 14;
/// The lowest and highest capacity, however little or much memory there is.
const THREADS_LIMITS: (u32, u32) = (1 << 12, 1 << 22);
/// Bytes per thread: its state, its key, and the kernel's own data (`struct htab_elem` and `struct bucket` in
/// kernel/bpf/hashtab.c).
const THREAD_BYTES: u64 = size_of::<ThreadState>() as u64 + 8 + 48 + 16;
/// Code ranges per existing thread: most processes have one or few threads and some tens of ranges, and the ranges
/// are written twice when one is new.
const RANGES_A_THREAD: u32 = 64;

/// Fraction of the machine's memory that the rows of unwind tables may take.
const ROWS_SHARE: u64 = 128;
/// The largest table of rows: 48 MiB, more than a browser and its libraries take.
const MAX_ROWS: u32 = 6 << 20;
/// Rows per page, at least: libraries have ten.
const ROWS_A_PAGE: u32 = 4;

/// The sizes of the maps.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Threads recorded at one time.
    pub threads: u32,
    /// Bytes of the sample ring, a power of two.
    pub bulk_bytes: u32,
    /// Rows of unwind tables, of 8 bytes.
    pub rows: u32,
    /// Pages of code of the unwind tables, [`profiler_common::unwind::TABLE_PAGE`] bytes each.
    pub pages: u32,
    /// Code ranges of all address spaces.
    pub ranges: u32,
    /// Address spaces.
    pub spaces: u32,
    /// Values of a selection, with the cgroups and processes that it leads to.
    pub selected: u32,
    /// Cgroups that are named.
    pub awaited: u32,
}

impl Sizes {
    /// Sizes for a machine with this many CPUs and this much memory, where this many threads are recorded from the
    /// beginning.
    pub fn for_machine(cpus: u32, tasks: u32, memory: u64) -> Self {
        let bulk = BULK_BYTES_PER_CPU
            .saturating_mul(cpus.div_ceil(4).max(1))
            .min(BULK_BYTES_LIMIT);
        let rows = u32::try_from(memory / ROWS_SHARE / 8).unwrap_or(u32::MAX);
        let rows = rows.clamp(1 << 18, MAX_ROWS);
        let (least, most) = THREADS_LIMITS;
        let affordable = u32::try_from(memory / THREADS_SHARE / THREAD_BYTES).unwrap_or(u32::MAX);
        let threads = tasks.saturating_mul(2).max(USUAL_THREADS);
        let threads = threads.min(affordable.clamp(least, most));
        Self {
            threads,
            bulk_bytes: asked_ring().unwrap_or_else(|| bulk.next_power_of_two()),
            rows,
            pages: rows / ROWS_A_PAGE,
            ranges: tasks.saturating_mul(RANGES_A_THREAD).clamp(1 << 18, MAX_PLACES),
            // A thread has one at most.
            spaces: threads,
            selected: 1,
            awaited: 1,
        }
    }

    /// Bytes from each of `cpus` CPUs that fill a quarter of the sample ring.
    pub fn doorbell(self, cpus: usize) -> u32 {
        let quarter = self.bulk_bytes / 4;
        quarter / u32::try_from(cpus.max(1)).unwrap_or(u32::MAX)
    }
}

/// A setting for tests: only in debug builds, and never if the process has rights beyond its caller's.
fn from_environment(variable: &str) -> Option<std::ffi::OsString> {
    let is_trusted = cfg!(debug_assertions) && !capabilities::has_extra_rights();
    is_trusted.then(|| std::env::var_os(variable)).flatten()
}

/// The ring size that a test sets.
fn asked_ring() -> Option<u32> {
    from_environment(RING_VARIABLE)?.to_str()?.parse().ok()
}

/// Why user stacks can't be walked in this kernel; `None`: they can.
pub fn walker_refused(types: &Btf) -> Option<String> {
    if from_environment(NO_WALK_VARIABLE).is_some() {
        return Some(format!("{NO_WALK_VARIABLE} is set"));
    }
    (!types.has_function(WALKER_NEEDS)).then(|| format!("no {WALKER_NEEDS} before kernel 5.17"))
}

/// Creates the maps. Programs are loaded one by one as they are attached: a refused one leaves the others usable.
/// Also returns the types that programs attach to.
///
/// # Errors
/// When the kernel refuses the object or a map.
pub fn load(loader: Loader, config: &Config, sizes: Sizes, types: &Btf) -> anyhow::Result<(Ebpf, aya::Btf)> {
    let mut config = *config;
    arch::configure(&mut config);
    let mut object = object()?.into_owned();
    preempt::complete(&mut object, preempt::functions(types, machine::kernel_version()));
    let mut loader = loader.get();
    loader
        .btf(None) // no relocations: the configuration has the offsets
        .override_global("CONFIG", config.as_bytes(), true)
        .override_global(ABI_SYMBOL, &ABI_VERSION, true)
        .map_max_entries("THREADS", sizes.threads)
        .map_max_entries("WANTED", sizes.threads)
        .map_max_entries("BULK", sizes.bulk_bytes)
        .map_max_entries("ROWS", sizes.rows)
        .map_max_entries("LAST_WALKS", machine::possible_cpus().saturating_mul(LAST_WALKS))
        .map_max_entries("PIECES", machine::possible_cpus())
        .map_max_entries("KNOWN_VMAS", machine::possible_cpus())
        .map_max_entries("PAGES", sizes.pages)
        .map_max_entries("RANGES", sizes.ranges)
        .map_max_entries("SPACES", sizes.spaces)
        .map_max_entries("SELECTED", sizes.selected)
        .map_max_entries("AWAITED", sizes.awaited);
    // The kernel clears more than a hundred MiB of maps meanwhile.
    thread::scope(|scope| {
        let points = thread::Builder::new().spawn_scoped(scope, || types.attach_points());
        let ebpf = loader.load(&object)?;
        let points = points.ok().and_then(|thread| thread.join().ok());
        Ok((ebpf, points.unwrap_or_else(|| types.attach_points())?))
    })
}

fn object() -> anyhow::Result<Cow<'static, [u8]>> {
    if let Some(path) = from_environment(OBJECT_VARIABLE) {
        return Ok(std::fs::read(&path)
            .with_context(|| format!("{OBJECT_VARIABLE}={}", path.display()))?
            .into());
    }
    let object = arch::OBJECT
        .context("there is no eBPF object for this CPU architecture yet: use an x86-64 or arm64 machine")?;
    Ok(Cow::Borrowed(object))
}

/// What to do when the kernel does not accept our eBPF object.
pub fn privilege_remedy() -> &'static str {
    if !nix::unistd::geteuid().is_root() {
        return "recording needs root, or the file capabilities of docs/privilege.md: run with sudo";
    }
    match Confinement::of_root() {
        Some(confinement) => confinement.remedy(),
        None => "this kernel forbids eBPF: check kernel lockdown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// The bytes that the kernel allocates up front in the maps that grow with the number of
    /// threads.
    fn locked(sizes: Sizes) -> u64 {
        let space = 8 + 8 + 48 + 16;
        let wanted = 8 + 24 + 48 + 16;
        u64::from(sizes.threads) * (THREAD_BYTES + wanted)
            + u64::from(sizes.spaces) * space
            + u64::from(sizes.ranges) * 40
    }

    #[test]
    fn table_size_scales_with_scope_within_a_memory_share() {
        let threads = |tasks, gib| Sizes::for_machine(8, tasks, gib * GIB).threads;
        // A command, whatever else runs; a process with many threads; a whole system with few
        // threads, and one with many.
        assert_eq!(threads(1, 16), USUAL_THREADS);
        assert_eq!(threads(20_000, 16), 40_000);
        assert_eq!(threads(800, 16), USUAL_THREADS);
        assert_eq!(threads(60_000, 16), 120_000);
        for gib in [1, 2, 16, 256] {
            for tasks in [1, 1000, 100_000, u32::MAX] {
                let sizes = Sizes::for_machine(8, tasks, gib * GIB);
                assert!(u64::from(sizes.threads) * THREAD_BYTES <= gib * GIB / THREADS_SHARE);
                assert!(locked(sizes) < gib * GIB / 16, "{tasks} in {gib} GiB: {sizes:?}");
                assert!(sizes.spaces >= sizes.threads && sizes.ranges <= MAX_PLACES);
            }
        }
        assert_eq!(threads(1, 0), THREADS_LIMITS.0, "the memory size is unknown");
    }
}
