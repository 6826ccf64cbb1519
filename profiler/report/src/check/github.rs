//! Writes a judgement as GitHub Actions workflow commands, which annotate the lines of the budget.
//! <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>

use std::io::{self, Write};

use super::judge::{Judgement, Verdict};
use super::text::sentence;

/// Writes a line for each row that exceeds its limit, is unknown, or names something unrecorded.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, judgement: &Judgement, budget: Option<&str>) -> io::Result<()> {
    for row in &judgement.rows {
        let level = match row.verdict {
            Verdict::Within => continue,
            Verdict::Unmentioned => "warning",
            Verdict::Over(_) | Verdict::Unknown(_) => "error",
        };
        let file = budget.map_or(String::new(), |file| format!("file={},", property(file)));
        let line = row.line.map_or(String::new(), |line| format!("line={line},"));
        let message = data(&sentence(row));
        writeln!(out, "::{level} {file}{line}title=ngmi check::{message}")?;
    }
    Ok(())
}

/// Escapes what would end a message or start an escape sequence.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property's value, including what would end the property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_cannot_be_terminated_by_names() {
        assert_eq!(data("100 %\r\n::error::x, y"), "100 %25%0D%0A::error::x, y");
        assert_eq!(property("a,b:c%\n"), "a%2Cb%3Ac%25%0A");
    }
}
