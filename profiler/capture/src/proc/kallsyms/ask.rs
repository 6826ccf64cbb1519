//! Asks the kernel for the addresses of its variables by name, through a program of a few instructions: the text of all
//! symbols takes the kernel 75 ms to write.
//!
//! Instruction set: Documentation/bpf/standardization/instruction-set.rst of the kernel; system call and structures:
//! include/uapi/linux/bpf.h.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// `BPF_PROG_LOAD`
const LOAD: c_long = 5;
/// `BPF_PROG_TEST_RUN`
const RUN: c_long = 10;
/// `BPF_PROG_TYPE_SYSCALL` (kernel 5.14)
const SYSCALL: u32 = 31;
/// `BPF_F_SLEEPABLE`, which that type needs.
const SLEEPABLE: u32 = 1 << 4;
/// `bpf_kallsyms_lookup_name` (kernel 5.16): name, its size, 0, and where the address is written.
const LOOKUP_NAME: i32 = 179;
const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";
/// Words that hold a name with the NUL at its end.
const NAME_WORDS: usize = 4;
/// Place of the name below the frame pointer, and of the address below the name.
const NAME: i16 = -32;
const ADDRESS: i16 = NAME - 8;

/// `-ENOENT`: the kernel has no such name.
const NONE: i64 = -2;

/// What the kernel says of a name.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Answer {
    /// 0, [`NONE`], or another error: addresses are hidden.
    returned: i64,
    address: u64,
}

/// An instruction.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
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

/// The addresses; `None` for a name that the kernel does not have.
///
/// # Errors
/// If the kernel or its policy has no such programs, hides its addresses, or a name is longer than 31 bytes.
pub fn addresses<const N: usize>(names: [&str; N]) -> io::Result<[Option<u64>; N]> {
    let code = program(&names).ok_or(io::ErrorKind::InvalidInput)?;
    let load = Load {
        kind: SYSCALL,
        instructions: u32::try_from(code.len()).unwrap_or(u32::MAX),
        first: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        flags: SLEEPABLE,
        ..Load::default()
    };
    // SAFETY: the attributes and what they point to are valid for the call, which returns a new descriptor.
    let program = unsafe { OwnedFd::from_raw_fd(call(LOAD, &raw const load)?) };
    let mut found = [Answer::default(); N];
    let run = Run {
        program: program.as_raw_fd().cast_unsigned(),
        context_size: u32::try_from(size_of_val(&found)).unwrap_or(u32::MAX),
        context: (&raw mut found) as u64,
        ..Run::default()
    };
    // SAFETY: as above; the kernel copies the context back to `found`.
    unsafe { call(RUN, &raw const run)? };
    if found.iter().any(|answer| ![0, NONE].contains(&answer.returned)) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(found.map(|answer| (answer.returned == 0).then_some(answer.address)))
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

/// Looks up each name, and writes the [`Answer`] of the same number to the context. `None`: a name is too long.
fn program(names: &[&str]) -> Option<Vec<Instruction>> {
    let mut code = vec![copy(6, 1)];
    for (number, name) in names.iter().enumerate() {
        let mut bytes = [0; 8 * NAME_WORDS];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        let size = i32::try_from(name.len() + 1)
            .ok()
            .filter(|_| name.len() < bytes.len())?;
        for (word, place) in bytes.as_chunks::<8>().0.iter().zip((NAME..).step_by(8)) {
            code.extend(constant(1, u64::from_le_bytes(*word)));
            code.push(store(10, place, 1));
        }
        code.extend(constant(1, 0));
        code.push(store(10, ADDRESS, 1));
        code.extend([copy(1, 10), add(1, NAME), set(2, size), set(3, 0)]);
        code.extend([copy(4, 10), add(4, ADDRESS), instruction(0x85, 0, 0, LOOKUP_NAME)]);
        let load = Instruction {
            offset: ADDRESS,
            ..instruction(0x79, 1, 10, 0)
        };
        let answer = i16::try_from(number * size_of::<Answer>()).ok()?;
        code.extend([store(6, answer, 0), load, store(6, answer + 8, 1)]);
    }
    code.extend([set(0, 0), instruction(0x95, 0, 0, 0)]);
    Some(code)
}

fn instruction(code: u8, to: u8, from: u8, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers: from << 4 | to,
        offset: 0,
        immediate,
    }
}

/// `to = from`
fn copy(to: u8, from: u8) -> Instruction {
    instruction(0xbf, to, from, 0)
}

/// `to += value`
fn add(to: u8, value: i16) -> Instruction {
    instruction(0x07, to, 0, i32::from(value))
}

/// `to = value`
fn set(to: u8, value: i32) -> Instruction {
    instruction(0xb7, to, 0, value)
}

/// `to = value`, in two places.
fn constant(to: u8, value: u64) -> [Instruction; 2] {
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
fn store(to: u8, offset: i16, from: u8) -> Instruction {
    Instruction {
        offset,
        ..instruction(0x7b, to, from, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_refused() {
        let longest = "a".repeat(31);
        assert!(program(&[&longest, "b"]).is_some_and(|code| code.len() == 3 + 2 * (12 + 3 + 4 + 3 + 3)));
        assert!(program(&[&"a".repeat(32)]).is_none());
        assert!(addresses([&"a".repeat(80)]).is_err());
    }

    /// `_text` and `vfs_read` are in every list, whether or not it has variables.
    #[test]
    fn the_kernel_answers_as_its_list_does() {
        let names = ["_text", "vfs_read", "no_such_symbol_here"];
        let Ok(found) = addresses(names) else {
            eprintln!("skipped: this kernel, its policy or this user has no such programs");
            return;
        };
        let list = io::BufReader::new(std::fs::File::open(super::super::KALLSYMS).unwrap());
        assert_eq!(found, super::super::find(list, names).unwrap());
        assert!(found[1].is_some() && found[2].is_none());
    }
}
