//! Firefox's own profiler: started by environment variables without its stack sampling, so that it only collects markers.
//! It writes them when Firefox exits, or when it gets SIGUSR2.

mod place;
mod running;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::{self, Builder, sleep};
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use super::identity::Environment;
use crate::capture::proc::{pidfd, procfs};
use crate::event::Attachment;
use crate::fact::replay::log::LogSource;
use crate::fact::{FactSink, FactSource as _, Tables};
use crate::profile::{ReadAhead, merge_gecko_file};
use crate::record::options::Gecko;
pub use running::{Collected, Handle, RunningFirefox};

/// Prefix of the variables.
const PREFIX: &str = "MOZ_PROFILER_";
/// What the profiler is to do. `NO_BASE`: not from the first moment of a process, before which it would wait for the profiler to
/// start a second time. The interval, in ms, is that of its sampler, which only reads counters of memory: with 10, it wakes each process
/// 100 times a second (`benches/gecko`). The entries, of 8 bytes and per process, are the least that it accepts.
const VARIABLES: [(&str, &str); 4] = [
    ("MOZ_PROFILER_STARTUP", "1"),
    ("MOZ_PROFILER_STARTUP_NO_BASE", "1"),
    ("MOZ_PROFILER_STARTUP_INTERVAL", "100"),
    ("MOZ_PROFILER_STARTUP_ENTRIES", "16777216"),
];
/// The variable with what is collected.
const FEATURES: &str = "MOZ_PROFILER_STARTUP_FEATURES";
/// The variable with the threads, by parts of their names.
const THREADS: &str = "MOZ_PROFILER_STARTUP_FILTERS";

/// What Firefox's profiler collects: its features, and parts of the names of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collects {
    features: &'static str,
    threads: &'static str,
}

/// Markers, without stacks of samples and markers. Other threads have few that matter, and are many.
pub const MARKERS: Collects = Collects {
    features: "nostacksampling,nomarkerstacks",
    threads: "GeckoMain,Compositor,Renderer,RenderBackend,SwComposite,DOM Worker,Socket Thread",
};
/// Those of messages between processes too, which all threads send.
const MESSAGES: Collects = Collects {
    features: "nostacksampling,nomarkerstacks,ipcmessages",
    threads: "*",
};
/// The file that it writes at its end; Firefox replaces %p by its process id.
const AT_EXIT: &str = "gecko-%p.json";
/// The folder for the file that it writes on SIGUSR2.
const ON_SIGNAL: &str = "MOZ_UPLOAD_DIR";

/// How long Firefox may take to write its file on SIGUSR2.
const DUMP_LIMIT: Duration = Duration::from_secs(10);
/// Stands at the end of a file with all processes.
const GATHERED: &[u8] = b"\"profileGatheringLogEnd_TSms\"";
/// Bytes of the end that are searched for it.
const END: u64 = 64 << 10;
/// How often the file is looked at.
const STEP: Duration = Duration::from_millis(50);
/// Maximum number of processes that are searched for Firefox.
const MOST: usize = 1 << 12;

/// What the profiler of this program is to collect, if it is to be started.
pub fn collects(wanted: Gecko, program: &Path, environment: &Environment) -> Option<Collects> {
    let collects = match wanted {
        Gecko::On => MARKERS,
        Gecko::Ipc => MESSAGES,
        Gecko::Auto if is_firefox(program) => MARKERS,
        Gecko::Auto | Gecko::Off => return None,
    };
    // A user who configures it uses it.
    let is_own = |name: &OsStr| name.as_bytes().starts_with(PREFIX.as_bytes()) || name == ON_SIGNAL;
    (!environment.keys().any(|name| is_own(name))).then_some(collects)
}

/// Firefox, a script that starts it, or another program that is built of its engine.
fn is_firefox(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b"firefox") || fs::canonicalize(program).is_ok_and(|program| has_engine(&program))
}

fn has_engine(program: &Path) -> bool {
    program.parent().is_some_and(|folder| folder.join("libxul.so").exists())
}

/// Adds the variables.
pub fn configure(environment: &mut Environment, folder: &Path, collects: Collects) {
    let chosen = [(FEATURES, collects.features), (THREADS, collects.threads)];
    for (name, value) in VARIABLES.into_iter().chain(chosen) {
        environment.insert(name.into(), value.into());
    }
    environment.insert("MOZ_PROFILER_SHUTDOWN".into(), folder.join(AT_EXIT).into());
    environment.insert(ON_SIGNAL.into(), folder.into());
}

/// Lets a Firefox that still runs, as this process or below it, write its file to the folder, and waits for it.
pub fn dump(pid: u32, folder: &Path) {
    let below = procfs::descendants(&[pid], MOST).unwrap_or_default();
    // Opened before the check, so that the signal can't reach a later process with the same id.
    let opened = |pid: u32| Some((pid, pidfd::open(pid).ok().filter(|_| takes_signal(pid))?));
    let Some((firefox, process)) = std::iter::once(pid).chain(below).find_map(opened) else {
        return;
    };
    if pidfd::send(&process, Signal::SIGUSR2).is_err() {
        return;
    }
    // The parent process has number 0 among Firefox's kinds of processes.
    let file = folder.join(format!("profile_0_{firefox}.json"));
    let deadline = Instant::now() + DUMP_LIMIT;
    while Instant::now() < deadline && !pidfd::has_ended(&process) && complete(&file).is_none() {
        sleep(STEP);
    }
}

/// Whether it is Firefox's parent process, and SIGUSR2 would not end it.
fn takes_signal(pid: u32) -> bool {
    takes(pid, &[Signal::SIGUSR2])
}

/// Whether it is Firefox's parent process, and none of the signals would end it.
fn takes(pid: u32, signals: &[Signal]) -> bool {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = String::from_utf8_lossy(&read("status")).into_owned();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    let catches = |signal: &Signal| caught.is_some_and(|caught| caught >> (*signal as u32 - 1) & 1 == 1);
    let is_caught = signals.iter().all(catches);
    let is_child = read("cmdline")
        .split(|byte| *byte == 0)
        .any(|word| word == b"-contentproc");
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    is_caught && !is_child && program.is_ok_and(|program| has_engine(&program))
}

/// Opens a regular file of ours, and waits for nothing.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == geteuid().as_raw() {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The file with all processes, at its start, once it is complete: before it, Firefox writes one with the parent process
/// only.
fn complete(path: &Path) -> Option<File> {
    let mut file = open(path).ok()?;
    let size = file.seek(SeekFrom::End(0)).ok()?;
    file.seek(SeekFrom::Start(size.saturating_sub(END))).ok()?;
    let mut end = Vec::new();
    (&file).take(END).read_to_end(&mut end).ok()?;
    file.rewind().ok()?;
    let is_whole = end.ends_with(b"}") && end.windows(GATHERED.len()).any(|window| window == GATHERED);
    is_whole.then_some(file)
}

/// Kind of file: `gecko-PID.json` at exit, `profile_0_PID.json` on SIGUSR2.
pub const FILES: [(&str, &str); 2] = [("gecko-", ".json"), ("profile_0_", ".json")];

/// Replays a log, and adds the markers of Firefox in it, which a separate thread reads meanwhile.
///
/// # Errors
/// When the log can't be read, or no thread can be started.
pub fn replay(source: &mut LogSource<'_, File>, sink: &mut dyn FactSink) -> Result<Tables> {
    let recording = source.begin()?.clone();
    let files = source.take_gecko();
    let (mut tables, ahead) = thread::scope(|scope| {
        let read = files.first().map(|file| || ReadAhead::new(&file.bytes, &recording));
        let reading = read.map(|read| Builder::new().name("gecko".into()).spawn_scoped(scope, read));
        let reading = reading.transpose()?;
        let tables = source.replay(sink)?;
        let ahead = reading.and_then(|reading| reading.join().unwrap_or_else(|panic| resume_unwind(panic)));
        anyhow::Ok((tables, ahead))
    })?;
    merge(files, ahead, &mut tables, sink);
    Ok(tables)
}

/// Merges the files that were recorded, of which the first may have been read ahead, and notes in the recording what is missing.
fn merge(files: Vec<Attachment>, mut ahead: Option<ReadAhead>, tables: &mut Tables, sink: &mut dyn FactSink) {
    for file in files {
        let merged = ahead.take().and_then(|ahead| ahead.merge(tables, sink));
        let merged = merged.unwrap_or_else(|| merge_gecko_file(&file.bytes, tables, sink));
        let note = match merged {
            Ok(merged) => merged.problems(),
            Err(error) => {
                let path = String::from_utf8_lossy(&file.path);
                Some(format!("{path}: {:#}", anyhow::Error::from(error)))
            }
        };
        tables.recording.notes.extend(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firefox_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str| folder.path().join(name);
        let environment = Environment::new();
        let collects = |wanted, name: &str| collects(wanted, &program(name), &environment);
        assert_eq!(collects(Gecko::Auto, "firefox-esr"), Some(MARKERS));
        assert_eq!(collects(Gecko::Off, "firefox-esr"), None);
        File::create(program("browser")).unwrap();
        assert_eq!(collects(Gecko::Auto, "browser"), None);
        assert_eq!(collects(Gecko::On, "browser"), Some(MARKERS));
        assert_eq!(collects(Gecko::Ipc, "browser"), Some(MESSAGES));
        File::create(program("libxul.so")).unwrap();
        assert_eq!(collects(Gecko::Auto, "browser"), Some(MARKERS));
    }

    #[test]
    fn a_user_who_configures_the_profiler_keeps_it() {
        let program = Path::new("/usr/bin/firefox");
        for name in ["MOZ_PROFILER_STARTUP", "MOZ_PROFILER_SHUTDOWN", "MOZ_UPLOAD_DIR"] {
            let environment = Environment::from([(name.into(), "".into())]);
            assert_eq!(collects(Gecko::On, program, &environment), None, "{name}");
        }
    }

    #[test]
    fn only_a_firefox_that_catches_the_signal_gets_it() {
        assert!(!takes_signal(std::process::id()));
        // Not this process: the children of other tests take the signal.
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        dump(other.id(), Path::new("/nonexistent")); // would end it
        sleep(STEP);
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_file_is_complete_with_the_log_of_its_processes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut whole = vec![b' '; 70 << 10];
        whole.extend_from_slice(br#"{"profileGatheringLogEnd_TSms":7217.7}}"#);
        for (text, complete) in [
            (&b""[..], false),
            (b"{}", false),
            (&whole, true),
            (&whole[..whole.len() - 2], false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(super::complete(&path).is_some(), complete);
        }
        assert!(complete(Path::new("/nonexistent")).is_none());
        // Neither a link nor a pipe, which would have to be waited for.
        let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
        fs::write(&path, &whole).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(complete(&link).is_none() && complete(&pipe).is_none());
    }
}
