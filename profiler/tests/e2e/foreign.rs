//! Stacks of programs with another C library, and of programs for another processor mode.

use crate::harness::profile::share;
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle};

/// Unsupported programs are reported as such.
#[test]
fn stacks_of_32_bit_programs_have_a_truncation_reason() {
    needs_capture!();
    let Some(program) = Oracle::c_32_bit("burn") else {
        crate::harness::skip::skip("gcc has no libraries for -m32");
        return;
    };
    for copy in ["0", "65536"] {
        let record = Ngmi::record().args(["--stack-copy", copy]);
        let profile = record.program(&program, ["300"]).run().profile();
        let samples: Vec<_> = profile.samples().filter(|sample| sample.holds("burn_here")).collect();
        assert!(samples.len() > 100, "{} samples", samples.len());
        let says = share(samples.iter().copied(), |sample| {
            sample.outermost().unwrap().function == "[truncated: 32-bit code is not unwound]"
        });
        assert!(says > 0.95, "{says}: {:?}", samples[samples.len() / 2].functions());
    }
}

/// musl has no unwind information, but the callers of `main` and of thread functions are known.
#[test]
fn programs_with_musl_have_full_stacks() {
    needs_capture!();
    for flags in [&[][..], &["-static"], &["-static-pie"]] {
        let (Some(burn), Some(threads)) = (Oracle::musl("burn", flags), Oracle::musl("threads", flags)) else {
            crate::harness::skip::skip("musl-gcc is not installed");
            return;
        };
        for (program, function) in [(&burn, "burn_here"), (&threads, "run")] {
            let profile = Ngmi::record().program(program, ["300"]).run().profile();
            let inside: Vec<_> = profile.samples().filter(|sample| sample.holds(function)).collect();
            let own: Vec<_> = (inside.iter().copied())
                .filter(|sample| {
                    sample
                        .stack
                        .first()
                        .is_some_and(|leaf| leaf.module == Some(program.name()))
                })
                .collect();
            assert!(own.len() > 100, "{flags:?}: {} samples in {function}", own.len());
            let whole = share(own.iter().copied(), |sample| !sample.is_truncated());
            assert!(
                whole > 0.95,
                "{flags:?} {function}: {whole}: {:?}",
                own[own.len() / 2].functions()
            );
        }
    }
}

/// node copies its own code to anonymous memory at the same address.
#[test]
fn code_that_was_moved_to_large_pages_keeps_its_names() {
    needs_capture!();
    if std::process::Command::new("node").arg("--version").output().is_err() {
        crate::harness::skip::skip("node is not installed");
        return;
    }
    let script = "const end = Date.now() + 600; let x = 0;
        while (Date.now() < end) for (let i = 0; i < 1e5; i++) x += JSON.stringify({a: i}).length;";
    let profile = Ngmi::record()
        .program("node", ["--use-largepages=on", "--jitless", "-e", script])
        .run()
        .profile();
    let user: Vec<_> = (profile.main_of("node").samples.iter())
        .filter(|sample| {
            sample
                .stack
                .first()
                .is_some_and(|leaf| leaf.module.as_deref() != Some("[kernel]"))
        })
        .collect();
    assert!(user.len() > 100, "{} samples", user.len());
    let anonymous = share(user.iter().copied(), |sample| {
        sample.stack[0].function.contains("[anonymous]")
    });
    assert!(anonymous < 0.02, "{anonymous}: {:?}", user[user.len() / 2].functions());
}
