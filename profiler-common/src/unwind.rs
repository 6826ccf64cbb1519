//! Unwind tables as the kernel side reads them, and one step of unwinding, which both sides take with the same code.
//!
//! A table is the rows of one ELF file, sorted by address and cut into pages of 64 KiB: `pages[p]..pages[p + 1]` are the rows of
//! page `p`, and the first row of every page starts at the page's first byte, so that a search never leaves its page.
//! Offsets are counted in words of 8 bytes, because stack slots are.

#![allow(clippy::inline_always)] // The kernel's verifier follows a step best when it is part of the walk.

use crate::sample::UserRegs;

/// Bytes of text that one page of a table covers.
pub const TABLE_PAGE: u64 = 1 << 16;
/// Bytes of a word: the unit of [`Row`]'s offsets.
pub const WORD: i64 = 8;

/// The rules of unwinding from the byte `pc` of a table's page up to the next row.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Row {
    /// First byte, counted from the page's start.
    pub pc: u16,
    /// What [`Cfa`] says it is.
    pub cfa_offset: i16,
    /// What [`Fp`] says it is.
    pub fp_offset: i16,
    /// A [`Cfa`] (lower four bits) and a [`Fp`] (upper four bits).
    pub rules: u8,
    /// Where the return address is: [`RA_IN_LINK_REGISTER`], [`RA_ABOVE_FP`], or `n`: `n` words below the CFA.
    pub ra: u8,
}

/// [`Row::ra`]: still in the link register (arm64).
pub const RA_IN_LINK_REGISTER: u8 = 0;
/// [`Row::ra`]: in the word above the saved frame pointer (arm64).
pub const RA_ABOVE_FP: u8 = 255;

/// How the canonical frame address (the stack pointer before the call) is found.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cfa {
    /// No function is here.
    None = 0,
    /// Stack pointer + offset.
    Sp = 1,
    /// Frame pointer + offset.
    Fp = 2,
    /// The word at frame pointer + offset.
    AtFp = 3,
    /// The word at stack pointer + offset.
    AtSp = 4,
    /// The word at stack pointer + offset, and 8 more.
    AtSpPlus8 = 5,
    /// x86-64: a stub of the procedure linkage table. Stack pointer + 8, and 8 more when the instruction pointer's lowest four
    /// bits are at least the offset (which is not counted in words here).
    Plt = 6,
    /// The frame that the kernel made to deliver a signal: all registers are in it.
    Signal = 7,
    /// The thread's first function: it has no caller.
    Outermost = 8,
    /// The tables say something that a row can't hold.
    Unsupported = 9,
}

/// How the caller's frame pointer is found.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fp {
    /// Unchanged.
    Same = 0,
    /// The word at CFA + offset.
    AtCfa = 1,
    /// The word at frame pointer + offset.
    AtFp = 2,
    /// The word at stack pointer + offset.
    AtSp = 3,
}

impl Row {
    /// A row with these rules.
    pub const fn new(pc: u16, cfa: Cfa, cfa_offset: i16, fp: Fp, fp_offset: i16, ra: u8) -> Self {
        Self {
            pc,
            cfa_offset,
            fp_offset,
            rules: cfa as u8 | (fp as u8) << 4,
            ra,
        }
    }

    /// A row without offsets: nothing, a signal frame, an outermost function, or something that is not supported.
    pub const fn plain(pc: u16, cfa: Cfa) -> Self {
        Self::new(pc, cfa, 0, Fp::Same, 0, 1)
    }

    /// The rules are ones that exist.
    pub const fn is_valid(self) -> bool {
        self.rules & 15 <= Cfa::Unsupported as u8 && self.rules >> 4 <= Fp::AtSp as u8
    }
}

/// Why a walk ended.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WalkEnd {
    /// It reached the thread's first frame.
    Complete = 0,
    /// No mapping covers the address.
    NoMapping = 1,
    /// The module has no table (yet), and its frame pointers lead nowhere.
    NoTable = 2,
    /// The table has no row for the address.
    NoRow = 3,
    /// The table has a rule that no row can hold.
    Unsupported = 4,
    /// The stack could not be read: a page that is not in memory, or a wrong address.
    ReadFailed = 5,
    /// Following the rules led nowhere: not an ascending chain of frames.
    BadChain = 6,
    /// More frames than are kept.
    Limit = 7,
    /// Nothing is known yet of the address space.
    NoSpace = 8,
    /// No walk was made: the walker is switched off, or in use by programs that this one interrupted.
    NotWalked = 9,
}

impl WalkEnd {
    /// Every end, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::Complete,
        Self::NoMapping,
        Self::NoTable,
        Self::NoRow,
        Self::Unsupported,
        Self::ReadFailed,
        Self::BadChain,
        Self::Limit,
        Self::NoSpace,
        Self::NotWalked,
    ];

    /// The end with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// The processor whose rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// x86-64
    X86_64,
    /// arm64
    Aarch64,
}

/// arm64: the bits of an address that are no signature of pointer authentication (48-bit address spaces).
pub const ARM64_ADDRESS: u64 = (1 << 48) - 1;

/// How a step led to the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Its address is a return address.
    Call,
    /// It was interrupted by a signal: its address is that of its next instruction.
    Signal,
}

/// Goes from a frame to its caller by the rules of `row`. `read` reads a word of user memory.
///
/// # Errors
/// Why the walk ends here; `registers` are those to go on from by other means.
#[inline(always)]
pub fn step(
    arch: Arch,
    row: Row,
    registers: &UserRegs,
    read: impl Fn(u64) -> Option<u64>,
) -> Result<(UserRegs, By), WalkEnd> {
    let offset = i64::from(row.cfa_offset) * WORD;
    let (sp, fp) = (registers.sp, registers.fp);
    let cfa = match row.rules & 15 {
        1 => Some(sp.wrapping_add_signed(offset)),
        2 => Some(fp.wrapping_add_signed(offset)),
        3 => read(fp.wrapping_add_signed(offset)),
        4 => read(sp.wrapping_add_signed(offset)),
        5 => read(sp.wrapping_add_signed(offset)).map(|cfa| cfa.wrapping_add(8)),
        6 => {
            let pushed = registers.ip & 15 >= u64::from(row.cfa_offset.unsigned_abs());
            Some(sp.wrapping_add(if pushed { 16 } else { 8 }))
        }
        7 => return by_signal_frame(arch, sp, read),
        8 => return Err(WalkEnd::Complete),
        0 => return Err(WalkEnd::NoRow),
        _ => return Err(WalkEnd::Unsupported),
    };
    let cfa = cfa.ok_or(WalkEnd::ReadFailed)?;
    let slot = i64::from(row.fp_offset) * WORD;
    let fp_at = match row.rules >> 4 {
        0 => None,
        1 => Some(cfa.wrapping_add_signed(slot)),
        2 => Some(fp.wrapping_add_signed(slot)),
        _ => Some(sp.wrapping_add_signed(slot)),
    };
    let in_register = row.ra == RA_IN_LINK_REGISTER;
    if cfa < sp || (cfa == sp && !in_register) {
        return Err(WalkEnd::BadChain);
    }
    let caller_fp = match fp_at {
        Some(at) => read(at).ok_or(WalkEnd::ReadFailed)?,
        None => fp,
    };
    let ip = if in_register {
        registers.lr
    } else if row.ra == RA_ABOVE_FP {
        read(fp_at.unwrap_or(fp).wrapping_add(8)).ok_or(WalkEnd::ReadFailed)?
    } else {
        read(cfa.wrapping_sub(u64::from(row.ra) * 8)).ok_or(WalkEnd::ReadFailed)?
    };
    if in_register && ip == 0 {
        return Err(WalkEnd::BadChain); // only the innermost frame has its return address there
    }
    arrive(arch, ip, cfa, caller_fp)
}

/// A return address of zero is how a thread's, or a coroutine's, first frame is marked.
#[inline(always)]
fn arrive(arch: Arch, ip: u64, sp: u64, fp: u64) -> Result<(UserRegs, By), WalkEnd> {
    let ip = match arch {
        Arch::X86_64 => ip,
        Arch::Aarch64 => ip & ARM64_ADDRESS,
    };
    if ip == 0 {
        return Err(WalkEnd::Complete);
    }
    Ok((UserRegs { ip, sp, fp, lr: 0 }, By::Call))
}

/// Goes from a frame to its caller by the frame pointer, for code that keeps one: the word that it points to is the caller's
/// frame pointer, and the word above is the return address.
///
/// # Errors
/// As [`step`].
#[inline(always)]
pub fn step_by_frame_pointer(
    arch: Arch,
    registers: &UserRegs,
    read: impl Fn(u64) -> Option<u64>,
) -> Result<(UserRegs, By), WalkEnd> {
    let fp = registers.fp;
    if fp < registers.sp || fp & 7 != 0 {
        return Err(WalkEnd::BadChain);
    }
    let caller_fp = read(fp).ok_or(WalkEnd::ReadFailed)?;
    let ip = read(fp.wrapping_add(8)).ok_or(WalkEnd::ReadFailed)?;
    arrive(arch, ip, fp.wrapping_add(16), caller_fp)
}

/// The registers that the kernel saved when it delivered a signal. x86-64: `struct rt_sigframe` without its return address
/// (arch/x86/include/asm/sigframe.h); arm64: `struct rt_sigframe` (arch/arm64/kernel/signal.c).
#[inline(always)]
fn by_signal_frame(arch: Arch, sp: u64, read: impl Fn(u64) -> Option<u64>) -> Result<(UserRegs, By), WalkEnd> {
    let word = |at: u64| read(sp.wrapping_add(at)).ok_or(WalkEnd::ReadFailed);
    let registers = match arch {
        Arch::X86_64 => UserRegs {
            ip: word(168)?,
            sp: word(160)?,
            fp: word(120)?,
            lr: 0,
        },
        Arch::Aarch64 => UserRegs {
            ip: word(568)?,
            sp: word(560)?,
            fp: word(544)?,
            lr: word(552)?,
        },
    };
    Ok((registers, By::Signal))
}
