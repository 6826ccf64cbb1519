//! Compiles and runs the program, and builds a sample from its output.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use profiler_common::stack::{FLAG_USER_REGS, UserRegs};
use profiler_common::unwind::Arch;
use symbols::elf::ElfFile;

use profiler::addr::{Avma, FileOffset, Timestamp};
use profiler::event::{At, Event, FileId, Mapping, Sample, Stacks};
use profiler::fact::ProcessId;
use profiler::task::Tasks;
use profiler::unwind::{Binaries, Mapped, Modules, Walk, Walker};

/// Compiler flags.
#[derive(Clone, Copy)]
pub struct Flavour(pub &'static [&'static str]);

/// The processor that the program is compiled for and runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Host,
    /// arm64, in QEMU's user emulation.
    Arm64,
}

impl Target {
    /// The processor of the recording.
    fn arch(self) -> Arch {
        match self {
            Self::Host if cfg!(target_arch = "x86_64") => Arch::X86_64,
            Self::Host | Self::Arm64 => Arch::Aarch64,
        }
    }

    fn compiler(self) -> &'static str {
        match self {
            Self::Host => "gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// A command that runs the program; `None`: there is no emulator.
    fn command(self, program: &Path) -> Option<Command> {
        if self == Self::Host {
            return Some(Command::new(program));
        }
        let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/arm64/qemu/usr/bin/qemu-aarch64-static");
        let installed = ["/usr/bin/qemu-aarch64-static", "/usr/bin/qemu-aarch64"].map(Path::new);
        let emulator = installed.into_iter().chain([&*unpacked]).find(|path| path.exists())?;
        let mut command = Command::new(emulator);
        command
            .args(["-cpu", "max,pauth-impdef=on", "-L", "/usr/aarch64-linux-gnu"])
            .arg(program);
        Some(command)
    }
}

/// Opens files by their paths.
#[derive(Default)]
pub struct ByPath {
    /// Files with this path suffix can't be opened.
    pub hidden: Option<String>,
    _folder: Option<tempfile::TempDir>,
}

impl Binaries for ByPath {
    fn elf(&self, _: FileId, path: &str, _: &[u8]) -> Result<Arc<ElfFile>, String> {
        if self.hidden.as_deref().is_some_and(|end| path.ends_with(end)) {
            return Err("hidden".to_owned());
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        ElfFile::open(file).map(Arc::new).map_err(|error| error.to_string())
    }
}

/// The program's output.
pub struct Dump {
    target: Target,
    regs: UserRegs,
    pub stack: Vec<u8>,
    /// Sorted by address.
    functions: Vec<(Avma, String)>,
    pub maps: Vec<Mapping>,
    pub binaries: ByPath,
}

/// Runs a case of the program; prints a line and returns `None` if it can't be compiled here.
pub fn run(what: &str, flavour: Flavour) -> Option<Dump> {
    run_on(Target::Host, what, flavour)
}

/// As [`run`], on another processor.
pub fn run_on(target: Target, what: &str, flavour: Flavour) -> Option<Dump> {
    let folder = tempfile::tempdir().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks");
    let (program, library, output) = (
        folder.path().join("stacks"),
        folder.path().join("liblazy.so"),
        folder.path().join("out"),
    );
    let compile = |args: &[&std::ffi::OsStr]| {
        let mut command = Command::new(target.compiler());
        command
            .args(flavour.0)
            .args(args)
            .status()
            .is_ok_and(|status| status.success())
    };
    let (lazy, stacks) = (sources.join("lazy.c"), sources.join("stacks.c"));
    let compiled = compile(&[
        "-shared".as_ref(),
        "-fPIC".as_ref(),
        "-o".as_ref(),
        library.as_ref(),
        lazy.as_ref(),
    ]) && compile(&[
        "-pthread".as_ref(),
        "-Wl,-z,lazy".as_ref(),
        "-o".as_ref(),
        program.as_ref(),
        stacks.as_ref(),
        library.as_ref(),
    ]);
    if !compiled {
        eprintln!("skipped: {} is missing or can't compile the program", target.compiler());
        return None;
    }
    let Some(mut command) = target.command(&program) else {
        eprintln!("skipped: qemu-aarch64-static is missing: `scripts/arm64` unpacks it");
        return None;
    };
    let status = command
        .arg(what)
        .arg(&output)
        .env_remove("LD_BIND_NOW")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    Some(parse(target, &std::fs::read(&output).unwrap(), folder))
}

fn parse(target: Target, bytes: &[u8], folder: tempfile::TempDir) -> Dump {
    let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
    let regs = UserRegs {
        ip: word(0),
        sp: word(1),
        fp: word(2),
        lr: word(3),
    };
    let (stack, text) = bytes[40..].split_at(word(4) as usize);
    let text = String::from_utf8_lossy(text);
    let (functions, maps) = text.split_once("\n\n").unwrap();
    let mut functions: Vec<(Avma, String)> = functions
        .lines()
        .map(|line| {
            let (name, address) = line.split_once(' ').unwrap();
            (Avma(u64::from_str_radix(address, 16).unwrap()), name.to_owned())
        })
        .collect();
    functions.sort();
    let maps = maps.lines().map(mapping).collect();
    Dump {
        target,
        regs,
        stack: stack.to_vec(),
        functions,
        maps,
        binaries: ByPath {
            hidden: None,
            _folder: Some(folder),
        },
    }
}

/// A line of /proc/PID/maps.
fn mapping(line: &str) -> Mapping {
    let mut words = line.splitn(6, ' ');
    let mut next = || words.next().unwrap_or_default();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, end) = next()
        .split_once('-')
        .map(|(start, end)| (hex(start), hex(end)))
        .unwrap();
    let protection = if next().contains('x') {
        profiler::event::PROT_EXEC
    } else {
        0
    };
    let offset = FileOffset(hex(next()));
    next();
    let inode = next().parse().unwrap();
    let path = next().trim().as_bytes().to_vec();
    Mapping {
        at: At {
            time: Timestamp(1),
            pid: 1,
            tid: 1,
        },
        start: Avma(start),
        len: end - start,
        offset,
        file: FileId {
            inode,
            ..FileId::default()
        },
        protection,
        path,
        ..Mapping::default()
    }
}

impl Dump {
    /// Where a function of the program starts.
    pub fn start_of(&self, function: &str) -> Avma {
        let found = self.functions.iter().find(|(_, name)| name == function);
        found.unwrap_or_else(|| panic!("no {function}")).0
    }

    /// The function of the program that covers an address.
    pub fn function_at(&self, address: Avma) -> Option<&str> {
        let inside = self.maps.iter().any(|mapping| {
            let end = mapping.start.0 + mapping.len;
            mapping.path.ends_with(b"/stacks") && (mapping.start.0..end).contains(&address.0)
        });
        let behind = self.functions.partition_point(|(start, _)| *start <= address);
        let (_, name) = self.functions[..behind].last()?;
        // `main` has a separate section, before the others; between them are `_start` and the like.
        let far = address.0 - self.functions[behind - 1].0.0 > 1024;
        (inside && !far && !self.is_start(address)).then_some(name)
    }

    /// Whether the address is in the program's entry code, which gcc places directly after `main`.
    fn is_start(&self, address: Avma) -> bool {
        let Some(program) = self.maps.iter().find(|mapping| mapping.path.ends_with(b"/stacks")) else {
            return false;
        };
        let path = String::from_utf8_lossy(&program.path);
        let Ok(elf) = self.binaries.elf(program.file, &path, &[]) else {
            return false;
        };
        let entry = program.start.0 + elf.entry() - elf.base_svma();
        (entry..entry + 64).contains(&address.0)
    }

    /// The process with its mappings.
    pub fn tasks(&self) -> (Tasks, ProcessId) {
        let mut tasks = Tasks::new(Timestamp(0));
        for mapping in &self.maps {
            tasks.apply(&Event::Mapping(mapping.clone()));
        }
        let thread = tasks.thread_at(&At {
            time: Timestamp(2),
            pid: 1,
            tid: 1,
        });
        let process = tasks.threads[thread.index()].process;
        (tasks, process)
    }

    /// The sample that a profiler would have taken.
    pub fn sample(&self, flags: u32) -> Sample<'_> {
        let flags = flags | FLAG_USER_REGS;
        Sample {
            stacks: Stacks {
                flags,
                regs: self.regs,
                copy: Cow::Borrowed(&self.stack),
                ..Stacks::default()
            },
            ..Sample::default()
        }
    }

    /// Unwinds the sample after a change.
    pub fn walk(&self, flags: u32, change: impl FnOnce(&mut Sample<'_>)) -> Walk {
        let (tasks, process) = self.tasks();
        let mut sample = self.sample(flags);
        change(&mut sample);
        Walker::new(Modules::new(&self.binaries, self.target.arch())).stack(
            Mapped { tasks: &tasks, process },
            &sample.stacks,
            None,
        )
    }
}
