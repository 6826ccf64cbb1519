//! Starts the recorded program: its process waits first, so the recording sees everything, and is then released.
//!
//! The child is this binary (`ngmi __exec`). It reports that it is ready, waits for one byte on a socket (to go, or to leave), marks the socket
//! close-on-exec and becomes the command: then the socket closes without a message, or carries the error number of the failed exec.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result, bail};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::SockType;
use nix::unistd::execvpe;

use super::identity::{Environment, own_environment};
use super::privilege::joint;
use crate::capture::proc::{capabilities, dispositions};

/// Become the command.
const GO: u8 = b'g';
/// Nothing is recorded: exit silently.
const LEAVE: u8 = b'n';

/// A command that waits to be released.
#[derive(Debug)]
pub struct Waiting {
    child: Child,
    socket: File,
    program: PathBuf,
}

impl Waiting {
    /// Starts the child that will become `program`.
    ///
    /// # Errors
    /// When no process can be created.
    pub fn spawn(program: PathBuf, command: &[OsString], environment: &Environment) -> Result<Self> {
        let (ours, theirs) = joint(SockType::Stream)?;
        let child = Command::new("/proc/self/exe")
            .arg0("ngmi")
            .args(["__exec", &theirs.as_raw_fd().to_string()])
            .args(["--ignored", &dispositions::ignored().to_string(), "--"])
            .arg(&program)
            .args(command)
            .env_clear()
            .envs(environment)
            .spawn()
            .context("starting the command")?;
        drop(theirs);
        let mut socket = File::from(ours);
        // What it must never be able to do is settled before another process examines it.
        socket
            .read_exact(&mut [0])
            .context("the process that becomes the command ended")?;
        Ok(Self { child, socket, program })
    }

    /// The ID of the process that will be the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Releases it and returns once it runs the program.
    ///
    /// # Errors
    /// When the program can't be executed, with the kernel's reason.
    pub fn release(mut self) -> Result<Child> {
        let mut answer = [0; 4];
        let sent = self
            .socket
            .write_all(&[GO])
            .and_then(|()| self.socket.read(&mut answer));
        match sent {
            Ok(0) => Ok(self.child),
            Ok(_) => {
                let _ = self.child.wait();
                let reason = std::io::Error::from_raw_os_error(i32::from_ne_bytes(answer));
                let program = self.program.display();
                // The program itself was found.
                let why = match reason.kind() {
                    std::io::ErrorKind::NotFound => "; the interpreter of its `#!` line, or its loader, is missing",
                    _ => "",
                };
                Err(reason).with_context(|| format!("cannot run {program}{why}"))
            }
            Err(error) => Err(error).context("the command ended before it started"),
        }
    }

    /// Ends it before it becomes the command.
    pub fn abandon(mut self) {
        let _ = self.socket.write_all(&[LEAVE]); // it may be gone already
        drop(self.socket);
        let _ = self.child.wait();
    }
}

/// Runs `ngmi __exec FD --ignored SIGNALS -- PROGRAM ARGV0 ARGS…`: returns only if it did not become the command.
///
/// # Errors
/// When the recorder is gone. `Ok`: the recorder wants no command, or knows why exec failed.
pub fn become_command(socket: OwnedFd, ignored: u64, command: &[OsString]) -> Result<()> {
    let text = |word: &OsStr| CString::new(word.as_bytes());
    let [program, arguments @ ..] = command else {
        bail!("__exec is an internal subcommand; use `ngmi record`")
    };
    let program = text(program)?;
    let arguments = arguments.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
    fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let mut socket = File::from(socket);
    let mut environment = std::env::vars_os().collect();
    if capabilities::granted().records() {
        // Otherwise it could start a program with more rights than its user, and the recording would contain that program's memory (docs/privilege.md).
        nix::sys::prctl::set_no_new_privs().context("no_new_privs")?;
        environment = own_environment();
    }
    let variable = |(name, value): (&OsString, &OsString)| text(&[name.as_os_str(), value].join(OsStr::new("=")));
    let environment = environment.iter().map(variable).collect::<Result<Vec<_>, _>>()?;
    socket.write_all(b"r")?;
    let mut word = [0];
    if socket.read(&mut word)? == 0 {
        bail!("the recorder is gone");
    }
    // The recorder reports why there is no recording.
    if word != [GO] {
        return Ok(());
    }
    dispositions::ignore_only(ignored);
    let Err(error) = execvpe(&program, &arguments, &environment);
    socket.write_all(&(error as i32).to_ne_bytes())?;
    Ok(())
}

/// Our exit status for the command's: the same, or 128 + N for signal N, as in shells.
pub fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code & 0xff).unwrap_or(u8::MAX)
}
