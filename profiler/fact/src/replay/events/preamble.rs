//! What a log holds outside its event stream.

use std::collections::VecDeque;

use crate::replay::jit::JitIndex;
use crate::replay::marker_file::ProgramMarker;
use crate::replay::resolved::Resolved;
use crate::replay::walks::KernelNames;
use base::event::Cost;

/// Preamble: the chunks of a log outside its event stream.
#[derive(Default)]
pub struct Preamble {
    /// Names of the kernel's functions.
    pub kernel: KernelNames,
    /// Names of code generated at run time.
    pub jit: JitIndex,
    /// The program's own markers, by start.
    pub markers: VecDeque<ProgramMarker>,
    /// What the recording itself cost.
    pub cost: Option<Cost>,
    /// What was unwound and named before.
    pub resolved: Option<Resolved>,
}
