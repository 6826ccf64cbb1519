//! `ngmi maps`: prints the mappings of a process as a table, or resolves single addresses.

mod json;
mod lookup;
mod table;

use std::io;
use std::process::ExitCode;

use anyhow::{Error, Result, anyhow};
use nix::unistd::Uid;
use symbols::elf::ElfFile;

use super::args::{Maps, Way as Asked};
use crate::addr::Avma;
use crate::capture::files::open::open_mapped;
use crate::capture::privilege::rights::Rights;
use crate::capture::space::maps::{self, BuildIds, Way, Which};
use crate::event::Mapping;
use crate::terminal::out;

/// Returns exit status 1 if an address is in no mapping.
pub fn run(args: &Maps) -> Result<ExitCode> {
    // The table does not show build ids; they would require reading each file.
    let build_ids = if args.json || !args.addresses.is_empty() {
        BuildIds::Read(&build_id)
    } else {
        BuildIds::Unwanted
    };
    let way = args.way.map(|way| match way {
        Asked::Ioctl => Way::Query,
        Asked::Text => Way::Text,
    });
    let refusal = |error| refused(args.pid, error);
    let mut space = maps::open(args.pid, way, build_ids).map_err(refusal)?;
    if args.addresses.is_empty() {
        let which = if args.executable { Which::Executable } else { Which::All };
        let mappings = space.mappings(which).map_err(refusal)?;
        list(args, space.way(), &mappings)?;
        return Ok(ExitCode::SUCCESS);
    }
    let addresses: Vec<Avma> = args.addresses.iter().copied().map(Avma).collect();
    let mappings = space.covering(&addresses).map_err(refusal)?;
    let places = lookup::places(args.pid, &addresses, mappings, &Rights::own()?);
    if args.json {
        out(json::places(args.pid, space.way(), &places))?;
    } else {
        places.iter().try_for_each(table::place)?;
    }
    Ok(if places.iter().all(|place| place.mapped.is_some()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn list(args: &Maps, way: Way, mappings: &[Mapping]) -> Result<()> {
    if args.json {
        out(json::mappings(args.pid, way, mappings))
    } else {
        table::mappings(way, mappings)
    }
}

/// The build id of a file; empty if it is not an ELF file or has none.
fn build_id(mapping: &Mapping) -> Vec<u8> {
    let file = Rights::own().and_then(|own| open_mapped(mapping, &own));
    let elf = file.ok().and_then(|file| ElfFile::open(file).ok());
    elf.map_or(Vec::new(), |elf| elf.build_id().to_vec())
}

/// The name of a way to read mappings, as in the kernel's documentation.
fn name(way: Way) -> &'static str {
    match way {
        Way::Query => "PROCMAP_QUERY",
        Way::Text => "/proc/PID/maps",
    }
}

/// The error for a process whose mappings can't be read, with the remedy.
fn refused(pid: u32, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => match kind(pid) {
            Some(Kind::KernelThread) => anyhow!("{pid} is a kernel thread and has no mappings"),
            Some(Kind::Zombie) => {
                anyhow!("process {pid} has ended and has no mappings; its parent has not reaped it yet")
            }
            Some(Kind::Process) | None => anyhow!("no such process: {pid}; `pgrep -a NAME` lists running processes"),
        },
        Some(libc::EACCES | libc::EPERM) if Uid::effective().is_root() => {
            anyhow!("permission denied for process {pid}, even for root: run ngmi outside the container")
        }
        Some(libc::EACCES | libc::EPERM) => {
            anyhow!("permission denied for process {pid}: try `sudo ngmi maps {pid}`")
        }
        Some(libc::ENOTTY) => anyhow!("this kernel has no PROCMAP_QUERY: use kernel 6.11 or newer, or leave out --way"),
        _ => Error::new(error).context(format!("cannot read the mappings of process {pid}")),
    }
}

/// What a process id refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Process,
    Zombie,
    KernelThread,
}

/// Reads the kind of a process; `None`: it does not exist.
fn kind(pid: u32) -> Option<Kind> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may contain any bytes.
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    Some(match state {
        _ if flags & PF_KTHREAD != 0 => Kind::KernelThread,
        "Z" | "X" => Kind::Zombie,
        _ => Kind::Process,
    })
}
