//! The names of files, each sent once.
//!
//! A file's own numbers do not identify its name: it may be renamed, and on overlays, whose inodes have no generation, the next file reuses
//! its number at once. So records refer to a key of file and path together.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use profiler_common::stack::mix;
use profiler_common::switch::{FileNameHead, NAMES_LEN, OpenFile};
use profiler_common::{Loss, RecordKind};

use crate::emit::{self, At, lose};
use crate::kernel::{DEPTH, Dentry, Task, has_name};
use crate::maps::volatile;
use crate::walk::{self, WALKS};

/// `NAME_MAX` and the NUL.
const NAME: usize = 256;
const HEAD: usize = size_of::<FileNameHead>();
/// Capacity of the table of names that were sent, a power of two.
const NAMED_PLACES: u32 = 1 << 15;

/// Keys of file names that were sent.
#[map]
static NAMED: Array<u64> = Array::with_max_entries(NAMED_PLACES, 0);

/// Stores the key of the file's current name, and sends the name if it was not sent before.
#[inline(always)]
pub fn tell(file: &mut OpenFile, name: Option<Dentry>, at: At) {
    if !has_name(file) {
        return;
    }
    let Some(name) = name else { return };
    let key = mix(mix(file.inode, u64::from(file.device)), u64::from(file.generation));
    let key = mix(key, name.path_key()) | 1;
    file.name = key;
    let Some(place) = NAMED.get_ptr_mut(key as u32 >> 1 & (NAMED_PLACES - 1)) else {
        return;
    };
    // SAFETY: whole words; two CPUs that write at once cost a name that is sent twice.
    unsafe {
        if *place == key {
            return;
        }
        let Some(walk) = walk::acquire() else {
            lose(Loss::WalkerBusy);
            return;
        };
        let head = (&raw mut (*walk).frames).cast::<FileNameHead>();
        (*head).header = at.header(RecordKind::FileName, 0);
        (*head).file = *file;
        if send_file_name((*walk).level(), name.address()) != 0 {
            *place = key;
        } else {
            lose(Loss::NameRingFull);
        }
        walk::release(walk);
    }
}

/// The file that a descriptor of the task refers to; its name is sent if it was not before.
#[inline(always)]
pub fn tell_open(task: Task, descriptor: u64, at: At) -> Option<OpenFile> {
    // A descriptor is an int: the rest of the argument's register is arbitrary.
    let (inode, name) = task.open_file(descriptor & 0xffff_ffff)?;
    let mut file = inode.describe()?;
    tell(&mut file, Some(name), at);
    Some(file)
}

/// Sends the name of a file, whose directory entry is at `name`, in a record that is built in the frames of the walk of this number. 0: the ring
/// was full.
///
/// Exported, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn send_file_name(level: u32, name: u64) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else { return 0 };
    // SAFETY: this CPU's walk, of the program that called; the frames have space for the head, all names, and one more.
    unsafe {
        let record = (&raw mut (*walk).frames).cast::<u8>();
        let mut len = 0_usize;
        let (mut entry, mut cut) = (Dentry::at(name), 1);
        for _ in 0..DEPTH {
            let Some(parent) = entry.parent() else {
                cut = 0;
                break;
            };
            let Some(from) = entry.last_name() else { break };
            let to = record.add(HEAD + (volatile(&len) & (NAMES_LEN - 1)));
            let copied = bpf_probe_read_kernel_str(to.cast(), NAME as u32, from as *const _);
            if copied <= 1 {
                break;
            }
            len += copied as usize & (2 * NAME - 1);
            if len > NAMES_LEN - NAME {
                break;
            }
            entry = parent;
        }
        let len = volatile(&len).min(NAMES_LEN);
        let head = record.cast::<FileNameHead>();
        (*head).header.len = (HEAD + len) as u32;
        (*head).len = len as u32;
        (*head).cut = cut;
        u32::from(emit::output(record, HEAD + len))
    }
}
