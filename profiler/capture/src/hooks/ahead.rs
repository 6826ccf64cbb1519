//! Loads programs in parallel before they are attached one by one: the kernel takes up to a tenth of a second to
//! verify one, and verifies those of a privileged process in parallel.

use std::cmp::Reverse;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use landlock::{AccessFs, Ruleset, RulesetAttr as _, RulesetError};

/// Threads that load programs. More take more of the kernel's memory and do not finish sooner: the longest program
/// alone is a quarter of the total.
const AT_ONCE: usize = 4;

/// A program, and the tracepoint or function it attaches to.
pub type Wanted = (&'static str, &'static str);

/// The loader of the object. Creating it parses the kernel's types, although without relocations it needs none: tens of
/// milliseconds and of MiB. So it is created in a thread that can't read files, or, where the kernel can't enforce
/// that, while something else is done.
pub struct Loader(io::Result<JoinHandle<EbpfLoader<'static>>>);

impl Loader {
    /// Begins to create it.
    pub fn begin() -> Self {
        Self(thread::Builder::new().spawn(|| {
            let _ = read_nothing(); // then the types are parsed
            EbpfLoader::new()
        }))
    }

    /// The loader.
    pub fn get(self) -> EbpfLoader<'static> {
        // A thread that can't be started only costs time.
        let created = self.0.ok().and_then(|thread| thread.join().ok());
        created.unwrap_or_default()
    }
}

/// Takes from this thread the right to open files for reading.
fn read_nothing() -> Result<(), RulesetError> {
    let rules = Ruleset::default().handle_access(AccessFs::ReadFile)?.create()?;
    rules.restrict_self().map(drop)
}

/// Programs named like their attach points.
pub fn by_name<'n>(names: &'n [&'static str]) -> impl Iterator<Item = Wanted> + 'n {
    names.iter().map(|&name| (name, name))
}

/// Loads those of the programs that the kernel accepts, in order. A refused one is loaded again, and reported, when
/// it is attached.
pub fn load(ebpf: &mut Ebpf, btf: &Btf, wanted: impl IntoIterator<Item = Wanted>) {
    let wanted: Vec<Wanted> = wanted.into_iter().collect();
    let mut programs: Vec<(usize, &mut Program)> = ebpf
        .programs_mut()
        .filter_map(|(name, program)| Some((wanted.iter().position(|wanted| wanted.0 == name)?, program)))
        .collect();
    programs.sort_by_key(|(place, _)| Reverse(*place));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let workers = workers.min(AT_ONCE).min(programs.len());
    let programs = Mutex::new(programs);
    let next = || programs.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || {
        while let Some((place, program)) = next() {
            let _ = load_one(program, wanted[place].1, btf); // reported when it is attached
        }
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            // A thread that can't be started only reduces the parallelism.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

fn load_one(program: &mut Program, name: &str, btf: &Btf) -> Result<(), ProgramError> {
    match program {
        Program::BtfTracePoint(program) => program.load(name, btf),
        Program::PerfEvent(program) => program.load(),
        Program::FEntry(program) => program.load(name, btf),
        Program::FExit(program) => program.load(name, btf),
        Program::Iter(program) => program.load(name, btf),
        _ => Ok(()),
    }
}

/// Loads a program, if it was not loaded ahead: aya would search all types for its attach point once more before it said so.
pub fn unless_loaded(is_loaded: bool, load: impl FnOnce() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    if is_loaded { Ok(()) } else { load() }
}
