//! Converts gimli's rows to ours, as far as a row can represent the rules.

use gimli::{
    AArch64, CfaRule, Encoding, Expression, Operation, Reader as _, Register, RegisterRule, UnwindExpression,
    UnwindSection, UnwindTableRow, X86_64,
};
use profiler_common::unwind::{Arch, BX_LOST, BX_SAME, Cfa, FAR, Fp, RA_ABOVE_FP, RA_IN_LINK_REGISTER, Row, WORD};

use super::Slice;

/// Maximum number of operations of an expression: those of a PLT stub.
const MAX_OPERATIONS: usize = 9;
/// x86-64: offset of the return address from the CFA.
const RA_OF_CALLS: i64 = -8;
/// Offset of the interrupted stack pointer in the kernel's x86-64 signal frame
/// (arch/x86/include/asm/sigframe.h).
const SIGNAL_FRAME_RSP: i64 = 160;

/// The registers of a processor that rules refer to.
#[derive(Clone, Copy)]
struct Registers {
    sp: Register,
    fp: Register,
    ra: Register,
}

const fn registers(arch: Arch) -> Registers {
    match arch {
        Arch::X86_64 => Registers {
            sp: X86_64::RSP,
            fp: X86_64::RBP,
            ra: X86_64::RA,
        },
        Arch::Aarch64 => Registers {
            sp: AArch64::SP,
            fp: AArch64::X29,
            ra: AArch64::X30,
        },
    }
}

/// Translates the rows of one function.
pub(super) struct Translator<'s, S> {
    pub(super) arch: Arch,
    pub(super) section: &'s S,
    pub(super) encoding: Encoding,
    pub(super) is_signal_frame: bool,
}

impl<'b, S: UnwindSection<Slice<'b>>> Translator<'_, S> {
    /// Converts a row; [`Cfa::Unsupported`] if our rows can't represent it.
    pub(super) fn row(&self, row: &UnwindTableRow<usize>) -> Row {
        let registers = registers(self.arch);
        if self.is_signal_frame {
            return self.signal_frame(row.cfa());
        }
        if self.is_outermost(row.register(registers.ra).as_ref()) {
            return Row::plain(0, Cfa::Outermost);
        }
        self.by_cfa(registers, row)
            .or_else(|| self.by_stack_pointer(registers, row))
            .unwrap_or(Row::plain(0, Cfa::Unsupported))
    }

    fn by_cfa(&self, registers: Registers, row: &UnwindTableRow<usize>) -> Option<Row> {
        let ra_rule = row.register(registers.ra);
        let (cfa, cfa_offset) = self.cfa(registers, row.cfa())?;
        let fp_rule = row.register(registers.fp);
        let (fp, fp_offset) = self.fp(registers, fp_rule.as_ref())?;
        let link = match self.arch {
            Arch::X86_64 if matches!(ra_rule, Some(RegisterRule::Offset(RA_OF_CALLS))) => {
                bx(row.register(X86_64::RBX).as_ref())
            }
            Arch::X86_64 => return None,
            Arch::Aarch64 => return_address(ra_rule.as_ref(), fp_rule.as_ref())?,
        };
        Some(Row::new(0, cfa, cfa_offset, fp, fp_offset, link))
    }

    /// arm64: registers saved at the bottom of a large frame are too far from the CFA, but close to the stack pointer.
    fn by_stack_pointer(&self, registers: Registers, row: &UnwindTableRow<usize>) -> Option<Row> {
        let &CfaRule::RegisterAndOffset { register, offset: size } = row.cfa() else {
            return None;
        };
        let Some(RegisterRule::Offset(back)) = row.register(registers.ra) else {
            return None;
        };
        if self.arch != Arch::Aarch64 || register != registers.sp {
            return None;
        }
        let (cfa, cfa_offset) = self.cfa(registers, row.cfa())?;
        let (fp, at) = match row.register(registers.fp) {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => (Fp::Same, back),
            Some(RegisterRule::Offset(fp)) if fp.checked_add(WORD) == Some(back) => (Fp::AtSp, fp),
            Some(_) => return None,
        };
        let offset = words(size.checked_add(at)?)?;
        Some(Row::new(0, cfa, cfa_offset, fp, offset, RA_ABOVE_FP))
    }

    /// x86-64: the return address is always saved, so a missing rule means that there is none.
    /// arm64: a missing rule means that it is still in its register.
    fn is_outermost(&self, ra: Option<&RegisterRule<usize>>) -> bool {
        match ra {
            Some(RegisterRule::Undefined) => true,
            None => self.arch == Arch::X86_64,
            Some(_) => false,
        }
    }

    /// A signal frame is assumed to be the kernel's; on x86-64, this is checked against the offset
    /// of its stack pointer.
    fn signal_frame(&self, cfa: &CfaRule<usize>) -> Row {
        let is_kernels = match (self.arch, cfa) {
            (Arch::Aarch64, _) => true,
            (Arch::X86_64, CfaRule::Expression(expression)) => {
                matches!(
                    &*self.operations(expression),
                    [base, Operation::Deref { size: 8, space: false, .. }]
                        if offset_from(base, X86_64::RSP) == Some(SIGNAL_FRAME_RSP)
                )
            }
            (Arch::X86_64, CfaRule::RegisterAndOffset { .. }) => false,
        };
        Row::plain(0, if is_kernels { Cfa::Signal } else { Cfa::Unsupported })
    }

    fn cfa(&self, registers: Registers, rule: &CfaRule<usize>) -> Option<(Cfa, i16)> {
        match rule {
            CfaRule::RegisterAndOffset { register, offset } => {
                let cfa = match *register {
                    register if register == registers.sp => {
                        return words(*offset).map(|offset| (Cfa::Sp, offset)).or_else(|| far(*offset));
                    }
                    register if register == registers.fp => Cfa::Fp,
                    X86_64::RBX if self.arch == Arch::X86_64 => Cfa::Bx,
                    _ => return None,
                };
                Some((cfa, words(*offset)?))
            }
            CfaRule::Expression(expression) => self.cfa_expression(registers, &self.operations(expression)),
        }
    }

    /// The expressions that compilers, linkers and OpenSSL's assembler emit.
    fn cfa_expression(&self, registers: Registers, operations: &[Operation<Slice<'b>>]) -> Option<(Cfa, i16)> {
        use Operation::{And, Deref, Ge, Plus, PlusConstant, Shl, UnsignedConstant};
        let at = |base, register| offset_from(base, register).and_then(words);
        match operations {
            [
                base,
                Deref {
                    size: 8, space: false, ..
                },
            ] => at(base, registers.fp)
                .map(|offset| (Cfa::AtFp, offset))
                .or_else(|| at(base, registers.sp).map(|offset| (Cfa::AtSp, offset))),
            [
                base,
                Deref {
                    size: 8, space: false, ..
                },
                PlusConstant { value: 8 },
            ] => at(base, registers.sp).map(|offset| (Cfa::AtSpPlus8, offset)),
            [
                sp,
                ip,
                UnsignedConstant { value: 15 },
                And,
                UnsignedConstant { value: pushed_from },
                Ge,
                UnsignedConstant { value: 3 },
                Shl,
                Plus,
            ] if self.arch == Arch::X86_64
                && offset_from(sp, registers.sp) == Some(8)
                && offset_from(ip, registers.ra) == Some(0)
                && *pushed_from <= 16 =>
            {
                Some((Cfa::Plt, i16::try_from(*pushed_from).ok()?))
            }
            _ => None,
        }
    }

    fn fp(&self, registers: Registers, rule: Option<&RegisterRule<usize>>) -> Option<(Fp, i16)> {
        match rule {
            // Undefined: it is not needed further up, or the stack ends there anyway.
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some((Fp::Same, 0)),
            Some(RegisterRule::Offset(offset)) => Some((Fp::AtCfa, words(*offset)?)),
            Some(RegisterRule::Expression(expression)) => match &*self.operations(expression) {
                [base] => {
                    let at = |register| offset_from(base, register).and_then(words);
                    at(registers.fp)
                        .map(|offset| (Fp::AtFp, offset))
                        .or_else(|| at(registers.sp).map(|offset| (Fp::AtSp, offset)))
                }
                _ => None,
            },
            Some(_) => None,
        }
    }

    /// Parses the operations of an expression; none if there are too many or they are damaged.
    fn operations(&self, expression: &UnwindExpression<usize>) -> Operations<'b> {
        let mut operations = Operations::default();
        let Ok(Expression(mut bytes)) = expression.get(self.section) else {
            return operations;
        };
        while !bytes.is_empty() {
            let operation = Operation::parse(&mut bytes, self.encoding).ok();
            match operation {
                Some(operation) if operations.len < MAX_OPERATIONS => operations.push(operation),
                _ => return Operations::default(),
            }
        }
        operations
    }
}

/// x86-64: location of the caller's rbx.
fn bx(rule: Option<&RegisterRule<usize>>) -> u8 {
    match rule {
        None | Some(RegisterRule::SameValue) => BX_SAME,
        Some(RegisterRule::Offset(offset)) => words_below(*offset).unwrap_or(BX_LOST),
        Some(_) => BX_LOST,
    }
}

/// arm64: location of the return address.
fn return_address(rule: Option<&RegisterRule<usize>>, fp: Option<&RegisterRule<usize>>) -> Option<u8> {
    match rule {
        None | Some(RegisterRule::SameValue | RegisterRule::Register(AArch64::X30)) => Some(RA_IN_LINK_REGISTER),
        Some(RegisterRule::Offset(offset)) => words_below(*offset).or_else(|| {
            // Both registers are saved together, at the bottom of frames of any size.
            let Some(RegisterRule::Offset(fp)) = fp else {
                return None;
            };
            (fp.checked_add(WORD) == Some(*offset)).then_some(RA_ABOVE_FP)
        }),
        Some(_) => None,
    }
}

/// Converts an offset from the CFA to words below it, if [`Row::link`] can represent it.
fn words_below(offset: i64) -> Option<u8> {
    let below = u8::try_from(words(offset.checked_neg()?)?).ok()?;
    (1..u8::MAX).contains(&below).then_some(below)
}

/// A few operations, without heap memory.
struct Operations<'b> {
    list: [Operation<Slice<'b>>; MAX_OPERATIONS],
    len: usize,
}

impl Default for Operations<'_> {
    fn default() -> Self {
        Self {
            list: [Operation::Nop; MAX_OPERATIONS],
            len: 0,
        }
    }
}

impl<'b> Operations<'b> {
    /// The capacity suffices: see the only call.
    fn push(&mut self, operation: Operation<Slice<'b>>) {
        self.list[self.len] = operation;
        self.len += 1;
    }
}

impl<'b> std::ops::Deref for Operations<'b> {
    type Target = [Operation<Slice<'b>>];

    fn deref(&self) -> &Self::Target {
        &self.list[..self.len]
    }
}

/// The constant that an operation adds to `register`.
fn offset_from(operation: &Operation<Slice<'_>>, register: Register) -> Option<i64> {
    match operation {
        Operation::RegisterOffset {
            register: base, offset, ..
        } if *base == register => Some(*offset),
        _ => None,
    }
}

/// The stack pointer plus a number of bytes that does not fit a count of words.
fn far(offset: i64) -> Option<(Cfa, i16)> {
    let offset = u64::try_from(offset).ok().filter(|offset| offset.is_multiple_of(FAR))?;
    Some((Cfa::FarSp, u16::try_from(offset / FAR).ok()?.cast_signed()))
}

/// Converts bytes to words, if they are whole words and a row can represent them.
fn words(offset: i64) -> Option<i16> {
    if offset % WORD == 0 {
        i16::try_from(offset / WORD).ok()
    } else {
        None
    }
}
