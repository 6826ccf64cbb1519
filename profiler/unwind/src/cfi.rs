//! The unwind tables of one ELF file (`.eh_frame`), read with gimli: the rule for an address, and
//! the steps that framehop does not support.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult, FrameDescriptionEntry,
    LittleEndian, Location, ParsedEhFrameHdr, Register, RegisterRule, UnwindContext, UnwindSection as _, Value,
};
use profiler_common::unwind::SP_UNKNOWN;
use symbols::elf::{ElfFile, Section};

use crate::arch::{Processor, Registers};

type Slice<'b> = EndianSlice<'b, LittleEndian>;
type Fde<'b> = FrameDescriptionEntry<Slice<'b>>;

/// Maximum number of indexed functions, for files without the linker's index.
const MAX_FUNCTIONS: usize = 1 << 23;
/// Maximum length of an expression evaluation: real ones have ten operations, hostile ones loop
/// forever.
const MAX_OPERATIONS: u32 = 500;

/// The kind of rule for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A rule that framehop supports.
    Ordinary,
    /// A rule that only [`Cfi::step`] supports.
    Special,
    /// The frame that the kernel created to deliver a signal.
    Signal,
    /// The thread's first function: it has no caller.
    Outermost,
    /// No rule.
    None,
    /// An invalid rule.
    Unsupported,
}

/// The unwind sections of one file.
pub struct Cfi {
    processor: &'static Processor,
    eh_frame: Section,
    eh_frame_hdr: Option<Section>,
    bases: BaseAddresses,
    /// Start, end and offset of every entry, for files without `.eh_frame_hdr`.
    list: Vec<(u64, u64, usize)>,
}

/// Memory that gimli reuses between rows.
pub type Context = UnwindContext<usize>;

impl Cfi {
    /// Reads the tables of `elf`, which has code for `processor`; `None` if it has none.
    pub fn of(elf: &ElfFile, processor: &'static Processor) -> Option<Self> {
        let eh_frame = elf.section(".eh_frame").filter(|section| !section.bytes.is_empty())?;
        let mut bases = BaseAddresses::default().set_eh_frame(eh_frame.svma.start);
        let eh_frame_hdr = elf.section(".eh_frame_hdr");
        if let Some(header) = &eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(header.svma.start);
        }
        if let Some(text) = elf.section_svma(".text") {
            bases = bases.set_text(text.start);
        }
        if let Some(got) = elf.section_svma(".got") {
            bases = bases.set_got(got.start);
        }
        let mut cfi = Self {
            processor,
            eh_frame,
            eh_frame_hdr,
            bases,
            list: Vec::new(),
        };
        if !cfi.has_header() {
            cfi.list = cfi.entries();
        }
        Some(cfi)
    }

    /// Whether the linker's index exists and is usable.
    pub fn has_header(&self) -> bool {
        self.header().is_some_and(|header| header.table().is_some())
    }

    fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut eh_frame = EhFrame::new(&self.eh_frame.bytes, LittleEndian);
        eh_frame.set_address_size(8);
        eh_frame.set_vendor(self.processor.vendor);
        eh_frame
    }

    fn header(&self) -> Option<ParsedEhFrameHdr<Slice<'_>>> {
        EhFrameHdr::new(&self.eh_frame_hdr.as_ref()?.bytes, LittleEndian)
            .parse(&self.bases, 8)
            .ok()
    }

    /// Indexes all entries by start address.
    fn entries(&self) -> Vec<(u64, u64, usize)> {
        let eh_frame = self.eh_frame();
        let mut list = Vec::new();
        let mut entries = eh_frame.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
                continue;
            };
            list.push((
                fde.initial_address(),
                fde.initial_address().saturating_add(fde.len()),
                fde.offset(),
            ));
            if list.len() >= MAX_FUNCTIONS {
                break;
            }
        }
        list.sort_unstable();
        list
    }

    /// The entry that covers an address.
    fn entry(&self, svma: u64) -> Option<Fde<'_>> {
        let eh_frame = self.eh_frame();
        let fde = if let Some(header) = self.header()
            && let Some(table) = header.table()
        {
            table
                .fde_for_address(&eh_frame, &self.bases, svma, EhFrame::cie_from_offset)
                .ok()?
        } else {
            let behind = self.list.partition_point(|(start, ..)| *start <= svma);
            let (_, end, offset) = self.list[..behind].last()?;
            if svma >= *end {
                return None;
            }
            eh_frame
                .fde_from_offset(&self.bases, (*offset).into(), EhFrame::cie_from_offset)
                .ok()?
        };
        fde.contains(svma).then_some(fde)
    }

    /// The rule for `svma`.
    pub fn rule(&self, context: &mut Context, svma: u64) -> Rule {
        let Some(fde) = self.entry(svma) else { return Rule::None };
        if fde.is_signal_trampoline() {
            return Rule::Signal;
        }
        let row = fde.unwind_info_for_address(&self.eh_frame(), &self.bases, context, svma);
        let Ok(row) = row else { return Rule::Unsupported };
        match row.register(self.processor.ra) {
            Some(RegisterRule::Undefined) => Rule::Outermost,
            None if !self.processor.has_link_register => Rule::Outermost,
            _ if (self.processor.is_ordinary)(row) => Rule::Ordinary,
            _ => Rule::Special,
        }
    }

    /// Steps from a frame to its caller. `find` returns the value of a register that unwinding does
    /// not track.
    ///
    /// `None`: the rule is not supported. An error: the memory that it reads is missing.
    pub fn step<E>(
        &self,
        context: &mut Context,
        svma: u64,
        registers: Registers,
        read: &mut dyn FnMut(u64) -> Result<u64, E>,
        find: &mut dyn FnMut(Register) -> Option<u64>,
    ) -> Result<Option<Registers>, E> {
        let Some(fde) = self.entry(svma) else { return Ok(None) };
        let eh_frame = self.eh_frame();
        let Ok(row) = fde.unwind_info_for_address(&eh_frame, &self.bases, context, svma) else {
            return Ok(None);
        };
        let processor = self.processor;
        let sp = if processor.has_link_register && registers.lr == SP_UNKNOWN {
            None
        } else {
            Some(registers.sp)
        };
        let own_return = processor.own_return(&registers);
        let mut get = |register| match register {
            _ if register == processor.ra => own_return,
            _ if register == processor.sp => sp,
            _ if register == processor.fp => Some(registers.fp),
            other => find(other),
        };
        let mut machine = Machine {
            eh_frame: &eh_frame,
            encoding: fde.cie().encoding(),
            read,
            get: &mut get,
        };
        let cfa = match (row.cfa(), row.register(processor.fp)) {
            // The frame pointer points to where the function saved its caller's.
            (CfaRule::RegisterAndOffset { register, .. }, Some(RegisterRule::Offset(saved)))
                if *register == processor.sp && sp.is_none() =>
            {
                saved.checked_neg().and_then(|up| registers.fp.checked_add_signed(up))
            }
            (CfaRule::RegisterAndOffset { register, offset }, _) => {
                (machine.get)(*register).and_then(|value| value.checked_add_signed(*offset))
            }
            (CfaRule::Expression(expression), _) => machine.evaluate(expression, None)?,
        };
        let Some(cfa) = cfa else { return Ok(None) };
        let Some(ip) = machine.register(row.register(processor.ra).as_ref(), cfa, own_return)? else {
            return Ok(None);
        };
        let fp = machine
            .register(row.register(processor.fp).as_ref(), cfa, Some(registers.fp))?
            .unwrap_or(registers.fp);
        Ok(Some(Registers { ip, sp: cfa, fp, lr: 0 }))
    }

    /// The offset from its CFA at which the function at `svma` saved `register`.
    pub fn saved(&self, context: &mut Context, svma: u64, register: Register) -> Saved {
        let Some(fde) = self.entry(svma) else {
            return Saved::Unknown;
        };
        let row = fde.unwind_info_for_address(&self.eh_frame(), &self.bases, context, svma);
        match row.map(|row| row.register(register)) {
            Ok(Some(RegisterRule::Offset(offset))) => Saved::At(offset),
            Ok(None | Some(RegisterRule::SameValue)) => Saved::Untouched,
            _ => Saved::Unknown,
        }
    }
}

/// The location of a caller's register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// It is at this offset from the CFA.
    At(i64),
    /// It still has the caller's value.
    Untouched,
    /// The tables do not specify it.
    Unknown,
}

/// Evaluates rules with memory and registers.
struct Machine<'m, 'b, E> {
    eh_frame: &'m EhFrame<Slice<'b>>,
    encoding: gimli::Encoding,
    read: &'m mut dyn FnMut(u64) -> Result<u64, E>,
    get: &'m mut dyn FnMut(Register) -> Option<u64>,
}

impl<E> Machine<'_, '_, E> {
    /// Returns the caller's value of a register.
    fn register(&mut self, rule: Option<&RegisterRule<usize>>, cfa: u64, own: Option<u64>) -> Result<Option<u64>, E> {
        Ok(match rule {
            None | Some(RegisterRule::SameValue) => own,
            Some(RegisterRule::Offset(offset)) => match cfa.checked_add_signed(*offset) {
                Some(address) => Some((self.read)(address)?),
                None => None,
            },
            Some(RegisterRule::ValOffset(offset)) => cfa.checked_add_signed(*offset),
            Some(RegisterRule::Register(register)) => (self.get)(*register),
            Some(RegisterRule::Expression(expression)) => match self.evaluate(expression, Some(cfa))? {
                Some(address) => Some((self.read)(address)?),
                None => None,
            },
            Some(RegisterRule::ValExpression(expression)) => self.evaluate(expression, Some(cfa))?,
            _ => None,
        })
    }

    /// Evaluates an expression; `None` if it needs an unknown value.
    fn evaluate(
        &mut self,
        expression: &gimli::UnwindExpression<usize>,
        initial: Option<u64>,
    ) -> Result<Option<u64>, E> {
        let Ok(expression) = expression.get(self.eh_frame) else {
            return Ok(None);
        };
        let mut evaluation = Evaluation::new(expression.0, self.encoding);
        evaluation.set_max_iterations(MAX_OPERATIONS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut state = evaluation.evaluate();
        loop {
            state = match state {
                Ok(EvaluationResult::Complete) => break,
                Ok(EvaluationResult::RequiresRegister { register, .. }) => match (self.get)(register) {
                    Some(value) => evaluation.resume_with_register(Value::Generic(value)),
                    None => return Ok(None),
                },
                Ok(EvaluationResult::RequiresMemory { address, size: 8, .. }) => {
                    evaluation.resume_with_memory(Value::Generic((self.read)(address)?))
                }
                _ => return Ok(None),
            };
        }
        Ok(match evaluation.as_result().last().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Some(*address),
            _ => None,
        })
    }
}
