//! What a person sees: lines on standard error that never stop the program, even when the terminal is gone, and lines on standard output, which have to
//! arrive.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use anyhow::{Context as _, Result};

use crate::report::text::harmless;

/// Writes a line, with styles of our own, to standard error; a dead terminal is no reason to stop. What is in it from outside has to be [`plain`].
pub fn say(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Writes `ngmi: ` and a line, the name in bold.
pub fn tell(line: impl Display) {
    let bold = anstyle::Style::new().bold();
    say(format_args!("{bold}ngmi:{bold:#} {}", plain(line)));
}

/// Writes an error with its causes and its remedy.
pub fn fail(error: &anyhow::Error) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    // What is wrong with a budget is a line each, which may quote it.
    let text = harmless(&format!("{error:#}"), &['\n', '\t']);
    say(format_args!("{red}ngmi:{red:#} {text}"));
}

/// A message without what a terminal would obey: names and reasons in it may be from a recording that somebody else made. One that is plain stays as it is.
pub fn plain(message: impl Display) -> String {
    harmless(&message.to_string(), &[])
}

/// Writes a line to standard output; a reader that went away (`| head`) is no error, a full disk is.
///
/// # Errors
/// Those of standard output.
pub fn out(line: impl Display) -> Result<()> {
    write_line(&mut anstream::stdout(), line)
}

fn write_line(out: &mut impl Write, line: impl Display) -> Result<()> {
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to standard output"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_can_not_command_a_terminal() {
        assert_eq!(
            plain("no \x1b[2J\u{9b}31m\nngmi: \u{202e}é"),
            "no \\u{1b}[2J\\u{9b}31m\\nngmi: \\u{202e}é"
        );
        let once = plain("a\\b\x07");
        assert_eq!(once, "a\\b\\u{7}");
        assert_eq!(plain(&once), once, "twice is as once");
        assert_eq!(harmless("wrong\n\tx\r\x1b", &['\n', '\t']), "wrong\n\tx\\r\\u{1b}");
    }

    #[test]
    fn a_full_disk_is_an_error_and_a_reader_that_left_is_none() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let told = format!("{:#}", write_line(&mut &full, "x").unwrap_err());
        assert!(told.contains("cannot write to standard output"), "{told}");
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        write_line(&mut writer, "x").unwrap();
    }
}
