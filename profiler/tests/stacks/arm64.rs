//! Unwinds stacks of the same programs on arm64: a recording is converted on any machine.

use profiler::fact::TruncationReason;
use profiler::unwind::{FramePlace, RawFrame};

use super::program::{Flavour, Target, run_on};
use super::walks::{chain, expect_on};

/// The default of Debian and Fedora; return addresses are signed.
const SIGNED: Flavour = Flavour(&["-O2", "-mbranch-protection=standard"]);

fn expect(what: &str, flavour: Flavour, expected: &[(&str, usize)]) {
    expect_on(Target::Arm64, what, flavour, expected);
}

#[test]
fn signed_return_addresses() {
    expect("recurse", SIGNED, &[("dump", 1), ("recurse", 21), ("main", 1)]);
}

#[test]
fn recursion_in_other_flavours() {
    let expected = [("dump", 1), ("recurse", 21), ("main", 1)];
    for flags in [
        &["-O0"][..],
        &["-O2", "-mbranch-protection=none", "-fomit-frame-pointer"],
        &["-O2", "-mbranch-protection=standard", "-fomit-frame-pointer", "-no-pie"],
    ] {
        expect("recurse", Flavour(flags), &expected);
    }
}

#[test]
fn frames_of_variable_size_and_alignment() {
    let expected = [
        ("dump", 1),
        ("recurse", 4),
        ("realigned", 1),
        ("variable", 1),
        ("main", 1),
    ];
    expect("realigned", SIGNED, &expected);
}

/// As throughout a function that calls no other, and in every system call of the C library.
#[test]
fn a_function_at_its_start_shares_its_callers_stack_pointer() {
    let Some(dump) = run_on(Target::Arm64, "recurse", SIGNED) else {
        return;
    };
    let walk = dump.walk(0, |sample| {
        let regs = &mut sample.stacks.regs;
        (regs.ip, regs.lr) = (dump.start_of("main").0, regs.ip + 4);
    });
    let expected = [("main", 1), ("dump", 1), ("recurse", 21), ("main", 1)];
    assert_eq!(
        chain(&dump, &walk),
        expected.map(|(name, count)| (name.to_owned(), count))
    );
    assert_eq!(walk.end, Ok(()), "{:#x?}", walk.frames);
}

#[test]
fn a_thread_ends_in_clone() {
    expect("thread", SIGNED, &[("dump", 1), ("recurse", 6), ("thread", 1)]);
}

/// Its frame is larger than its frame record, so its caller's stack pointer is not known after the step.
#[test]
fn code_made_at_run_time_has_frame_records() {
    for flags in [&["-O2", "-mbranch-protection=standard"][..], &["-O0"]] {
        let Some(dump) = run_on(Target::Arm64, "made", Flavour(flags)) else {
            return;
        };
        let walk = dump.walk(0, |_| {});
        let is_made = |frame: &&RawFrame| matches!(frame.place, FramePlace::MadeAtRunTime(_));
        assert_eq!(walk.frames.iter().filter(is_made).count(), 1, "{:#x?}", walk.frames);
        assert_eq!(walk.end, Ok(()), "{:#x?}", walk.frames);
        assert_eq!(chain(&dump, &walk).last(), Some(&("main".to_owned(), 1)));
    }
}

#[test]
fn frame_records_serve_where_tables_are_missing() {
    let flags = &[
        "-O2",
        "-fno-omit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    expect("recurse", Flavour(flags), &[("dump", 1), ("recurse", 21), ("main", 1)]);
}

#[test]
fn a_short_copy_is_reported() {
    let Some(dump) = run_on(Target::Arm64, "recurse", SIGNED) else {
        return;
    };
    let cut = profiler_common::stack::FLAG_STACK_CUT;
    let whole = dump.walk(0, |_| {});
    for len in (0..dump.stack.len().min(2000)).step_by(104) {
        let walk = dump.walk(cut, |sample| sample.stacks.copy.to_mut().truncate(len));
        let expected = match len {
            _ if walk.end.is_ok() => continue,
            0 => TruncationReason::NotCaptured,
            _ => TruncationReason::CopyTooShort,
        };
        assert_eq!(walk.end, Err(expected), "{len} bytes");
        assert!(whole.frames.starts_with(&walk.frames));
    }
}
