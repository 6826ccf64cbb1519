//! Writes a judgement as JUnit XML, which every CI server shows; each row is a test.

use std::io::{self, Write};

use super::judge::{Judgement, Row, Verdict};
use super::text::sentence;

/// Writes the document.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, judgement: &Judgement) -> io::Result<()> {
    let (tests, failures) = (judgement.rows.len(), judgement.over().count());
    let errors = judgement.unknown().count();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites>")?;
    writeln!(
        out,
        "<testsuite name=\"ngmi check\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\">"
    )?;
    judgement.rows.iter().try_for_each(|row| case(out, row))?;
    writeln!(out, "</testsuite>\n</testsuites>")
}

fn case(out: &mut dyn Write, row: &Row) -> io::Result<()> {
    let class = escaped(row.by.name());
    let from = match row.from {
        super::judge::Limit::Budget => "",
        super::judge::Limit::Baseline { .. } => " against the baseline",
    };
    let (name, message) = (escaped(&format!("{}{from}", row.what())), escaped(&sentence(row)));
    write!(out, "<testcase classname=\"ngmi.{class}\" name=\"{name}\">")?;
    match row.verdict {
        Verdict::Over(_) => write!(out, "<failure message=\"{message}\"/>")?,
        Verdict::Unknown(_) => write!(out, "<error message=\"{message}\"/>")?,
        Verdict::Unmentioned | Verdict::Within => write!(out, "<system-out>{message}</system-out>")?,
    }
    writeln!(out, "</testcase>")
}

/// Escapes text for an element or attribute. XML 1.0 cannot represent most control characters: they are replaced.
fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '"' => plain.push_str("&quot;"),
            '\t' | '\n' | '\r' => plain.extend(["&#", &u32::from(c).to_string(), ";"]),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => plain.push('\u{fffd}'),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_well_formed() {
        assert_eq!(
            escaped("std::vec<a & \"b\">\n\u{1b}[m"),
            "std::vec&lt;a &amp; &quot;b&quot;&gt;&#10;\u{fffd}[m"
        );
    }
}
