//! Output for users: lines on standard error, which never stop the program even without a terminal,
//! and lines on standard output, which must be written.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use anyhow::{Context as _, Result};

use crate::report::text::harmless;

/// Writes a line with our own styles to standard error; a closed terminal is not an error. Text
/// from outside must be [`plain`].
pub fn say(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Writes `ngmi: ` and a line, the name in bold.
pub fn print_note(line: impl Display) {
    let bold = anstyle::Style::new().bold();
    say(format_args!("{bold}ngmi:{bold:#} {}", plain(line)));
}

/// Writes an error with its causes and its remedy.
pub fn fail(error: &anyhow::Error) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    // The problems of a budget are one per line, and may quote it.
    let text = harmless(&format!("{error:#}"), &['\n', '\t']);
    say(format_args!("{red}ngmi:{red:#} {text}"));
}

/// A message without characters that a terminal would interpret: its names and reasons may come
/// from an untrusted recording. A plain message stays unchanged.
pub fn plain(message: impl Display) -> String {
    harmless(&message.to_string(), &[])
}

/// Writes a line to standard output; a closed pipe (`| head`) is not an error, a full disk is.
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
    fn messages_cannot_control_the_terminal() {
        assert_eq!(
            plain("no \x1b[2J\u{9b}31m\nngmi: \u{202e}é"),
            "no \\u{1b}[2J\\u{9b}31m\\nngmi: \\u{202e}é"
        );
        let once = plain("a\\b\x07");
        assert_eq!(once, "a\\b\\u{7}");
        assert_eq!(plain(&once), once, "applying it twice changes nothing");
        assert_eq!(harmless("wrong\n\tx\r\x1b", &['\n', '\t']), "wrong\n\tx\\r\\u{1b}");
    }

    #[test]
    fn a_full_disk_is_an_error_but_a_closed_pipe_is_not() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let error = format!("{:#}", write_line(&mut &full, "x").unwrap_err());
        assert!(error.contains("cannot write to standard output"), "{error}");
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        write_line(&mut writer, "x").unwrap();
    }
}
