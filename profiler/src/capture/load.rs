//! Puts the eBPF object into the kernel: programs, maps, configuration.

use std::borrow::Cow;

use aya::{Ebpf, EbpfLoader};
use profiler_common::config::Config;
use profiler_common::last_walk::LAST_WALKS;
use profiler_common::scope::ThreadState;
use profiler_common::space::MAX_PLACES;
use profiler_common::{ABI_SYMBOL, ABI_VERSION};
use zerocopy::IntoBytes;

use super::btf::{Btf, WALKER_NEEDS};
use super::{capabilities, machine, preempt};

/// The object that scripts/build-ebpf made from profiler-ebpf/.
#[cfg(target_arch = "x86_64")]
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../ebpf/ngmi-x86_64.o");

/// Names in the environment an object to load instead; in debug builds only, because whoever chooses the object of a
/// privileged program has its privileges.
pub const OBJECT_VARIABLE: &str = "NGMI_EBPF_OBJECT";

/// Set in the environment it turns the walker off, as if the kernel had no `bpf_loop`: stacks are copied then. In debug builds only:
/// it is for tests on newer kernels.
pub const NO_WALK_VARIABLE: &str = "NGMI_NO_WALK";

/// The size of the ring of samples in bytes (a power of two of at least a page), in the environment; in debug builds only: it is for tests of
/// what happens when the ring is full.
pub const RING_VARIABLE: &str = "NGMI_RING_BYTES";

/// Samples of 64 KiB stacks at 1000 Hz on a CPU come to 66 MB a second; a quarter of a second of that, for each CPU.
const BULK_BYTES_PER_CPU: u32 = 16 << 20;
/// However many CPUs there are.
const BULK_BYTES_LIMIT: u32 = 256 << 20;

/// This fraction of the machine's memory may go to the table of recorded threads, all of whose room the kernel takes at once and never swaps
/// out. Beyond it, threads are not recorded, and counted.
const THREADS_SHARE: u64 = 64;
/// Room for so many threads is usual, 34 MB: a command may start them.
const USUAL_THREADS: u32 = 1 << 15;
/// However little memory there is, and however much.
const THREADS_LIMITS: (u32, u32) = (1 << 12, 1 << 22);
/// What one takes: its state, its key, and the kernel's own (`struct htab_elem` and `struct bucket` in kernel/bpf/hashtab.c).
const THREAD_BYTES: u64 = size_of::<ThreadState>() as u64 + 8 + 48 + 16;
/// Code ranges for each thread that exists: most processes have one or few, and some tens of ranges, which are written twice when one is new.
const RANGES_A_THREAD: u32 = 64;

/// This fraction of the machine's memory may go to the rows of unwind tables.
const ROWS_SHARE: u64 = 128;
/// However much memory there is: 48 MiB, more than a browser and its libraries take.
const MAX_ROWS: u32 = 6 << 20;
/// Rows of a page, at least: libraries have ten (docs/unwinding.md, "Measured").
const ROWS_A_PAGE: u32 = 4;

/// How large the tables are.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Threads recorded at one time.
    pub threads: u32,
    /// The ring of samples, a power of two.
    pub bulk_bytes: u32,
    /// Rows of unwind tables, of 8 bytes.
    pub rows: u32,
    /// Their pages of code, [`profiler_common::unwind::TABLE_PAGE`] bytes each.
    pub pages: u32,
    /// Code ranges of all address spaces.
    pub ranges: u32,
    /// Address spaces.
    pub spaces: u32,
}

impl Sizes {
    /// For a machine with so many CPUs and so much memory, where so many threads are recorded from the beginning.
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
        }
    }

    /// After so many bytes from each of `cpus` CPUs a quarter of the ring of samples is full.
    pub fn doorbell(self, cpus: usize) -> u32 {
        let quarter = self.bulk_bytes / 4;
        quarter / u32::try_from(cpus.max(1)).unwrap_or(u32::MAX)
    }
}

/// What a test asks for: in debug builds, and never with rights that are not the caller's own.
fn from_environment(variable: &str) -> Option<std::ffi::OsString> {
    let is_trusted = cfg!(debug_assertions) && !capabilities::is_lent_rights();
    is_trusted.then(|| std::env::var_os(variable)).flatten()
}

/// The size that a test asks for.
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

/// Makes the maps. Programs are loaded one by one as they are attached, so that a refused one leaves the others usable.
pub fn load(config: &Config, sizes: Sizes, types: &Btf) -> anyhow::Result<Ebpf> {
    let mut object = object()?.into_owned();
    preempt::complete(&mut object, preempt::functions(types, machine::kernel_version()));
    let ebpf = EbpfLoader::new()
        .btf(None) // no relocations: offsets come through the configuration
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
        .load(&object)?;
    Ok(ebpf)
}

fn object() -> anyhow::Result<Cow<'static, [u8]>> {
    if let Some(path) = from_environment(OBJECT_VARIABLE) {
        use anyhow::Context as _;
        return Ok(std::fs::read(&path)
            .with_context(|| format!("{OBJECT_VARIABLE}={}", path.display()))?
            .into());
    }
    #[cfg(target_arch = "x86_64")]
    return Ok(Cow::Borrowed(OBJECT));
    #[cfg(not(target_arch = "x86_64"))]
    anyhow::bail!("there is no eBPF object for this CPU architecture yet: x86-64 is needed")
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
    fn the_tables_grow_with_what_is_recorded_and_not_beyond_a_share_of_the_memory() {
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
