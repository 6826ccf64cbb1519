//! Subcommands that only read recordings run in a sandbox (docs/privilege.md): what the kernel blocks there, and
//! that the sandbox is in place before the first byte is read. If the kernel has no Landlock the tests print
//! "skipped: reason" and are counted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails should stop immediately"
)]

#[path = "e2e/harness/skip.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test program uses a part of the shared code"
)]
mod skip;

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::socket::SockType;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use profiler::capture::socket::wire::Mapped;
use profiler::event::FileId;
use profiler::record::finish::Plan;
use profiler::record::privilege::joint;
use profiler::record::reach::Reach;
use profiler::record::sandbox;
use profiler::record::servers::NameServers;
use symbols::elf::ElfFile;
use symbols::{BinaryRequest, Config, Symbolicator};

/// Whether the kernel has Landlock, determined without ngmi's code.
fn has_landlock() -> bool {
    let asked = Command::new("python3")
        .args(["-c", "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))"])
        .output()
        .unwrap();
    String::from_utf8(asked.stdout).unwrap().trim().parse::<i32>().unwrap() > 0
}

macro_rules! needs_landlock {
    () => {
        if !has_landlock() {
            skip::skip("the kernel has no Landlock");
            return;
        }
    };
}

fn refused<T>(of: std::io::Result<T>) -> bool {
    of.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn only_named_outputs_can_be_written() {
    needs_landlock!();
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("theirs"), "as it was").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(sandbox::restrict(&[inside.path().to_owned()], false).unwrap());
            let (at, theirs) = (inside.path().join("new"), outside.path().join("theirs"));
            fs::write(&at, "x").unwrap();
            fs::rename(&at, inside.path().join("renamed")).unwrap();
            tempfile::tempfile_in(inside.path()).unwrap();
            assert_eq!(fs::read_to_string(&theirs).unwrap(), "as it was");
            assert!(refused(fs::write(&theirs, "changed")));
            assert!(refused(fs::write(outside.path().join("new"), "x")));
            assert!(refused(fs::remove_file(&theirs)));
            assert!(refused(fs::create_dir(outside.path().join("folder"))));
            assert!(refused(Command::new("/bin/true").status()));
            // Threads that it starts have the same sandbox.
            let of_child = std::thread::spawn(move || fs::write(&theirs, "changed"))
                .join()
                .unwrap();
            assert!(refused(of_child));
            let connected = TcpStream::connect(address);
            assert!(
                connected.is_ok() || refused(connected),
                "TCP is blocked from Linux 6.7 on"
            );
        });
    });
    // The sandbox was that thread's only.
    fs::write(outside.path().join("theirs"), "ours again").unwrap();
}

/// A recording that has not arrived yet: the subcommand waits for it, already in its sandbox.
#[test]
fn the_sandbox_precedes_the_first_read() {
    needs_landlock!();
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    mkfifo(&input, Mode::S_IRWXU).unwrap();
    let subcommands: [&[&str]; 12] = [
        &["convert", "input", "-o", "out"],
        &["trim", "input", "-o", "out", "--from", "1"],
        &["export", "input", "--format", "folded", "-o", "out"],
        &["order", "input", "--file", "x"],
        &["preload", "input", "-o", "out"],
        &["faults", "input", "--html", "out"],
        &["io", "input"],
        &["waits", "input", "--csv"],
        &["smaps", "input"],
        &["check", "input", "--against", "input"],
        &["diff", "input", "input"],
        &["lint", "input"],
    ];
    for words in subcommands {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ngmi"))
            .args(words)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let has_it = waits_until(|| has_no_new_privileges(child.id()));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_it && ended.is_none(), "{words:?}: {ended:?}");
    }
}

/// The process that builds a recording's profile waits for the recorder's message.
#[test]
fn the_sandbox_precedes_reading_a_recording() {
    needs_landlock!();
    let (ours, theirs) = joint(SockType::SeqPacket).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ngmi"))
        .args(["__convert", &theirs.as_raw_fd().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(theirs);
    let has_it = waits_until(|| has_no_new_privileges(child.id()));
    let ended = child.try_wait().unwrap();
    assert!(has_it && ended.is_none(), "{ended:?}");
    drop(ours);
    let answer = child.wait_with_output().unwrap().stdout;
    assert_eq!(
        String::from_utf8(answer).unwrap(),
        "{\"Err\":{\"is_empty\":false,\"text\":\"the recorder is gone\"}}\n"
    );
}

/// Also where data other than lines has to be isolated from the library that reads it.
#[test]
fn lines_are_read_in_the_sandbox() {
    needs_landlock!();
    let folder = tempfile::tempdir().unwrap();
    let (binary, inside) = (folder.path().join("program"), folder.path().join("inside"));
    fs::create_dir(&inside).unwrap();
    fs::write(folder.path().join("program.c"), "int main(void) {\n    return 0;\n}\n").unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        assert!(
            command
                .args(&words[1..])
                .current_dir(folder.path())
                .status()
                .unwrap()
                .success()
        );
    };
    run(&["gcc", "-g", "-Wl,--build-id=sha1", "-o", "program", "program.c"]);
    // This section misleads the library even next to DWARF, whatever its content.
    run(&["objcopy", "--add-section", ".gnu_debugdata=program.c", "program"]);
    let elf = ElfFile::open(fs::File::open(&binary).unwrap()).unwrap();
    let functions = elf.functions();
    let main = functions.iter().find(|function| function.name == "main").unwrap();
    let address = u32::try_from(main.svma - elf.base_svma()).unwrap();
    let request = BinaryRequest {
        open_path: binary.clone(),
        path: binary,
        build_id: elf.build_id().to_vec(),
    };
    let names = std::thread::scope(|scope| {
        let walled = scope.spawn(|| {
            assert!(sandbox::restrict(std::slice::from_ref(&inside), false).unwrap());
            Symbolicator::new(Config::default())
                .unwrap()
                .resolve(&request, &[address])
                .unwrap()
        });
        walled.join().unwrap()
    });
    let main = names[0].as_ref().unwrap();
    assert_eq!((&*main.symbol, main.inline_chain[0].line), ("main", Some(1)));
}

/// The files of a recording, in a home with a key: what a compromised parser, or a name in a hostile file, could read.
#[test]
fn conversion_reads_what_was_mapped_and_its_debug_info() {
    needs_landlock!();
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    for folder in [".ssh", "build/bin", "build/objects"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    for secret in [
        ".ssh/id_ed25519",
        "notes.txt",
        "build/bin/secret.debug",
        "build/objects/secret.dwo",
    ] {
        fs::write(at(secret), "secret").unwrap();
    }
    symlink(at(".ssh/id_ed25519"), at("build/objects/key.dwo")).unwrap();
    fs::write(at("build/program.c"), "int main(void) {\n    return 0;\n}\n").unwrap();
    for words in [
        "-g -gdwarf-4 -gsplit-dwarf -c -o objects/program.o program.c",
        "-Wl,--build-id=sha1 -o bin/program objects/program.o",
    ] {
        let mut gcc = Command::new("gcc");
        gcc.args(words.split(' ')).current_dir(at("build"));
        assert!(gcc.status().unwrap().success());
    }
    let binary = at("build/bin/program");
    let file = fs::File::open(&binary).unwrap();
    let elf = ElfFile::open(file.try_clone().unwrap()).unwrap();
    let functions = elf.functions();
    let main = functions.iter().find(|function| function.name == "main").unwrap();
    let address = u32::try_from(main.svma - elf.base_svma()).unwrap();
    let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mapped = Mapped {
        pid: 1,
        file: FileId::default(),
        path: binary.to_str().unwrap().to_owned(),
        problem: None,
        is_silent: false,
    };
    let plan = Plan {
        sources: None,
        servers: NameServers::default(),
        max_samples: 1,
        complete_log: true,
        this_boot: false,
        reads_only_mapped: true,
        left_out: Vec::new(),
        notes: Vec::new(),
    };
    let mut reach = Reach::of(&[(mapped, Some(file.try_clone().unwrap()))], &plan);
    // The test's own folder is below the folder where rows would be stored temporarily.
    reach.folders.retain(|folder| !home.path().starts_with(folder));
    let names = std::thread::scope(|scope| {
        let walled = scope.spawn(|| {
            assert!(sandbox::restrict_reads(&reach).unwrap());
            for secret in [
                ".ssh/id_ed25519",
                "notes.txt",
                "build/program.c",
                "build/bin/secret.debug",
                "build/objects/secret.dwo",
                "build/objects/key.dwo",
            ] {
                assert!(refused(fs::read(at(secret))), "{secret}");
            }
            for outside in ["/etc/passwd", "/proc/self/environ"] {
                assert!(refused(fs::File::open(outside)), "{outside}");
            }
            assert!(refused(fs::read_dir(home.path())));
            assert!(fs::read(&by_descriptor).is_ok(), "the file itself, by its descriptor");
            let request = BinaryRequest {
                open_path: binary.clone(),
                path: binary.clone(),
                build_id: elf.build_id().to_vec(),
            };
            let symbolicator = Symbolicator::new(Config::default()).unwrap();
            symbolicator.resolve(&request, &[address]).unwrap()
        });
        walled.join().unwrap()
    });
    let main = names[0].as_ref().unwrap();
    assert_eq!((&*main.symbol, main.inline_chain[0].line), ("main", Some(1)));
}

fn waits_until(mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The kernel requires it before it accepts a sandbox.
fn has_no_new_privileges(pid: u32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    status.is_ok_and(|status| status.lines().any(|line| line == "NoNewPrivs:\t1"))
}
