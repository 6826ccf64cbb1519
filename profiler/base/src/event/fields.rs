//! How values are stored in a chunk's payload: one description of each, which `encode` and `decode` share.

use profiler_common::fault::{FaultCounts, Waits};
use profiler_common::stack::UserRegs;

use super::bytes::{Bytes, Malformed, put, put_bytes, put_difference};
use super::format::{MAX_FRAMES, MAX_TEXT};
use super::{
    At, Attempts, CallPath, Device, DeviceName, FaultFile, FileId, Mapping, OtherFaults, PagesPopulated, TaskExec,
    TaskExit, TaskNew,
};
use crate::addr::{Avma, FileOffset, KernelOffset};

/// A value whose bytes depend on nothing else.
pub trait Stored: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads what [`Self::put`] wrote.
    fn get(bytes: &mut Bytes<'_>) -> Result<Self, Malformed>;
}

/// An event of a thread whose fields, except for [`At`], are [`Stored`].
pub trait Record: Sized {
    /// The thread and time.
    fn at(&self) -> &At;

    /// Appends the other fields.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads what [`Self::put`] wrote.
    fn get(at: At, bytes: &mut Bytes<'_>) -> Result<Self, Malformed>;
}

macro_rules! stored {
    ($($Type:ty: |$value:ident, $out:ident| $put:expr, |$bytes:ident| $get:expr;)*) => {
        $(impl Stored for $Type {
            #[inline]
            fn put(&self, $out: &mut Vec<u8>) {
                let $value = self;
                $put;
            }

            #[inline]
            fn get($bytes: &mut Bytes<'_>) -> Result<Self, Malformed> {
                $get
            }
        })*
    };
}

stored! {
    u8: |value, out| out.push(*value), |bytes| bytes.byte();
    u16: |value, out| put(out, (*value).into()), |bytes| u16::try_from(bytes.get()?).map_err(|_| Malformed);
    u32: |value, out| put(out, (*value).into()), |bytes| bytes.get_u32();
    u64: |value, out| put(out, *value), |bytes| bytes.get();
    i32: |value, out| value.cast_unsigned().put(out), |bytes| bytes.get_u32().map(u32::cast_signed);
    bool: |value, out| out.push((*value).into()), |bytes| match bytes.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    };
    Avma: |value, out| value.0.put(out), |bytes| bytes.get().map(Self);
    FileOffset: |value, out| value.0.put(out), |bytes| bytes.get().map(Self);
    KernelOffset: |value, out| value.0.put(out), |bytes| bytes.get().map(Self);
    Vec<u8>: |value, out| put_bytes(out, value, MAX_TEXT), |bytes| bytes.get_bytes(MAX_TEXT).map(<[u8]>::to_vec);
    String: |value, out| put_bytes(out, value.as_bytes(), MAX_TEXT),
        |bytes| Ok(String::from_utf8_lossy(bytes.get_bytes(MAX_TEXT)?).into_owned());
    Vec<u64>: |value, out| {
        let numbers = &value[..value.len().min(MAX_FRAMES)];
        put(out, numbers.len() as u64);
        for number in numbers {
            number.put(out);
        }
    }, |bytes| (0..bytes.get_len(MAX_FRAMES)?).map(|_| bytes.get()).collect();
    [u64; 3]: |value, out| for number in value {
        number.put(out);
    }, |bytes| Ok([bytes.get()?, bytes.get()?, bytes.get()?]);
}

impl<T: Stored> Stored for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(bytes: &mut Bytes<'_>) -> Result<Self, Malformed> {
        if bool::get(bytes)? {
            T::get(bytes).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(bytes: &mut Bytes<'_>) -> Result<Self, Malformed> {
        Ok((A::get(bytes)?, B::get(bytes)?))
    }
}

/// The order of the fields of structs.
macro_rules! in_order {
    ($(struct $Struct:ident { $($field:ident),* })* $(event $Event:ident { $($part:ident),* })*) => {
        $(impl Stored for $Struct {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn get(bytes: &mut Bytes<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($field: Stored::get(bytes)?),* })
            }
        })*
        $(impl Record for $Event {
            fn at(&self) -> &At {
                &self.at
            }

            fn put(&self, out: &mut Vec<u8>) {
                $(self.$part.put(out);)*
            }

            fn get(at: At, bytes: &mut Bytes<'_>) -> Result<Self, Malformed> {
                Ok(Self { at, $($part: Stored::get(bytes)?),* })
            }
        })*
    };
}

in_order! {
    struct FileId { inode, major, minor, generation }
    struct FaultFile { file, offset, magic, mmap_miss }
    struct Waits { lock, disk, blocked, preempted, reclaim }
    struct Attempts { error_code, asked, returned, retries }
    struct OtherFaults { count, time }
    struct FaultCounts { seen, lost, filtered, failed, before }
    struct UserRegs { ip, sp, fp, lr }
    struct Device { major, minor }
    struct DeviceName { device, name, before, after }
    event TaskNew { parent, existed, clone_flags, name }
    event TaskExec { existed, old_tid, name, path, command_line }
    event TaskExit { exit_code, cpu_time, sum_exec_runtime, minor_faults, major_faults, faults }
    event Mapping { start, len, offset, file, protection, flags, path, build_id }
    event PagesPopulated { start, len }
    event CallPath { path }
}

/// Appends the ids of a thread: that of the process, which its main thread shares, and the difference.
pub fn put_thread(out: &mut Vec<u8>, (pid, tid): (u32, u32)) {
    pid.put(out);
    put_difference(out, u64::from(pid), u64::from(tid));
}

/// Reads what [`put_thread`] wrote.
pub fn get_thread(bytes: &mut Bytes<'_>) -> Result<(u32, u32), Malformed> {
    let pid = bytes.get_u32()?;
    let tid = bytes.get_difference(u64::from(pid))?;
    Ok((pid, u32::try_from(tid).map_err(|_| Malformed)?))
}

/// A byte whose bits, from the lowest, are these flags.
pub fn bits<const N: usize>(flags: [bool; N]) -> u8 {
    flags.iter().zip(0..).map(|(is, bit)| u8::from(*is) << bit).sum()
}
