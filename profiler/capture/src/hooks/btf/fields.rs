//! The fields of kernel structs that the programs read.

use profiler_common::config::{Config, MISSING};

use super::Btf;

/// A function that 7.0 or later added with the change that makes `iomap_dio.size` grow after a bio was queued, and
/// not just before.
const COUNTS_AFTERWARDS: &str = "bio_iov_iter_bounce";

/// Sets every offset, and returns the fields that this kernel does not have.
pub fn locate(btf: &Btf, config: &mut Config) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for (names, field) in Config::OFFSETS {
        let offset = names.iter().find_map(|name| btf.offset(name));
        if offset.is_none() {
            missing.extend(names.first());
        }
        *field(config) = offset.unwrap_or(MISSING);
    }
    for (name, field) in Config::OPTIONAL {
        *field(config) = btf.offset(name).unwrap_or(MISSING);
    }
    config.dio_size_is_before = u32::from(btf.has_function(COUNTS_AFTERWARDS));
    config.mm_lock_seq_is_count = u32::from(btf.offset("mm_struct.mm_lock_seq.sequence").is_some());
    // What the programs expect of a node.
    let node = [
        ("maple_range_64.pivot", 8),
        ("maple_range_64.slot", 128),
        ("maple_arange_64.pivot", 8),
        ("maple_arange_64.slot", 80),
    ];
    if node.iter().any(|&(field, offset)| btf.offset(field) != Some(offset)) {
        config.mm_tree = MISSING;
    }
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
