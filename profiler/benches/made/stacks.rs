//! Stacks that share their outer frames, like those of a program. Each is written once, at its first use.

use std::io::{self, Write};

use profiler::addr::KernelOffset;
use profiler::event::write::LogWriter;
use profiler::event::{Event, KernelStack, UserStack};
use profiler_common::unwind::WalkEnd;

use super::Dice;
use super::machine::{KERNEL_FUNCTIONS, LIBRARIES, PROCESSES, library_at};

/// Number of distinct kernel stacks.
const KERNEL_STACKS: u64 = 2_000;
/// Number of paths through the event loops of each process.
const TRUNKS: u64 = 64;
/// Number of return addresses used in each library.
const PLACES: u64 = 2_000;

/// The stacks written so far.
pub struct StackBook {
    told: Vec<bool>,
    each: u64,
}

impl StackBook {
    /// No stacks yet, and at most `distinct` in all.
    pub fn new(distinct: u64) -> Self {
        let each = (distinct / PROCESSES).max(1);
        Self {
            told: (0..each * PROCESSES).map(|_| false).collect(),
            each,
        }
    }

    /// Key of a stack of the process; writes the stack at its first use.
    pub fn user<W: Write>(&mut self, log: &mut LogWriter<W>, process: u64, dice: &mut Dice) -> io::Result<u64> {
        let number = process * self.each + dice.mostly_small(self.each);
        let Some(told) = self.told.get_mut(usize::try_from(number).unwrap_or(usize::MAX)) else {
            return Ok(0);
        };
        if !std::mem::replace(told, true) {
            log.event(&Event::UserStack(UserStack {
                key: number + 1,
                end: WalkEnd::Complete as u8,
                frames: frames(process, number).into(),
            }))?;
        }
        Ok(number + 1)
    }
}

/// Writes all kernel stacks.
pub fn kernel_stacks<W: Write>(log: &mut LogWriter<W>) -> io::Result<()> {
    for key in 1..=KERNEL_STACKS {
        let mut dice = Dice(key << 32);
        let depth = 6 + dice.below(14);
        let frame = |_| KernelOffset(dice.mostly_small(KERNEL_FUNCTIONS) * 256 + 16);
        let frames: Vec<KernelOffset> = (0..depth).map(frame).collect();
        log.event(&Event::KernelStack(KernelStack {
            key,
            frames: frames.into(),
        }))?;
    }
    Ok(())
}

/// Key of a kernel stack on top of a user stack: few occur with each.
pub fn kernel(user: u64, dice: &mut Dice) -> u64 {
    1 + Dice(user ^ dice.below(2) << 60).mostly_small(KERNEL_STACKS)
}

/// Leaf first: a few own frames on top of the shared outer frames.
fn frames(process: u64, number: u64) -> Vec<u64> {
    let mut dice = Dice(number);
    let trunk = dice.mostly_small(TRUNKS);
    let own = 2 + dice.below(10);
    let mut frames: Vec<u64> = (0..own).map(|_| place(process, &mut dice)).collect();
    let mut dice = Dice(trunk << 40);
    let shared = 20 + dice.below(50);
    frames.extend((0..shared).map(|_| place(process, &mut dice)));
    frames
}

fn place(process: u64, dice: &mut Dice) -> u64 {
    let (library, place) = (dice.mostly_small(LIBRARIES), dice.mostly_small(PLACES));
    library_at(process, library) + 0x1000 + place * 64
}
