//! Code is named by what was mapped at that time, even after dlclose, mremap, deletion and replacement.

use std::os::unix::ffi::OsStrExt as _;

use crate::harness::profile::{Sample, Thread, share};
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle};

/// Asserts that the code inside `phase` was `function` of `module`, and never one of `others`.
fn expect_phase(thread: &Thread, phase: &str, function: &str, module: &str, others: &[&str]) {
    let samples: Vec<&Sample> = thread.samples.iter().filter(|sample| sample.holds(phase)).collect();
    assert!(samples.len() > 100, "{phase}: {} samples", samples.len());
    let inside = share(samples.iter().copied(), |sample| {
        sample
            .stack
            .iter()
            .any(|frame| frame.function == function && frame.module.as_deref() == Some(module))
    });
    assert!(
        inside > 0.9,
        "{phase} spends its time in {function} of {module}: {inside}"
    );
    for other in others {
        assert!(
            samples.iter().all(|sample| !sample.holds(other)),
            "{other} is not mapped during {phase}"
        );
    }
}

#[test]
fn a_library_mapped_over_another() {
    needs_capture!();
    let (a, b) = (
        Oracle::library("swapped.c", "spin_in_a"),
        Oracle::library("swapped.c", "spin_in_b"),
    );
    let outcome = Ngmi::record().program(Oracle::c("dlswap"), [&a, &b]).run();
    if outcome.code() == 4 {
        crate::harness::skip::skip("the loader did not reuse the address");
        return;
    }
    let profile = outcome.profile();
    let main = profile.main_of("dlswap");
    expect_phase(main, "phase_a", "spin_in_a", &a.name(), &["spin_in_b"]);
    expect_phase(main, "phase_b", "spin_in_b", &b.name(), &["spin_in_a"]);
    expect_phase(main, "phase_moved", "spin_in_b", &b.name(), &["spin_in_a"]);
}

#[test]
fn a_program_that_deletes_itself() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let burn = Oracle::c("burn").copied(&ngmi.dir().join("short-lived"));
    let outcome = ngmi.program(&burn, ["800", "unlink"]).run();
    assert!(!burn.path.exists());
    let profile = outcome.profile();
    let main = profile.main_of("short-lived");
    assert!(main.share("burn_here") > 0.9, "{}", main.share("burn_here"));
}

#[test]
fn a_program_that_is_replaced_while_it_runs() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let place = ngmi.dir().join("updated");
    let burn = Oracle::c("burn").copied(&place);
    let other = Oracle::c("split").copied(&ngmi.dir().join("update"));
    let mut running = ngmi.program(&burn, ["1500"]).start();
    running.wait_until("the program runs", |running| {
        !children_named(running.pid(), "updated").is_empty()
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    std::fs::rename(&other.path, &place).unwrap();
    let profile = running.wait().profile();
    let main = profile.main_of("updated");
    for sample in &main.samples {
        assert!(
            !sample.holds("takes_three_parts") && !sample.holds("takes_one_part"),
            "names of the wrong file"
        );
    }
    assert!(main.share("burn_here") > 0.9, "{}", main.share("burn_here"));
}

/// Like `configure`, runs one program after another under the same name and, on most file systems, the same inode number.
#[test]
fn programs_that_replace_one_another_by_exec() {
    needs_capture!();
    let script = r#"for program; do cp "$program" conftest; ./conftest 500; rm conftest; done"#;
    let (burn, split) = (Oracle::c("burn"), Oracle::c("split"));
    let ngmi = Ngmi::record();
    let script = format!("cd '{}'; {script}", ngmi.dir().display());
    let paths = [&burn, &split, &burn].map(|oracle| oracle.path.display().to_string());
    let arguments = ["-c", &script, "sh"]
        .into_iter()
        .chain(paths.iter().map(String::as_str));
    let profile = ngmi.program("sh", arguments).run().profile();
    let ran: Vec<[bool; 2]> = profile
        .threads
        .iter()
        .filter(|thread| thread.process == "conftest" && thread.is_main)
        .map(|thread| [thread.share("burn_here") > 0.9, thread.share("takes_three_parts") > 0.6])
        .collect();
    assert_eq!(ran, [[true, false], [false, true], [true, false]]);
}

/// Children of `parent` whose program has this base name.
fn children_named(parent: nix::unistd::Pid, name: &str) -> Vec<u32> {
    crate::harness::procfs::descendants(parent.as_raw().unsigned_abs())
        .into_iter()
        .filter(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with(name)))
        .collect()
}

#[test]
fn a_program_without_a_file() {
    needs_capture!();
    let outcome = Ngmi::record().program(Oracle::c("memfd"), [&Oracle::c("burn")]).run();
    let profile = outcome.profile();
    let main = profile.the_thread("busy", |thread| thread.samples.iter().any(|sample| sample.weight > 0.0));
    assert!(
        main.share("burn_here") > 0.9,
        "{} in {:?}",
        main.share("burn_here"),
        profile.thread_names()
    );
}

#[test]
fn a_path_of_spaces_newlines_and_invalid_utf_8() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let folder = ngmi.dir().join("a folder\nwith");
    std::fs::create_dir(&folder).unwrap();
    let burn = Oracle::c("burn").copied(&folder.join(std::ffi::OsStr::from_bytes(b"b u\nr\xffn (deleted)")));
    let profile = ngmi.program(&burn, ["600"]).run().profile();
    assert!(profile.share("burn_here") > 0.9, "{}", profile.share("burn_here"));
    let main = profile.the_thread("busy", |thread| !thread.samples.is_empty());
    assert!(main.process.starts_with("b u\nr\u{fffd}n"), "{:?}", main.process);
}

#[test]
fn a_thread_name_of_newlines_escapes_and_invalid_utf_8() {
    needs_capture!();
    let burn = Oracle::c("burn");
    let outcome = Ngmi::record()
        .program(Oracle::c("forkexec"), [burn.path.as_os_str(), "hostile".as_ref()])
        .run();
    let profile = outcome.profile();
    let child = profile.the_thread("busy in the child", |thread| {
        thread.samples.iter().any(|sample| sample.holds("in_forked_child"))
    });
    assert!(child.name.contains("a b\n\u{fffd}"), "{:?}", child.name);
    assert!(
        !outcome.stderr.contains("\u{1b}[31m"),
        "a recorded program does not color our terminal"
    );
}

#[test]
fn a_truncated_elf_file() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let whole = Oracle::library("pure.c", "pure_spin");
    let bytes = std::fs::read(&whole.path).unwrap();
    let truncated = ngmi.dir().join("half.so");
    std::fs::write(&truncated, &bytes[..bytes.len() / 2]).unwrap();
    let outcome = ngmi
        .program(
            Oracle::c("rawcode"),
            [truncated.as_os_str(), whole.address_of("pure_spin").as_ref()],
        )
        .run();
    expect_raw_code(&outcome.profile(), "half.so", &["pure_spin"]);
}

#[test]
fn code_in_a_file_that_is_not_elf() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let whole = Oracle::library("pure.c", "pure_spin");
    let mut bytes = std::fs::read(&whole.path).unwrap();
    bytes[..4096].fill(b'x');
    let file = ngmi.dir().join("code.bin");
    std::fs::write(&file, bytes).unwrap();
    let outcome = ngmi
        .program(
            Oracle::c("rawcode"),
            [file.as_os_str(), whole.address_of("pure_spin").as_ref()],
        )
        .run();
    expect_raw_code(&outcome.profile(), "code.bin", &[]);
}

/// Asserts that the time belongs to `module`; function names may be missing, but are never wrong.
fn expect_raw_code(profile: &crate::harness::Profile, module: &str, names: &[&str]) {
    let main = profile.main_of("rawcode");
    let inside = share(&main.samples, |sample| {
        sample
            .stack
            .iter()
            .any(|frame| frame.module.as_deref() == Some(module) || frame.function.contains(module))
    });
    assert!(inside > 0.9, "time in {module}: {inside}");
    for frame in main.samples.iter().flat_map(|sample| sample.stack.iter()) {
        if frame.module.as_deref() == Some(module) {
            let unnamed = frame.function.contains("0x");
            assert!(
                unnamed || names.contains(&frame.function.as_str()),
                "{:?} is in no table",
                frame.function
            );
        }
    }
}
