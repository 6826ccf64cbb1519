//! Parts that several kinds of records have.

use std::borrow::Cow;

use profiler_common::{RecordHeader, stack};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use base::addr::Timestamp;
use base::event::{At, Device, FileId, Stacks};

/// The stacks of a record; `rest` is what follows the record's head.
pub fn stacks<'a>(stacks: &stack::Stacks, rest: &'a [u8]) -> Option<Stacks<'a>> {
    Some(Stacks {
        flags: stacks.flags,
        user: stacks.user,
        kernel: stacks.kernel,
        regs: stacks.regs,
        copy: Cow::Borrowed(rest.get(..stacks.copied as usize)?),
    })
}

/// A file from the kernel's device number (major << 20 | minor), inode and generation.
pub fn file(inode: u64, device: u32, generation: u32) -> FileId {
    FileId {
        major: device >> 20,
        minor: device & 0xf_ffff,
        inode,
        generation,
    }
}

pub fn read<T: FromBytes + KnownLayout + Immutable>(record: &[u8]) -> Option<T> {
    T::read_from_prefix(record).ok().map(|(record, _)| record)
}

pub fn at(header: &RecordHeader) -> At {
    At {
        time: Timestamp(header.time),
        pid: header.pid,
        tid: header.tid,
    }
}

/// Up to the first NUL.
pub fn name(comm: &[u8]) -> Vec<u8> {
    comm.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

/// A device from the kernel's number: major << 20 | minor.
pub fn device(number: u32) -> Device {
    Device {
        major: number >> 20,
        minor: number & 0xf_ffff,
    }
}
