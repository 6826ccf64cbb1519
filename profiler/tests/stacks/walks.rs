//! Unwinds real stacks of programs that know their own call chains.

use profiler_common::stack::FLAG_STACK_CUT;
use profiler_common::unwind::Arch;

use profiler::addr::Avma;
use profiler::fact::TruncationReason;
use profiler::unwind::{FRAME_LIMIT, FramePlace, Mapped, Modules, Walk, Walker};

use super::program::{Dump, Flavour, Target, run, run_on};

/// The default of gcc and of every distribution.
const PLAIN: Flavour = Flavour(&["-O2", "-fomit-frame-pointer"]);

/// The program's functions on the stack, leaf first, once for consecutive repetitions.
pub fn chain(dump: &Dump, walk: &Walk) -> Vec<(String, usize)> {
    let mut chain: Vec<(String, usize)> = Vec::new();
    for frame in &walk.frames {
        let Some(name) = dump.function_at(Avma(frame.address.0 - u64::from(frame.is_return_address))) else {
            continue;
        };
        match chain.last_mut() {
            Some((last, count)) if last == name => *count += 1,
            _ => chain.push((name.to_owned(), 1)),
        }
    }
    chain
}

fn expect(what: &str, flavour: Flavour, expected: &[(&str, usize)]) {
    expect_on(Target::Host, what, flavour, expected);
}

/// The stack has these functions of the program, and is complete.
pub fn expect_on(target: Target, what: &str, flavour: Flavour, expected: &[(&str, usize)]) {
    let Some(dump) = run_on(target, what, flavour) else {
        return;
    };
    let walk = dump.walk(0, |_| {});
    let found = chain(&dump, &walk);
    let found: Vec<(&str, usize)> = found.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(found, expected, "{:?}\n{:#x?}", walk.end, walk.frames);
    assert_eq!(walk.end, Ok(()), "{:#x?}", walk.frames);
    assert!(!walk.frames[0].is_return_address);
}

#[test]
fn recursion_without_frame_pointers() {
    expect("recurse", PLAIN, &[("dump", 1), ("recurse", 21), ("main", 1)]);
}

#[test]
fn recursion_in_other_flavours() {
    let expected = [("dump", 1), ("recurse", 21), ("main", 1)];
    expect("recurse", Flavour(&["-O0"]), &expected);
    // Its first segment is not at address 0.
    expect(
        "recurse",
        Flavour(&["-O2", "-fomit-frame-pointer", "-no-pie"]),
        &expected,
    );
}

#[test]
fn recursion_deeper_than_the_limit() {
    let Some(dump) = run("deep", PLAIN) else { return };
    let walk = dump.walk(0, |_| {});
    assert_eq!(walk.frames.len(), FRAME_LIMIT);
    assert_eq!(walk.end, Err(TruncationReason::Limit));
    assert_eq!(
        chain(&dump, &walk),
        [("dump".to_owned(), 1), ("recurse".to_owned(), FRAME_LIMIT - 1)]
    );
}

#[test]
fn frames_of_variable_size_and_alignment() {
    expect(
        "realigned",
        PLAIN,
        &[
            ("dump", 1),
            ("recurse", 4),
            ("realigned", 1),
            ("variable", 1),
            ("main", 1),
        ],
    );
}

#[test]
fn a_thread_ends_in_clone() {
    expect("thread", PLAIN, &[("dump", 1), ("recurse", 6), ("thread", 1)]);
}

#[test]
fn a_signal_handler_is_above_what_it_interrupted() {
    let frames = [
        ("dump", 1),
        ("recurse", 3),
        ("handler", 1),
        ("by_signal", 1),
        ("recurse", 5),
        ("main", 1),
    ];
    expect("signal", PLAIN, &frames);
    let Some(dump) = run("signal", PLAIN) else { return };
    let interrupted = dump
        .walk(0, |_| {})
        .frames
        .iter()
        .filter(|frame| !frame.is_return_address)
        .count();
    assert_eq!(interrupted, 2, "the leaf, and what the signal interrupted");
}

#[test]
fn the_lazy_binder_saves_its_frame_in_another_register() {
    expect("lazy", PLAIN, &[("dump", 1), ("through_lazy", 1), ("main", 1)]);
}

#[test]
fn code_made_at_run_time_has_frame_pointers() {
    let Some(dump) = run("made", PLAIN) else { return };
    let walk = dump.walk(0, |_| {});
    assert_eq!(walk.end, Ok(()));
    assert_eq!(
        walk.frames
            .iter()
            .filter(|frame| matches!(frame.place, FramePlace::MadeAtRunTime(_)))
            .count(),
        1
    );
    assert_eq!(chain(&dump, &walk).last(), Some(&("main".to_owned(), 1)));
}

#[test]
fn frame_pointers_serve_where_tables_are_missing() {
    let flavour = Flavour(&["-O2", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"]);
    expect("recurse", flavour, &[("dump", 1), ("recurse", 21), ("main", 1)]);
}

#[test]
fn missing_tables_and_frame_pointers_are_reported() {
    let Some(dump) = run(
        "recurse",
        Flavour(&["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"]),
    ) else {
        return;
    };
    let walk = dump.walk(0, |_| {});
    assert_eq!(walk.end, Err(TruncationReason::NoUnwindInfo), "{:#x?}", walk.frames);
    assert_eq!(chain(&dump, &walk)[0], ("dump".to_owned(), 1));
}

#[test]
fn a_short_copy_is_reported() {
    let Some(dump) = run("recurse", PLAIN) else { return };
    let whole = dump.walk(0, |_| {});
    for len in (0..dump.stack.len().min(3000)).step_by(40) {
        let walk = dump.walk(FLAG_STACK_CUT, |sample| sample.stacks.copy.to_mut().truncate(len));
        if walk.end.is_ok() {
            assert_eq!(walk, whole);
            continue;
        }
        let expected = if len == 0 {
            TruncationReason::NotCaptured
        } else {
            TruncationReason::CopyTooShort
        };
        assert_eq!(walk.end, Err(expected), "{len} bytes");
        assert!(whole.frames.starts_with(&walk.frames));
    }
}

#[test]
fn the_missing_part_is_the_reason() {
    let Some(mut dump) = run("recurse", PLAIN) else { return };
    let walk = dump.walk(0, |sample| sample.stacks.flags = 0);
    assert_eq!((walk.frames.len(), walk.end), (0, Err(TruncationReason::NotCaptured)));
    let walk = dump.walk(0, |sample| sample.stacks.regs.ip = 0x10);
    assert_eq!((walk.frames.len(), walk.end), (1, Err(TruncationReason::NoMapping)));
    dump.binaries.hidden = Some("stacks".to_owned());
    let walk = dump.walk(0, |_| {});
    assert_eq!(walk.end, Err(TruncationReason::ModuleUnreadable));
    assert!(matches!(walk.frames[0].place, FramePlace::Unreadable(..)));
    dump.binaries.hidden = None;
    dump.maps.retain(|mapping| !mapping.path.ends_with(b"libc.so.6"));
    assert_eq!(dump.walk(0, |_| {}).end, Err(TruncationReason::NoMapping));
}

#[test]
fn garbage_on_the_stack_never_panics() {
    let Some(dump) = run("recurse", PLAIN) else { return };
    let mut state = 1u64;
    for round in 0..200 {
        dump.walk(0, |sample| {
            for byte in sample.stacks.copy.to_mut().iter_mut() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if state >> 60 < round % 16 {
                    *byte = (state >> 40) as u8;
                }
            }
        });
    }
}

#[test]
fn ten_thousand_stacks_take_less_than_a_second() {
    let Some(dump) = run("signal", PLAIN) else { return };
    let (tasks, process) = dump.tasks();
    let sample = dump.sample(0);
    let mut walker = Walker::new(Modules::new(&dump.binaries, Arch::X86_64));
    let began = std::time::Instant::now();
    let frames: usize = (0..10_000)
        .map(|_| {
            walker
                .stack(Mapped { tasks: &tasks, process }, &sample.stacks, None)
                .frames
                .len()
        })
        .sum();
    let per_frame = began.elapsed().as_nanos() / frames as u128;
    // 60 frames per stack at this rate, in a debug build on a busy machine: an optimized one is ten times faster.
    assert!(per_frame < 1600 * 5, "{per_frame} ns a frame");
    println!("{per_frame} ns a frame, {frames} frames");
}
