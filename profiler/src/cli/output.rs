//! Tables and rows to standard output.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

/// Bytes that are written at once.
const BUFFER: usize = 1 << 17;

/// Writes to standard output; a reader that went away (`| head`) is no error, a full disk is.
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
