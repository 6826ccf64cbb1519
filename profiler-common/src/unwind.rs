//! Unwind tables in the form that the eBPF programs read, and one step of unwinding, with the same code on both sides.
//!
//! A table contains the rows of one ELF file, sorted by address and divided into pages of 512 bytes: `pages[p]..pages[p + 1]` are the rows
//! that begin in page `p`; before the first of them, the preceding row applies. A table's first row starts at its first page's first byte.
//! Compilers emit a row for about 50 bytes, so a page's rows are one or two cache lines: each access to another one is slow.
//! Offsets are in words of 8 bytes, because stack slots are.

#![allow(clippy::inline_always)] // The kernel's verifier follows a step best when it is part of the walk.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::numbered;
use crate::stack::UserRegs;

/// Bytes of text that one page of a table covers.
pub const TABLE_PAGE: u64 = 1 << 9;
/// Size of a word in bytes: the unit of [`Row`]'s offsets.
pub const WORD: i64 = 8;

/// The unwind rules from the byte `pc` of a table's page up to the next row.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Row {
    /// First byte, relative to the page's start.
    pub pc: u16,
    /// Offset whose meaning depends on the [`Cfa`].
    pub cfa_offset: i16,
    /// Offset whose meaning depends on the [`Fp`].
    pub fp_offset: i16,
    /// A [`Cfa`] (lower four bits) and a [`Fp`] (upper four bits).
    pub rules: u8,
    /// Location of the additional register that each processor needs ([`UserRegs::lr`]): `n` words below the CFA, or a constant.
    /// arm64: the return address, [`RA_IN_LINK_REGISTER`] or [`RA_ABOVE_FP`]. x86-64, where the return address is always the
    /// word below the CFA: the caller's rbx, [`BX_SAME`] or [`BX_LOST`].
    pub link: u8,
}

/// Unit of [`Cfa::FarSp`] in bytes: the stack alignment of both processors, so frames up to 1 MiB can be represented.
pub const FAR: u64 = 16;

/// The rows that begin in one page of a table, in the kernel's array of all rows. (An element of such an array has at least 8 bytes.)
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct PageRows {
    /// Index of the first row.
    pub first: u32,
    /// Index after the last row.
    pub end: u32,
}

/// [`Row::link`], arm64: still in the link register.
pub const RA_IN_LINK_REGISTER: u8 = 0;
/// [`Row::link`], arm64: in the word above the saved frame pointer; with [`Fp::Same`], at stack pointer + `fp_offset`.
pub const RA_ABOVE_FP: u8 = 255;
/// [`Row::link`], x86-64: unchanged.
pub const BX_SAME: u8 = 0;
/// [`Row::link`], x86-64: the row can't represent its location.
pub const BX_LOST: u8 = 255;

/// x86-64: [`UserRegs::lr`] of the innermost frame. The lazy binder of glibc (`_dl_runtime_resolve_*`) keeps its frame in rbx,
/// which is the only rule that needs it. So a walk carries rbx where lr has no meaning, as a value (a multiple of 8: an
/// address in the stack), or as the odd number above the address of the word that it was saved in, which is read on
/// demand; 0: unknown.
pub const fn link_of_bx(bx: u64) -> u64 {
    if bx.is_multiple_of(8) { bx } else { 0 }
}

/// How to find the canonical frame address (the stack pointer before the call).
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cfa {
    /// There is no function here.
    None = 0,
    /// Stack pointer + offset.
    Sp = 1,
    /// Frame pointer + offset.
    Fp = 2,
    /// The word at frame pointer + offset.
    AtFp = 3,
    /// The word at stack pointer + offset.
    AtSp = 4,
    /// The word at stack pointer + offset, plus 8.
    AtSpPlus8 = 5,
    /// x86-64: a stub of the procedure linkage table. Stack pointer + 8, plus 8 if the instruction pointer's lowest four
    /// bits are at least the offset (which is not in words here).
    Plt = 6,
    /// The frame that the kernel created to deliver a signal: it contains all registers.
    Signal = 7,
    /// The thread's first function: it has no caller.
    Outermost = 8,
    /// The tables have a rule that a row can't represent.
    Unsupported = 9,
    /// x86-64: rbx + offset (see [`link_of_bx`]).
    Bx = 10,
    /// Stack pointer + offset, which is unsigned and in units of [`FAR`] bytes: a frame that is too large for words.
    FarSp = 11,
}

/// How to find the caller's frame pointer.
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
    /// Creates a row with these rules.
    pub const fn new(pc: u16, cfa: Cfa, cfa_offset: i16, fp: Fp, fp_offset: i16, link: u8) -> Self {
        Self {
            pc,
            cfa_offset,
            fp_offset,
            rules: cfa as u8 | (fp as u8) << 4,
            link,
        }
    }

    /// Creates a row without offsets: no function, a signal frame, an outermost function, or an unsupported rule.
    pub const fn plain(pc: u16, cfa: Cfa) -> Self {
        Self::new(pc, cfa, 0, Fp::Same, 0, 0)
    }

    /// Whether the rules are valid.
    pub const fn is_valid(self) -> bool {
        self.rules & 15 <= Cfa::FarSp as u8 && self.rules >> 4 <= Fp::AtSp as u8
    }
}

numbered! {
    /// Why a walk ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum WalkEnd: u8 {
        /// It reached the thread's first frame.
        Complete = 0 => "complete",
        /// No mapping covers the address.
        NoMapping = 1 => "no mapping",
        /// The module has no table (yet), and its frame pointers lead nowhere.
        NoTable = 2 => "no table",
        /// The table has no row for the address.
        NoRow = 3 => "no row",
        /// The table has a rule that no row can represent.
        Unsupported = 4 => "unsupported rule",
        /// The stack could not be read: a page that is not in memory, or an invalid address.
        ReadFailed = 5 => "read failed",
        /// The rules do not lead to an ascending chain of frames.
        BadChain = 6 => "broken chain",
        /// The maximum number of frames was reached.
        Limit = 7 => "limit",
        /// The mappings of the address space are not known yet.
        NoSpace = 8 => "mappings not known yet",
        /// There was no walk: the walker is disabled, or in use by programs that this one interrupted.
        NotWalked = 9 => "not walked",
    }
}

/// The processor for which rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// x86-64
    X86_64,
    /// arm64
    Aarch64,
}

/// arm64: the bits of an address that are not a signature of pointer authentication, in the usual address spaces of 48 bits.
pub const ARM64_ADDRESS: u64 = (1 << 48) - 1;

/// arm64: the bits of an address that are not a signature, in an address space that has a mapping at `highest`. A signature begins above
/// the highest bit of the addresses (`VA_BITS`: 39, 47, 48 or 52), and the kernel puts stacks right below that.
///
/// Of fewer than 39 bits nothing is believed: the mappings are not known yet.
pub const fn address_mask(highest: u64) -> u64 {
    let bits = 64 - highest.leading_zeros();
    if bits < 39 {
        return ARM64_ADDRESS;
    }
    u64::MAX >> (64 - bits)
}

/// arm64: [`UserRegs::lr`] of a frame whose stack pointer is only known to be [`UserRegs::sp`] or above. It was found by its callee's frame
/// record, which may be anywhere in the callee's frame.
pub const SP_UNKNOWN: u64 = 1;

/// A processor with its address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// The processor.
    pub arch: Arch,
    /// arm64: the bits of an address that are not a signature ([`address_mask`]).
    pub address: u64,
}

impl From<Arch> for Machine {
    /// With the usual address space.
    #[inline(always)]
    fn from(arch: Arch) -> Self {
        Self {
            arch,
            address: ARM64_ADDRESS,
        }
    }
}

/// The kind of the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Its address is a return address.
    Call,
    /// It was interrupted by a signal: its address is that of its next instruction.
    Signal,
}

/// Steps from a frame to its caller by the rules of `row`. `read` reads a word of user memory.
///
/// # Errors
/// Why the walk ends here; `registers` are those for continuing by other means.
#[inline(always)]
pub fn step(
    machine: impl Into<Machine>,
    row: Row,
    registers: &UserRegs,
    read: impl Fn(u64) -> Option<u64>,
) -> Result<(UserRegs, By), WalkEnd> {
    let Machine { arch, address } = machine.into();
    let offset = i64::from(row.cfa_offset) * WORD;
    let (sp, fp) = (registers.sp, registers.fp);
    let is_arm = matches!(arch, Arch::Aarch64);
    let cfa = match row.rules & 15 {
        1 | 11 if is_arm && registers.lr == SP_UNKNOWN => cfa_by_frame_record(row, fp),
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
        10 if registers.lr != 0 => bx(registers.lr, &read).map(|bx| bx.wrapping_add_signed(offset)),
        11 => Some(sp.wrapping_add(u64::from(row.cfa_offset.cast_unsigned()) * FAR)),
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
    let in_register = is_arm && row.link == RA_IN_LINK_REGISTER;
    if cfa < sp || (cfa == sp && !in_register) {
        return Err(WalkEnd::BadChain);
    }
    let caller_fp = match fp_at.map(|at| (at, read(at))) {
        None => fp,
        Some((_, Some(value))) => value,
        // Epilogues pop it without declaring it: it is back in its register, and its slot may not be in memory any more.
        Some((at, None)) if at < sp => fp,
        Some((_, None)) => return Err(WalkEnd::ReadFailed),
    };
    match arch {
        Arch::X86_64 => {
            let lr = match row.link {
                BX_SAME => registers.lr,
                BX_LOST => 0,
                words => cfa.wrapping_sub(u64::from(words) * 8) | 1,
            };
            let ip = read(cfa.wrapping_sub(8)).ok_or(WalkEnd::ReadFailed)?;
            arrive(ip, cfa, caller_fp, lr)
        }
        Arch::Aarch64 => {
            let ip = match row.link {
                // Only the innermost frame has its return address there.
                RA_IN_LINK_REGISTER if registers.lr <= SP_UNKNOWN => return Err(WalkEnd::BadChain),
                RA_IN_LINK_REGISTER => Some(registers.lr),
                RA_ABOVE_FP => read(fp_at.map_or(sp.wrapping_add_signed(slot), |at| at.wrapping_add(8))),
                words => read(cfa.wrapping_sub(u64::from(words) * 8)),
            };
            arrive(ip.ok_or(WalkEnd::ReadFailed)? & address, cfa, caller_fp, 0)
        }
    }
}

/// arm64: the CFA of a frame whose stack pointer is not known, by the frame pointer: it points to where the function saved its caller's.
#[inline(always)]
const fn cfa_by_frame_record(row: Row, fp: u64) -> Option<u64> {
    if row.rules >> 4 == Fp::AtCfa as u8 {
        Some(fp.wrapping_add_signed(-(row.fp_offset as i64) * WORD))
    } else {
        None
    }
}

/// The value of rbx in a frame whose [`UserRegs::lr`] is `link`.
#[inline(always)]
fn bx(link: u64, read: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    if link & 1 == 0 { Some(link) } else { read(link & !1) }
}

/// A return address of zero marks the first frame of a thread or a coroutine.
#[inline(always)]
fn arrive(ip: u64, sp: u64, fp: u64, lr: u64) -> Result<(UserRegs, By), WalkEnd> {
    if ip == 0 {
        return Err(WalkEnd::Complete);
    }
    Ok((UserRegs { ip, sp, fp, lr }, By::Call))
}

/// Steps from a frame to its caller by the frame pointer, for code that keeps one: the word that it points to is the caller's
/// frame pointer, and the word above is the return address.
///
/// # Errors
/// See [`step`].
#[inline(always)]
pub fn step_by_frame_pointer(
    machine: impl Into<Machine>,
    registers: &UserRegs,
    read: impl Fn(u64) -> Option<u64>,
) -> Result<(UserRegs, By), WalkEnd> {
    let Machine { arch, address } = machine.into();
    let fp = registers.fp;
    if fp < registers.sp || fp & 7 != 0 {
        return Err(WalkEnd::BadChain);
    }
    let caller_fp = read(fp).ok_or(WalkEnd::ReadFailed)?;
    let ip = read(fp.wrapping_add(8)).ok_or(WalkEnd::ReadFailed)?;
    let sp = fp.wrapping_add(16);
    match arch {
        Arch::X86_64 => arrive(ip, sp, caller_fp, 0),
        Arch::Aarch64 => arrive(ip & address, sp, caller_fp, SP_UNKNOWN),
    }
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
            lr: sp.wrapping_add(128) | 1,
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
