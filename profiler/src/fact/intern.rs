//! Each distinct frame and stack once, and the kernel's names for the frames in it.

use rustc_hash::FxHashMap;

use super::{Frame, FrameId, FrameName, Location, SourceFrame, StackId, StackNode, Tables, TruncationReason};
use crate::addr::KernelOffset;

/// Finds the id of a frame or stack, and gives new ones theirs.
#[derive(Debug, Default)]
pub struct Interner {
    frames: FxHashMap<Frame, FrameId>,
    stacks: FxHashMap<StackNode, StackId>,
    kernel: FxHashMap<KernelOffset, (KernelOffset, String)>,
}

impl Interner {
    /// The stack that is `parent` with a callee at `location`.
    pub fn push(
        &mut self,
        tables: &mut Tables,
        parent: Option<StackId>,
        location: Named,
        is_return_address: bool,
    ) -> StackId {
        let frame = Frame {
            location: location.location,
            is_return_address,
        };
        let id = *self.frames.entry(frame).or_insert_with_key(|frame| {
            let id = FrameId(u32::try_from(tables.frames.len()).unwrap_or(u32::MAX));
            tables.frames.push(frame.clone());
            if let Some((start, name)) = location.name {
                let inline_chain = vec![SourceFrame {
                    function: name.clone(),
                    file: None,
                    line: None,
                }];
                tables.names.insert(
                    id,
                    FrameName {
                        symbol: name,
                        symbol_start: start,
                        symbol_size: None,
                        inline_chain,
                    },
                );
            }
            id
        });
        let node = StackNode { parent, frame: id };
        *self.stacks.entry(node).or_insert_with(|| {
            let id = StackId(u32::try_from(tables.stacks.len()).unwrap_or(u32::MAX));
            tables.stacks.push(node);
            id
        })
    }

    /// The outermost frame of a stack that is not complete.
    pub fn truncated(&mut self, tables: &mut Tables, reason: TruncationReason) -> StackId {
        self.push(tables, None, Location::Truncated(reason).into(), false)
    }

    /// Takes in what capture said of a kernel address.
    pub fn kernel_symbol(&mut self, offset: KernelOffset, start: KernelOffset, name: String) {
        self.kernel.insert(offset, (start, name));
    }

    /// Names the kernel's frames.
    pub fn name_kernel(&self, tables: &mut Tables) {
        for (index, frame) in (0u32..).zip(&tables.frames) {
            let Location::Kernel { offset, .. } = frame.location else {
                continue;
            };
            let Some((start, name)) = self.kernel.get(&offset) else {
                continue;
            };
            let inline_chain = vec![SourceFrame {
                function: name.clone(),
                file: None,
                line: None,
            }];
            let named = FrameName {
                symbol: name.clone(),
                symbol_start: start.0,
                symbol_size: None,
                inline_chain,
            };
            tables.names.insert(FrameId(index), named);
        }
    }
}

/// A location, with its function's start and name where the name is known at once.
#[derive(Debug, Clone)]
pub struct Named {
    /// Where.
    pub location: Location,
    /// Start and name.
    pub name: Option<(u64, String)>,
}

impl From<Location> for Named {
    fn from(location: Location) -> Self {
        Self { location, name: None }
    }
}
