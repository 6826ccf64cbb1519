//! Frames as foreign formats represent them: a mapping, an address in it, and the functions there. Also the labels of sums.
//!
//! Addresses are those in the file (svma), because one frame represents all processes that have the file mapped. A mapping is at the address
//! that the file's segment states, which makes a reader's computations from address, mapping and offset correct.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::sums::{Key, Sums, What, Who};
use crate::functions::{Function, Functions};
use crate::path::walk::Kind;
use crate::text::{escaped, is_unsafe};
use base::addr::PAGE;
use base::hex::hex;
use fact::{Frame, FrameId, Location, MappedFile, Module, ModuleId, ModuleKind, StackId, Tables, upwards};

/// The largest number of frames in a stack; further outer frames are left out.
const DEPTH: usize = 4096;
/// The placeholder for an unknown stack.
const NO_STACK: &str = "[no stack]";
/// The placeholder for frames that were cut to save memory ([`super::sums::Key::cut`]).
const CUT: &str = "[cut: light stacks]";

/// A function at a frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line {
    /// Its name.
    pub function: String,
    /// Its source file; empty if unknown.
    pub file: String,
    /// The line in the source file; 0 if unknown.
    pub number: u32,
}

/// The mapping that contains the frames of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub limit: u64,
    /// The file offset of `start`.
    pub offset: u64,
}

/// A frame or a placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spot {
    /// A frame.
    Frame(FrameId),
    /// The placeholder for an unknown stack.
    NoStack,
    /// The placeholder for frames that were cut.
    Cut,
}

impl Spot {
    /// The frame; `None` for a placeholder.
    pub fn frame(self) -> Option<FrameId> {
        match self {
            Self::Frame(frame) => Some(frame),
            Self::NoStack | Self::Cut => None,
        }
    }
}

/// The frames of a recording.
#[derive(Debug)]
pub struct Places<'a> {
    tables: &'a Tables,
    functions: Functions,
    /// The mapping of each module.
    extents: Vec<Option<Extent>>,
}

impl<'a> Places<'a> {
    /// Collects the mappings and functions of finished tables.
    pub fn new(tables: &'a Tables) -> Self {
        let mut range: Vec<Option<(u64, u64)>> = vec![None; tables.modules.len()];
        for frame in &tables.frames {
            let (address, module) = (address(frame), frame.location.module());
            if let Some(range) = module.and_then(|module| range.get_mut(module.index())) {
                let (low, high) = range.get_or_insert((address, address));
                (*low, *high) = ((*low).min(address), (*high).max(address));
            }
        }
        let files: FxHashMap<_, _> = tables.files.iter().map(|file| (file.id, file)).collect();
        let extent = |(module, range): (&Module, Option<(u64, u64)>)| {
            range.map(|range| extent(module, files.get(&module.file).copied(), range))
        };
        Self {
            tables,
            functions: Functions::new(tables),
            extents: tables.modules.iter().zip(range).map(extent).collect(),
        }
    }

    /// The module of the recorded command, if known. Readers take the first mapping for the program.
    pub fn program(&self) -> Option<ModuleId> {
        let process = self.tables.processes.get(self.tables.command_process()?.index())?;
        let modules = self.tables.modules.iter().zip((0..).map(ModuleId));
        let name = process.path.rsplit('/').next().filter(|name| !name.is_empty());
        let is_program = |module: &Module| module.path == process.path || Some(module.name.as_str()) == name;
        let mut programs = modules.filter(|(module, _)| module.kind == ModuleKind::File && is_program(module));
        programs.find(|(_, id)| self.extent(*id).is_some()).map(|(_, id)| id)
    }

    /// Looks up a module.
    pub fn module(&self, id: ModuleId) -> Option<&'a Module> {
        self.tables.modules.get(id.index())
    }

    /// The mapping that represents a module; `None` if it contains no frame.
    pub fn extent(&self, id: ModuleId) -> Option<Extent> {
        *self.extents.get(id.index())?
    }

    /// The module and the address of a frame.
    pub fn address(&self, id: FrameId) -> (Option<ModuleId>, u64) {
        let frame = self.tables.frames.get(id.index());
        frame.map_or((None, 0), |frame| (frame.location.module(), address(frame)))
    }

    /// Whether a frame belongs to the kernel.
    pub fn is_kernel(&self, id: FrameId) -> bool {
        let frame = self.tables.frames.get(id.index());
        frame.is_some_and(|frame| matches!(frame.location, Location::Kernel { .. }))
    }

    /// The functions of a frame, innermost inlined function first; never empty.
    pub fn lines(&self, spot: Spot) -> Vec<Line> {
        let frame = spot.frame();
        let chain = frame.map_or(&[][..], |frame| self.functions.of_frame(frame));
        let sources = frame.and_then(|frame| self.tables.names.get(&frame));
        let sources = sources.map_or(&[][..], |name| &name.inline_chain);
        let line = |place: usize, function: &str| {
            let source = sources.get(place);
            let file = source.and_then(|source| source.file.as_deref());
            Line {
                function: harmless(function).into_owned(),
                file: harmless(file.unwrap_or_default()).into_owned(),
                number: source.and_then(|source| source.line).unwrap_or(0),
            }
        };
        if chain.is_empty() {
            let name = match spot {
                Spot::Frame(frame) => self.tables.function_name(frame),
                Spot::NoStack => Cow::Borrowed(NO_STACK),
                Spot::Cut => Cow::Borrowed(CUT),
            };
            return vec![line(0, &name)];
        }
        let functions = chain.iter().enumerate();
        let name = |id| {
            self.functions
                .get(id)
                .map_or("", |function: &Function| function.name.as_str())
        };
        functions.map(|(place, id)| line(place, name(*id))).collect()
    }

    /// The frames of a stack, innermost first, with placeholders for missing frames; never empty.
    pub fn stack(&self, stack: Option<StackId>, cut: bool) -> Vec<Spot> {
        let frames = stack.into_iter().flat_map(|stack| upwards(self.tables, stack));
        let mut spots = Vec::new();
        spots.extend(cut.then_some(Spot::Cut));
        spots.extend(frames.take(DEPTH).map(Spot::Frame));
        if spots.is_empty() { vec![Spot::NoStack] } else { spots }
    }

    /// The labels of a sum: everything in its key except the stack.
    pub fn labels(&self, key: &Key, sums: &Sums) -> Vec<(Label, Value)> {
        let mut labels = Vec::with_capacity(7);
        let mut text = |label, text: &str| labels.push((label, Value::Text(harmless(text).into_owned())));
        match key.who {
            Who::Thread(id) => {
                let thread = self.tables.threads.get(id.index());
                let process = thread.and_then(|thread| self.tables.processes.get(thread.process.index()));
                if let Some(process) = process {
                    text(Label::Process, &process.name);
                }
                if let Some(thread) = thread {
                    text(Label::Thread, &thread.name);
                }
                let number = |id: u32| Value::Number(i64::from(id));
                labels.extend(process.map(|process| (Label::Pid, number(process.pid))));
                labels.extend(thread.map(|thread| (Label::Tid, number(thread.tid))));
            }
            Who::Named(number) => {
                if let Some(name) = sums.name(number) {
                    name.process.iter().for_each(|process| text(Label::Process, process));
                    text(Label::Thread, &name.thread);
                }
            }
            Who::Unknown => {}
        }
        let mut text = |label, text: &str| labels.push((label, Value::Text(harmless(text).into_owned())));
        match key.what {
            What::Sample => {}
            What::Fault(class) => text(Label::Class, class.name()),
            What::Wait(reason) => text(Label::Reason, reason.name()),
            What::Path(kind) => text(Label::Reason, kind.name()),
            What::Io(device, operation) => {
                text(Label::Operation, operation.name());
                if let Some(device) = self.tables.devices.get(device.index()) {
                    text(Label::Device, &device.name);
                }
            }
        }
        if let Some(path) = key.file.and_then(|file| sums.path(self.tables, file)) {
            text(Label::File, &path);
        }
        labels
    }

    /// The name of the process, or of the thread if the process is unknown.
    pub fn process<'s>(&'s self, key: &Key, sums: &'s Sums) -> Cow<'s, str> {
        match key.who {
            Who::Thread(id) => {
                let thread = self.tables.threads.get(id.index());
                let process = thread.and_then(|thread| self.tables.processes.get(thread.process.index()));
                harmless(process.map_or("[unknown]", |process| &process.name))
            }
            Who::Named(number) => {
                let name = sums.name(number);
                harmless(name.map_or("[unknown]", |name| name.process.as_deref().unwrap_or(&name.thread)))
            }
            Who::Unknown => Cow::Borrowed("[unknown]"),
        }
    }

    /// The thread of a piece of the critical path, and its reason unless it ran: the outermost and the innermost frame
    /// of its stack where there are no labels.
    pub fn path_frames<'s>(&'s self, key: &Key, sums: &'s Sums) -> Option<(Cow<'s, str>, Option<String>)> {
        let What::Path(kind) = key.what else { return None };
        let thread = match key.who {
            Who::Thread(id) => self.tables.threads.get(id.index()).map(|thread| thread.name.as_str()),
            Who::Named(number) => sums.name(number).map(|name| name.thread.as_str()),
            Who::Unknown => None,
        };
        let reason = (kind != Kind::Cpu).then(|| format!("[{}]", kind.name()));
        Some((harmless(thread.unwrap_or("[unknown]")), reason))
    }
}

/// The key of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// Name of the process.
    Process,
    /// Id of the process.
    Pid,
    /// Name of the thread.
    Thread,
    /// Id of the thread.
    Tid,
    /// Class of a fault.
    Class,
    /// Reason of a wait.
    Reason,
    /// Operation of a request.
    Operation,
    /// Device of a request.
    Device,
    /// Path of the file.
    File,
}

/// The value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// A name.
    Text(String),
    /// A number.
    Number(i64),
}

/// The path of a module, or its name if it has no path.
pub fn file_name(module: &Module) -> Cow<'_, str> {
    let is_file = module.kind == ModuleKind::File && !module.path.is_empty();
    harmless(if is_file { &module.path } else { &module.name })
}

/// The build id of a module in hexadecimal digits; empty if it has none.
pub fn build_id(module: &Module) -> String {
    hex(&module.build_id)
}

/// A name in which characters that a terminal would interpret are escaped.
pub fn harmless(name: &str) -> Cow<'_, str> {
    if name.chars().any(is_unsafe) {
        Cow::Owned(escaped(name.as_bytes()))
    } else {
        Cow::Borrowed(name)
    }
}

/// The address of a frame; for a return address, the byte before it, which is within the call.
fn address(frame: &Frame) -> u64 {
    let address = match &frame.location {
        Location::Module { svma, .. } => svma.0,
        Location::FileOffset { offset, .. } => offset.0,
        Location::Kernel { offset, .. } => offset.0,
        Location::Jit { start, offset, .. } => start.0.wrapping_add(*offset),
        Location::Anonymous { avma, .. } | Location::Unmapped { avma, .. } => avma.0,
        Location::Truncated(_) => return 0,
    };
    address.saturating_sub(u64::from(frame.is_return_address))
}

/// The whole pages around the addresses. Sections give the file offset of the code; without them, it is assumed to match the layout in
/// memory.
fn extent(module: &Module, file: Option<&MappedFile>, (low, high): (u64, u64)) -> Extent {
    let start = low / PAGE * PAGE;
    let limit = (high / PAGE).saturating_add(1).saturating_mul(PAGE);
    let sections = file.map_or(&[][..], |file| &file.sections);
    let holds = |section: &&fact::fault::FileSection| {
        low.checked_sub(section.svma)
            .is_some_and(|within| within < section.size)
    };
    let offset = match sections.iter().find(holds) {
        Some(section) => start.wrapping_sub(section.svma.wrapping_sub(section.offset)),
        None => start.saturating_sub(module.base_svma.0),
    };
    Extent {
        start,
        limit,
        offset: if module.kind == ModuleKind::File { offset } else { 0 },
    }
}
