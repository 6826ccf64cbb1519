//! The table of kernel functions that indicate what a thread waits for, with their names in all kernels from 5.15 to
//! 7.2.

use super::{CallScene, calls};
use crate::WaitReason;
use WaitReason::{Child, Condition, Disk, FileSystem, Kernel, Lock, Memory, Pipe, Poll, Sleep, Socket, Stopped};

/// What is known of a kernel function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelFunction {
    /// What it says about a wait.
    pub clue: Option<Clue>,
    /// Beyond it is what the thread did when it touched the memory, or when it was interrupted.
    pub is_border: bool,
}

/// How specific a function is: in a stack, the function with the lowest rank counts, among several the innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// It has one single reason to wait.
    Wait,
    /// It waits for some kind of I/O.
    Io,
    /// The default reason for waits inside it.
    Place,
}

/// What a kernel function says about a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Clue {
    /// How specific it is.
    pub rank: Rank,
    meaning: Meaning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Meaning {
    Is(WaitReason),
    /// Decided by its arguments.
    Futex,
}

impl Clue {
    /// The reason, using the system call where the function alone is ambiguous.
    pub fn reason(self, call: Option<&CallScene<'_>>) -> WaitReason {
        match self.meaning {
            Meaning::Is(reason) => reason,
            Meaning::Futex => call.map_or(Condition, calls::futex),
        }
    }
}

/// Functions, separated by spaces; a trailing `*` matches any suffix.
type Names = &'static str;

/// Functions that wait for a futex.
const FUTEX: Names = "futex_wait_queue futex_wait_queue_me futex_do_wait futex_wait __futex_wait futex_wait_multiple \
     futex_sleep_multiple";

const WAITS: [(WaitReason, Names); 12] = [
    (
        Disk,
        "folio_wait_bit* folio_wait_writeback* folio_wait_stable __folio_lock* folio_put_wait_locked \
         wait_on_page_bit* wait_on_page_writeback* __lock_page* __wait_on_buffer __lock_buffer bit_wait_io* \
         submit_bio_wait wait_for_completion_io* blk_execute_rq blk_mq_get_tag \
         __blk_mq_alloc_requests blk_io_schedule blkdev_issue_flush blkdev_issue_discard rq_qos_wait wbt_wait \
         __bio_queue_enter blk_queue_enter __iomap_dio_rw __blkdev_direct_IO* dio_await_one dio_await_completion \
         balance_dirty_pages* read_events swap_read_folio swap_readpage md_super_wait raid5_get_active_stripe \
         md_write_start",
    ),
    (
        Memory,
        "handle_userfault reclaim_throttle throttle_direct_reclaim mem_cgroup_handle_over_high \
         __mem_cgroup_handle_over_high migration_entry_wait* softleaf_entry_wait_on_locked mem_cgroup_oom_synchronize \
         lock_mm_and_find_vma",
    ),
    (
        Poll,
        "ep_poll do_epoll_wait do_poll do_sys_poll do_select core_sys_select poll_schedule_timeout io_cqring_wait* \
         io_cqring_schedule* n_tty_read evdev_read",
    ),
    (
        Pipe,
        "pipe_read pipe_write anon_pipe_read anon_pipe_write fifo_pipe_read fifo_pipe_write pipe_wait* \
         wait_for_partner fifo_open ipipe_prep opipe_prep splice_from_pipe_next",
    ),
    (
        Socket,
        "__skb_wait_for_more_packets skb_wait_for_more_packets unix_stream_data_wait unix_wait_for_peer sk_wait_data \
         sk_stream_wait_* inet_csk_accept inet_csk_wait_for_connect inet_wait_for_connect sock_alloc_send_pskb \
         sock_wait_for_wmem __lock_sock vsock_wait_data vsock_connect vsock_accept \
         vsock_connectible_wait_data netlink_attachskb",
    ),
    (
        Sleep,
        "do_nanosleep hrtimer_nanosleep timerfd_read timerfd_read_iter msleep*",
    ),
    (
        Child,
        "do_wait __do_wait kernel_wait4 kernel_waitid* wait_for_vfork_done",
    ),
    (
        Stopped,
        "do_signal_stop ptrace_stop do_jobctl_trap do_freezer_trap __refrigerator",
    ),
    (
        Condition,
        "eventfd_read eventfd_write signalfd_read* signalfd_dequeue inotify_read fanotify_read do_sigtimedwait \
         sigsuspend do_semtimedop __do_semtimedop do_msgrcv do_msgsnd wq_sleep fuse_dev_do_read userfaultfd_ctx_read \
         userfaultfd_read* __x64_sys_pause __arm64_sys_pause __do_sys_pause",
    ),
    (
        Lock,
        "futex_lock_pi locks_lock_inode_wait flock_lock_inode_wait posix_lock_inode_wait fcntl_setlk \
         do_lock_file_wait",
    ),
    (
        FileSystem,
        "request_wait_answer fuse_simple_request __fuse_simple_request rpc_wait_bit_killable \
         rpc_wait_for_completion_task nfs_wait_* p9_client_rpc jbd2_log_wait_commit jbd2_complete_transaction \
         start_this_handle wait_transaction_* do_get_write_access add_transaction_credits xlog_wait* \
         xlog_grant_head_wait xfs_log_force* xfs_buf_lock d_alloc_parallel d_wait_lookup __wait_on_freeing_inode \
         wait_sb_inodes inode_dio_wait* wb_wait_for_completion sb_start_write btrfs_wait_* \
         btrfs_commit_transaction",
    ),
    (
        Kernel,
        "n_tty_write tty_wait* synchronize_rcu* synchronize_srcu* __wait_rcu_gp wait_rcu_gp coredump_wait",
    ),
];

const IO: Names = "io_schedule io_schedule_timeout";

const PLACES: [(WaitReason, Names); 4] = [
    (
        Memory,
        "handle_mm_fault __handle_mm_fault do_user_addr_fault do_page_fault exc_page_fault asm_exc_page_fault el0_da \
         el1_abort vm_mmap_pgoff __vm_munmap do_munmap do_mprotect_pkey do_madvise __do_sys_brk \
         __x64_sys_brk __x64_sys_munmap __x64_sys_mremap __do_sys_mremap __arm64_sys_brk __arm64_sys_munmap \
         __arm64_sys_mremap dup_mm dup_mmap exit_mmap exit_mm mmap_read_lock* mmap_write_lock* shrink_* \
         try_to_free_pages try_to_free_mem_cgroup_pages do_try_to_free_pages try_to_compact_pages compact_* \
         __alloc_pages_direct_* try_charge_memcg mem_cgroup_* __get_user_pages faultin_page populate_vma_page_range \
         __mm_populate migrate_pages* userfaultfd_*",
    ),
    (
        FileSystem,
        "ext4_* xfs_* btrfs_* f2fs_* jbd2_* fuse_* nfs_* nfs3_* nfs4_* ovl_* cifs_* smb2_* v9fs_* bcachefs_* bch2_* \
         zfs_* ntfs_* exfat_* fat_* erofs_* squashfs_* kernfs_* shmem_* simple_* path_openat do_filp_open do_open* \
         do_sys_openat2 walk_component __lookup_slow lookup_* filename_* do_unlinkat do_renameat2 do_mkdirat do_rmdir \
         do_linkat do_symlinkat do_truncate vfs_truncate vfs_fallocate vfs_fsync* vfs_statx vfs_open iterate_dir \
         sync_* ksys_sync* writeback_* __writeback_* file_write_and_wait_range generic_file_* generic_perform_write \
         filemap_* page_cache_* iomap_* evict iput* dput __fput do_mount path_mount path_umount",
    ),
    (
        Socket,
        "sock_* __sys_recv* __sys_send* __sys_accept* __sys_connect* unix_* tcp_* udp_* udpv6_* inet_* inet6_* \
         netlink_* vsock_* packet_* lock_sock_nested",
    ),
    // Idle kernel threads of io_uring.
    (Condition, "io_wq_worker io_wqe_worker io_sq_thread"),
];

const BORDER: Names =
    "handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault do_page_fault do_mem_abort el0_da el1_abort";

impl KernelFunction {
    /// By its name in the kernel's symbol table.
    pub fn new(name: &str) -> Self {
        let name = plain(name);
        Self {
            clue: clue(name),
            is_border: BORDER.split(' ').any(|border| border == name),
        }
    }
}

fn clue(name: &str) -> Option<Clue> {
    let is = |names: Names| names.split(' ').any(|pattern| fits(pattern, name));
    let clue = |rank, meaning| Some(Clue { rank, meaning });
    if is(FUTEX) {
        return clue(Rank::Wait, Meaning::Futex);
    }
    if is(IO) {
        return clue(Rank::Io, Meaning::Is(Disk));
    }
    let find = |table: &[(WaitReason, Names)]| table.iter().find(|(_, names)| is(names)).map(|(reason, _)| *reason);
    if let Some(reason) = find(&WAITS) {
        return clue(Rank::Wait, Meaning::Is(reason));
    }
    clue(Rank::Place, Meaning::Is(find(&PLACES)?))
}

/// What the kernel's part of a stack says, innermost function first; `known` may cache [`KernelFunction`]s by key.
pub fn of_kernel<'f, K>(
    functions: impl IntoIterator<Item = (K, &'f str)>,
    mut known: impl FnMut(K, &'f str) -> KernelFunction,
) -> Option<Clue> {
    let mut best: Option<Clue> = None;
    for (key, function) in functions {
        let KernelFunction { clue, is_border } = known(key, function);
        if let Some(clue) = clue
            && best.is_none_or(|best| clue.rank < best.rank)
        {
            best = Some(clue);
        }
        if is_border {
            break;
        }
    }
    best
}

/// Entry points of interrupts, and functions that run their deferred work, on x86-64 and arm64.
const INTERRUPTS: Names = "asm_common_interrupt common_interrupt asm_sysvec_* sysvec_* __sysvec_* handle_softirqs __do_softirq do_softirq \
     __irq_exit_rcu irq_exit_rcu run_ksoftirqd el1_interrupt el0_interrupt el1h_64_irq el0t_64_irq call_on_irq_stack asm_exc_nmi";

/// Whether an interrupt woke a thread, from the kernel's part of the waker's stack; `None` if it has no names.
pub fn in_interrupt<'f>(functions: impl IntoIterator<Item = &'f str>) -> Option<bool> {
    let mut known = None;
    for name in functions.into_iter().filter(|name| !name.is_empty()).map(plain) {
        if INTERRUPTS.split(' ').any(|pattern| fits(pattern, name)) {
            return Some(true);
        }
        known = Some(false);
    }
    known
}

/// Without the module (` [ext4]`) and the compiler's suffix (`.isra.0`, `.constprop.0`).
pub(super) fn plain(function: &str) -> &str {
    function.split([' ', '.']).next().unwrap_or(function)
}

pub(super) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Every name in the table with its meaning.
    pub fn entries() -> impl Iterator<Item = (Rank, WaitReason, &'static str)> {
        let of = |rank, table: &'static [(WaitReason, Names)]| {
            let rows = table.iter();
            rows.flat_map(move |(reason, names)| names.split(' ').map(move |name| (rank, *reason, name)))
        };
        of(Rank::Wait, &WAITS).chain(of(Rank::Place, &PLACES))
    }
}
