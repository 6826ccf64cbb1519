//! Stacks reach their thread's first frame, or have a reason why not.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use crate::harness::profile::{Sample, Thread, share};
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Profile};

/// Samples that contain `function`, which excludes startup and exit of the program.
fn inside<'a>(thread: &'a Thread, function: &str) -> Vec<&'a Sample> {
    let samples: Vec<_> = thread.samples.iter().filter(|sample| sample.holds(function)).collect();
    let all = thread.samples.len();
    assert!(
        samples.len() * 10 > all * 9,
        "{function} in {} of {all} samples",
        samples.len()
    );
    samples
}

/// Asserts that a stack marked as complete has the program's whole chain below `main`.
fn expect_whole(sample: &Sample) {
    let functions = sample.functions();
    assert_eq!(
        functions.iter().filter(|name| **name == "main").count(),
        1,
        "{functions:?}"
    );
    assert_eq!(functions.last(), Some(&"_start"), "{functions:?}");
}

#[test]
fn a_thousand_small_frames_are_complete() {
    needs_capture!();
    let profile = Ngmi::record()
        .program(Oracle::c("deep"), ["1000", "16"])
        .run()
        .profile();
    let samples = inside(profile.main_of("deep"), "deep_leaf");
    for sample in &samples {
        assert!(!sample.is_truncated(), "{:?}", sample.outermost());
        assert_eq!(sample.count("descend"), 1000);
        expect_whole(sample);
    }
}

/// Tests only the walk in the kernel: no stack is copied.
#[test]
fn code_without_unwind_rules_is_crossed_by_confirmed_calls() {
    needs_capture!();
    let outcome = Ngmi::record()
        .args(["--stack-copy", "0"])
        .program(Oracle::c("norules"), [""; 0])
        .run();
    let profile = outcome.profile();
    let chains: [&[&str]; 3] = [
        &["has_rules", "keeps_frame_pointer", "main"],
        &["tiny", "runs_tiny", "main"],
        &["frameless", "runs_frameless", "main"],
    ];
    for chain in chains {
        let samples: Vec<_> = profile.samples().filter(|sample| sample.holds(chain[0])).collect();
        assert!(samples.len() > 50, "{} samples in {}", samples.len(), chain[0]);
        // In the first milliseconds of a program, neither its mappings nor its tables are known, and no stack is copied here.
        let (whole, cut): (Vec<&Sample>, Vec<_>) = samples.into_iter().partition(|sample| !sample.is_truncated());
        for sample in &whole {
            let functions = sample.functions();
            let from = functions.iter().position(|name| *name == chain[0]).unwrap();
            assert_eq!(functions.get(from..from + chain.len()), Some(chain), "{functions:?}");
        }
        assert!(
            whole.len() > 9 * cut.len(),
            "{}: {} cut, {} whole",
            chain[0],
            cut.len(),
            whole.len()
        );
        if chain[0] != "has_rules" {
            assert!(cut.is_empty(), "{}: {:?}", chain[0], cut[0].functions());
        }
    }
}

#[test]
fn frames_beyond_the_copy_are_marked_truncated() {
    needs_capture!();
    let outcome = Ngmi::record().program(Oracle::c("deep"), ["1000", "1024"]).run();
    let profile = outcome.profile();
    for sample in inside(profile.main_of("deep"), "deep_leaf") {
        let frames = sample.count("descend_wide");
        if sample.is_truncated() {
            let says = &sample.outermost().unwrap().function;
            assert_eq!(says, "[truncated: stack copy too short]");
            assert!((20..1000).contains(&frames), "{frames} frames before the copy ends");
            assert_eq!(sample.count("main"), 0);
        } else {
            assert_eq!(frames, 1000);
            expect_whole(sample);
        }
    }
}

#[test]
fn a_smaller_copy_truncates_sooner() {
    needs_capture!();
    let small = Ngmi::record()
        .args(["--stack-copy", "4096"])
        .program(Oracle::c("deep"), ["1000", "16"])
        .run()
        .profile();
    for sample in inside(small.main_of("deep"), "deep_leaf") {
        assert!(
            sample.is_truncated() || sample.count("descend") == 1000,
            "truncated, but not marked: {:?}",
            sample.functions()
        );
    }
}

#[test]
fn a_signal_handlers_caller_is_the_interrupted_code() {
    needs_capture!();
    let profile = Ngmi::record().program(Oracle::c("sigdeep"), [""; 0]).run().profile();
    let samples = inside(profile.main_of("sigdeep"), "handler_leaf");
    let whole = share(samples.iter().copied(), |sample| {
        sample.count("handler_descend") == 50 && sample.count("interrupted") == 1 && !sample.is_truncated()
    });
    assert!(whole > 0.99, "{whole}");
    for sample in samples.iter().filter(|sample| !sample.is_truncated()) {
        expect_whole(sample);
        // The handler returns to a separate function, which has a name if libc's symbols are installed.
        let functions = sample.functions();
        let outermost = functions
            .iter()
            .rposition(|name| *name == "handler_descend" || *name == "handler")
            .unwrap();
        let restores = functions[outermost + 1];
        let own = restores
            .strip_prefix("libc.so.6 + 0x")
            .map(|start| u64::from_str_radix(start, 16).unwrap() % 16);
        assert!(
            restores == "__restore_rt" || own == Some(0),
            "{restores} in {functions:?}"
        );
    }
}

#[test]
fn stripped_cpp_without_frame_pointers() {
    needs_capture!();
    let with_symbols = Oracle::cpp("virtuals");
    let profile = Ngmi::record()
        .program(with_symbols.stripped(), ["2000"])
        .run()
        .profile();
    let main = profile.main_of("virtuals");
    let complete = share(&main.samples, |sample| !sample.is_truncated());
    assert!(complete >= 0.99, "complete stacks, exceptions included: {complete}");
    expect_visits(&profile, &with_symbols);
}

/// Functions of the C compiler's start files that `.eh_frame` does not cover: one range up to the next that it covers.
const WITHOUT_FDE: [&str; 4] = [
    "deregister_tm_clones",
    "register_tm_clones",
    "__do_global_dtors_aux",
    "frame_dummy",
];

/// Compares the addresses of the stripped program with the symbols of the unstripped one.
fn expect_visits(profile: &Profile, twin: &Oracle) {
    let symbols: BTreeMap<u64, _> = twin
        .symbols()
        .into_iter()
        .map(|symbol| (symbol.start, symbol))
        .collect();
    let mut in_leaf = 0;
    for sample in profile
        .main_of("virtuals")
        .samples
        .iter()
        .filter(|sample| !sample.is_truncated())
    {
        let own = sample
            .stack
            .iter()
            .filter(|frame| frame.module.as_deref() == Some("virtuals"));
        let names: Vec<&str> = own
            .map(|frame| {
                let address = frame.address.expect("a frame of the program has an address");
                let (_, symbol) = symbols
                    .range(..=address)
                    .next_back()
                    .expect("an address of the program");
                assert!(address <= symbol.start + symbol.size, "{address:#x} is in no function");
                if !WITHOUT_FDE.contains(&symbol.name.as_str()) {
                    assert_eq!(
                        frame.function,
                        format!("virtuals + {:#x}", symbol.start),
                        "{}",
                        symbol.name
                    );
                }
                symbol.name.as_str()
            })
            .collect();
        if names
            .first()
            .is_some_and(|name| name.starts_with("shapes::Leaf::visit"))
        {
            in_leaf += 1;
            let branches = names
                .iter()
                .filter(|name| name.starts_with("shapes::Branch::visit"))
                .count();
            assert_eq!(branches, 20, "{names:?}");
            assert_eq!(
                names[21..],
                ["shapes::guarded(shapes::Node&, unsigned int)", "main", "_start"]
            );
        }
    }
    assert!(in_leaf > 1000, "{in_leaf} samples in Leaf::visit");
}

#[test]
fn threads_end_in_the_code_that_starts_threads() {
    needs_capture!();
    let profile = Ngmi::record().program(Oracle::c("threads"), [""; 0]).run().profile();
    let samples = || {
        profile
            .threads
            .iter()
            .filter(|thread| thread.name.starts_with("steady-"))
            .flat_map(|t| &t.samples)
    };
    let complete = share(samples(), |sample| !sample.is_truncated());
    assert!(complete >= 0.99, "{complete}");
    for sample in samples().filter(|sample| !sample.is_truncated() && sample.holds("thread_work")) {
        let modules: Vec<_> = sample
            .stack
            .iter()
            .rev()
            .take(2)
            .map(|frame| frame.module.as_deref())
            .collect();
        assert_eq!(
            modules,
            [Some("libc.so.6"); 2],
            "clone3 and start_thread: {:?}",
            sample.functions()
        );
        assert!(sample.holds("run"), "{:?}", sample.functions());
    }
}

#[test]
fn without_the_walker_the_copy_is_used_and_noted() {
    needs_capture!();
    if std::env::var_os("NGMI_BIN").is_some() {
        crate::harness::skip::skip("only debug builds can disable walks, and NGMI_BIN selects another binary");
        return;
    }
    // As on kernels before 5.17.
    let outcome = Ngmi::record()
        .env("NGMI_NO_WALK", "1")
        .arg("--json")
        .program(Oracle::c("deep"), ["500", "16"])
        .run();
    let summary: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let ends = summary["stacks"]["walks"]["ends"].as_array().unwrap();
    assert!(ends.iter().all(|end| end[0] == "not walked"), "{ends:?}");
    let profile = outcome.profile();
    for sample in inside(profile.main_of("deep"), "deep_leaf") {
        assert!(!sample.is_truncated(), "{:?}", sample.outermost());
        assert_eq!(sample.count("descend"), 500);
        expect_whole(sample);
    }
    let (says, meta) = ("unwind tables in the kernel", profile.meta.to_string());
    assert!(meta.contains(says) && meta.contains("NGMI_NO_WALK is set"));
    let doctor = Ngmi::subcommand("doctor").env("NGMI_NO_WALK", "1").run();
    let row = doctor
        .stdout
        .lines()
        .position(|line| line.contains(says) && line.contains("no"));
    assert!(
        row.is_some() && doctor.stdout.contains("stacks are copied"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn without_the_walker_moved_code_is_still_found() {
    needs_capture!();
    let (a, b) = (
        Oracle::library("swapped.c", "spin_in_a"),
        Oracle::library("swapped.c", "spin_in_b"),
    );
    let outcome = Ngmi::record()
        .env("NGMI_NO_WALK", "1")
        .program(Oracle::c("dlswap"), [&a, &b])
        .run();
    let profile = outcome.profile();
    let moved: Vec<_> = profile
        .main_of("dlswap")
        .samples
        .iter()
        .filter(|sample| sample.holds("phase_moved"))
        .collect();
    assert!(moved.len() > 100, "{} samples", moved.len());
    assert!(share(moved, |sample| sample.holds("spin_in_b")) > 0.9);
}

/// A forked process gets separate tables while it runs: a walk that is overtaken by them restarts at its leaf.
#[test]
fn walks_overtaken_by_new_tables_keep_their_leaf() {
    needs_capture!();
    let storms = r#"for i in $(seq 40); do "$0" "$1" 3000 0 || exit; done"#;
    let seeded = Oracle::c("seeded");
    let outcome = Ngmi::record()
        .args(["--faults", "all", "--keep-events", "log"])
        .program(
            "sh",
            [OsStr::new("-c"), storms.as_ref(), seeded.as_ref(), "file".as_ref()],
        )
        .run();
    outcome.expect_code(0);
    let copies = |function: &str| {
        let only = ["--class", "cow", "--csv", "--function", function];
        Ngmi::subcommand("faults")
            .arg(outcome.file("log"))
            .args(only)
            .run()
            .stdout
    };
    assert!(copies("storm_of_copies").lines().count() > 20 * 3000);
    // glibc's startup code copies no pages itself.
    let by_start = copies("_start");
    assert_eq!(by_start.lines().count(), 1, "{by_start}");
}

/// lld puts the end of one code segment and the start of the next into the same page of the file, which both mappings contain.
#[test]
fn segments_of_code_that_share_a_page_are_walked() {
    needs_capture!();
    if std::process::Command::new("ld.lld").arg("--version").output().is_err() {
        crate::harness::skip::skip("ld.lld is not installed");
        return;
    }
    let packed = ["-fuse-ld=lld", "-Wl,--section-start=.text_far=0x800000"];
    for kind in [&["-pie", "-fPIE"][..], &["-no-pie"]] {
        let program = Oracle::c_with("far.c", "far", &[&packed, kind].concat());
        let record = Ngmi::record().args(["--stack-copy", "0"]);
        let profile = record.program(&program, ["400"]).run().profile();
        let chains: [&[&str]; 2] = [&["near_leaf", "far_inner", "far_outer", "main"], &["far_leaf", "main"]];
        for chain in chains {
            let samples: Vec<_> = profile.samples().filter(|sample| sample.holds(chain[0])).collect();
            assert!(samples.len() > 50, "{} samples in {}", samples.len(), chain[0]);
            let whole = share(samples.iter().copied(), |sample| {
                let functions = sample.functions();
                let found = functions.windows(chain.len()).any(|part| part == chain);
                found && functions.last() == Some(&"_start")
            });
            assert!(whole > 0.95, "{whole}: {:?}", samples[samples.len() / 2].functions());
        }
    }
}
