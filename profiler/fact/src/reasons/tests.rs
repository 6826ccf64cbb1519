//! Stacks and system calls as kernels report them, and their reasons.

use profiler_common::switch::{WAIT_IN_CALL, state};

use super::*;

mod stacks;

const SLEEPS: u32 = state::INTERRUPTIBLE;
const BLOCKS: u32 = state::UNINTERRUPTIBLE;

fn of_stack(state: u32, flags: u32, call: Option<CallScene<'_>>, functions: &[&str]) -> WaitReason {
    let scene = Scene { state, flags, call };
    let functions = functions.iter().map(|function| ((), *function));
    reason(
        &scene,
        of_kernel(functions, |(), function| KernelFunction::new(function)),
    )
}

fn futex(op: u64, value: u64) -> CallScene<'static> {
    CallScene {
        name: "futex",
        arguments: [0x7f00_0000_1000, op, value],
        ..CallScene::default()
    }
}

fn call(name: &str, mode: Option<u32>) -> CallScene<'_> {
    CallScene {
        name,
        mode,
        ..CallScene::default()
    }
}

/// The functions of a stack written on one line, innermost first.
fn functions(stack: &str) -> Vec<&str> {
    stack.split(" < ").collect()
}

/// Stacks of sleeping threads as in `/proc/PID/stack` on 6.1 to 7.2.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn kernel_stacks_give_the_reason() {
    use WaitReason as Is;
    let read = "filemap_read < ext4_file_read_iter [ext4] < vfs_read < ksys_read < do_syscall_64";
    let cases = [
        (
            Is::Disk,
            &*format!("io_schedule < folio_wait_bit_common < filemap_update_page < {read}"),
        ),
        (
            Is::Disk,
            "io_schedule < wait_on_page_bit_common < filemap_fault < handle_mm_fault < do_user_addr_fault",
        ),
        (
            Is::Disk,
            "io_schedule < ext4_map_blocks [ext4] < ext4_mpage_readpages [ext4]",
        ),
        (
            Is::Disk,
            "io_schedule_timeout < balance_dirty_pages < generic_perform_write < ext4_buffered_write_iter",
        ),
        (
            Is::Disk,
            "io_schedule < blk_mq_get_tag < io_worker_handle_work < io_wq_worker",
        ),
        (
            Is::FileSystem,
            "schedule < jbd2_log_wait_commit [jbd2] < ext4_sync_file [ext4] < do_fsync",
        ),
        (
            Is::FileSystem,
            "schedule < rwsem_down_write_slowpath < ext4_buffered_write_iter.isra.0 [ext4]",
        ),
        (
            Is::FileSystem,
            "schedule < rwsem_down_read_slowpath < __lookup_slow < walk_component < path_openat",
        ),
        (
            Is::Memory,
            "schedule < rwsem_down_read_slowpath < lock_mm_and_find_vma < do_user_addr_fault < exc_page_fault",
        ),
        (
            Is::Memory,
            "schedule < rwsem_down_write_slowpath < down_write_killable < vm_mmap_pgoff < ksys_mmap_pgoff",
        ),
        (
            Is::Memory,
            "schedule_timeout < reclaim_throttle < shrink_node < do_try_to_free_pages < ext4_write_begin",
        ),
        (
            Is::Memory,
            "schedule < handle_userfault < do_anonymous_page < __handle_mm_fault < handle_mm_fault",
        ),
        (
            Is::Poll,
            "schedule_hrtimeout_range_clock < ep_poll < do_epoll_wait < __x64_sys_epoll_wait",
        ),
        (
            Is::Poll,
            "schedule_hrtimeout_range < poll_schedule_timeout.constprop.0 < do_sys_poll < __x64_sys_poll",
        ),
        (Is::Poll, "io_schedule < io_cqring_wait < __do_sys_io_uring_enter"),
        (Is::Pipe, "schedule < pipe_read < vfs_read < ksys_read"),
        (Is::Pipe, "schedule < anon_pipe_write < vfs_write < ksys_write"),
        (
            Is::Socket,
            "schedule_timeout < unix_stream_read_generic < unix_stream_recvmsg < sock_recvmsg < __sys_recvfrom",
        ),
        (
            Is::Socket,
            "schedule_timeout < wait_woken < sk_wait_data < tcp_recvmsg_locked < tcp_recvmsg",
        ),
        (
            Is::Socket,
            "schedule_timeout < inet_csk_accept < inet_accept < do_accept < __sys_accept4",
        ),
        (Is::Sleep, "schedule < do_nanosleep < hrtimer_nanosleep < common_nsleep"),
        (Is::Child, "schedule < do_wait < kernel_wait4 < __do_sys_wait4"),
        (
            Is::Child,
            "schedule_timeout < wait_for_completion_state < wait_for_vfork_done < kernel_clone",
        ),
        (Is::Stopped, "schedule < do_signal_stop < get_signal"),
        (Is::Condition, "schedule < eventfd_read < vfs_read"),
        (
            Is::Condition,
            "schedule < schedule_timeout < io_wq_worker < ret_from_fork",
        ),
        (
            Is::Condition,
            "schedule < do_sigtimedwait.isra.0 < __x64_sys_rt_sigtimedwait",
        ),
        (
            Is::Lock,
            "schedule < rt_mutex_slowlock_block.constprop.0 < futex_lock_pi < do_futex",
        ),
        (Is::Lock, "schedule < locks_lock_inode_wait < __do_sys_flock"),
        (
            Is::Poll,
            "schedule_timeout < wait_woken < n_tty_read < tty_read < vfs_read",
        ),
        (Is::Kernel, "schedule < some_driver_wait [odd]"),
    ];
    for (expected, stack) in cases {
        let io = if stack.starts_with("io_schedule") { WAIT_IO } else { 0 };
        assert_eq!(of_stack(BLOCKS, io, None, &functions(stack)), expected, "{stack:?}");
    }
    assert_eq!(
        of_stack(state::TRACED, 0, None, &functions("schedule < pipe_read")),
        Is::Stopped
    );
}

#[test]
fn a_fault_within_a_call_is_not_a_wait_of_the_call() {
    let read =
        functions("io_schedule < folio_wait_bit_common < filemap_fault < handle_mm_fault < exc_page_fault < pipe_read");
    assert_eq!(of_stack(BLOCKS, WAIT_IO, None, &read), WaitReason::Disk);
    let lock =
        functions("schedule < rwsem_down_read_slowpath < do_user_addr_fault < exc_page_fault < pipe_read < vfs_read");
    assert_eq!(of_stack(BLOCKS, 0, None, &lock), WaitReason::Memory);
}

#[test]
fn a_runnable_thread_waits_for_a_cpu() {
    let stack = functions("__schedule < preempt_schedule_irq < pipe_read");
    for (state, flags) in [(0, 0), (0, WAIT_BIRTH), (SLEEPS, WAIT_PREEMPTED)] {
        assert_eq!(
            of_stack(state, flags, Some(call("read", None)), &stack),
            WaitReason::RunQueue
        );
    }
    let throttled = WAIT_PREEMPTED | WAIT_THROTTLED;
    assert_eq!(of_stack(0, throttled, None, &stack), WaitReason::Throttled);
    // Only from the wakeup on.
    let asleep = of_stack(SLEEPS, WAIT_THROTTLED, Some(call("read", None)), &stack);
    assert_eq!(asleep, WaitReason::Pipe);
}

#[test]
fn futexes_are_locks_by_operation_or_by_the_value_that_they_wait_with() {
    const PRIVATE: u64 = 128;
    const REALTIME: u64 = 256;
    const BITSET: u64 = 9;
    const REQUEUE_PI: u64 = 11;
    const LOCK_PI2: u64 = 13;
    let waits = functions("__schedule < schedule < futex_wait_queue < __futex_wait < futex_wait < do_futex");
    for (expected, op, value) in [
        (WaitReason::Lock, PRIVATE, 2),
        (WaitReason::Lock, 0xffff_0000_0000_0000 | PRIVATE, 0xdead_0000_0002),
        (WaitReason::Lock, BITSET | PRIVATE, 2),
        (WaitReason::Lock, 6, 0),
        (WaitReason::Lock, LOCK_PI2 | REALTIME, 0),
        (WaitReason::Condition, BITSET | PRIVATE | REALTIME, 0),
        (WaitReason::Condition, 9, 1234),
        (WaitReason::Condition, PRIVATE, 0),
        (WaitReason::Condition, REQUEUE_PI | PRIVATE, 2),
    ] {
        let call = Some(futex(op, value));
        assert_eq!(of_stack(SLEEPS, WAIT_IN_CALL, call, &waits), expected, "{op:x} {value}");
        assert_eq!(
            of_stack(SLEEPS, WAIT_IN_CALL, call, &[]),
            expected,
            "without symbols: {op:x} {value}"
        );
    }
    assert_eq!(of_stack(SLEEPS, 0, None, &waits), WaitReason::Condition);
}

/// Where `kptr_restrict` hides the kernel's symbols.
#[test]
fn without_symbols_the_call_and_file_give_the_reason() {
    use WaitReason as Is;
    let (file, pipe, socket, tty) = (Some(0o100_644), Some(0o010_600), Some(0o140_777), Some(0o020_620));
    for (expected, name, mode) in [
        (Is::Pipe, "read", pipe),
        (Is::Socket, "write", socket),
        (Is::Condition, "read", Some(0)),
        (Is::FileSystem, "pwrite64", file),
        (Is::Poll, "read", tty),
        (Is::Kernel, "write", tty),
        (Is::Kernel, "read", None),
        (Is::Socket, "recvmsg", None),
        (Is::Poll, "epoll_wait", None),
        (Is::Sleep, "clock_nanosleep", None),
        (Is::Child, "wait4", None),
        (Is::FileSystem, "fsync", file),
        (Is::FileSystem, "openat", None),
        (Is::Memory, "munmap", None),
        (Is::Kernel, "reboot", None),
    ] {
        assert_eq!(
            of_stack(SLEEPS, WAIT_IN_CALL, Some(call(name, mode)), &[]),
            expected,
            "{name} {mode:?}"
        );
    }
    assert_eq!(of_stack(BLOCKS, WAIT_IO, Some(call("read", file)), &[]), Is::Disk);
    assert_eq!(
        of_stack(BLOCKS, WAIT_IO, Some(call("io_uring_enter", None)), &[]),
        Is::Poll
    );
    assert_eq!(of_stack(BLOCKS, WAIT_IN_FAULT, None, &[]), Is::Memory);
    assert_eq!(of_stack(BLOCKS, WAIT_IN_FAULT | WAIT_IO, None, &[]), Is::Disk);
    assert_eq!(of_stack(0, WAIT_UNSEEN_START, None, &[]), Is::Unknown);
    assert_eq!(of_stack(state::STOPPED, 0, None, &[]), Is::Stopped);
}

#[test]
fn calls_have_the_names_of_their_architecture() {
    for (arch, number, name) in [
        ("x86_64", 0, "read"),
        ("x86_64", 202, "futex"),
        ("x86_64", 426, "io_uring_enter"),
        ("aarch64", 63, "read"),
        ("aarch64", 98, "futex"),
        ("x86_64", 9999, "syscall 9999"),
        ("riscv64", 63, "syscall 63"),
    ] {
        assert_eq!(call_name(arch, number), name);
    }
}

/// No name occurs twice: the second would never be found.
#[test]
fn every_name_has_its_own_entry() {
    for (rank, reason, pattern) in kernel::tests::entries() {
        let found = KernelFunction::new(pattern.trim_end_matches('*')).clue.unwrap();
        assert_eq!((found.rank, found.reason(None)), (rank, reason), "{pattern}");
    }
}

#[test]
fn an_interrupt_is_found_on_the_wakers_stack() {
    let by = |stack| in_interrupt(functions(stack));
    let timer = "hrtimer_wakeup < __hrtimer_run_queues < __sysvec_apic_timer_interrupt < asm_sysvec_apic_timer_interrupt < do_fault";
    assert_eq!(by(timer), Some(true));
    assert_eq!(
        by("folio_wake_bit < blk_done_softirq < handle_softirqs < run_ksoftirqd < kthread"),
        Some(true)
    );
    assert_eq!(
        by("try_to_wake_up < wake_up_q < futex_wake < do_futex < entry_SYSCALL_64_after_hwframe"),
        Some(false)
    );
    assert_eq!(
        by("folio_wake_bit < ext4_end_io_rsv_work [ext4] < process_one_work < worker_thread"),
        Some(false)
    );
    assert_eq!(in_interrupt(["", ""]), None);
}

#[test]
fn only_calls_that_wait_for_one_futex_have_its_address() {
    let address = |call: CallScene<'_>| futex_address(&call).map(|address| address.0);
    // WAIT, and with the flags PRIVATE and CLOCK_REALTIME; WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI, LOCK_PI2.
    for op in [0, 128, 384, 9, 11, 6, 13] {
        assert_eq!(address(futex(op, 2)), Some(0x7f00_0000_1000), "{op}");
    }
    // WAKE, REQUEUE, WAKE_OP, UNLOCK_PI.
    for op in [1, 129, 3, 5, 7] {
        assert_eq!(address(futex(op, 2)), None, "{op}");
    }
    let arguments = [0x7f00_0000_1000, 0, 2];
    let call = |name| CallScene {
        name,
        arguments,
        ..CallScene::default()
    };
    assert_eq!(address(call("futex_wait")), Some(0x7f00_0000_1000));
    assert_eq!(address(call("futex_waitv")), None, "a list of futexes");
    assert_eq!(address(call("read")), None);
    let of_32_bits = CallScene {
        is_32_bit: true,
        ..call("futex_time64")
    };
    assert_eq!(
        address(CallScene {
            arguments: [0xffff_ffff_0804_c020, 0, 2],
            ..of_32_bits
        }),
        Some(0x0804_c020)
    );
}
