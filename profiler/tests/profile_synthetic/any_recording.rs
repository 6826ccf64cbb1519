//! Any recording of the tasks, modules and files of `everything`.

use std::time::Duration;

use profiler::addr::{Avma, FileOffset, KernelOffset, Svma, Timestamp};
use profiler::fact::FaultFact;
use profiler::fact::{
    Cause, EffectKind, Frame, FrameId, FrameName, Location, Mark, MarkKind, ModuleId, ProcessId, SampleFact,
    SourceFrame, StackId, StackNode, ThreadId, TruncationReason,
};
use proptest::prelude::*;

use super::profile_synthetic::{START, Synthetic, cause, everything, request};
use super::{any_fault, any_wait, sorted};

fn location() -> impl Strategy<Value = Location> {
    let (module, process) = ((0u32..6).prop_map(ModuleId), (0u32..3).prop_map(ProcessId));
    (0u8..7, module, process, any::<u64>(), any::<u64>()).prop_map(|(kind, module, process, a, offset)| match kind {
        0 => Location::Module { module, svma: Svma(a) },
        1 => Location::FileOffset {
            module,
            offset: FileOffset(a),
        },
        2 => Location::Kernel {
            module,
            offset: KernelOffset(a),
        },
        3 => Location::Jit {
            module,
            process,
            start: Avma(a),
            offset,
            code: module.0,
        },
        4 => Location::Anonymous {
            module,
            process,
            avma: Avma(a),
        },
        5 => Location::Unmapped { process, avma: Avma(a) },
        _ => Location::Truncated(TruncationReason::BadChain),
    })
}

fn name() -> impl Strategy<Value = FrameName> {
    let source = (
        "[a-c\0\n🦀]{0,2}",
        prop::option::of("[a-b/]{0,2}"),
        any::<Option<u32>>(),
    );
    let source = source.prop_map(|(function, file, line): (String, Option<String>, _)| SourceFrame {
        function: function.into(),
        file: file.map(Into::into),
        line,
    });
    let chain = prop::collection::vec(source, 1..4);
    ("[a-c]{0,2}", any::<u64>(), any::<Option<u64>>(), chain).prop_map(
        |(symbol, symbol_start, symbol_size, inline_chain)| FrameName {
            symbol: symbol.into(),
            symbol_start,
            symbol_size,
            inline_chain,
        },
    )
}

/// Any recording of the tasks and modules of `everything`: random frames, names, stacks, samples and marks.
pub fn recordings() -> impl Strategy<Value = Synthetic> {
    let frames = prop::collection::vec((location(), any::<bool>(), prop::option::of(name())), 1..30);
    let stacks = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..60);
    let fact = (
        0u32..5,
        0..1u64 << 45,
        any::<prop::sample::Index>(),
        any::<u64>(),
        any::<bool>(),
        1u32..9,
    );
    let facts = prop::collection::vec(fact, 0..60);
    let faults = (any_fault::faults(), any_fault::reads());
    let waits = (any_wait::waits(), any_wait::requests());
    (frames, stacks, facts, (faults, waits), 0..1u64 << 45).prop_map(
        |(frames, stacks, facts, (faults, waits), length)| {
            let mut synthetic = Synthetic {
                samples: Vec::new(),
                marks: Vec::new(),
                faults: faults.0,
                reads: faults.1,
                waits: waits.0,
                requests: waits.1,
                ..everything()
            };
            synthetic.causes = causes(&synthetic);
            let (waits, requests) = (&synthetic.waits, &synthetic.requests);
            let waits_seen = waits.iter().map(|wait| u64::from(wait.count)).sum();
            let requests_seen = requests.len() as u64;
            let succeeded = synthetic.faults.iter().filter(|fault| fault.failed.is_none());
            let counts = succeeded.map(FaultFact::count);
            let faults_seen = counts.fold(0, u64::saturating_add).max(1000);
            let tables = &mut synthetic.tables;
            tables.recording.end = Timestamp(START + length);
            tables.recording.faults_seen = faults_seen;
            tables.recording.waits_seen = waits_seen;
            tables.recording.requests_seen = requests_seen;
            (tables.frames, tables.stacks, tables.names) = Default::default();
            for ((location, is_return_address, name), id) in frames.into_iter().zip(0..) {
                // A location outside modules has no symbol.
                if let Some(name) = name.filter(|_| location.module().is_some()) {
                    tables.names.insert(FrameId(id), name);
                }
                tables.frames.push(Frame {
                    location,
                    is_return_address,
                });
            }
            for ((parent, frame), id) in stacks.into_iter().zip(0..) {
                let parent = u32::try_from(parent.index(id + 1)).unwrap();
                let parent = (usize::try_from(parent).unwrap() < id).then_some(StackId::new(parent));
                let frame = FrameId(u32::try_from(frame.index(tables.frames.len())).unwrap());
                tables.stacks.push(StackNode { parent, frame });
            }
            for fault in &mut synthetic.faults {
                let stacks = u32::try_from(tables.stacks.len()).unwrap();
                fault.stack = fault.stack.map(|stack| StackId::new(stack.number() % stacks));
            }
            let stacks = u32::try_from(tables.stacks.len()).unwrap();
            let fold = |stack: &mut Option<StackId>| *stack = stack.map(|stack| StackId::new(stack.number() % stacks));
            for wait in &mut synthetic.waits {
                fold(&mut wait.stack);
                if let Some(waker) = &mut wait.waker {
                    fold(&mut waker.stack);
                }
            }
            for bio in synthetic.requests.iter_mut().flat_map(|request| &mut request.bios) {
                fold(&mut bio.stack);
            }
            for (thread, time, stack, cpu, in_kernel, weight) in facts {
                let stack = stack.index(tables.stacks.len() + 1);
                let stack = (stack < tables.stacks.len()).then(|| StackId::new(u32::try_from(stack).unwrap()));
                // Some are before the recording's start.
                let (time, thread) = (Timestamp(START - 1000 + time), ThreadId(thread));
                let kind = MarkKind::Program { text: cpu.to_string() };
                let end = in_kernel.then(|| Timestamp(time.0 + cpu % 1000));
                synthetic.marks.push(Mark {
                    start: time,
                    end,
                    thread,
                    stack,
                    kind,
                });
                let cpu_time = Duration::from_nanos(cpu);
                synthetic.samples.push(SampleFact {
                    time,
                    thread,
                    stack,
                    cpu_time,
                    in_kernel,
                    weight,
                });
            }
            sorted(synthetic)
        },
    )
}

/// One cause for each fault and each wait.
fn causes(facts: &Synthetic) -> Vec<Cause> {
    let read = request(10, 13);
    let faults = facts
        .faults
        .iter()
        .map(|fault| (EffectKind::Fault, fault.thread, fault.start));
    let waits = facts
        .waits
        .iter()
        .map(|wait| (EffectKind::Wait, wait.thread, wait.start));
    let cause = |(kind, thread, start): (EffectKind, ThreadId, Timestamp)| cause(&read, kind, thread.0, start);
    faults.chain(waits).map(cause).collect()
}
