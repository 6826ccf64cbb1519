//! What a person sees: lines on standard error that never stop the program, even when the terminal is gone.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to standard error; a dead terminal is no reason to stop.
pub fn say(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Writes `ngmi: ` and a line, the name in bold.
pub fn tell(line: impl Display) {
    let bold = anstyle::Style::new().bold();
    say(format_args!("{bold}ngmi:{bold:#} {line}"));
}

/// Writes an error with its causes and its remedy.
pub fn fail(error: &anyhow::Error) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    say(format_args!("{red}ngmi:{red:#} {error:#}"));
}

/// Writes a line to standard output; a reader that went away (`| head`) is no reason to stop.
pub fn out(line: impl Display) {
    let _ = writeln!(anstream::stdout(), "{line}");
}
