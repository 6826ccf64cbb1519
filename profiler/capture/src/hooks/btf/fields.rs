//! The fields of kernel structs that the programs read.

use profiler_common::config::{Config, MISSING};

use super::Btf;
use crate::hooks::arch::THREAD_POINTER;

/// Selects a field of the configuration.
type Place = fn(&mut Config) -> &mut u32;

/// The fields in the order of [`Config`]; of several names, the first one that the kernel has counts.
const FIELDS: [(&[&str], Place); 71] = [
    (&["task_struct.pid"], |c| &mut c.task_pid),
    (&["task_struct.tgid"], |c| &mut c.task_tgid),
    (&["task_struct.comm"], |c| &mut c.task_comm),
    (&["task_struct.exit_code"], |c| &mut c.task_exit_code),
    (&["task_struct.min_flt"], |c| &mut c.task_min_flt),
    (&["task_struct.maj_flt"], |c| &mut c.task_maj_flt),
    (&["task_struct.nvcsw"], |c| &mut c.task_nvcsw),
    (&["task_struct.nivcsw"], |c| &mut c.task_nivcsw),
    (&["task_struct.se.sum_exec_runtime"], |c| &mut c.task_sum_exec_runtime),
    (&["task_struct.mm"], |c| &mut c.task_mm),
    (&["task_struct.flags"], |c| &mut c.task_flags),
    (&[THREAD_POINTER], |c| &mut c.task_fsbase),
    (&["mm_struct.start_stack"], |c| &mut c.mm_start_stack),
    (&["mm_struct.arg_start"], |c| &mut c.mm_arg_start),
    (&["mm_struct.arg_end"], |c| &mut c.mm_arg_end),
    (&["linux_binprm.filename"], |c| &mut c.bprm_filename),
    (&["task_struct.__state", "task_struct.state"], |c| &mut c.task_state),
    (&["task_struct.pagefault_disabled"], |c| &mut c.task_pagefault_disabled),
    (&["vm_area_struct.vm_start"], |c| &mut c.vma_start),
    (&["vm_area_struct.vm_end"], |c| &mut c.vma_end),
    (&["vm_area_struct.vm_pgoff"], |c| &mut c.vma_pgoff),
    (&["vm_area_struct.vm_flags"], |c| &mut c.vma_flags),
    (&["vm_area_struct.vm_file"], |c| &mut c.vma_file),
    (&["vm_area_struct.vm_mm"], |c| &mut c.vma_mm),
    (&["task_struct.group_leader"], |c| &mut c.task_group_leader),
    (&["file.f_inode"], |c| &mut c.file_inode),
    (&["file.f_ra.mmap_miss"], |c| &mut c.file_mmap_miss),
    (&["inode.i_ino"], |c| &mut c.inode_ino),
    (&["inode.i_generation"], |c| &mut c.inode_generation),
    (&["inode.i_sb"], |c| &mut c.inode_sb),
    (&["super_block.s_dev"], |c| &mut c.sb_dev),
    (&["super_block.s_magic"], |c| &mut c.sb_magic),
    (&["address_space.host"], |c| &mut c.mapping_host),
    (&["folio.mapping"], |c| &mut c.folio_mapping),
    (&["folio.index"], |c| &mut c.folio_index),
    (&["folio.flags"], |c| &mut c.folio_flags),
    (&["folio._flags_1"], |c| &mut c.folio_flags_1),
    (&["task_struct.thread_info.status"], |c| &mut c.task_status),
    (&["task_struct.files"], |c| &mut c.task_files),
    (&["files_struct.fdt"], |c| &mut c.files_fdt),
    (&["fdtable.fd"], |c| &mut c.fdtable_fd),
    (&["fdtable.max_fds"], |c| &mut c.fdtable_max_fds),
    (&["file.f_path.dentry"], |c| &mut c.file_dentry),
    (&["dentry.d_parent"], |c| &mut c.dentry_parent),
    (&["dentry.d_name.name"], |c| &mut c.dentry_name),
    (&["dentry.d_name.hash_len"], |c| &mut c.dentry_hash),
    (&["inode.i_mode"], |c| &mut c.inode_mode),
    (&["inode.i_dentry.first"], |c| &mut c.inode_dentries),
    // In 7.2 the union has no name.
    (&["dentry.d_u.d_alias", "dentry.d_alias"], |c| &mut c.dentry_alias),
    (&["request.q"], |c| &mut c.request_queue),
    (&["request.bio"], |c| &mut c.request_bio),
    (&["request.part"], |c| &mut c.request_part),
    (&["request.__sector"], |c| &mut c.request_sector),
    (&["request.__data_len"], |c| &mut c.request_bytes),
    (&["request.cmd_flags"], |c| &mut c.request_flags),
    (&["request_queue.disk"], |c| &mut c.queue_disk),
    (&["request_queue.mq_ops"], |c| &mut c.queue_mq_ops),
    (&["gendisk.major"], |c| &mut c.disk_major),
    (&["gendisk.first_minor"], |c| &mut c.disk_first_minor),
    (&["gendisk.queue"], |c| &mut c.disk_queue),
    (&["block_device.bd_disk"], |c| &mut c.block_device_disk),
    (&["bio.bi_bdev"], |c| &mut c.bio_device),
    (&["bio.bi_iter.bi_sector"], |c| &mut c.bio_sector),
    (&["bio.bi_iter.bi_size"], |c| &mut c.bio_bytes),
    (&["bio.bi_iter.bi_idx"], |c| &mut c.bio_index),
    (&["bio.bi_opf"], |c| &mut c.bio_flags),
    (&["bio.bi_status"], |c| &mut c.bio_status),
    (&["bio.bi_next"], |c| &mut c.bio_next),
    (&["bio.bi_io_vec"], |c| &mut c.bio_vector),
    (&["bio_vec.bv_page"], |c| &mut c.vector_page),
    (&["page.compound_head", "page.compound_info"], |c| &mut c.page_head_of),
];

/// The fields that lead from a bio of direct I/O through `iomap` to its file.
const DIRECT: [(&str, Place); 6] = [
    ("bio.bi_private", |c| &mut c.bio_private),
    ("iomap_dio.iocb", |c| &mut c.dio_iocb),
    ("iomap_dio.size", |c| &mut c.dio_size),
    ("kiocb.ki_filp", |c| &mut c.iocb_file),
    ("kiocb.ki_pos", |c| &mut c.iocb_position),
    ("super_block.s_bdev", |c| &mut c.sb_bdev),
];

/// A function that 7.0 or later added with the change that makes `iomap_dio.size` grow after a bio was queued, and
/// not just before.
const COUNTS_AFTERWARDS: &str = "bio_iov_iter_bounce";

/// Sets every offset, and returns the fields that this kernel does not have.
pub fn locate(btf: &Btf, config: &mut Config) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for (names, field) in FIELDS {
        let offset = names.iter().find_map(|name| btf.offset(name));
        if offset.is_none() {
            missing.extend(names.first());
        }
        *field(config) = offset.unwrap_or(MISSING);
    }
    // Only kernels before 6.6 have it, and they need it.
    config.folio_order = btf.offset("folio._folio_order").unwrap_or(MISSING);
    // Whether a process may be inspected is in the first one before 7.2, and in the second one since.
    config.mm_flags = btf.offset("mm_struct.flags").unwrap_or(MISSING);
    config.task_exec_state = btf.offset("task_struct.exec_state").unwrap_or(MISSING);
    config.exec_state_dumpable = btf.offset("task_exec_state.dumpable").unwrap_or(MISSING);
    // Kernels since 6.4 have a lock in each mapping; without it, a mapping is looked up more often.
    config.vma_lock_seq = btf.offset("vm_area_struct.vm_lock_seq").unwrap_or(MISSING);
    config.vma_refcnt = btf.offset("vm_area_struct.vm_refcnt").unwrap_or(MISSING);
    config.vma_detached = btf.offset("vm_area_struct.detached").unwrap_or(MISSING);
    // Optional: file systems of other kernels do direct I/O in another way.
    for (name, field) in DIRECT {
        *field(config) = btf.offset(name).unwrap_or(MISSING);
    }
    config.dio_size_is_before = u32::from(btf.has_function(COUNTS_AFTERWARDS));
    config.mm_lock_seq = btf.offset("mm_struct.mm_lock_seq").unwrap_or(MISSING);
    config.mm_lock_seq_is_count = u32::from(btf.offset("mm_struct.mm_lock_seq.sequence").is_some());
    config.page_head = btf.enumerator("PG_head").unwrap_or(MISSING);
    config.page_swapbacked = btf.enumerator("PG_swapbacked").unwrap_or(MISSING);
    let swap = btf.enumerator("__REQ_SWAP");
    config.operation_swap = swap.and_then(|bit| 1_u32.checked_shl(bit)).unwrap_or(0);
    match btf.bit("task_struct.in_iowait") {
        Some((byte, mask)) => (config.task_in_iowait, config.task_in_iowait_mask) = (byte, mask),
        None => missing.push("task_struct.in_iowait"),
    }
    missing
}
