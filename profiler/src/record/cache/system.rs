//! `--cold=system`: drops the caches of the whole machine, with a child that stays root while the recorder becomes
//! the user who typed the command.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use nix::unistd::Uid;

use crate::record::privilege::remedy;

/// proc(5): 3 drops clean pages, and directory entries and inodes.
const SWITCH: &str = "/proc/sys/vm/drop_caches";
const EVERYTHING: &[u8] = b"3\n";
/// What the child prints when it is able to drop caches, and when it has.
const READY: &str = "ready";
const DONE: &str = "done";

/// The child, waiting.
#[derive(Debug)]
pub struct Dropper {
    child: Child,
    order: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Dropper {
    /// Starts the child. Call it while we are root.
    ///
    /// # Errors
    /// When this user or this machine can't drop caches, with an alternative.
    pub fn start() -> Result<Self> {
        const OTHERWISE: &str = "plain --cold evicts the command's own files without root";
        if !Uid::effective().is_root() {
            bail!(
                "--cold=system drops the caches of the whole machine, which only root may do: {}; {OTHERWISE}",
                remedy()
            );
        }
        let mut child = Command::new("/proc/self/exe")
            .arg0("ngmi")
            .arg("__drop-caches")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the process that drops caches")?;
        let (Some(order), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the process that drops caches has no pipes");
        };
        let mut dropper = Self {
            child,
            order,
            answers: BufReader::new(answers),
        };
        match dropper.answer()?.as_str() {
            READY => Ok(dropper),
            why => bail!("cannot drop the caches of the machine: {SWITCH}: {why}; {OTHERWISE}"),
        }
    }

    /// Lets the child drop the caches, after all dirty data has been written.
    ///
    /// # Errors
    /// When the kernel refuses, or the child is gone.
    pub fn drop_now(mut self) -> Result<Dropped> {
        let before = Memory::now();
        self.order
            .write_all(b"g")
            .context("the process that drops caches is gone")?;
        let answer = self.answer()?;
        drop(self.order);
        let _ = self.child.wait();
        match answer.as_str() {
            DONE => Ok(Dropped {
                before,
                after: Memory::now(),
            }),
            why => bail!("the caches of the machine were not dropped: {why}"),
        }
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        let answers = (&mut self.answers).take(4096).read_line(&mut line);
        answers.context("no answer from the process that drops caches")?;
        let line = line.trim_end();
        Ok(if line.is_empty() {
            "it ended".to_owned()
        } else {
            line.to_owned()
        })
    }
}

/// The body of `ngmi __drop-caches`: reports whether it can drop caches, waits for one byte, and does it. Ends
/// silently if the recorder does.
///
/// # Errors
/// When the pipes break.
pub fn serve(mut order: impl Read, mut answers: impl Write) -> io::Result<()> {
    let mut switch: File = match File::options().write(true).open(SWITCH) {
        Ok(switch) => switch,
        Err(error) => return writeln!(answers, "{error}"),
    };
    writeln!(answers, "{READY}")?;
    answers.flush()?;
    if order.read(&mut [0])? == 0 {
        return Ok(());
    }
    nix::unistd::sync();
    match switch.write_all(EVERYTHING) {
        Ok(()) => writeln!(answers, "{DONE}")?,
        Err(error) => writeln!(answers, "{error}")?,
    }
    answers.flush()
}

/// What the machine's caches contained, before and after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Before.
    pub before: Memory,
    /// After.
    pub after: Memory,
}

/// Some values of /proc/meminfo, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Pages of files and block devices: `Cached` + `Buffers`.
    pub pages: u64,
    /// Directory entries, inodes and the like: `SReclaimable`.
    pub metadata: u64,
    /// Memory available without swapping: `MemAvailable`; 0: unknown.
    pub available: u64,
}

impl Memory {
    /// The current values.
    pub fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let value = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
            kib.unwrap_or(0u64).saturating_mul(1024)
        };
        Self {
            pages: value("Cached").saturating_add(value("Buffers")),
            metadata: value("SReclaimable"),
            available: value("MemAvailable"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_dropped_only_on_request() {
        let mut answers = Vec::new();
        serve(&b""[..], &mut answers).unwrap();
        let answers = String::from_utf8(answers).unwrap();
        if Uid::effective().is_root() {
            assert!(answers == "ready\n" || answers.contains("os error"), "{answers}");
        } else {
            assert!(answers.contains("ermission"), "{answers}");
        }
    }

    #[test]
    fn meminfo_is_in_kibibytes() {
        let text = "MemAvailable:   2 kB\nBuffers:  1 kB\nCached:  3 kB\nSwapCached:  9 kB\nSReclaimable: 5 kB\n";
        let memory = Memory::parse(text);
        assert_eq!((memory.pages, memory.metadata, memory.available), (4096, 5120, 2048));
        assert_eq!(Memory::parse("Cached: x"), Memory::default());
    }
}
