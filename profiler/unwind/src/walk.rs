//! Walks one user stack from its registers outward, to the thread's first frame or a reason to
//! stop.

use std::cell::RefCell;

use profiler_common::call::{is_call, step_by_guess};
use profiler_common::stack::INTERRUPTED;
use profiler_common::stack::{FLAG_CALLER, FLAG_CHECK, FLAG_STACK_UNREADABLE, FLAG_THINNED, FLAG_USER_REGS};
use rustc_hash::FxHashMap;

use super::TruncationReason;
use super::arch::{self, Registers};
use super::binary::{Binary, BinaryId, Content, Modules};
use super::cfi::{Context, Rule};
use super::copy::StackCopy;
use super::steps::{Trail, WalkStep, by_frame_pointer, by_row, by_signal_frame};
use super::walked::Walked;
use base::addr::{Avma, FileOffset, Svma};
use base::event::Stacks;
use task::ProcessId;
use task::Tasks;
use task::space::{FileKey, Region};

/// Maximum number of frames of a stack; of a deeper one, the innermost are kept.
pub const FRAME_LIMIT: usize = 4096;
/// framehop's cache has 509 entries, and a browser has ten thousand hot addresses.
pub(super) const CACHES: u64 = 64;
/// The vdso of a 32-bit process is below this address: it is a different one, which only such a
/// process can read.
const FIRST_64_BIT: u64 = 1 << 32;
/// `call rax` at the end of eight bytes of code.
const ANY_CALL: u64 = 0xd0ff << 48;

/// The kind of memory at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramePlace {
    /// In a mapped file whose segments are known.
    Code(FileKey, Svma),
    /// In a mapped file that can't be read.
    Unreadable(FileKey, FileOffset),
    /// In code generated at run time.
    MadeAtRunTime(FileKey),
    /// In no mapping.
    Unmapped,
}

/// A frame of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawFrame {
    /// The instruction pointer, or the return address.
    pub address: Avma,
    /// Whether it is a return address: the call is the instruction before it.
    pub is_return_address: bool,
    /// Its location: for a return address, the location of the byte before it, plus one.
    pub place: FramePlace,
}

/// The frames of a user stack, leaf first, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// Leaf first.
    pub frames: Vec<RawFrame>,
    /// `Ok`: the walk reached the thread's first frame.
    pub end: Result<(), TruncationReason>,
}

/// Unwinds user stacks, with a cache of rules shared by all processes.
pub struct Walker<'b> {
    /// The files of the modules.
    pub modules: Modules<'b>,
    pub(super) caches: Vec<arch::Cache>,
    rules: FxHashMap<(BinaryId, Svma), Rule>,
    pub(super) context: Context,
}

/// The address space of a stack.
#[derive(Clone, Copy)]
pub struct Mapped<'t> {
    /// The current mappings.
    pub tasks: &'t Tasks,
    /// The process of the stack.
    pub process: ProcessId,
}

impl Mapped<'_> {
    fn region(&self, address: u64) -> Option<Region> {
        self.tasks.region(self.process, Avma(address))
    }
}

impl<'b> Walker<'b> {
    /// Creates a walker with an empty cache.
    pub fn new(modules: Modules<'b>) -> Self {
        Self {
            caches: (0..CACHES).map(|_| arch::Cache::new()).collect(),
            modules,
            rules: FxHashMap::default(),
            context: Context::new(),
        }
    }

    /// The user stack of a sample: the frames that the eBPF programs walked, continued with the
    /// copy.
    pub fn stack(&mut self, mapped: Mapped<'_>, stacks: &Stacks<'_>, walked: Option<&Walked>) -> Walk {
        let Some(walked) = walked.filter(|_| stacks.flags & FLAG_CHECK == 0) else {
            return self.walk(mapped, stacks, Vec::with_capacity(64));
        };
        let frames = walked.frames.iter().enumerate();
        let frames: Vec<RawFrame> = frames.map(|(depth, frame)| self.frame(mapped, depth, *frame)).collect();
        match self.reason(mapped, walked) {
            Some(_) if !stacks.copy.is_empty() => self.walk(mapped, stacks, frames),
            reason => Walk {
                frames,
                end: reason.map_or(Ok(()), Err),
            },
        }
    }

    /// Why a walk by the eBPF programs, which know only code with rows, is incomplete; `None`: it
    /// is complete.
    pub fn reason(&mut self, mapped: Mapped<'_>, walked: &Walked) -> Option<TruncationReason> {
        let reason = walked.end.reason()?;
        let depth = walked.frames.len().checked_sub(1);
        let outermost = depth.map(|depth| self.frame(mapped, depth, walked.frames[depth]));
        let binary = outermost.and_then(|frame| self.binary(frame.place));
        let is_foreign = binary.is_some_and(|(binary, _)| binary.is_foreign);
        Some(if is_foreign {
            TruncationReason::UnsupportedProcessor
        } else {
            reason
        })
    }

    /// A frame of a walk by the eBPF programs, from [`Walked::frames`] at this depth.
    pub fn frame(&mut self, mapped: Mapped<'_>, depth: usize, frame: u64) -> RawFrame {
        let (address, is_return_address) = (frame & !INTERRUPTED, depth > 0 && frame & INTERRUPTED == 0);
        let (place, _) = self.place(mapped, address, is_return_address);
        RawFrame {
            address: Avma(address),
            is_return_address,
            place,
        }
    }

    /// Unwinds the copied stack of a sample. `frames` were walked already; the sample's registers
    /// belong to the last of them.
    fn walk(&mut self, mapped: Mapped<'_>, stacks: &Stacks<'_>, mut frames: Vec<RawFrame>) -> Walk {
        if stacks.flags & FLAG_USER_REGS == 0 {
            return Walk {
                frames,
                end: Err(TruncationReason::NotCaptured),
            };
        }
        let mut resumed = !frames.is_empty();
        let processor = self.modules.processor;
        let mut registers = processor.registers_of(&stacks.regs);
        let top = mapped.region(registers.sp).map(|region| region.end.0);
        let copy = StackCopy::new(stacks, top, processor.red_zone);
        let mut trail = Trail {
            copy,
            passed: Vec::new(),
            doubt: None,
            chained: false,
            processor,
            mask: processor.address_mask(mapped.tasks.highest(mapped.process)),
        };
        let captured = !stacks.copy.is_empty() && stacks.flags & FLAG_STACK_UNREADABLE == 0;
        let mut is_call = stacks.flags & FLAG_CALLER != 0;
        let end = loop {
            let (place, executable) = self.place(mapped, registers.ip, is_call);
            if !std::mem::take(&mut resumed) {
                if !frames.is_empty()
                    && let Some(reason) = self.is_led_astray(&mut trail, place, executable)
                {
                    break Err(reason);
                }
                frames.push(RawFrame {
                    address: Avma(registers.ip),
                    is_return_address: is_call,
                    place,
                });
            }
            if frames.len() >= FRAME_LIMIT {
                break Err(TruncationReason::Limit);
            }
            if stacks.flags & FLAG_THINNED != 0 {
                break Err(TruncationReason::Thinned);
            }
            match self.step(mapped, &mut trail, place, registers, is_call) {
                WalkStep::Outermost => break Ok(()),
                _ if !captured => break Err(TruncationReason::NotCaptured),
                WalkStep::Stuck(TruncationReason::CopyTooShort) => break Err(TruncationReason::CopyTooShort),
                WalkStep::Stuck(reason) => break Err(trail.doubt.unwrap_or(reason)),
                WalkStep::To {
                    registers: next,
                    is_call: by_call,
                } => {
                    // A signal may have a separate stack; the caller of a call is always further
                    // up, unless the return address is still in its register and nothing on the stack.
                    let is_leaf = processor.has_link_register && !is_call && next.sp == registers.sp;
                    if by_call && next.sp <= registers.sp && !is_leaf {
                        break Err(trail.doubt.unwrap_or(TruncationReason::BadChain));
                    }
                    (registers, is_call) = (next, by_call);
                }
            }
        };
        Walk { frames, end }
    }

    /// The location of an address, and whether it is executable.
    fn place(&mut self, mapped: Mapped<'_>, address: u64, is_call: bool) -> (FramePlace, bool) {
        // A call at the end of a function or mapping returns to the address after it.
        let back = u64::from(is_call && address > 0);
        let Some(region) = mapped.tasks.code_region(mapped.process, Avma(address - back)) else {
            return (FramePlace::Unmapped, false);
        };
        let offset = FileOffset(region.file_offset(Avma(address - back)).0.wrapping_add(back));
        if region.end.0 <= FIRST_64_BIT && mapped.tasks.files.get(region.file).is_vdso() {
            return (FramePlace::Unreadable(region.file, offset), region.executable);
        }
        let known = self.modules.known(region.file, &mapped.tasks.files);
        let place = match known.content {
            Content::MadeAtRunTime => FramePlace::MadeAtRunTime(region.file),
            Content::Binary(_) | Content::Unreadable => match known.svma(FileOffset(offset.0.wrapping_sub(back))) {
                Some(svma) => FramePlace::Code(region.file, Svma(svma.0.wrapping_add(back))),
                None => FramePlace::Unreadable(region.file, offset),
            },
        };
        (place, region.executable)
    }

    /// A return address must be in code, and a guessed one must follow a call.
    fn is_led_astray(&self, trail: &mut Trail<'_>, place: FramePlace, executable: bool) -> Option<TruncationReason> {
        if !executable {
            let reason = if place == FramePlace::Unmapped {
                TruncationReason::NoMapping
            } else {
                TruncationReason::BadChain
            };
            return Some(trail.doubt.unwrap_or(reason));
        }
        if let (Some(doubt), Some((binary, svma))) = (trail.doubt, self.binary(place)) {
            match binary.follows_call(svma) {
                Some(true) => trail.doubt = None,
                Some(false) => return Some(doubt),
                None => {}
            }
        }
        None
    }

    fn binary(&self, place: FramePlace) -> Option<(&Binary, Svma)> {
        let FramePlace::Code(file, svma) = place else {
            return None;
        };
        Some((self.modules.binary(self.modules.binary_id(file)?), svma))
    }

    /// Steps from a frame to its caller.
    fn step(
        &mut self,
        mapped: Mapped<'_>,
        trail: &mut Trail<'_>,
        place: FramePlace,
        registers: Registers,
        is_call: bool,
    ) -> WalkStep {
        let (file, svma) = match place {
            FramePlace::MadeAtRunTime(_) => return by_frame_pointer(trail, registers, None),
            FramePlace::Unmapped => return WalkStep::Stuck(TruncationReason::NoMapping),
            FramePlace::Unreadable(file, _) => (file, Svma(0)),
            FramePlace::Code(file, svma) => (file, svma),
        };
        let Some(id) = self.modules.binary_id(file) else {
            return by_frame_pointer(trail, registers, Some(TruncationReason::ModuleUnreadable));
        };
        if self.modules.binary(id).is_foreign {
            return WalkStep::Stuck(TruncationReason::UnsupportedProcessor);
        }
        if self.modules.binary(id).is_entry_code(svma) {
            return WalkStep::Outermost;
        }
        let lookup = Svma(svma.0.wrapping_sub(u64::from(is_call)));
        match self.rule(id, lookup) {
            Rule::Outermost => WalkStep::Outermost,
            Rule::Signal => by_signal_frame(trail, registers),
            Rule::Ordinary => self.by_framehop(trail, id, svma, registers, is_call),
            Rule::Special => self.by_tables(trail, id, lookup, registers),
            Rule::Unsupported => by_frame_pointer(trail, registers, Some(TruncationReason::UnsupportedRule)),
            Rule::None if let Some(row) = self.modules.binary(id).stub(lookup) => by_row(trail, row, registers),
            Rule::None if self.modules.binary(id).is_last_call(lookup) => WalkStep::Outermost,
            Rule::None if self.modules.binary(id).cfi.is_none() && trail.chained && registers.fp == 0 => {
                // A file without tables was compiled with frame pointers, and their chain ends
                // here.
                WalkStep::Outermost
            }
            Rule::None => {
                let leaf = !is_call && trail.passed.is_empty() && !trail.chained;
                let confirmed = self.by_guess(mapped, trail, registers, leaf);
                confirmed.unwrap_or_else(|| by_frame_pointer(trail, registers, Some(TruncationReason::NoUnwindInfo)))
            }
        }
    }

    /// The same guess as in the eBPF programs.
    fn by_guess(
        &mut self,
        mapped: Mapped<'_>,
        trail: &mut Trail<'_>,
        registers: Registers,
        leaf: bool,
    ) -> Option<WalkStep> {
        let arch = trail.processor.arch;
        let (copy, this) = (trail.copy, RefCell::new(self));
        let read = |at| copy.read(at).ok().or_else(|| this.borrow_mut().code(mapped, at));
        let (caller, _) = step_by_guess(trail.machine(), &registers.into(), leaf, read, |code| {
            is_call(arch, code)
        })
        .ok()?;
        let (_, executable) = this.into_inner().place(mapped, caller.ip, true);
        if !executable {
            return None;
        }
        // The first step from a leaf may have skipped a frame without frame pointer.
        trail.chained |= !leaf || caller.fp != registers.fp;
        trail.passed.clear();
        Some(WalkStep::To {
            registers: trail.processor.registers_of(&caller),
            is_call: true,
        })
    }

    /// Eight bytes of code. Code generated at run time is no longer available, and counts as a
    /// call.
    fn code(&mut self, mapped: Mapped<'_>, address: u64) -> Option<u64> {
        let (place, executable) = self.place(mapped, address, false);
        if let FramePlace::MadeAtRunTime(_) = place {
            return executable.then_some(ANY_CALL);
        }
        let (binary, svma) = self.binary(place)?;
        binary.code(svma)
    }

    fn rule(&mut self, id: BinaryId, svma: Svma) -> Rule {
        let (modules, context) = (&self.modules, &mut self.context);
        *self
            .rules
            .entry((id, svma))
            .or_insert_with(|| match &modules.binary(id).cfi {
                Some(cfi) => cfi.rule(context, svma.0),
                None => Rule::None,
            })
    }
}
