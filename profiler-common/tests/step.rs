//! One step of unwinding, compared with frames laid out manually according to the processors'
//! calling conventions.

#![cfg(feature = "user")]

use std::collections::HashMap;

use profiler_common::stack::UserRegs;
use profiler_common::unwind::{
    ARM64_ADDRESS, Arch, BX_LOST, BX_SAME, By, Cfa, Fp, Machine, RA_ABOVE_FP, RA_IN_LINK_REGISTER, Row, SP_UNKNOWN,
    WalkEnd, address_mask, link_of_bx, step, step_by_frame_pointer,
};

const BOTH: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

fn regs(ip: u64, sp: u64, fp: u64, lr: u64) -> UserRegs {
    UserRegs { ip, sp, fp, lr }
}

fn memory<const N: usize>(words: [(u64, u64); N]) -> impl Fn(u64) -> Option<u64> {
    let words: HashMap<u64, u64> = words.into_iter().collect();
    move |at| words.get(&at).copied()
}

#[test]
fn a_function_that_saved_registers() {
    // sub $0x20 after push rbx, push rbp: the CFA is 7 words above the stack pointer.
    let row = Row::new(0, Cfa::Sp, 7, Fp::AtCfa, -3, 2);
    let read = memory([(0x1030, 0x4444), (0x1020, 0x9000)]);
    let caller = step(Arch::X86_64, row, &regs(0x5555, 0x1000, 7, 0), read);
    // rbx is two words below the CFA, remembered as the odd number above that address.
    assert_eq!(caller, Ok((regs(0x4444, 0x1038, 0x9000, 0x1028 | 1), By::Call)));
}

#[test]
fn a_frame_with_a_frame_pointer() {
    let row = Row::new(0, Cfa::Fp, 2, Fp::AtCfa, -2, BX_LOST);
    let read = memory([(0x2000, 0x3000), (0x2008, 0x4444)]);
    let leaf = regs(0x5555, 0x1000, 0x2000, 0x8888);
    assert_eq!(
        step(Arch::X86_64, row, &leaf, &read),
        Ok((regs(0x4444, 0x2010, 0x3000, 0), By::Call))
    );
    assert_eq!(
        step_by_frame_pointer(Arch::X86_64, &leaf, &read),
        Ok((regs(0x4444, 0x2010, 0x3000, 0), By::Call))
    );
}

#[test]
fn every_location_of_a_saved_frame_pointer() {
    let read = memory([(0x1018, 0x4444), (0x1008, 1), (0x2010, 2), (0x1010, 3)]);
    let leaf = regs(0x5555, 0x1000, 0x2000, 0);
    for (place, offset, fp) in [
        (Fp::Same, 0, 0x2000),
        (Fp::AtCfa, -3, 1),
        (Fp::AtFp, 2, 2),
        (Fp::AtSp, 2, 3),
    ] {
        let row = Row::new(0, Cfa::Sp, 4, place, offset, BX_SAME);
        assert_eq!(
            step(Arch::X86_64, row, &leaf, &read),
            Ok((regs(0x4444, 0x1020, fp, 0), By::Call))
        );
    }
}

#[test]
fn frames_found_through_memory() {
    // A realigned stack: its CFA was saved below the frame pointer.
    let read = memory([(0x1ff8, 0x2040), (0x1010, 0x2040), (0x2038, 0x4444), (0x2040, 0x5555)]);
    let leaf = regs(0x5555, 0x1000, 0x2000, 0);
    let by = |cfa, offset| {
        step(
            Arch::X86_64,
            Row::new(0, cfa, offset, Fp::Same, 0, BX_SAME),
            &leaf,
            &read,
        )
    };
    assert_eq!(by(Cfa::AtFp, -1), Ok((regs(0x4444, 0x2040, 0x2000, 0), By::Call)));
    assert_eq!(by(Cfa::AtSp, 2), Ok((regs(0x4444, 0x2040, 0x2000, 0), By::Call)));
    assert_eq!(by(Cfa::AtSpPlus8, 2), Ok((regs(0x5555, 0x2048, 0x2000, 0), By::Call)));
    assert_eq!(by(Cfa::AtSp, 3), Err(WalkEnd::ReadFailed));
}

#[test]
fn a_frame_too_large_for_words_is_skipped() {
    let (far, farthest) = (0x4_2000, 0xf_fff0);
    let read = memory([
        (0x1000 + far - 8, 0x4444),
        (0x1000 + farthest - 8, 0x5555),
        (0x1000 + far - 16, 7),
    ]);
    let leaf = regs(0x6666, 0x1000, 9, 0);
    let by = |offset: u16, fp, fp_offset| {
        let row = Row::new(0, Cfa::FarSp, offset.cast_signed(), fp, fp_offset, BX_SAME);
        step(Arch::X86_64, row, &leaf, &read)
    };
    assert_eq!(
        by(0x4200, Fp::AtCfa, -2),
        Ok((regs(0x4444, 0x1000 + far, 7, 0), By::Call))
    );
    assert_eq!(
        by(0xffff, Fp::Same, 0),
        Ok((regs(0x5555, 0x1000 + farthest, 9, 0), By::Call))
    );
    assert_eq!(by(0, Fp::Same, 0), Err(WalkEnd::BadChain));
}

#[test]
fn a_stub_of_the_linkage_table_has_pushed_or_not() {
    let read = memory([(0x1000, 0x4444), (0x1008, 0x5555)]);
    // endbr64 and push take the first 11 bytes of 16.
    let row = Row::new(0, Cfa::Plt, 11, Fp::Same, 0, BX_SAME);
    let at = |ip| step(Arch::X86_64, row, &regs(ip, 0x1000, 9, 8), &read);
    assert_eq!(at(0x400a), Ok((regs(0x4444, 0x1008, 9, 8), By::Call)));
    assert_eq!(at(0x400b), Ok((regs(0x5555, 0x1010, 9, 8), By::Call)));
}

#[test]
fn rbx_is_followed_as_a_value_and_when_saved() {
    let read = memory([(0x1100, 0x4444), (0x3000, 0x10f8)]);
    let row = Row::new(0, Cfa::Bx, 2, Fp::Same, 0, BX_SAME);
    let with = |lr| step(Arch::X86_64, row, &regs(0x5555, 0x1000, 9, lr), &read);
    assert_eq!(link_of_bx(0x10f8), 0x10f8);
    assert_eq!(with(0x10f8), Ok((regs(0x4444, 0x1108, 9, 0x10f8), By::Call)));
    assert_eq!(with(0x3001), Ok((regs(0x4444, 0x1108, 9, 0x3001), By::Call)));
    assert_eq!(with(0x5001), Err(WalkEnd::ReadFailed));
    // A number that is not an address in the stack is not kept, and without it the rule leads
    // nowhere.
    assert_eq!(link_of_bx(0x10f9), 0);
    assert_eq!(with(0), Err(WalkEnd::Unsupported));
}

#[test]
fn a_signal_frame_has_every_register() {
    let row = Row::plain(0, Cfa::Signal);
    // struct ucontext behind the return address: gregs rbp, rbx, rsp, rip.
    let x86 = memory([(0x1000 + 120, 3), (0x1000 + 160, 0x7000), (0x1000 + 168, 0x4444)]);
    assert_eq!(
        step(Arch::X86_64, row, &regs(0x5555, 0x1000, 9, 0), x86),
        Ok((regs(0x4444, 0x7000, 3, (0x1000 + 128) | 1), By::Signal))
    );
    // struct sigcontext at 304, 8 bytes of fault address, x0 to x30, sp, pc.
    let context = 0x1000 + 304;
    let arm = memory([
        (context + 8 + 29 * 8, 3),
        (context + 8 + 30 * 8, 4),
        (context + 8 + 31 * 8, 0x7000),
        (context + 8 + 32 * 8, 0x4444),
    ]);
    assert_eq!(
        step(Arch::Aarch64, row, &regs(0x5555, 0x1000, 9, 0), arm),
        Ok((regs(0x4444, 0x7000, 3, 4), By::Signal))
    );
    for arch in BOTH {
        assert_eq!(
            step(arch, row, &regs(0x5555, 0x1000, 9, 0), |_| None),
            Err(WalkEnd::ReadFailed)
        );
    }
}

#[test]
fn arm64_return_addresses_are_stripped_of_signatures() {
    let signed = 0x0025_0000_0000_4444;
    let leaf = regs(0x5555, 0x1000, 0x1000, signed);
    let in_register = Row::new(0, Cfa::Sp, 0, Fp::Same, 0, RA_IN_LINK_REGISTER);
    assert_eq!(
        step(Arch::Aarch64, in_register, &leaf, |_| None),
        Ok((regs(0x4444, 0x1000, 0x1000, 0), By::Call))
    );
    // Twice would loop forever.
    let caller = regs(0x4444, 0x1000, 0x1000, 0);
    assert_eq!(
        step(Arch::Aarch64, in_register, &caller, |_| None),
        Err(WalkEnd::BadChain)
    );
    let read = memory([(0x1000, 0x2000), (0x1008, signed)]);
    let saved = Row::new(0, Cfa::Sp, 4, Fp::AtCfa, -4, 3);
    let above = Row::new(0, Cfa::Sp, 4, Fp::AtCfa, -4, RA_ABOVE_FP);
    for row in [saved, above] {
        assert_eq!(
            step(Arch::Aarch64, row, &leaf, &read),
            Ok((regs(0x4444, 0x1020, 0x2000, 0), By::Call))
        );
    }
    assert_eq!(
        step_by_frame_pointer(Arch::Aarch64, &leaf, &read),
        Ok((regs(0x4444, 0x1010, 0x2000, SP_UNKNOWN), By::Call))
    );
}

#[test]
fn arm64_signatures_begin_above_the_highest_address() {
    for (highest, bits) in [
        (0x7f_ffff_efff, 39),
        (0x7fff_ffff_efff, 47),
        (0xffff_ffff_efff, 48),
        (0x000f_ffff_ffff_efff, 52),
    ] {
        assert_eq!(address_mask(highest), (1 << bits) - 1, "{highest:x}");
    }
    assert_eq!(address_mask(0x40_0000), ARM64_ADDRESS, "no stack is mapped there");
    // With 39 bits, bit 39 belongs to the signature.
    let machine = Machine {
        arch: Arch::Aarch64,
        address: address_mask(0x7f_ffff_efff),
    };
    let signed = regs(0x5555, 0x1000, 0x1000, 0x007f_ff80_0000_4444);
    let leaf = Row::new(0, Cfa::Sp, 0, Fp::Same, 0, RA_IN_LINK_REGISTER);
    let caller = step(machine, leaf, &signed, |_| None).map(|(to, _)| to.ip);
    assert_eq!(caller, Ok(0x4444));
    let read = memory([(0x1000, 0x2000), (0x1008, signed.lr)]);
    let caller = step_by_frame_pointer(machine, &signed, read).map(|(to, _)| to.ip);
    assert_eq!(caller, Ok(0x4444));
}

/// Of a function that does not save its frame pointer, for example with `-fomit-frame-pointer`.
#[test]
fn arm64_return_addresses_may_be_at_the_bottom_of_a_large_frame() {
    let read = memory([(0x1008, 0x4444)]);
    let leaf = regs(0x5555, 0x1000, 0x3000, 0);
    for (cfa, size, caller) in [(Cfa::Sp, 1024, 0x3000), (Cfa::FarSp, 30_001, 0x1000 + 480_016)] {
        let row = Row::new(0, cfa, size, Fp::Same, 1, RA_ABOVE_FP);
        let expected = Ok((regs(0x4444, caller, 0x3000, 0), By::Call));
        assert_eq!(step(Arch::Aarch64, row, &leaf, &read), expected);
        let unknown = regs(0x5555, 0x1000, 0x3000, SP_UNKNOWN);
        assert_eq!(step(Arch::Aarch64, row, &unknown, &read), Err(WalkEnd::ReadFailed));
    }
}

/// A frame record may be anywhere in its frame, so the step along it gives no stack pointer.
#[test]
fn arm64_frames_beyond_a_frame_record_are_found_by_the_frame_pointer() {
    // The caller's record is 16 bytes below its CFA, and 32 bytes above its stack pointer.
    let read = memory([(0x2000, 0x2100), (0x2008, 0x4444)]);
    let unknown = regs(0x5555, 0x1010, 0x2000, SP_UNKNOWN);
    let row = Row::new(0, Cfa::Sp, 6, Fp::AtCfa, -2, 1);
    let expected = Ok((regs(0x4444, 0x2010, 0x2100, 0), By::Call));
    assert_eq!(step(Arch::Aarch64, row, &unknown, &read), expected);
    let far = Row::new(0, Cfa::FarSp, 300, Fp::AtCfa, -2, 1);
    assert_eq!(step(Arch::Aarch64, far, &unknown, &read), expected);
    let by_fp = Row::new(0, Cfa::Fp, 2, Fp::AtCfa, -2, 1);
    assert_eq!(step(Arch::Aarch64, by_fp, &unknown, &read), expected);
    // Without a frame record nothing is known.
    let none = Row::new(0, Cfa::Sp, 6, Fp::Same, 0, 1);
    assert!(step(Arch::Aarch64, none, &unknown, &read).is_err());
    let leaf = Row::new(0, Cfa::Fp, 2, Fp::AtCfa, -2, RA_IN_LINK_REGISTER);
    assert_eq!(step(Arch::Aarch64, leaf, &unknown, &read), Err(WalkEnd::BadChain));
}

#[test]
fn each_end_has_a_reason() {
    let leaf = regs(0x5555, 0x1000, 0x2000, 0);
    for arch in BOTH {
        let by = |row: Row| step(arch, row, &leaf, |_| Some(0)).unwrap_err();
        assert_eq!(by(Row::plain(0, Cfa::Outermost)), WalkEnd::Complete);
        assert_eq!(by(Row::plain(0, Cfa::None)), WalkEnd::NoRow);
        assert_eq!(by(Row::plain(0, Cfa::Unsupported)), WalkEnd::Unsupported);
        // A return address of zero marks the first frame.
        assert_eq!(by(Row::new(0, Cfa::Sp, 2, Fp::Same, 0, 1)), WalkEnd::Complete);
        // A frame that is not above its callee's.
        assert_eq!(by(Row::new(0, Cfa::Sp, -1, Fp::Same, 0, 1)), WalkEnd::BadChain);
        assert_eq!(by(Row::new(0, Cfa::Sp, 0, Fp::Same, 0, 1)), WalkEnd::BadChain);
        let unreadable = Row::new(0, Cfa::Sp, 2, Fp::AtCfa, -2, 1);
        assert_eq!(step(arch, unreadable, &leaf, |_| None), Err(WalkEnd::ReadFailed));
        for fp in [0xff8, 0x2004] {
            let odd = regs(0x5555, 0x1000, fp, 0);
            assert_eq!(step_by_frame_pointer(arch, &odd, |_| Some(1)), Err(WalkEnd::BadChain));
        }
    }
}

#[test]
fn an_epilogue_has_restored_the_frame_pointer() {
    // pop %rbp was executed: its slot, which the row still names, is below the stack and not in the
    // copy.
    let row = Row::new(0, Cfa::Sp, 1, Fp::AtCfa, -2, BX_SAME);
    let read = memory([(0x1000, 0x4444)]);
    assert_eq!(
        step(Arch::X86_64, row, &regs(0x5555, 0x1000, 9, 0), read),
        Ok((regs(0x4444, 0x1008, 9, 0), By::Call))
    );
}

#[test]
fn rows_and_registers_neither_overflow_nor_descend() {
    let offsets = [i16::MIN, -1, 0, 1, i16::MAX];
    let numbers = [0, 8, 0x1000, u64::MAX - 7, u64::MAX];
    for (rules, cfa_offset, fp_offset) in (0..=u8::MAX)
        .flat_map(|rules| offsets.map(|cfa| offsets.map(|fp| (rules, cfa, fp))))
        .flatten()
    {
        for link in [0, 1, 2, 254, 255] {
            let row = Row {
                pc: 0,
                cfa_offset,
                fp_offset,
                rules,
                link,
            };
            for (number, arch) in numbers.iter().flat_map(|number| BOTH.map(|arch| (*number, arch))) {
                let leaf = regs(0x5555, number, number, number);
                for word in numbers {
                    let Ok((caller, By::Call)) = step(arch, row, &leaf, |_| Some(word)) else {
                        continue;
                    };
                    assert!(row.is_valid() || rules & 15 <= Cfa::FarSp as u8, "{row:?}");
                    assert!(caller.ip != 0 && caller.sp >= number, "{row:?} {leaf:?} {caller:?}");
                }
            }
        }
    }
}

#[test]
fn end_numbers_are_unique() {
    for number in 0..=u8::MAX {
        let end = WalkEnd::from_number(number);
        assert!(end.is_none_or(|end| end as u8 == number));
        assert_eq!(end.is_some(), number <= WalkEnd::NotWalked as u8);
    }
}
