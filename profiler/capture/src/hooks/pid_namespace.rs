//! The pid namespace that ngmi runs in. A task has a number in each of its namespaces (include/linux/pid.h of the kernel),
//! and `/proc` of a container shows those of the container's.

use std::io;

use anyhow::{Context as _, bail};
use profiler_common::config::{Config, MISSING};

use crate::proc::ask::{Instruction, Question, add, call_helper, copy, end, load, set, shift_left, store, sum};
use crate::proc::machine;

/// `bpf_get_current_task_btf` (kernel 5.11)
const CURRENT_TASK: i32 = 158;
/// `bpf_probe_read_kernel`: where to, size, from where.
const READ: i32 = 113;
/// Place of what was read, below the frame pointer.
const PLACE: i16 = -8;
/// Binary logarithm of the size of a `struct upid`: a number, and at [`NAMESPACE`] its namespace.
const UPID_SHIFT: i32 = 4;
const NAMESPACE: u32 = 8;

/// Has the kernel side use our numbers.
///
/// # Errors
/// When `/proc` shows the processes of another namespace, or the kernel does not say which one is ours.
pub fn configure(config: &mut Config) -> anyhow::Result<()> {
    if machine::in_first_pid_namespace() {
        return Ok(());
    }
    let own = std::fs::read_link("/proc/self").context("cannot read /proc/self: mount /proc in the container")?;
    if own.to_str() != Some(&*std::process::id().to_string()) {
        bail!(
            "/proc shows the processes of another pid namespace: mount it inside this one, with `mount -t proc proc /proc`"
        );
    }
    let Place { level, address } = of_this_process(config).context(
        "cannot find the container's process numbers in the kernel: run ngmi outside, or with `docker run --pid=host`",
    )?;
    config.pid_namespace_level = u32::try_from(level).context("the container's pid namespace is nested too deeply")?;
    config.pid_namespace = address;
    Ok(())
}

/// A pid namespace in the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Number of those above it.
    level: u64,
    /// Of its `struct pid_namespace`.
    address: u64,
}

/// The innermost namespace of this process.
fn of_this_process(config: &Config) -> io::Result<Place> {
    let code = program(config).ok_or(io::ErrorKind::Unsupported)?;
    let mut place = Place::default();
    Question::new(&code)?.ask(&mut place)?;
    if place.level == 0 || place.address == 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(place)
}

/// Writes a [`Place`] to the context. `None`: this kernel's structs are different.
fn program(config: &Config) -> Option<Vec<Instruction>> {
    let offset = |offset: u32| i16::try_from(offset).ok().filter(|_| offset != MISSING);
    let (thread_pid, level) = (offset(config.task_thread_pid)?, offset(config.pid_level)?);
    let namespace = offset(config.pid_numbers.checked_add(NAMESPACE)?)?;
    let mut code = vec![copy(6, 1), call_helper(CURRENT_TASK), copy(7, 0)];
    // Register 7: the task, then its `struct pid`; 8: the level of that.
    code.extend(read(7, thread_pid, 8));
    code.push(load(7, 10, PLACE));
    code.extend(read(7, level, 4));
    code.extend([load(8, 10, PLACE), copy(9, 8), shift_left(9, UPID_SHIFT), sum(9, 7)]);
    code.extend(read(9, namespace, 8));
    code.extend([load(9, 10, PLACE), store(6, 0, 8), store(6, 8, 9)]);
    code.extend(end());
    Some(code)
}

/// Reads up to 8 bytes at `*(from + offset)`.
fn read(from: u8, offset: i16, size: i32) -> [Instruction; 8] {
    [
        set(1, 0),
        store(10, PLACE, 1),
        copy(3, from),
        add(3, offset),
        copy(1, 10),
        add(1, PLACE),
        set(2, size),
        call_helper(READ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::btf::{self, Btf};
    use super::*;

    #[test]
    fn a_kernel_with_other_structs_is_not_asked() {
        assert!(program(&Config::NOTHING).is_none());
    }

    /// The first namespace has level 0, and each process is in one.
    #[test]
    fn the_kernel_accepts_the_program() {
        let Ok(types) = Btf::of_kernel() else {
            println!("skipped: the kernel's types are hidden");
            return;
        };
        let mut config = Config::NOTHING;
        btf::locate(&types, &mut config);
        let mut place = Place::default();
        let question = Question::new(&program(&config).unwrap());
        if let Err(error) = question.and_then(|question| question.ask(&mut place)) {
            println!("skipped: this kernel, its policy or this user has no such programs: {error}");
            return;
        }
        assert_eq!(place.level == 0, machine::in_first_pid_namespace());
        assert!(place.address > u64::MAX / 2, "not a kernel address: {place:x?}");
    }
}
