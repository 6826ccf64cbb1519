//! Every map and the configuration that user space sets before the programs are loaded.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, RingBuf};
use profiler_common::block::PendingRequest;
use profiler_common::config::{CALL_WORDS, Config, MISSING};
use profiler_common::loss::LOSS_COUNT;
use profiler_common::scope::ThreadState;
use profiler_common::space::CodeRange;
use profiler_common::unwind::{PageRows, Row};

use crate::fault::KnownVmas;
use crate::intern::SENT_PLACES;
use crate::names::NAMED_PLACES;
use crate::wait::{SITES_PLACES, Site};
use crate::walk::{WALKS_PER_CPU, Walk};

/// Task events: small, of their own, so that no storm of samples drops a birth.
#[map]
pub static TASKS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// Bytes that this CPU has put into [`BULK`] since it rang.
#[map]
pub static SINCE_DOORBELL: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Everything else. User space sets the size.
#[map]
pub static BULK: RingBuf = RingBuf::with_byte_size(16 << 20, 0);

/// Recorded threads by tid. User space sets the size and seeds it.
#[map]
pub static THREADS: HashMap<u32, ThreadState> = HashMap::with_max_entries(1 << 16, 0);

/// When the running thread was switched in on this CPU; 0: it ran already when the programs were attached.
#[map]
pub static SWITCHED_IN: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Counters by [`profiler_common::Loss`].
#[map]
pub static LOSSES: PerCpuArray<u64> = PerCpuArray::with_max_entries(LOSS_COUNT as u32, 0);

/// The walks under way on this CPU.
#[map]
pub static WALKS: PerCpuArray<Walk> = PerCpuArray::with_max_entries(WALKS_PER_CPU, 0);

/// Mappings that faults were in lately.
#[map]
pub static KNOWN_VMAS: PerCpuArray<KnownVmas> = PerCpuArray::with_max_entries(1, 0);

/// Keys of stacks that were sent: [`crate::intern`].
#[map]
pub static SENT: Array<u64> = Array::with_max_entries(SENT_PLACES, 0);

/// Keys of file names that were sent: [`crate::names`].
#[map]
pub static NAMED: Array<u64> = Array::with_max_entries(NAMED_PLACES, 0);

/// Stacks of waits that were looked at: [`crate::wait`].
#[map]
pub static SITES: PerCpuArray<Site> = PerCpuArray::with_max_entries(SITES_PLACES, 0);

/// Requests under way, by address.
#[map]
pub static REQUESTS: HashMap<u64, PendingRequest> = HashMap::with_max_entries(1 << 14, 0);

/// How many requests each device has.
#[map]
pub static IN_FLIGHT: HashMap<u32, u64> = HashMap::with_max_entries(1 << 8, 0);

/// The run of each address space, as [`profiler_common::space::Run::to_word`]. User space sets the size.
#[map]
pub static SPACES: HashMap<u64, u64> = HashMap::with_max_entries(1 << 16, 0);

/// Code ranges: runs of neighbours. User space sets the size and writes through its own mapping.
#[map]
pub static RANGES: Array<CodeRange> = Array::with_max_entries(1 << 16, BPF_F_MMAPABLE);

/// Where the rows of each page of each table are. As above.
#[map]
pub static PAGES: Array<PageRows> = Array::with_max_entries(1 << 16, BPF_F_MMAPABLE);

/// The rows of all tables. As above.
#[map]
pub static ROWS: Array<Row> = Array::with_max_entries(1 << 20, BPF_F_MMAPABLE);

/// Its name carries [`profiler_common::ABI_VERSION`].
#[unsafe(export_name = "NGMI_ABI_5")]
static ABI: u32 = profiler_common::ABI_VERSION;

#[unsafe(no_mangle)]
pub static CONFIG: Config = Config {
    abi_version: profiler_common::ABI_VERSION,
    whole_system: 0,
    stack_copy: 0,
    fault_stack_copy: 0,
    doorbell: u32::MAX,
    walk: 0,
    check_walks: 0,
    exclude_pid: [0; 3],
    task_pid: MISSING,
    task_tgid: MISSING,
    task_comm: MISSING,
    task_exit_code: MISSING,
    task_min_flt: MISSING,
    task_maj_flt: MISSING,
    task_sum_exec_runtime: MISSING,
    task_mm: MISSING,
    task_flags: MISSING,
    task_fsbase: MISSING,
    mm_start_stack: MISSING,
    mm_arg_start: MISSING,
    mm_arg_end: MISSING,
    bprm_filename: MISSING,
    task_state: MISSING,
    faults: 0,
    find_vma: 0,
    task_in_iowait: MISSING,
    task_in_iowait_mask: 0,
    task_pagefault_disabled: MISSING,
    mm_lock_seq: MISSING,
    mm_lock_seq_is_count: 0,
    vma_start: MISSING,
    vma_end: MISSING,
    vma_pgoff: MISSING,
    vma_flags: MISSING,
    vma_file: MISSING,
    vma_mm: MISSING,
    file_inode: MISSING,
    file_mmap_miss: MISSING,
    inode_ino: MISSING,
    inode_generation: MISSING,
    inode_sb: MISSING,
    sb_dev: MISSING,
    sb_magic: MISSING,
    mapping_host: MISSING,
    folio_mapping: MISSING,
    folio_index: MISSING,
    folio_flags: MISSING,
    folio_order: MISSING,
    folio_flags_1: MISSING,
    page_head: MISSING,
    waits: 0,
    wait_min: 0,
    wait_burst: 0,
    preempt_count_known: 0,
    per_cpu_offset: 0,
    preempt_count: 0,
    calls_with_file: [0; CALL_WORDS],
    calls_with_path: [0; CALL_WORDS],
    calls_with_path_second: [0; CALL_WORDS],
    task_files: MISSING,
    files_fdt: MISSING,
    fdtable_fd: MISSING,
    fdtable_max_fds: MISSING,
    file_dentry: MISSING,
    dentry_parent: MISSING,
    dentry_name: MISSING,
    inode_mode: MISSING,
    inode_dentries: MISSING,
    dentry_alias: MISSING,
    request_queue: MISSING,
    request_bio: MISSING,
    request_part: MISSING,
    request_sector: MISSING,
    request_bytes: MISSING,
    request_flags: MISSING,
    queue_disk: MISSING,
    queue_mq_ops: MISSING,
    disk_major: MISSING,
    disk_first_minor: MISSING,
    disk_queue: MISSING,
    block_device_disk: MISSING,
    bio_device: MISSING,
    bio_sector: MISSING,
    bio_bytes: MISSING,
    bio_index: MISSING,
    bio_flags: MISSING,
    bio_status: MISSING,
    bio_next: MISSING,
    bio_vector: MISSING,
    vector_page: MISSING,
    page_head_of: MISSING,
    bio_private: MISSING,
    dio_iocb: MISSING,
    dio_size: MISSING,
    iocb_file: MISSING,
    iocb_position: MISSING,
    sb_bdev: MISSING,
};

/// One field of the configuration. Read as volatile: the compiler sees the values above, the verifier those of user
/// space, as constants, so that a switched-off branch costs nothing.
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
