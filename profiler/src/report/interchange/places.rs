//! Frames as formats of others have them: a mapping, an address in it, and the functions there; and what a sum is labelled with.
//!
//! Addresses are the file's own (svma), as one frame stands for every process that has the file mapped. A mapping lies where the file's
//! segment says that it does, so what a reader computes from address, mapping and offset is right.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::sums::{Key, Sums, What, Who};
use crate::addr::PAGE;
use crate::fact::{Frame, FrameId, Location, MappedFile, Module, ModuleId, ModuleKind, StackId, Tables, upwards};
use crate::report::export::hex;
use crate::report::functions::{Function, Functions};
use crate::report::text::{escaped, is_unsafe};

/// Frames of a stack at most: beyond, the outermost are left out.
const DEPTH: usize = 4096;
/// Stands for the stack that is not known.
const NO_STACK: &str = "[no stack]";
/// Stands for the frames that there was no room for ([`super::sums::Key::cut`]).
const CUT: &str = "[cut: light stacks]";

/// A function at a frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line {
    /// Its name.
    pub function: String,
    /// Its source file; empty: unknown.
    pub file: String,
    /// Line in it; 0: unknown.
    pub number: u32,
}

/// A mapping that the frames of a module lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub limit: u64,
    /// Of `start` in the file.
    pub offset: u64,
}

/// A frame, or what stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spot {
    /// A frame.
    Frame(FrameId),
    /// For the stack that is not known.
    NoStack,
    /// For the frames that there was no room for.
    Cut,
}

impl Spot {
    /// The frame, if it is one.
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
    /// By module.
    extents: Vec<Option<Extent>>,
}

impl<'a> Places<'a> {
    /// Of finished tables.
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

    /// The module of the recorded command, if it is known: readers take the first mapping for the program.
    pub fn program(&self) -> Option<ModuleId> {
        let process = self.tables.processes.get(self.tables.command_process()?.index())?;
        let modules = self.tables.modules.iter().zip((0..).map(ModuleId));
        let name = process.path.rsplit('/').next().filter(|name| !name.is_empty());
        let is_program = |module: &Module| module.path == process.path || Some(module.name.as_str()) == name;
        let mut programs = modules.filter(|(module, _)| module.kind == ModuleKind::File && is_program(module));
        programs.find(|(_, id)| self.extent(*id).is_some()).map(|(_, id)| id)
    }

    /// A module.
    pub fn module(&self, id: ModuleId) -> Option<&'a Module> {
        self.tables.modules.get(id.index())
    }

    /// The mapping that stands for a module; `None`: no frame lies in it.
    pub fn extent(&self, id: ModuleId) -> Option<Extent> {
        *self.extents.get(id.index())?
    }

    /// The module and the address of a frame.
    pub fn address(&self, id: FrameId) -> (Option<ModuleId>, u64) {
        let frame = self.tables.frames.get(id.index());
        frame.map_or((None, 0), |frame| (frame.location.module(), address(frame)))
    }

    /// The frame is the kernel's.
    pub fn is_kernel(&self, id: FrameId) -> bool {
        let frame = self.tables.frames.get(id.index());
        frame.is_some_and(|frame| matches!(frame.location, Location::Kernel { .. }))
    }

    /// The functions of a frame, innermost inlined one first; never none.
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

    /// The frames of a stack, innermost first, and what stands for frames that are not there; never none.
    pub fn stack(&self, stack: Option<StackId>, cut: bool) -> Vec<Spot> {
        let frames = stack.into_iter().flat_map(|stack| upwards(self.tables, stack));
        let mut spots = Vec::new();
        spots.extend(cut.then_some(Spot::Cut));
        spots.extend(frames.take(DEPTH).map(Spot::Frame));
        if spots.is_empty() { vec![Spot::NoStack] } else { spots }
    }

    /// What a sum is about, but for its stack.
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
            Who::Nobody => {}
        }
        let mut text = |label, text: &str| labels.push((label, Value::Text(harmless(text).into_owned())));
        match key.what {
            What::Sample => {}
            What::Fault(class) => text(Label::Class, class.name()),
            What::Wait(reason) => text(Label::Reason, reason.name()),
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

    /// The name of the process, or of whoever it was.
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
            Who::Nobody => Cow::Borrowed("[unknown]"),
        }
    }
}

/// What a label says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// Name of the process.
    Process,
    /// Its id.
    Pid,
    /// Name of the thread.
    Thread,
    /// Its id.
    Tid,
    /// What kind of fault.
    Class,
    /// What a wait was for.
    Reason,
    /// What the device did.
    Operation,
    /// Which device.
    Device,
    /// Path of the file.
    File,
}

/// What a label's value is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// A name.
    Text(String),
    /// A number.
    Number(i64),
}

/// How a module is called: its path, or what stands for it.
pub fn file_name(module: &Module) -> Cow<'_, str> {
    let is_file = module.kind == ModuleKind::File && !module.path.is_empty();
    harmless(if is_file { &module.path } else { &module.name })
}

/// The build id of a module in hexadecimal digits; empty: it has none.
pub fn build_id(module: &Module) -> String {
    hex(&module.build_id)
}

/// A name without what a terminal would obey.
pub fn harmless(name: &str) -> Cow<'_, str> {
    if name.chars().any(is_unsafe) {
        Cow::Owned(escaped(name.as_bytes()))
    } else {
        Cow::Borrowed(name)
    }
}

/// The address of a frame: of a return address the byte before, which is within the call.
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

/// Whole pages around the addresses. Where the file has its code, the sections say; without them it is taken to lie as in memory.
fn extent(module: &Module, file: Option<&MappedFile>, (low, high): (u64, u64)) -> Extent {
    let start = low / PAGE * PAGE;
    let limit = (high / PAGE).saturating_add(1).saturating_mul(PAGE);
    let sections = file.map_or(&[][..], |file| &file.sections);
    let holds = |section: &&crate::fact::fault::FileSection| {
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
