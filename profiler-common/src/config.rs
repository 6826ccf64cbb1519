//! The read-only configuration that user space sets before the programs are loaded.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where an offset is stored.
#[cfg(feature = "user")]
pub type Place = fn(&mut Config) -> &mut u32;

/// Defines the configuration: each field with its value before anything is known and, for an offset, the kernel's field.
/// Of several fields, the first one that the kernel has counts.
macro_rules! config {
    ($(#[$meta:meta])* pub struct Config {
        $($(#[$doc:meta])* $field:ident: $Type:ty = $initial:expr $(, at $($path:literal)or+)? $(, optionally at $optional:literal)?;)*
    }) => {
        $(#[$meta])*
        pub struct Config {
            $(
                $($(#[doc = concat!("`", $path, "`")])+)?
                $(#[doc = concat!("`", $optional, "`")])?
                $(#[$doc])*
                pub $field: $Type,
            )*
        }

        impl Config {
            /// Records nothing and knows no offset.
            pub const NOTHING: Self = Self { $($field: $initial,)* };

            /// The kernel's names of each offset.
            #[cfg(feature = "user")]
            pub const OFFSETS: &[(&[&str], Place)] = &[$($((&[$($path),+], |config| &mut config.$field),)?)*];

            /// Offsets that some kernels do not have.
            #[cfg(feature = "user")]
            pub const OPTIONAL: &[(&str, Place)] = &[$($(($optional, |config| &mut config.$field),)?)*];
        }
    };
}

config! {
    /// Offsets (bytes) of the kernel's struct fields, from the running kernel's BTF, and the recording's settings.
    ///
    /// An offset of [`MISSING`] disables exactly the features that need it.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    #[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
    pub struct Config {
        /// [`crate::ABI_VERSION`] of user space.
        abi_version: u32 = crate::ABI_VERSION;
        /// 1: every task is recorded (`-a`).
        whole_system: u32 = 0;
        /// Maximum bytes of stack to copy; 0 disables the copy.
        stack_copy: u32 = 0;
        /// A CPU wakes the recorder each time it has added this many bytes to the bulk ring.
        doorbell: u32 = u32::MAX;
        /// 1: user stacks are walked with unwind tables.
        walk: u32 = 0;
        /// 1: the stack is copied from its leaf even if the walk succeeded, to compare the two.
        check_walks: u32 = 0;
        /// The recorder's own thread groups, which are never recorded.
        exclude_pid: [u32; 3] = [0; 3];
        task_pid: u32 = MISSING, at "task_struct.pid";
        task_tgid: u32 = MISSING, at "task_struct.tgid";
        task_thread_pid: u32 = MISSING, optionally at "task_struct.thread_pid";
        pid_level: u32 = MISSING, optionally at "pid.level";
        pid_numbers: u32 = MISSING, optionally at "pid.numbers";
        /// Level of the recorder's pid namespace; 0: it is the first one, whose numbers tasks have themselves.
        pid_namespace_level: u32 = 0;
        task_comm: u32 = MISSING, at "task_struct.comm";
        task_exit_code: u32 = MISSING, at "task_struct.exit_code";
        task_min_flt: u32 = MISSING, at "task_struct.min_flt";
        task_maj_flt: u32 = MISSING, at "task_struct.maj_flt";
        task_nvcsw: u32 = MISSING, at "task_struct.nvcsw";
        task_nivcsw: u32 = MISSING, at "task_struct.nivcsw";
        task_sum_exec_runtime: u32 = MISSING, at "task_struct.se.sum_exec_runtime";
        /// 6.18 and later: the thread may not run until its cgroup has quota again.
        task_throttled: u32 = MISSING, optionally at "task_struct.throttled";
        task_prio: u32 = MISSING, optionally at "task_struct.prio";
        task_cfs_rq: u32 = MISSING, optionally at "task_struct.se.cfs_rq";
        cfs_rq_rq: u32 = MISSING, optionally at "cfs_rq.rq";
        /// Above 0: a cgroup above these threads has no quota left.
        cfs_rq_throttle_count: u32 = MISSING, optionally at "cfs_rq.throttle_count";
        /// 6.6 and later: for how long that was so, until the last time that it ended, in ns.
        cfs_rq_throttled_time: u32 = MISSING, optionally at "cfs_rq.throttled_clock_self_time";
        task_mm: u32 = MISSING, at "task_struct.mm";
        task_flags: u32 = MISSING, at "task_struct.flags";
        /// The thread control block is above a thread's stack. The second name is arm64's.
        task_fsbase: u32 = MISSING, at "task_struct.thread.fsbase" or "task_struct.thread.uw.tp_value";
        mm_start_stack: u32 = MISSING, at "mm_struct.start_stack";
        mm_arg_start: u32 = MISSING, at "mm_struct.arg_start";
        mm_arg_end: u32 = MISSING, at "mm_struct.arg_end";
        /// Before 7.2: its lowest two bits determine who may inspect the process.
        mm_flags: u32 = MISSING, optionally at "mm_struct.flags";
        /// 7.2 and later.
        task_exec_state: u32 = MISSING, optionally at "task_struct.exec_state";
        /// 7.2 and later: determines who may inspect the process.
        exec_state_dumpable: u32 = MISSING, optionally at "task_exec_state.dumpable";
        /// Whether processes that their user may not inspect are excluded: 0: no, else a `crate::scope::HIDES_*`.
        hides: u32 = 0;
        bprm_filename: u32 = MISSING, at "linux_binprm.filename";
        /// The second name is from before 5.14.
        task_state: u32 = MISSING, at "task_struct.__state" or "task_struct.state";
        /// Which page faults are recorded: 0: none, else a `crate::fault::FAULTS_*`.
        faults: u32 = 0;
        /// 1: the mapping of a fault is looked up at the end of the fault (`bpf_find_vma`, kernel 5.17 and later).
        find_vma: u32 = 0;
        /// `task_struct.in_iowait`: its byte
        task_in_iowait: u32 = MISSING;
        /// ... and its bit in that byte.
        task_in_iowait_mask: u32 = 0;
        task_pagefault_disabled: u32 = MISSING, at "task_struct.pagefault_disabled";
        mm_pgd: u32 = MISSING, at "mm_struct.pgd";
        /// 1: page tables can be read, so pages that system calls map ahead are recorded where no fault shows them.
        populated: u32 = 0;
        /// Flags of all new mappings: `mlockall` sets one.
        mm_def_flags: u32 = MISSING, optionally at "mm_struct.def_flags";
        unmapped_length: u32 = MISSING, optionally at "vm_unmapped_area_info.length";
        /// Levels of page tables (`CONFIG_PGTABLE_LEVELS`, and `la57`); 0: page tables are not read.
        table_levels: u32 = 0;
        /// x86-64: bits of a physical address; an entry of a page table may have others above them. arm64: bits of a virtual one.
        table_bits: u32 = 0;
        /// End of the machine's memory: a physical address, in GiB.
        physical_end: u32 = 0;
        /// 1: the kernel maps more than the usual 16 pages around a fault.
        wide_around: u32 = 0;
        /// arm64: binary logarithm of the page size. Whatever it is, records count pages of 4 KiB.
        page_shift: u32 = 12;
        /// 6.4 and later.
        mm_lock_seq: u32 = MISSING, optionally at "mm_struct.mm_lock_seq";
        /// 1: it is odd during a change (6.13 and later).
        mm_lock_seq_is_count: u32 = 0;
        vma_start: u32 = MISSING, at "vm_area_struct.vm_start";
        vma_end: u32 = MISSING, at "vm_area_struct.vm_end";
        vma_pgoff: u32 = MISSING, at "vm_area_struct.vm_pgoff";
        vma_flags: u32 = MISSING, at "vm_area_struct.vm_flags";
        vma_file: u32 = MISSING, at "vm_area_struct.vm_file";
        vma_mm: u32 = MISSING, at "vm_area_struct.vm_mm";
        /// Kernels since 6.4 have a lock in each mapping; without it, a mapping is looked up more often.
        vma_lock_seq: u32 = MISSING, optionally at "vm_area_struct.vm_lock_seq";
        /// 6.15 and later.
        vma_refcnt: u32 = MISSING, optionally at "vm_area_struct.vm_refcnt";
        /// Before 6.15.
        vma_detached: u32 = MISSING, optionally at "vm_area_struct.detached";
        /// 6.1 and later, where its nodes are as expected: the tree of an address space's mappings.
        mm_tree: u32 = MISSING, optionally at "mm_struct.mm_mt.ma_root";
        /// Explicit padding.
        pad: u32 = 0;
        task_group_leader: u32 = MISSING, at "task_struct.group_leader";
        task_fs: u32 = MISSING, optionally at "task_struct.fs";
        fs_in_exec: u32 = MISSING, optionally at "fs_struct.in_exec";
        file_inode: u32 = MISSING, at "file.f_inode";
        file_mmap_miss: u32 = MISSING, at "file.f_ra.mmap_miss";
        inode_ino: u32 = MISSING, at "inode.i_ino";
        inode_generation: u32 = MISSING, at "inode.i_generation";
        inode_sb: u32 = MISSING, at "inode.i_sb";
        inode_size: u32 = MISSING, optionally at "inode.i_size";
        sb_dev: u32 = MISSING, at "super_block.s_dev";
        sb_magic: u32 = MISSING, at "super_block.s_magic";
        mapping_host: u32 = MISSING, at "address_space.host";
        folio_mapping: u32 = MISSING, at "folio.mapping";
        folio_index: u32 = MISSING, at "folio.index";
        folio_flags: u32 = MISSING, at "folio.flags";
        /// 6.1 to 6.5, which need it.
        folio_order: u32 = MISSING, optionally at "folio._folio_order";
        /// Its lowest byte is the order (6.6 and later).
        folio_flags_1: u32 = MISSING, at "folio._flags_1";
        /// Number of the page flag `PG_head`.
        page_head: u32 = MISSING;
        /// Bit of `PG_swapbacked` in a page's flags
        page_swapbacked: u32 = MISSING;
        /// `REQ_SWAP` in an operation; 0: the kernel does not have it
        operation_swap: u32 = 0;
        /// 1: waits are recorded.
        waits: u32 = 0;
        /// Shorter waits than this, in ns, are only aggregated.
        wait_min: u32 = 0;
        /// Burst limit: this many waits of a thread have their stacks walked, however fast they occur.
        wait_burst: u32 = 0;
        /// 1: `iomap_dio.size` excludes the bio that is being queued.
        dio_size_is_before: u32 = 0;
        /// 1: what costs too much is left out ([`crate::thinning`]).
        thins: u32 = 0;
        /// Address of the recorder's pid namespace.
        pid_namespace: u64 = 0;
        /// Address of an array of the kernel's: x86-64: `__per_cpu_offset`, or 0; arm64: `swapper_pg_dir`, its own page table.
        kernel_array: u64 = 0;
        /// Address of a CPU's `preempt_count`, relative to that CPU's offset, or, without the array, to its run queue. arm64: its offset in
        /// the current task. 0: unknown.
        preempt_count: u64 = 0;
        /// arm64: the bits of an address that are not a signature ([`crate::unwind::address_mask`]).
        address_mask: u64 = crate::unwind::ARM64_ADDRESS;
        /// System calls whose first argument is a file descriptor.
        calls_with_file: CallSet = CallSet::EMPTY;
        /// System calls whose first argument is a path.
        calls_with_path: CallSet = CallSet::EMPTY;
        /// System calls whose second argument is a path.
        calls_with_path_second: CallSet = CallSet::EMPTY;
        /// x86-64: the kind of system call that the thread is in.
        task_status: u32 = MISSING, optionally at "task_struct.thread_info.status";
        task_files: u32 = MISSING, at "task_struct.files";
        files_fdt: u32 = MISSING, at "files_struct.fdt";
        fdtable_fd: u32 = MISSING, at "fdtable.fd";
        fdtable_max_fds: u32 = MISSING, at "fdtable.max_fds";
        file_dentry: u32 = MISSING, at "file.f_path.dentry";
        dentry_parent: u32 = MISSING, at "dentry.d_parent";
        dentry_name: u32 = MISSING, at "dentry.d_name.name";
        dentry_hash: u32 = MISSING, at "dentry.d_name.hash_len";
        inode_mode: u32 = MISSING, at "inode.i_mode";
        inode_dentries: u32 = MISSING, at "inode.i_dentry.first";
        /// In 7.2 the union has no name.
        dentry_alias: u32 = MISSING, at "dentry.d_u.d_alias" or "dentry.d_alias";
        request_queue: u32 = MISSING, at "request.q";
        request_bio: u32 = MISSING, at "request.bio";
        request_part: u32 = MISSING, at "request.part";
        request_sector: u32 = MISSING, at "request.__sector";
        request_bytes: u32 = MISSING, at "request.__data_len";
        request_flags: u32 = MISSING, at "request.cmd_flags";
        queue_disk: u32 = MISSING, at "request_queue.disk";
        queue_mq_ops: u32 = MISSING, at "request_queue.mq_ops";
        disk_major: u32 = MISSING, at "gendisk.major";
        disk_first_minor: u32 = MISSING, at "gendisk.first_minor";
        disk_queue: u32 = MISSING, at "gendisk.queue";
        block_device_disk: u32 = MISSING, at "block_device.bd_disk";
        bio_device: u32 = MISSING, at "bio.bi_bdev";
        bio_sector: u32 = MISSING, at "bio.bi_iter.bi_sector";
        bio_bytes: u32 = MISSING, at "bio.bi_iter.bi_size";
        bio_index: u32 = MISSING, at "bio.bi_iter.bi_idx";
        bio_flags: u32 = MISSING, at "bio.bi_opf";
        bio_status: u32 = MISSING, at "bio.bi_status";
        bio_next: u32 = MISSING, at "bio.bi_next";
        bio_vector: u32 = MISSING, at "bio.bi_io_vec";
        vector_page: u32 = MISSING, at "bio_vec.bv_page";
        /// The second name is from 7.2 on.
        page_head_of: u32 = MISSING, at "page.compound_head" or "page.compound_info";
        /// This one and those below lead from a bio of direct I/O through `iomap` to its file; file systems of other kernels do
        /// direct I/O in another way.
        bio_private: u32 = MISSING, optionally at "bio.bi_private";
        dio_iocb: u32 = MISSING, optionally at "iomap_dio.iocb";
        dio_size: u32 = MISSING, optionally at "iomap_dio.size";
        iocb_file: u32 = MISSING, optionally at "kiocb.ki_filp";
        iocb_position: u32 = MISSING, optionally at "kiocb.ki_pos";
        sb_bdev: u32 = MISSING, optionally at "super_block.s_bdev";
        /// Conditions that a recorded thread has to meet: kinds of `crate::selection`. Each is met by any of its values.
        required: u32 = 0;
        /// Conditions that a recorded thread must not meet, as above.
        excluding: u32 = 0;
        task_cgroups: u32 = MISSING, optionally at "task_struct.cgroups";
        /// `css_set.dfl_cgrp` or, for a controller of version 1, its element of `css_set.subsys`
        css_set_cgroup: u32 = MISSING;
        /// `cgroup_subsys_state.cgroup`, where the above leads to a controller's state.
        state_cgroup: u32 = MISSING;
        /// Always `cgroup_subsys_state.cgroup`.
        css_cgroup: u32 = MISSING, optionally at "cgroup_subsys_state.cgroup";
        cgroup_parent: u32 = MISSING, optionally at "cgroup.self.parent";
        cgroup_node: u32 = MISSING, optionally at "cgroup.kn";
        cgroup_root: u32 = MISSING, optionally at "cgroup.root";
        cgroup_root_hierarchy: u32 = MISSING, optionally at "cgroup_root.hierarchy_id";
        /// The hierarchy whose cgroups are recorded; 0: version 2.
        hierarchy: u32 = 0;
        node_id: u32 = MISSING, optionally at "kernfs_node.id";
        task_cred: u32 = MISSING, optionally at "task_struct.real_cred";
        cred_user: u32 = MISSING, optionally at "cred.euid";
        mm_exe_file: u32 = MISSING, optionally at "mm_struct.exe_file";
        task_signal: u32 = MISSING, optionally at "task_struct.signal";
        signal_live: u32 = MISSING, optionally at "signal_struct.live";
        node_name: u32 = MISSING, optionally at "kernfs_node.name";
        mm_mmap_lock: u32 = MISSING, optionally at "mm_struct.mmap_lock";
        mutex_owner: u32 = MISSING, optionally at "mutex.owner";
        rwsem_owner: u32 = MISSING, optionally at "rw_semaphore.owner";
        rt_mutex_owner: u32 = MISSING, optionally at "rt_mutex_base.owner";
    }
}

/// Words of 32 bits for a bit of each system call: there are fewer than 512.
pub const CALL_WORDS: usize = 16;

/// A set of system calls, by number.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
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

const _: () = assert!(size_of::<Config>() == 1032);
