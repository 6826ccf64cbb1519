//! Programs of a few instructions that ask the kernel one question, and are not attached to anything.
//!
//! Instruction set: Documentation/bpf/standardization/instruction-set.rst of the kernel; system call and structures:
//! include/uapi/linux/bpf.h.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// `BPF_MAP_CREATE`: type, sizes of key and value, capacity, flags.
const CREATE: c_long = 0;
/// `BPF_MAP_UPDATE_ELEM`: map, addresses of key and value, flags.
const UPDATE: c_long = 2;
/// `BPF_MAP_FREEZE`
const FREEZE: c_long = 22;
/// `BPF_MAP_TYPE_ARRAY`
const ARRAY: u32 = 2;
/// `BPF_F_RDONLY_PROG`
const READ_ONLY: u32 = 1 << 7;
/// `BPF_PSEUDO_MAP_VALUE`: a constant is the address of a map's value.
const MAP_VALUE: u8 = 2;
/// `BPF_PROG_LOAD`
const LOAD: c_long = 5;
/// `BPF_PROG_TEST_RUN`
const RUN: c_long = 10;
/// `BPF_PROG_TYPE_SYSCALL` (kernel 5.14)
const SYSCALL: u32 = 31;
/// `BPF_F_SLEEPABLE`, which that type needs.
const SLEEPABLE: u32 = 1 << 4;
const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";
/// An instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Attributes of [`LOAD`], up to the program's flags.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    first: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

/// Attributes of [`RUN`], up to the context.
#[repr(C)]
#[derive(Default)]
struct Run {
    program: u32,
    returned: u32,
    sizes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    context_size: u32,
    context_out_size: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    pad: u32,
}

/// A program that the kernel has accepted.
#[derive(Debug)]
pub struct Question(OwnedFd);

impl Question {
    /// Loads a program, which gets the address of its context in register 1.
    ///
    /// # Errors
    /// If the kernel or its policy has no such programs, or refuses this one.
    pub fn new(code: &[Instruction]) -> io::Result<Self> {
        let load = Load {
            kind: SYSCALL,
            instructions: u32::try_from(code.len()).unwrap_or(u32::MAX),
            first: code.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            flags: SLEEPABLE,
            ..Load::default()
        };
        // SAFETY: the attributes and what they point to are valid for the call.
        unsafe { open(LOAD, &raw const load) }.map(Self)
    }

    /// Runs it; it may change the context.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn ask<T: Copy>(&self, context: &mut T) -> io::Result<()> {
        let run = Run {
            program: self.0.as_raw_fd().cast_unsigned(),
            context_size: u32::try_from(size_of::<T>()).unwrap_or(u32::MAX),
            context: (&raw mut *context) as u64,
            ..Run::default()
        };
        // SAFETY: as above; the kernel copies the context back.
        unsafe { call(RUN, &raw const run) }.map(drop)
    }
}

/// A text that a program can pass to a helper as a format: a map that no process can change.
#[derive(Debug)]
pub struct Text(OwnedFd);

impl Text {
    /// Of up to 7 bytes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn new(text: [u8; 8]) -> io::Result<Self> {
        // SAFETY: the attributes and what they point to are valid for the calls; the first returns a new descriptor.
        unsafe {
            let map = open(CREATE, &[ARRAY, 4, 8, 1, READ_ONLY])?;
            let number = u64::from(map.as_raw_fd().cast_unsigned());
            let (key, value) = (0_u32, text);
            call(UPDATE, &[number, (&raw const key) as u64, (&raw const value) as u64, 0])?;
            call(FREEZE, &map.as_raw_fd().cast_unsigned())?;
            Ok(Self(map))
        }
    }

    /// `to = text`, in two places.
    pub fn address(&self, to: u8) -> [Instruction; 2] {
        [
            instruction(0x18, to, MAP_VALUE, self.0.as_raw_fd()),
            instruction(0, 0, 0, 0),
        ]
    }
}

/// # Safety
/// The attributes must be those of the command, which returns a new descriptor.
unsafe fn open<T>(command: c_long, attributes: *const T) -> io::Result<OwnedFd> {
    // SAFETY: by this function's own condition.
    unsafe { Ok(OwnedFd::from_raw_fd(call(command, attributes)?)) }
}

/// # Safety
/// The attributes must be those of the command.
unsafe fn call<T>(command: c_long, attributes: *const T) -> io::Result<i32> {
    // SAFETY: by this function's own condition.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    match i32::try_from(result) {
        Ok(result @ 0..) => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Without an offset.
pub fn instruction(code: u8, to: u8, from: u8, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers: from << 4 | to,
        offset: 0,
        immediate,
    }
}

/// `to = from`
pub fn copy(to: u8, from: u8) -> Instruction {
    instruction(0xbf, to, from, 0)
}

/// `to += value`
pub fn add(to: u8, value: i16) -> Instruction {
    instruction(0x07, to, 0, i32::from(value))
}

/// `to += from`
pub fn sum(to: u8, from: u8) -> Instruction {
    instruction(0x0f, to, from, 0)
}

/// `to <<= bits`
pub fn shift_left(to: u8, bits: i32) -> Instruction {
    instruction(0x67, to, 0, bits)
}

/// `to = value`
pub fn set(to: u8, value: i32) -> Instruction {
    instruction(0xb7, to, 0, value)
}

/// `to = value`, in two places.
pub fn constant(to: u8, value: u64) -> [Instruction; 2] {
    let bytes = value.to_le_bytes();
    let [low, high] = [0, 1].map(|half| {
        bytes
            .as_chunks::<4>()
            .0
            .get(half)
            .map_or(0, |half| i32::from_le_bytes(*half))
    });
    [instruction(0x18, to, 0, low), instruction(0, 0, 0, high)]
}

/// `*(u64 *)(to + offset) = from`
pub fn store(to: u8, offset: i16, from: u8) -> Instruction {
    Instruction {
        offset,
        ..instruction(0x7b, to, from, 0)
    }
}

/// `to = *(u64 *)(from + offset)`
pub fn load(to: u8, from: u8, offset: i16) -> Instruction {
    Instruction {
        offset,
        ..instruction(0x79, to, from, 0)
    }
}

/// Calls a helper.
pub fn call_helper(number: i32) -> Instruction {
    instruction(0x85, 0, 0, number)
}

/// Ends the program, which returns 0.
pub fn end() -> [Instruction; 2] {
    [set(0, 0), instruction(0x95, 0, 0, 0)]
}
