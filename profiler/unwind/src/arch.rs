//! What the unwinding of copied stacks depends on: the processor of the recording, one file for each.
//!
//! Another processor is a file with the same items. It is a value, not a property of this machine: an event log is also
//! converted on other processors than its own. Unwind tables ([`crate::table`]) and steps along them
//! (`profiler_common::unwind`) take it in the same way.

mod aarch64;
mod x86_64;

pub use x86_64::{Cache, Unwinder, caller};

use gimli::{Register, UnwindTableRow, Vendor};
use profiler_common::stack::UserRegs;
use profiler_common::unwind::{ARM64_ADDRESS, Arch, SP_UNKNOWN, address_mask};

/// The rules for an address.
pub type Row = UnwindTableRow<usize>;

/// The registers of a frame that are always known during unwinding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register, of a frame that may still have its return address there; 0; [`SP_UNKNOWN`].
    pub lr: u64,
}

impl From<Registers> for UserRegs {
    fn from(Registers { ip, sp, fp, lr }: Registers) -> Self {
        Self { ip, sp, fp, lr }
    }
}

/// The registers in rules, and the layout of stacks.
pub struct Processor {
    /// The processor, for steps along rows.
    pub arch: Arch,
    /// The processor of files that can be unwound.
    pub elf: symbols::elf::Arch,
    /// Whose instructions unwind information may contain.
    pub vendor: Vendor,
    /// The return address in rules.
    pub ra: Register,
    /// The stack pointer in rules.
    pub sp: Register,
    /// The frame pointer in rules.
    pub fp: Register,
    /// A function without a rule for its return address has it in a register; otherwise it has no caller.
    pub has_link_register: bool,
    /// [`Registers::lr`] after a step by the frame pointer.
    pub lr_after_frame_pointer: u64,
    /// Whether framehop follows a rule exactly ([`caller`]).
    pub is_ordinary: fn(&Row) -> bool,
    /// The largest size of a page. The kernel maps whole pages, so a mapping covers slightly more than its segment; segments are
    /// aligned to this.
    pub page: u64,
    /// Size of the area below the stack pointer that belongs to a function.
    pub red_zone: u64,
    /// Where the kernel saves the interrupted registers when it delivers a signal.
    pub signal_frame: SignalFrame,
}

impl Processor {
    /// The return address of a frame that has not saved it. `None`: the register has been overwritten.
    pub fn own_return(&self, registers: &Registers) -> Option<u64> {
        match registers.lr {
            _ if !self.has_link_register => Some(registers.ip),
            0 | SP_UNKNOWN => None,
            address => Some(address),
        }
    }

    /// The bits of a return address that are not a signature, in an address space that has a mapping at `highest`.
    pub fn address_mask(&self, highest: Option<u64>) -> u64 {
        if self.has_link_register {
            highest.map_or(ARM64_ADDRESS, address_mask)
        } else {
            u64::MAX
        }
    }

    /// The registers of a sample.
    pub fn registers_of(&self, regs: &UserRegs) -> Registers {
        let UserRegs { ip, sp, fp, lr } = *regs;
        let lr = if self.has_link_register { lr } else { 0 };
        Registers { ip, sp, fp, lr }
    }
}

/// Where the kernel saves the interrupted registers when it delivers a signal, in bytes above the stack pointer.
pub struct SignalFrame {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    /// The register that a call leaves its return address in.
    pub lr: Option<u64>,
}

/// The properties of a processor.
pub fn of(arch: Arch) -> &'static Processor {
    match arch {
        Arch::X86_64 => &x86_64::PROCESSOR,
        Arch::Aarch64 => &aarch64::PROCESSOR,
    }
}
