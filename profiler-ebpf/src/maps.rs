//! The maps of several files, and the configuration that user space sets before the programs are loaded.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, RingBuf};
use profiler_common::block::PendingRequest;
use profiler_common::config::Config;
use profiler_common::last_walk::LastWalk;
use profiler_common::loss::LOSS_COUNT;
use profiler_common::piece::Piece;
use profiler_common::scope::{ThreadState, Wanted};
use profiler_common::space::CodeRange;
use profiler_common::switch::Asleep;
use profiler_common::thinning::{Levels, Spent};
use profiler_common::unwind::{PageRows, Row};

/// Task events: small, in a separate ring, so that no burst of samples drops a birth.
#[map]
pub static TASKS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// Bytes that this CPU has put into [`BULK`] since it last woke the recorder.
#[map]
pub static SINCE_DOORBELL: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// All other records. User space sets the size.
#[map]
pub static BULK: RingBuf = RingBuf::with_byte_size(16 << 20, 0);

/// Recorded threads by the address of their `task_struct`. User space sets the size.
#[map]
pub static THREADS: HashMap<u64, ThreadState> = HashMap::with_max_entries(1 << 16, 0);

/// Threads to be recorded, by tid, until they are first seen. User space sets the size.
#[map]
pub static WANTED: HashMap<u32, Wanted> = HashMap::with_max_entries(1 << 16, 0);

/// How many threads were wanted, and how many of these were seen: [`profiler_common::scope::WANTED`].
#[map]
pub static WANTED_COUNTS: Array<u64> = Array::with_max_entries(2, 0);

/// When the recording begins and ends: [`profiler_common::scope::BEGINNING`].
#[map]
pub static BOUNDS: Array<u64> = Array::with_max_entries(2, 0);

/// When the running thread was switched in on this CPU; 0: it already ran when the programs were attached.
#[map]
pub static SWITCHED_IN: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// What the iterator over tasks is about to write.
#[map]
pub static ASLEEP: PerCpuArray<Asleep> = PerCpuArray::with_max_entries(1, 0);

/// Counters by [`profiler_common::Loss`].
#[map]
pub static LOSSES: PerCpuArray<u64> = PerCpuArray::with_max_entries(LOSS_COUNT as u32, 0);

/// Walks that each CPU remembers: [`profiler_common::last_walk`]. User space sets the size.
#[map]
pub static LAST_WALKS: Array<LastWalk> = Array::with_max_entries(profiler_common::last_walk::LAST_WALKS, 0);

/// The piece of the stack that each CPU compares. User space sets the size.
#[map]
pub static PIECES: Array<Piece> = Array::with_max_entries(1, 0);

/// Keys of stacks that were sent: [`crate::intern`].
#[map]
pub static SENT: Array<u64> = Array::with_max_entries(profiler_common::sent::PLACES, 0);

/// Requests under way, by address.
#[map]
pub static REQUESTS: HashMap<u64, PendingRequest> = HashMap::with_max_entries(1 << 14, 0);

/// How many requests each device has.
#[map]
pub static IN_FLIGHT: HashMap<u32, u64> = HashMap::with_max_entries(1 << 8, 0);

/// The run of each address space, as [`profiler_common::space::Run::to_word`]. User space sets the size.
#[map]
pub static SPACES: HashMap<u64, u64> = HashMap::with_max_entries(1 << 16, 0);

/// How often user space has replaced or removed an entry of [`SPACES`], counted from 1, after the change: entries stay while this number does. User space
/// writes through its own mapping.
#[map]
pub static SPACES_CHANGED: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Code ranges: runs of adjacent ones. User space sets the size and writes through its own mapping.
#[map]
pub static RANGES: Array<CodeRange> = Array::with_max_entries(1 << 16, BPF_F_MMAPABLE);

/// Where the rows of each page of each table are. As above.
#[map]
pub static PAGES: Array<PageRows> = Array::with_max_entries(1 << 16, BPF_F_MMAPABLE);

/// The rows of all tables. As above.
#[map]
pub static ROWS: Array<Row> = Array::with_max_entries(1 << 20, BPF_F_MMAPABLE);

/// What is left out at present.
#[map]
pub static LEVELS: Array<Levels> = Array::with_max_entries(1, 0);

/// What walks have cost.
#[map]
pub static SPENT: PerCpuArray<Spent> = PerCpuArray::with_max_entries(1, 0);

/// Its name carries [`profiler_common::ABI_VERSION`].
#[unsafe(export_name = "NGMI_ABI_24")]
static ABI: u32 = profiler_common::ABI_VERSION;

#[unsafe(no_mangle)]
pub static CONFIG: Config = Config::NOTHING;

/// One field of the configuration. Read as volatile: the compiler sees `NOTHING`, the verifier the values of user
/// space, as constants, so that a disabled branch costs nothing.
macro_rules! config {
    ($field:ident) => {
        $crate::maps::volatile(&$crate::maps::CONFIG.$field)
    };
}
pub(crate) use config;

#[inline(always)]
pub fn volatile<T: Copy>(value: &T) -> T {
    // SAFETY: a reference is valid to read.
    unsafe { core::ptr::read_volatile(value) }
}
