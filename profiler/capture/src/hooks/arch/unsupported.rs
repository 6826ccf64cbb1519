//! A processor on which ngmi does not record: it only converts and reads recordings.

use aya::{Btf as Types, Ebpf};
use base::event::HookStatus;
use profiler_common::config::{CallSet, Config};
use profiler_common::unwind::Arch;

use crate::hooks::ahead::Wanted;
use crate::hooks::btf::Btf;

/// See `x86_64.rs` for these items.
pub static OBJECT: Option<&[u8]> = None;
pub const ARCH: Arch = Arch::X86_64;
pub const EXCEPTIONS: [&str; 0] = [];
pub const EXCEPTION_TWINS: &[[&str; 2]] = &[];

pub fn exception_programs() -> impl Iterator<Item = Wanted> {
    std::iter::empty()
}

pub fn exceptions(_: &mut Ebpf, _: &Types, _: &str) -> Vec<HookStatus> {
    Vec::new()
}

pub fn configure(_: &mut Config) {}

pub fn preempt_count(_: &mut Config, _: &Btf) -> Option<()> {
    None
}

pub fn page_tables(_: &mut Config) -> Option<()> {
    None
}

pub fn calls_with_descriptor() -> CallSet {
    CallSet::EMPTY
}

pub fn calls_with_path() -> CallSet {
    CallSet::EMPTY
}

pub fn calls_with_path_second() -> CallSet {
    CallSet::EMPTY
}
