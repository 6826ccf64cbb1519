//! `-` also means standard output for the subcommands that write lists, not a file of that name.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::time::SystemTime;

use profiler::addr::Svma;
use profiler::fact::{
    Frame, FrameId, Location, MappedFile, ModuleId, ModuleKind, SampleFact, StackId, StackNode, Tables, ThreadId,
};

use super::profile_synthetic::{self as synthetic, MS, Synthetic, at, fault};

/// A thread that has not done anything yet.
fn idle() -> Synthetic {
    Synthetic {
        tables: Tables {
            recording: synthetic::recording(),
            processes: vec![synthetic::process(100, "demo", None, 0)],
            threads: vec![synthetic::thread(0, 100, "demo", true)],
            ..Tables::default()
        },
        ..Synthetic::default()
    }
}

fn run(subcommand: &str, arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    let command = command.args([subcommand, "recording.json"]).args(arguments);
    command.current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The subcommand's output, which is the same with `-o -`.
fn list(subcommand: &str, arguments: &[&str], folder: &Path) -> String {
    let dash = run(subcommand, &[arguments, &["-o", "-"]].concat(), folder);
    assert!(dash.status.success(), "{}", said(&dash));
    assert!(!folder.join("-").exists());
    let without = run(subcommand, arguments, folder);
    assert_eq!((&dash.stdout, said(&dash)), (&without.stdout, said(&without)));
    String::from_utf8(dash.stdout).unwrap()
}

#[test]
fn an_order_goes_to_standard_output() {
    let program = env!("CARGO_BIN_EXE_ngmi");
    let elf = symbols::elf::ElfFile::open(File::open(program).unwrap()).unwrap();
    let functions = elf.functions();
    let Some(function) = functions.iter().find(|function| function.name == "main") else {
        println!("skipped: this build is stripped");
        return;
    };
    let mut facts = idle();
    let mut module = synthetic::module(ModuleKind::File, "ngmi", 0);
    module.path = program.into();
    module.build_id = elf.build_id().to_vec();
    facts.tables.modules = vec![module];
    facts.tables.frames = vec![Frame {
        location: Location::Module {
            module: ModuleId(0),
            svma: Svma(function.svma),
        },
        is_return_address: false,
    }];
    facts.tables.stacks = vec![StackNode {
        parent: None,
        frame: FrameId(0),
    }];
    facts.samples = vec![SampleFact {
        time: at(1),
        thread: ThreadId(0),
        stack: Some(StackId::new(0)),
        cpu_time: std::time::Duration::from_millis(1),
        in_kernel: false,
        weight: 1,
    }];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("recording.json"), facts.json()).unwrap();
    assert_eq!(list("order", &["--file", program], folder.path()), "main\n");
    // Both would go to standard output.
    let both = run("order", &["--file", program, "--json", "-o", "-"], folder.path());
    assert!(!both.status.success() && both.stdout.is_empty());
    assert!(said(&both).contains("name a file for the order"), "{}", said(&both));
}

#[test]
fn a_list_to_read_ahead_goes_to_standard_output() {
    // /tmp is in memory on most machines.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let path = folder.join("data");
    std::fs::write(&path, vec![7; 1 << 16]).unwrap();
    // The file is older than the recording.
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let path = path.to_str().unwrap();
    let mut facts = idle();
    facts.tables.files = vec![MappedFile {
        path: path.into(),
        ..MappedFile::default()
    }];
    let mut touched = fault(1, 0, MS);
    touched.stack = None;
    facts.faults = vec![touched];
    std::fs::write(folder.join("recording.json"), facts.json()).unwrap();
    if said(&run("preload", &[], &folder)).contains("on an in-memory file system") {
        println!("skipped: this file system is memory");
        return;
    }
    let list = list("preload", &[], &folder);
    assert!(list.starts_with("ngmi-preload") && list.contains(path), "{list}");
}
