//! Texts of the markers of waits and requests.

use rustc_hash::FxHashMap;

use base::addr::FileOffset;
use fact::reclaim::LimitReclaim;
use fact::wait::{Coverage, WakerFact};
use fact::{
    BioFact, Cause, Effect, EffectKind, FaultFact, HolderRef, Location, MappedFileId, ModuleKind, Reason, RequestRef,
    StackId, Tables, ThreadId, WaitFact, WaitReason,
};

/// Maximum number of functions of a stack that are listed.
const FUNCTIONS: usize = 4;
/// Maximum number of frames of a stack that are examined.
const FRAMES: usize = 64;
/// Name prefixes of the kernel's functions that run eBPF programs, and of these programs.
const RECORDER: [&str; 2] = ["bpf_prog_", "bpf_trace_run"];
/// Maximum depth of the chain of holders.
const HOLDERS: u32 = 3;
/// Maximum length of a function's name in a sentence, in characters.
const NAME: usize = 100;

/// Causes of long faults and waits.
#[derive(Debug)]
pub struct Causes<'a> {
    tables: &'a Tables,
    by_effect: FxHashMap<Effect, Vec<&'a Reason>>,
    reclaim: LimitReclaim,
}

impl<'a> Causes<'a> {
    /// Causes by the effect that they explain.
    pub fn new(tables: &'a Tables, causes: &'a [Cause]) -> Self {
        let mut by_effect: FxHashMap<Effect, Vec<&Reason>> = FxHashMap::default();
        for cause in causes {
            by_effect.entry(cause.effect).or_default().push(&cause.reason);
        }
        Self {
            tables,
            by_effect,
            reclaim: LimitReclaim::new(tables),
        }
    }

    /// "reclaim for the limit of web"; `None`: it was not for that.
    pub fn limit_of(&self, wait: &WaitFact) -> Option<String> {
        let limit = self.reclaim.of(self.tables, wait)?;
        Some(self.reclaim.words(limit))
    }

    /// "fault 0x7f… in main waited on vda read 128 KiB at libx.so+0x1000"; `None`: no cause is known.
    pub fn of_fault(&self, fault: &FaultFact) -> Option<String> {
        let effect = Effect {
            kind: EffectKind::Fault,
            thread: fault.thread,
            start: fault.start,
        };
        let reasons = self.reasons(effect, HOLDERS)?;
        let place = innermost(self.tables, fault.stack).map_or(String::new(), |function| format!(" in {function}"));
        Some(format!("fault {:#x}{place} {reasons}", fault.address.0))
    }

    /// "waited on vda read 128 KiB at libx.so+0x1000"; `None`: no cause is known.
    pub fn of_wait(&self, thread: ThreadId, start: base::addr::Timestamp) -> Option<String> {
        let effect = Effect {
            kind: EffectKind::Wait,
            thread,
            start,
        };
        self.reasons(effect, HOLDERS)
    }

    fn reasons(&self, effect: Effect, depth: u32) -> Option<String> {
        let reasons = self.by_effect.get(&effect)?;
        let words = reasons.iter().map(|reason| match reason {
            Reason::Request(request) => format!("waited on {}", self.request(request)),
            Reason::Holder(holder) => self.holder(holder, depth),
        });
        Some(words.collect::<Vec<_>>().join("; "))
    }

    fn request(&self, request: &RequestRef) -> String {
        let device = device(self.tables, request.device);
        let what = format!(
            "{device} {} {}",
            request.operation.name(),
            size(u64::from(request.bytes))
        );
        let place =
            place(self.tables, request.file, request.offset).map_or(String::new(), |place| format!(" at {place}"));
        let by = match request.by {
            _ if request.own => String::new(),
            Some(thread) => format!(", requested by {}", thread_words(self.tables, thread)),
            None => ", requested by an unknown thread".to_owned(),
        };
        let ahead = if request.kind.read_ahead { ", read ahead" } else { "" };
        format!("{what}{place}{ahead}{by}, {:?}", request.time())
    }

    fn holder(&self, holder: &HolderRef, depth: u32) -> String {
        let who = thread_words(self.tables, holder.effect.thread);
        let what = match holder.effect.kind {
            EffectKind::Fault => "a page fault",
            EffectKind::Wait => "a wait",
        };
        let time = holder.end.since(holder.effect.start);
        let why = depth
            .checked_sub(1)
            .and_then(|depth| self.reasons(holder.effect, depth))
            .map_or(String::new(), |why| format!(" which {why}"));
        format!("waited for {who}, which was in {what} of {time:?}{why}")
    }
}

/// The name of a device, such as `vda`; a number if it is not in the tables.
pub fn device(tables: &Tables, device: fact::DeviceId) -> String {
    let known = tables.devices.get(device.index());
    known.map_or_else(|| format!("device {}", device.0), |device| device.name.clone())
}

/// `libx.so+0x1000`
pub fn place(tables: &Tables, file: Option<MappedFileId>, offset: Option<u64>) -> Option<String> {
    let name = tables.files.get(file?.index())?.short_name();
    Some(match offset {
        Some(offset) => format!("{name}+{:#x}", FileOffset(offset).0),
        None => name,
    })
}

/// `main (100/101)`: its name, process and thread.
pub fn thread_words(tables: &Tables, thread: ThreadId) -> String {
    let Some(of) = tables.threads.get(thread.index()) else {
        return "an unknown thread".to_owned();
    };
    let pid = tables
        .processes
        .get(of.process.index())
        .map_or(0, |process| process.pid);
    format!("{} ({pid}/{})", cut(&of.name), of.tid)
}

/// The submitter of a part of a request.
pub fn submitter(tables: &Tables, bio: &BioFact) -> String {
    match bio.thread {
        Some(thread) => thread_words(tables, thread),
        None => format!("{} ({}/{})", cut(&bio.name), bio.pid, bio.tid),
    }
}

/// The thread that woke another.
pub fn waker(tables: &Tables, waker: &WakerFact) -> String {
    let who = match waker.thread {
        Some(thread) => thread_words(tables, thread),
        None if waker.tid == 0 => "an idle CPU".to_owned(),
        None => format!("{}/{}", waker.pid, waker.tid),
    };
    match waker.by_interrupt {
        Some(true) => format!("an interrupt of {who}"),
        Some(false) => who,
        None => format!("{who}, or an interrupt of it"),
    }
}

/// The innermost functions of a stack, those of the program if it has any: `a ← b ← c`.
pub fn functions(tables: &Tables, stack: Option<StackId>) -> Option<String> {
    let (own, kernel) = split(tables, stack, FUNCTIONS);
    let names = if own.is_empty() { kernel } else { own };
    (!names.is_empty()).then(|| names.join(" ← "))
}

/// The innermost function of a stack, the program's own if there is one.
pub fn innermost(tables: &Tables, stack: Option<StackId>) -> Option<String> {
    let (own, kernel) = split(tables, stack, 1);
    own.into_iter().next().or_else(|| kernel.into_iter().next())
}

/// The first `most` functions of the program, and of the kernel, innermost first.
fn split(tables: &Tables, stack: Option<StackId>, most: usize) -> (Vec<String>, Vec<String>) {
    let (mut own, mut kernel) = (Vec::new(), Vec::new());
    let mut next = stack;
    for _ in 0..FRAMES {
        let Some(node) = next.and_then(|stack| tables.stacks.get(stack.index())) else {
            break;
        };
        next = node.parent;
        let Some(frame) = tables.frames.get(node.frame.index()) else {
            break;
        };
        let list = match &frame.location {
            Location::Truncated(_) => continue,
            Location::Kernel { .. } => &mut kernel,
            location => {
                let module = location.module().and_then(|module| tables.modules.get(module.index()));
                if module.is_some_and(|module| module.kind == ModuleKind::Kernel) {
                    &mut kernel
                } else {
                    &mut own
                }
            }
        };
        if list.len() == most {
            continue; // of the kernel
        }
        let name = tables.function_name(node.frame);
        // Frames of the recorder are not part of what happened.
        if !RECORDER.iter().any(|own| name.starts_with(own)) {
            list.push(cut(&name));
        }
        if own.len() == most {
            break;
        }
    }
    (own, kernel)
}

fn cut(name: &str) -> String {
    let end = name.char_indices().nth(NAME).map_or(name.len(), |(end, _)| end);
    name[..end].to_owned()
}

/// `128 KiB`
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if bytes.is_multiple_of(*unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// The reason of a wait in words.
pub fn reason(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::RunQueue => "CPU (run queue)",
        WaitReason::Throttled => "CPU quota (throttled)",
        WaitReason::FileSystem => "file system",
        reason => reason.name(),
    }
}

/// What is missing of a wait; `None`: it is complete.
pub fn coverage(coverage: Coverage) -> Option<&'static str> {
    match coverage {
        Coverage::Full => None,
        Coverage::StackReused => Some("stack reused from an earlier wait with identical registers (rate limited)"),
        Coverage::StartMissed => Some("under way when the recording began: stack unknown"),
        Coverage::EndMissed => Some("under way when the recording ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_sizes_are_printed_round() {
        let sizes = [0, 512, 4096, 128 << 10, (1 << 20) + (1 << 19), 3 << 30];
        let expected = ["0 bytes", "512 bytes", "4 KiB", "128 KiB", "1.5 MiB", "3 GiB"];
        assert_eq!(sizes.map(size), expected);
    }
}
