//! The binary interface between the eBPF programs and user space.
//!
//! Every record starts with a [`RecordHeader`]; there is one file per event kind. Both sides are built from this crate, and
//! [`ABI_VERSION`] is checked when the object is loaded: an object from another build is rejected with a clear message.
//!
//! A step of a walk, from a frame whose caller is found at a fixed distance from the stack pointer:
//!
//! ```
//! use profiler_common::stack::UserRegs;
//! use profiler_common::unwind::{Arch, BX_SAME, Cfa, Fp, Row, step};
//!
//! let row = Row::new(0, Cfa::Sp, 2, Fp::Same, 0, BX_SAME);
//! let registers = UserRegs { ip: 0x1000, sp: 0x8000, ..UserRegs::default() };
//! // The caller's address is below the frame's end, 16 bytes above the stack pointer.
//! let memory = |address| (address == 0x8008).then_some(0x2000);
//! let Ok((caller, _)) = step(Arch::X86_64, row, &registers, memory) else { panic!() };
//! assert_eq!((caller.ip, caller.sp), (0x2000, 0x8010));
//! ```
#![cfg_attr(not(any(feature = "user", test)), no_std)]

pub mod abort;
pub mod block;
pub mod call;
pub mod config;
pub mod expected;
pub mod fault;
pub mod glob;
pub mod header;
pub mod known_ranges;
pub mod last_walk;
pub mod loss;
pub mod memory;
mod numbered;
pub mod page_table;
pub mod piece;
pub mod preempt;
pub mod sample;
pub mod scope;
pub mod selection;
pub mod sent;
pub mod space;
pub mod stack;
pub mod switch;
pub mod task;
pub mod thinning;
pub mod unwind;

pub use config::Config;
pub use header::{RecordHeader, RecordKind};
pub use loss::Loss;

/// Incremented with every change of a record's layout or of the configuration.
pub const ABI_VERSION: u32 = 24;

/// The symbol of an object with this [`ABI_VERSION`]: an object from another build is rejected.
pub const ABI_SYMBOL: &str = "NGMI_ABI_24";

const _: () = assert!(
    ABI_VERSION == 24,
    "the number in ABI_SYMBOL and in profiler-ebpf/src/maps.rs"
);
