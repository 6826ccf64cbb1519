//! The read-only configuration that user space sets before the programs are loaded.

/// Offsets (bytes) of the kernel's struct fields, from the running kernel's BTF, and the recording's settings.
///
/// An offset of [`MISSING`] disables exactly the features that need it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Config {
    /// [`crate::ABI_VERSION`] of user space.
    pub abi_version: u32,
    /// 1: every task is recorded (`-a`).
    pub whole_system: u32,
    /// Maximum bytes of stack to copy; 0 disables the copy.
    pub stack_copy: u32,
    /// A CPU wakes the recorder each time it has added this many bytes to the bulk ring.
    pub doorbell: u32,
    /// 1: user stacks are walked with unwind tables.
    pub walk: u32,
    /// 1: the stack is copied from its leaf even if the walk succeeded, to compare the two.
    pub check_walks: u32,
    /// The recorder's own thread groups, which are never recorded.
    pub exclude_pid: [u32; 3],
    /// `task_struct.pid`
    pub task_pid: u32,
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.comm`
    pub task_comm: u32,
    /// `task_struct.exit_code`
    pub task_exit_code: u32,
    /// `task_struct.min_flt`
    pub task_min_flt: u32,
    /// `task_struct.maj_flt`
    pub task_maj_flt: u32,
    /// `task_struct.nvcsw`
    pub task_nvcsw: u32,
    /// `task_struct.nivcsw`
    pub task_nivcsw: u32,
    /// `task_struct.se.sum_exec_runtime`
    pub task_sum_exec_runtime: u32,
    /// `task_struct.mm`
    pub task_mm: u32,
    /// `task_struct.flags`
    pub task_flags: u32,
    /// `task_struct.thread.fsbase` (x86-64): the thread control block is above a thread's stack.
    pub task_fsbase: u32,
    /// `mm_struct.start_stack`
    pub mm_start_stack: u32,
    /// `mm_struct.arg_start`
    pub mm_arg_start: u32,
    /// `mm_struct.arg_end`
    pub mm_arg_end: u32,
    /// `mm_struct.flags`, whose lowest two bits determine who may inspect the process (before 7.2)
    pub mm_flags: u32,
    /// `task_struct.exec_state` (7.2 and later)
    pub task_exec_state: u32,
    /// `task_exec_state.dumpable`, which determines it there
    pub exec_state_dumpable: u32,
    /// Whether processes that their user may not inspect are excluded: 0: no, else a `crate::scope::HIDES_*`.
    pub hides: u32,
    /// `linux_binprm.filename`
    pub bprm_filename: u32,
    /// `task_struct.__state` (before 5.14: `state`)
    pub task_state: u32,
    /// Which page faults are recorded: 0: none, else a `crate::fault::FAULTS_*`.
    pub faults: u32,
    /// 1: the mapping of a fault is looked up at the end of the fault (`bpf_find_vma`, kernel 5.17 and later).
    pub find_vma: u32,
    /// `task_struct.in_iowait`: its byte
    pub task_in_iowait: u32,
    /// ... and its bit in that byte.
    pub task_in_iowait_mask: u32,
    /// `task_struct.pagefault_disabled`
    pub task_pagefault_disabled: u32,
    /// `mm_struct.mm_lock_seq` (6.4 and later)
    pub mm_lock_seq: u32,
    /// 1: it is odd during a change (6.13 and later).
    pub mm_lock_seq_is_count: u32,
    /// `vm_area_struct.vm_start`
    pub vma_start: u32,
    /// `vm_area_struct.vm_end`
    pub vma_end: u32,
    /// `vm_area_struct.vm_pgoff`
    pub vma_pgoff: u32,
    /// `vm_area_struct.vm_flags`
    pub vma_flags: u32,
    /// `vm_area_struct.vm_file`
    pub vma_file: u32,
    /// `vm_area_struct.vm_mm`
    pub vma_mm: u32,
    /// `vm_area_struct.vm_lock_seq`
    pub vma_lock_seq: u32,
    /// `vm_area_struct.vm_refcnt`: 6.15 and later.
    pub vma_refcnt: u32,
    /// `vm_area_struct.detached`: before 6.15.
    pub vma_detached: u32,
    /// `task_struct.group_leader`
    pub task_group_leader: u32,
    /// `file.f_inode`
    pub file_inode: u32,
    /// `file.f_ra.mmap_miss`
    pub file_mmap_miss: u32,
    /// `inode.i_ino`
    pub inode_ino: u32,
    /// `inode.i_generation`
    pub inode_generation: u32,
    /// `inode.i_sb`
    pub inode_sb: u32,
    /// `super_block.s_dev`
    pub sb_dev: u32,
    /// `super_block.s_magic`
    pub sb_magic: u32,
    /// `address_space.host`
    pub mapping_host: u32,
    /// `folio.mapping`
    pub folio_mapping: u32,
    /// `folio.index`
    pub folio_index: u32,
    /// `folio.flags`
    pub folio_flags: u32,
    /// `folio._folio_order` (6.1 to 6.5)
    pub folio_order: u32,
    /// `folio._flags_1`, whose lowest byte is the order (6.6 and later)
    pub folio_flags_1: u32,
    /// Number of the page flag `PG_head`.
    pub page_head: u32,
    /// Bit of `PG_swapbacked` in a page's flags
    pub page_swapbacked: u32,
    /// `REQ_SWAP` in an operation; 0: the kernel does not have it
    pub operation_swap: u32,
    /// 1: waits are recorded.
    pub waits: u32,
    /// Shorter waits than this, in ns, are only aggregated.
    pub wait_min: u32,
    /// Burst limit: this many waits of a thread have their stacks walked, however fast they occur.
    pub wait_burst: u32,
    /// 1: bits 0 to 19 of the CPU's `preempt_count` can be read at the two addresses below.
    pub preempt_count_known: u32,
    /// 1: `iomap_dio.size` excludes the bio that is being queued.
    pub dio_size_is_before: u32,
    /// Address of the kernel's array `__per_cpu_offset`.
    pub per_cpu_offset: u64,
    /// Address of a CPU's `preempt_count`, relative to that CPU's offset.
    pub preempt_count: u64,
    /// System calls whose first argument is a file descriptor.
    pub calls_with_file: CallSet,
    /// System calls whose first argument is a path.
    pub calls_with_path: CallSet,
    /// System calls whose second argument is a path.
    pub calls_with_path_second: CallSet,
    /// `task_struct.thread_info.status` (x86-64): the kind of system call that the thread is in.
    pub task_status: u32,
    /// `task_struct.files`
    pub task_files: u32,
    /// `files_struct.fdt`
    pub files_fdt: u32,
    /// `fdtable.fd`
    pub fdtable_fd: u32,
    /// `fdtable.max_fds`
    pub fdtable_max_fds: u32,
    /// `file.f_path.dentry`
    pub file_dentry: u32,
    /// `dentry.d_parent`
    pub dentry_parent: u32,
    /// `dentry.d_name.name`
    pub dentry_name: u32,
    /// `dentry.d_name.hash_len`
    pub dentry_hash: u32,
    /// `inode.i_mode`
    pub inode_mode: u32,
    /// `inode.i_dentry.first`
    pub inode_dentries: u32,
    /// `dentry.d_u.d_alias`
    pub dentry_alias: u32,
    /// `request.q`
    pub request_queue: u32,
    /// `request.bio`
    pub request_bio: u32,
    /// `request.part`
    pub request_part: u32,
    /// `request.__sector`
    pub request_sector: u32,
    /// `request.__data_len`
    pub request_bytes: u32,
    /// `request.cmd_flags`
    pub request_flags: u32,
    /// `request_queue.disk`
    pub queue_disk: u32,
    /// `request_queue.mq_ops`
    pub queue_mq_ops: u32,
    /// `gendisk.major`
    pub disk_major: u32,
    /// `gendisk.first_minor`
    pub disk_first_minor: u32,
    /// `gendisk.queue`
    pub disk_queue: u32,
    /// `block_device.bd_disk`
    pub block_device_disk: u32,
    /// `bio.bi_bdev`
    pub bio_device: u32,
    /// `bio.bi_iter.bi_sector`
    pub bio_sector: u32,
    /// `bio.bi_iter.bi_size`
    pub bio_bytes: u32,
    /// `bio.bi_iter.bi_idx`
    pub bio_index: u32,
    /// `bio.bi_opf`
    pub bio_flags: u32,
    /// `bio.bi_status`
    pub bio_status: u32,
    /// `bio.bi_next`
    pub bio_next: u32,
    /// `bio.bi_io_vec`
    pub bio_vector: u32,
    /// `bio_vec.bv_page`
    pub vector_page: u32,
    /// `page.compound_head`; from 7.2 on `page.compound_info`
    pub page_head_of: u32,
    /// `bio.bi_private`
    pub bio_private: u32,
    /// `iomap_dio.iocb`
    pub dio_iocb: u32,
    /// `iomap_dio.size`
    pub dio_size: u32,
    /// `kiocb.ki_filp`
    pub iocb_file: u32,
    /// `kiocb.ki_pos`
    pub iocb_position: u32,
    /// `super_block.s_bdev`
    pub sb_bdev: u32,
}

impl Config {
    /// Records nothing and knows no offset.
    pub const NOTHING: Self = Self {
        abi_version: crate::ABI_VERSION,
        whole_system: 0,
        stack_copy: 0,
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
        task_nvcsw: MISSING,
        task_nivcsw: MISSING,
        task_sum_exec_runtime: MISSING,
        task_mm: MISSING,
        task_flags: MISSING,
        task_fsbase: MISSING,
        mm_start_stack: MISSING,
        mm_arg_start: MISSING,
        mm_arg_end: MISSING,
        mm_flags: MISSING,
        task_exec_state: MISSING,
        exec_state_dumpable: MISSING,
        hides: 0,
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
        vma_lock_seq: MISSING,
        vma_refcnt: MISSING,
        vma_detached: MISSING,
        task_group_leader: MISSING,
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
        page_swapbacked: MISSING,
        operation_swap: 0,
        waits: 0,
        wait_min: 0,
        wait_burst: 0,
        preempt_count_known: 0,
        dio_size_is_before: 0,
        per_cpu_offset: 0,
        preempt_count: 0,
        calls_with_file: CallSet::EMPTY,
        calls_with_path: CallSet::EMPTY,
        calls_with_path_second: CallSet::EMPTY,
        task_status: MISSING,
        task_files: MISSING,
        files_fdt: MISSING,
        fdtable_fd: MISSING,
        fdtable_max_fds: MISSING,
        file_dentry: MISSING,
        dentry_parent: MISSING,
        dentry_name: MISSING,
        dentry_hash: MISSING,
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
}

/// Words of 32 bits for a bit of each system call: there are fewer than 512.
pub const CALL_WORDS: usize = 16;

/// A set of system calls, by number.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct CallSet {
    /// Those of 64-bit programs.
    pub native: [u32; CALL_WORDS],
    /// Those with [`crate::switch::CALL_I386`].
    pub i386: [u32; CALL_WORDS],
}

impl CallSet {
    /// None.
    pub const EMPTY: Self = Self {
        native: [0; CALL_WORDS],
        i386: [0; CALL_WORDS],
    };
}

/// The value of an offset that the running kernel does not have.
pub const MISSING: u32 = u32::MAX;

const _: () = assert!(size_of::<Config>() == 832);
