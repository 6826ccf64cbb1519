//! Writes tables and rows to standard output or to a file.

use std::fs::{self, Metadata};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::record::spool::Output;
use crate::report::export::json;

/// Size of the output buffer in bytes.
const BUFFER: usize = 1 << 17;

/// Writes to standard output; a closed pipe (`| head`) is not an error, a full disk is.
pub fn to_stdout<W: Write>(
    stdout: &mut W,
    write: impl FnOnce(&mut BufWriter<&mut W>) -> io::Result<()>,
) -> Result<ExitCode> {
    let mut out = BufWriter::with_capacity(BUFFER, stdout);
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to standard output"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints a report as JSON.
pub fn print_json(report: &impl Serialize) -> Result<ExitCode> {
    to_stdout(&mut io::stdout().lock(), |out| json(out, report))
}

/// Prints text with styles, which are removed unless standard output is a terminal.
pub fn print_styled(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<ExitCode> {
    to_stdout(&mut anstream::stdout(), |out| write(out))
}

/// The requested file; `None`: standard output, also for `-`.
pub fn file_of(asked: Option<&Path>) -> Option<&Path> {
    asked.filter(|path| *path != Path::new("-"))
}

/// Refuses an output that would replace the recording that it is made from.
///
/// # Errors
/// They are the same file.
pub fn must_differ(output: &Path, input: &Path) -> Result<()> {
    must_differ_from(output, input, "recording")
}

/// Refuses an output that would replace the input that it is made from; `what` names the input.
///
/// # Errors
/// They are the same file.
pub fn must_differ_from(output: &Path, input: &Path, what: &str) -> Result<()> {
    let id = |file: Metadata| (file.dev(), file.ino());
    // A link at the output's path is replaced, not followed.
    if let (Ok(old), Ok(input)) = (fs::symlink_metadata(output), fs::metadata(input))
        && id(old) == id(input)
    {
        bail!(
            "{} would replace the {what} that it is made from; choose another path",
            output.display()
        );
    }
    Ok(())
}

/// Writes to a new file at `path`, which appears only when it is complete, or else to standard
/// output.
pub fn to_file_or_stdout(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<ExitCode> {
    let Some(path) = path else {
        return to_stdout(&mut io::stdout().lock(), |out| write(out));
    };
    let mut output = Output::create(path)?;
    let mut buffer = BufWriter::with_capacity(BUFFER, output.file());
    write(&mut buffer)
        .and_then(|()| buffer.flush())
        .with_context(|| format!("cannot write {}", path.display()))?;
    drop(buffer);
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}
