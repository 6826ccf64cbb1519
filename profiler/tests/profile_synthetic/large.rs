//! A recording as large as a browser's.

use std::time::Duration;

use profiler::addr::{Svma, Timestamp};
use profiler::fact::{
    Frame, FrameId, Location, ModuleId, ModuleKind, SampleFact, StackId, StackNode, Tables, ThreadId,
};

use super::{MS, START, Synthetic, module, named, process, recording, thread};

const FUNCTIONS: u32 = 50_000;
const STACKS: u32 = 400_000;

/// Many samples of many threads with deep stacks, of functions with inline chains.
pub fn large(samples: u64, threads: u32) -> Synthetic {
    let mut tables = Tables {
        recording: recording(),
        ..Tables::default()
    };
    tables.recording.end = Timestamp(START + (samples + 2) * MS / 10);
    tables.processes = (0..10)
        .map(|id| process(100 + id, "browser", (id > 0).then_some(0), id))
        .collect();
    tables.threads = (0..threads.max(10))
        .map(|id| thread(id % 10, 100 + id, &format!("worker {id}"), id < 10))
        .collect();
    tables.modules = (0..50)
        .map(|id| module(ModuleKind::File, &format!("lib{id}.so"), 0))
        .collect();
    functions(&mut tables);
    stacks(&mut tables);
    let mut synthetic = Synthetic {
        tables,
        ..Synthetic::default()
    };
    for i in 0..samples {
        let thread = u32::try_from(i % u64::from(threads)).unwrap();
        synthetic.samples.push(SampleFact {
            time: Timestamp(START + (i + 1) * MS / 10 + i % 977),
            thread: ThreadId(thread),
            stack: Some(StackId::new(u32::try_from(i * 7919 % u64::from(STACKS)).unwrap())),
            cpu_time: Duration::from_nanos(90_000 + i % 1000),
            in_kernel: false,
            weight: 1,
        });
    }
    synthetic
}

fn functions(tables: &mut Tables) {
    for id in 0..FUNCTIONS {
        let svma = Svma(u64::from(id) * 0x40 + 0x11);
        let location = Location::Module {
            module: ModuleId(id % 50),
            svma,
        };
        tables.frames.push(Frame {
            location,
            is_return_address: id % 3 > 0,
        });
        let outer = format!(
            "browser::component{}::Class<{}>::method{id}(int, char const*)",
            id % 300,
            id % 11
        );
        let inner = format!("base::inlined{}", id % 700);
        let file = format!("/builds/src/component{}/file{}.cpp", id % 300, id % 2000);
        let chain = [
            (inner.as_str(), Some("base.h"), Some(id)),
            (outer.as_str(), Some(file.as_str()), Some(id % 900)),
        ];
        tables.names.insert(
            FrameId(id),
            named(&chain[usize::from(id % 2 == 0)..], svma.0, Some(0x40)),
        );
    }
}

fn stacks(tables: &mut Tables) {
    // A linear congruential generator picks each stack's caller among the 5,000 before it.
    let mut random = 1u64;
    for id in 0..STACKS {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let draw = u32::try_from(random >> 33).unwrap();
        let parent = (id > 100).then(|| StackId::new(id - 1 - draw % id.min(5_000)));
        tables.stacks.push(StackNode {
            parent,
            frame: FrameId(draw % FUNCTIONS),
        });
    }
}
