//! One hook: attaches its program, and turns a refusal into a [`HookStatus`] with its reason and remedy.

use std::error::Error as _;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use aya::programs::{BtfTracePoint, FEntry, FExit, ProgramError};
use aya::{Btf, Ebpf};

use super::ahead;
use base::event::HookStatus;

/// Loads and attaches a program that has the name of its tracepoint.
pub fn attach_tracepoint(ebpf: &mut Ebpf, name: &str, btf: &Btf) -> Result<(), ProgramError> {
    let program: &mut BtfTracePoint = ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()?;
    ahead::unless_loaded(program.fd().is_ok(), || program.load(name, btf))?;
    program.attach().map(|_| ())
}

/// Loads a program at the entry of a function.
pub fn load_entry<'e>(
    ebpf: &'e mut Ebpf,
    name: &str,
    function: &str,
    btf: &Btf,
) -> Result<&'e mut FEntry, ProgramError> {
    let program: &mut FEntry = ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()?;
    ahead::unless_loaded(program.fd().is_ok(), || program.load(function, btf))?;
    Ok(program)
}

/// Loads and attaches a program at the entry of a function.
pub fn attach_entry(ebpf: &mut Ebpf, name: &str, function: &str, btf: &Btf) -> Result<(), ProgramError> {
    load_entry(ebpf, name, function, btf)?.attach().map(|_| ())
}

/// Loads and attaches a program at the exit of a function.
pub fn attach_exit(ebpf: &mut Ebpf, name: &str, function: &str, btf: &Btf) -> Result<(), ProgramError> {
    let program: &mut FExit = ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()?;
    ahead::unless_loaded(program.fd().is_ok(), || program.load(function, btf))?;
    program.attach().map(|_| ())
}

/// Attaches each of these programs of an event kind as [`attach_tracepoint`] does; a refused one gets this remedy.
pub fn attach_tracepoints(ebpf: &mut Ebpf, btf: &Btf, (noun, names): (&str, &[&str]), remedy: &str) -> Vec<HookStatus> {
    let attached = names.iter().map(|name| {
        let result = attach_tracepoint(ebpf, name, btf);
        with_remedy(hook(noun, &format!("tp_btf/{name}"), result), remedy)
    });
    attached.collect()
}

/// Replaces the remedy of a refusal whose own one is too vague.
pub fn with_remedy(status: HookStatus, remedy: &str) -> HookStatus {
    HookStatus {
        remedy: status.refused.is_some().then(|| remedy.to_owned()),
        ..status
    }
}

/// A loaded program.
pub fn program_of<'e>(ebpf: &'e Ebpf, name: &str) -> io::Result<BorrowedFd<'e>> {
    let program = ebpf.program(name).and_then(|program| program.fd().ok());
    Ok(program.ok_or(io::ErrorKind::NotFound)?.as_fd())
}

/// The status of a hook after an attempt to attach it.
#[allow(clippy::needless_pass_by_value)] // consumes the result of an attempt
pub fn hook(noun: &str, name: &str, result: Result<(), ProgramError>) -> HookStatus {
    hook_of(noun, name, result.as_ref().map(|&()| ()))
}

/// As [`hook`], where the caller still needs the error.
pub fn hook_of(noun: &str, name: &str, result: Result<(), &ProgramError>) -> HookStatus {
    let error = result.err();
    HookStatus {
        noun: noun.to_owned(),
        hook: name.to_owned(),
        refused: error.map(reason),
        remedy: error.map(|error| remedy(error).to_owned()),
    }
}

/// The row of a check that is not an attempt to attach; it has a remedy only if it was refused.
pub fn row(noun: &str, name: &str, refused: Option<String>, remedy: &str) -> HookStatus {
    let remedy = refused.is_some().then(|| remedy.to_owned());
    HookStatus {
        noun: noun.to_owned(),
        hook: name.to_owned(),
        refused,
        remedy,
    }
}

/// The error in one line: the system's error, and the last line of the verifier's log.
fn reason(error: &ProgramError) -> String {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            let log = verifier_log.to_string();
            let is_statistics = |line: &str| {
                ["processed", "stack depth", "verification time"]
                    .iter()
                    .any(|start| line.starts_with(start))
            };
            let last = log
                .lines()
                .rev()
                .find(|line| !is_statistics(line) && !line.trim().is_empty());
            match last {
                Some(last) => format!("{io_error} ({})", last.chars().take(200).collect::<String>()),
                None => io_error.to_string(),
            }
        }
        other => other
            .source()
            .map_or_else(|| other.to_string(), |source| format!("{other}: {source}")),
    }
}

fn remedy(error: &ProgramError) -> &'static str {
    match error {
        ProgramError::LoadError { io_error, .. } => io_remedy(io_error),
        ProgramError::SyscallError(error) => io_remedy(&error.io_error),
        ProgramError::Btf(_) => "use a kernel that has this tracepoint",
        _ => "kernel 5.15 or newer is needed",
    }
}

/// What to do about a refused system call.
pub fn io_remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if !nix::unistd::geteuid().is_root() => "run with sudo",
        Some(libc::EPERM | libc::EACCES) => {
            "this kernel or container forbids it: check `kernel.perf_event_paranoid`, lockdown and the container's capabilities"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (`ulimit -n`)",
        Some(libc::ENOMEM) => "free some memory",
        Some(libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP) => "kernel 5.15 or newer is needed",
        _ => "run `ngmi doctor`",
    }
}
