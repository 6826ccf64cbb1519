//! Names of functions, inline chains, files and lines.

use std::path::Path;
use std::process::Command;

use crate::harness::profile::{Frame, share};
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, oracle};

/// The first and last line between `BEGIN name` and `END name`.
fn lines_of(source: &str, name: &str) -> std::ops::RangeInclusive<u64> {
    let line = |mark: &str| {
        let mark = format!("// {mark} {name}");
        u64::try_from(
            source
                .lines()
                .position(|line| line.trim() == mark)
                .expect("the mark is in the source"),
        )
        .unwrap()
            + 1
    };
    line("BEGIN") + 1..=line("END") - 1
}

#[test]
fn rust_inline_chain_with_lines() {
    needs_capture!();
    let source = oracle::source("inlined.rs");
    let profile = Ngmi::record().program(Oracle::rust("inlined"), [""; 0]).run().profile();
    let main = profile.main_of("inlined");
    let position = |frame: &Frame, function: &str| {
        frame.function == format!("inlined::{function}")
            && frame.file.as_deref().is_some_and(|file| file.ends_with("inlined.rs"))
            && frame
                .line
                .is_some_and(|line| lines_of(&source, function).contains(&line))
    };
    let chain = share(&main.samples, |sample| {
        let user: Vec<&Frame> = sample.stack.iter().map(|frame| &**frame).collect();
        // black_box and the wrapping operations may be additional inlined frames above.
        user.windows(3).any(|three| {
            position(three[0], "inner")
                && position(three[1], "middle")
                && position(three[2], "outer")
                && three[0].inline_depth > three[1].inline_depth
                && three[1].inline_depth > three[2].inline_depth
                && three[2].inline_depth == 0
        })
    });
    assert!(
        chain > 0.9,
        "samples with inner, middle and outer at their lines: {chain}"
    );
    let step = "<inlined::Counter as inlined::generic::Step>::step";
    assert!(
        main.share(step) > 0.9,
        "trait methods are demangled: {}",
        main.share(step)
    );
}

#[test]
fn c_functions_have_lines() {
    needs_capture!();
    let source = oracle::source("split.c");
    let profile = Ngmi::record().program(Oracle::c("split"), ["1000"]).run().profile();
    let line = source
        .lines()
        .position(|line| line.contains("NOINLINE void takes_three_parts"))
        .unwrap() as u64
        + 1;
    let there = share(&profile.main_of("split").samples, |sample| {
        sample.stack.iter().any(|frame| {
            frame.function == "takes_three_parts"
                && frame.line == Some(line)
                && frame.file.as_deref().is_some_and(|file| file.ends_with("split.c"))
        })
    });
    assert!((there - 0.75).abs() < 0.05, "{there}");
}

/// The converter may read only a few files. These include debug info in objects elsewhere in the build and that of a stripped
/// program.
#[test]
fn debug_info_in_other_files_is_found() {
    needs_capture!();
    let source = oracle::source_dir().join("burn.c");
    let run = |folder: &Path, line: &str| {
        let mut command = Command::new("sh");
        command.args(["-ec", line]).current_dir(folder).env("SOURCE", &source);
        assert!(command.status().unwrap().success(), "{line}");
    };
    let split = |version: &str| {
        format!(
            "mkdir -p bin objects
            gcc -O2 -g -gdwarf-{version} -gsplit-dwarf -pthread -c -o objects/burn.o \"$SOURCE\"
            gcc -pthread -Wl,--build-id -o bin/burn objects/burn.o"
        )
    };
    let stripped = "mkdir -p bin/.debug
        gcc -O2 -g -pthread -Wl,--build-id -o bin/burn \"$SOURCE\"
        objcopy --only-keep-debug bin/burn bin/.debug/burn.symbols
        objcopy --strip-all --add-gnu-debuglink=bin/.debug/burn.symbols bin/burn";
    for build in [split("4"), split("5"), stripped.to_owned()] {
        let ngmi = Ngmi::record();
        run(ngmi.dir(), &build);
        let program = ngmi.dir().join("bin/burn");
        let profile = ngmi.program(program, ["300"]).run().profile();
        let with_lines = share(&profile.main_of("burn").samples, |sample| {
            sample
                .stack
                .iter()
                .any(|frame| frame.function == "burn_here" && frame.line.is_some())
        });
        assert!(with_lines > 0.9, "{with_lines}: {build}");
    }
}

#[test]
fn leading_underscores_belong_to_the_name() {
    needs_capture!();
    let profile = Ngmi::record().program(Oracle::c("burn"), ["500"]).run().profile();
    let main = profile.main_of("burn");
    assert!(
        main.share("__with_underscores") > 0.9,
        "{:?}",
        main.samples[main.samples.len() / 2].functions()
    );
}

#[test]
fn cpp_names_are_demangled() {
    needs_capture!();
    let profile = Ngmi::record()
        .program(Oracle::cpp("virtuals"), ["1000"])
        .run()
        .profile();
    let main = profile.main_of("virtuals");
    let named = share(&main.samples, |sample| {
        sample
            .stack
            .iter()
            .any(|frame| frame.function.starts_with("shapes::guarded(shapes::Node&, unsigned"))
    });
    assert!(
        named > 0.9,
        "{named}: {:?}",
        main.samples[main.samples.len() / 2].functions()
    );
}

#[test]
fn kernel_symbols_are_named_without_addresses() {
    needs_capture!();
    let outcome = Ngmi::record()
        .program("dd", ["if=/dev/zero", "of=/dev/null", "bs=64k", "count=100000"])
        .run();
    let profile = outcome.profile();
    let main = profile.main_of("dd");
    let named = share(&main.samples, |sample| {
        sample.stack.iter().any(|frame| {
            frame.function == "vfs_read" || frame.function == "read_zero" || frame.function == "read_iter_zero"
        })
    });
    assert!(named > 0.3, "{named}");
    for frame in main.samples.iter().flat_map(|sample| sample.stack.iter()) {
        assert!(
            frame.address.is_none_or(|address| address < 1 << 32),
            "an address of the running kernel: {frame:?}"
        );
    }
}

/// A file name with the suffix that the kernel adds to the names of deleted files.
#[test]
fn a_file_that_is_really_called_deleted_has_its_names() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let program = ngmi.dir().join("p (deleted)");
    Oracle::c("burn").copied(&program);
    let profile = ngmi.program(&program, ["200"]).run().profile();
    assert!(profile.share("burn_here") > 0.8, "{}", profile.share("burn_here"));
}

#[test]
fn untyped_labels_are_names_and_the_unnamed_is_consistent() {
    needs_capture!();
    let program = Oracle::c("labels");
    let outcome = Ngmi::record().arg("--json").program(program.stripped(), ["300"]).run();
    let stripped = outcome.profile();
    let hot: Vec<&str> = (stripped.main_of("labels").samples.iter())
        .filter_map(|sample| sample.stack.first().map(|frame| frame.function.as_str()))
        .collect();
    let nameless = |name: &&&str| name.starts_with("labels + 0x");
    assert!(hot.iter().filter(nameless).count() * 10 > hot.len() * 8, "{hot:?}");
    let summary: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    for row in summary["hottest"].as_array().unwrap().iter().take(2) {
        let name = row["function"].as_str().unwrap();
        assert!(
            hot.contains(&name),
            "the summary names a function {name} that is not in the profile"
        );
    }

    let profile = Ngmi::record().program(&program, ["400"]).run().profile();
    for label in ["label_alone", "label_seen", "label_described"] {
        let share = profile.share(label);
        assert!(share > 0.15, "{label}: {share}");
    }
    assert!(profile.samples().all(|sample| !sample.holds("label_inside")));
}

#[test]
fn functions_of_the_vdso_have_names() {
    needs_capture!();
    let profile = Ngmi::record()
        .program(Oracle::c("labels"), ["500", "clock"])
        .run()
        .profile();
    let in_vdso: Vec<&Frame> = (profile.samples().flat_map(|sample| sample.stack.iter()))
        .filter(|frame| frame.module.as_deref() == Some("[vdso]"))
        .map(|frame| &**frame)
        .collect();
    if in_vdso.len() < 50 {
        crate::harness::skip::skip("this machine reads the clock with a system call");
        return;
    }
    let named = in_vdso.iter().filter(|frame| frame.function.contains("clock_gettime"));
    assert!(
        named.count() * 10 > in_vdso.len() * 9,
        "{}",
        in_vdso[in_vdso.len() / 2].function
    );
}
