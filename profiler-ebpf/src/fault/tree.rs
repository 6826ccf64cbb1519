//! The kernel's own tree of an address space's mappings, read without its lock: `mm->mm_mt`, a maple tree, from 6.1 on.
//!
//! `bpf_find_vma` takes the lock, and where interrupts are off it releases it in an interrupt of its own: 8 µs in a virtual machine. While the
//! kernel counts a fault, it has locked the mapping itself, which so stays where it is. Nodes around it may be replaced meanwhile, and are freed after
//! all programs that run now have ended: whoever gets a mapping from here checks it.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;

use crate::kernel::mappings;
use crate::maps::volatile;

/// Words of a node (`MAPLE_NODE_MASK` of include/linux/maple_tree.h).
const WORDS: usize = 32;
/// The low bits of the first entry if it is a node, and not a mapping (`xa_is_node`).
const IS_NODE: u64 = 2;
/// `maple_leaf_64` of `enum maple_type`, whose slots are mappings; and `maple_range_64`: 15 pivots, then 16 slots.
const LEAF: u64 = 1;
const RANGES: u64 = 2;
/// `maple_arange_64`: 9 pivots, then 10 slots.
const RANGES_AND_GAPS: u64 = 3;
/// Levels of the deepest tree: its nodes have at least five children, and an address space has at most 2^31 mappings.
const LEVELS: u32 = 14;

/// The node that this CPU compares.
#[map]
static NODE: PerCpuArray<Node> = PerCpuArray::with_max_entries(1, 0);

#[repr(C)]
struct Node {
    /// Its parent, its pivots, its slots. The n-th slot is of addresses up to the n-th pivot, the last one of the rest.
    words: [u64; WORDS],
    slot: u64,
}

/// The address of the mapping's `vm_area_struct` that contained `address` when the tree was read; 0: none was found.
#[inline(always)]
pub fn mapping_at(mm: u64, address: u64) -> u64 {
    let mut entry = mappings(mm).unwrap_or(0);
    // A tree of one mapping has no node. Small entries are errors (`MAPLE_RESERVED_RANGE`).
    if entry & 3 != IS_NODE || entry < 4096 {
        return 0;
    }
    for _ in 0..LEVELS {
        let next = child(entry, address);
        if kind(entry) == LEAF {
            return next;
        }
        entry = next;
    }
    0
}

#[inline(always)]
fn kind(entry: u64) -> u64 {
    entry >> 3 & 15
}

/// The slot of the node `entry` for an address; 0: it is empty, or can't be read.
///
/// Exported: to the verifier the result is any number.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn child(entry: u64, address: u64) -> u64 {
    let pivots = match kind(entry) {
        LEAF | RANGES => 15,
        RANGES_AND_GAPS => 9,
        _ => return 0,
    };
    let Some(node) = NODE.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's own memory, as faults are counted with interrupts off; the helper refuses what can't be read, and the index is within the array.
    unsafe {
        let words = (&raw mut (*node).words).cast::<u64>();
        let from = (entry & !(WORDS as u64 * 8 - 1)) as *const c_void;
        if bpf_probe_read_kernel(words.cast(), WORDS as u32 * 8, from) != 0 {
            return 0;
        }
        let (mut slot, mut goes_on) = (0_u64, true);
        for number in 0..15 {
            let pivot = words.add(1 + number).read();
            // After the last pivot there are zeroes.
            goes_on &= number < pivots && pivot < address && (pivot != 0 || number == 0);
            slot += u64::from(goes_on);
        }
        (&raw mut (*node).slot).write_volatile(slot);
        let slot = volatile(&(*node).slot) as usize;
        words.add((1 + pivots + slot) & (WORDS - 1)).read()
    }
}
