//! Text for terminals: numbers with units, and untrusted names, truncated and escaped.

use unicode_width::UnicodeWidthChar as _;

pub use base::plural::count;

/// Width of a terminal in columns.
pub const WIDTH: usize = 80;

/// Truncates an untrusted name to `width` columns and replaces control characters that a terminal would interpret.
pub fn fit(name: &str, width: usize) -> String {
    let mut fitted = String::new();
    let mut used = 0;
    for c in name.chars() {
        let c = if is_unsafe(c) { '\u{fffd}' } else { c };
        let columns = columns_of(c);
        if used + columns > width {
            // Leave space for the ellipsis.
            while used >= width {
                let Some(last) = fitted.pop() else { return fitted };
                used -= columns_of(last);
            }
            fitted.push('…');
            return fitted;
        }
        fitted.push(c);
        used += columns;
    }
    fitted
}

/// An untrusted name in full. Characters that a terminal would interpret and invalid UTF-8 are escaped as in a string literal.
pub fn escaped(name: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut plain = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => plain.push_str("\\\\"),
                c if is_unsafe(c) => plain.extend(c.escape_default()),
                c => plain.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(plain, "\\x{byte:02x}");
        }
    }
    plain
}

/// Escapes characters in a message that a terminal would interpret, except those in `kept`: the message may contain names and
/// reasons from another user's recording. Plain text is returned unchanged.
pub fn harmless(message: &str, kept: &[char]) -> String {
    let mut plain = String::with_capacity(message.len());
    for c in message.chars() {
        if is_unsafe(c) && !kept.contains(&c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Like [`fit`], but truncates in the middle, since the end of a name is often significant: `libQt6WebE…eCore.so.6`.
pub fn fit_middle(name: &str, width: usize) -> String {
    let plain: String = name
        .chars()
        .map(|c| if is_unsafe(c) { '\u{fffd}' } else { c })
        .collect();
    if columns(&plain) <= width {
        return plain;
    }
    let half = width / 2;
    let end = |at: &usize| plain.get(*at..).is_some_and(|end| columns(end) <= half);
    let start = plain.char_indices().map(|(at, _)| at).find(end).unwrap_or(plain.len());
    // Ends with the ellipsis.
    let begin = fit(
        &plain,
        width.saturating_sub(columns(plain.get(start..).unwrap_or_default())),
    );
    begin + plain.get(start..).unwrap_or_default()
}

/// The end of a path that fits `width` columns, starting at a slash if possible: `…/firefox-esr/libxul.so`.
pub fn fit_end(path: &str, width: usize) -> String {
    if columns(path) <= width {
        return path.to_owned();
    }
    let fits = |at: &usize| path.get(*at..).is_some_and(|end| columns(end) < width);
    let slash = path.match_indices('/').map(|(at, _)| at).find(fits);
    let start = slash.or_else(|| path.char_indices().map(|(at, _)| at).find(fits));
    format!("…{}", start.and_then(|start| path.get(start..)).unwrap_or_default())
}

/// The end of a path, starting at a slash; or the start of the file name if that alone is too long.
pub fn path(path: &str, width: usize) -> String {
    let path = escaped(path.as_bytes());
    let base = path.rsplit('/').next().unwrap_or(&path);
    if columns(base) + 2 > width {
        return fit(base, width);
    }
    fit_end(&path, width)
}

/// Pads a text to `width` columns; a longer text is not truncated.
pub fn padded(text: &str, width: usize) -> String {
    let room = width.saturating_sub(columns(text));
    text.to_owned() + &" ".repeat(room)
}

/// Items after a heading, wrapped over as many lines as needed; no lines if there are no items.
pub fn wrapped(head: &str, items: &[String], separator: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = head.to_owned();
    for (index, item) in items.iter().enumerate() {
        let end = if index + 1 < items.len() {
            separator.trim_end()
        } else {
            ""
        };
        let item = format!(" {item}{end}");
        if line.len() > head.len() && columns(&line) + columns(&item) > WIDTH {
            lines.push(std::mem::replace(&mut line, " ".repeat(head.len())));
        }
        line.push_str(&item);
    }
    if !items.is_empty() {
        lines.push(line);
    }
    lines
}

/// A sentence after a heading, wrapped over as many lines as needed.
pub fn wrapped_words(head: &str, sentence: &str) -> Vec<String> {
    let words: Vec<String> = sentence.split(' ').map(str::to_owned).collect();
    wrapped(head, &words, " ")
}

/// Writes lines, each with a newline.
///
/// # Errors
/// Errors of the output.
pub fn write_lines(out: &mut dyn std::io::Write, lines: &[String]) -> std::io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// A warning with ANSI styles, wrapped over as many lines as needed.
pub fn warning(text: &str) -> Vec<String> {
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    let words: Vec<String> = text.split(' ').map(|word| harmless(word, &[])).collect();
    let lines = wrapped("warning:", &words, " ").into_iter().enumerate();
    let styled = lines.map(|(at, line)| match line.strip_prefix("warning:") {
        Some(rest) if at == 0 => format!("{yellow}warning:{yellow:#}{rest}"),
        _ => line,
    });
    styled.collect()
}

/// Columns that a text occupies.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Columns that a character occupies. A terminal may print one that only modifies others separately, so it counts as well.
fn columns_of(c: char) -> usize {
    c.width().unwrap_or(1).max(1)
}

/// Bold text.
pub(crate) fn bold(text: &str) -> String {
    let bold = anstyle::Style::new().bold();
    format!("{bold}{text}{bold:#}")
}

/// Whether a terminal would interpret the character.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || is_bidi_control(c)
}

/// Whether the character can reverse the rest of a line.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// Formats nanoseconds with three digits: `12.3 ms`.
pub fn duration(ns: u64) -> String {
    let ns_f = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", three_digits(ns_f / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(ns_f / 1e6)),
        _ => format!("{} s", three_digits(ns_f / 1e9)),
    }
}

/// Formats bytes with three digits and powers of 1000, as is usual for disks and downloads: `3.40 MB`.
pub fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", three_digits(value / 1e3)),
        1_000_000..1_000_000_000 => format!("{} MB", three_digits(value / 1e6)),
        _ => format!("{} GB", three_digits(value / 1e9)),
    }
}

/// Formats bytes for a column: `34.5 MB`, `5 B`, `0`.
pub(crate) fn size(sum: u64) -> String {
    match sum {
        0 => "0".to_owned(),
        1..1000 => format!("{sum} B"),
        _ => bytes(sum),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$}")
}

/// Formats a share as `97.3 %`, or `-` if the whole is zero.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// Fewer samples than this are too few for a meaningful share.
const COUNTED: u64 = 20;
/// Fewer samples than this give a share with an error of several percentage points.
const ESTIMATED: u64 = 400;

/// Formats a share of samples, which is an estimate: `12.3 %`; for few samples, `12 ± 4 %` with a 95 % confidence interval; for
/// very few, `1 of 9`.
pub fn estimate(part: u64, whole: u64) -> String {
    if whole < COUNTED {
        return of(part, whole);
    }
    if whole >= ESTIMATED {
        return percent(part, whole);
    }
    // Agresti-Coull interval: the interval of the plain share has no width at 0 and 1.
    let (part, whole) = (part as f64, whole as f64);
    let share = (part + 2.0) / (whole + 4.0);
    let error = 2.0 * (share * (1.0 - share) / (whole + 4.0)).sqrt();
    format!("{:.0} ± {:.0} %", part / whole * 100.0, error * 100.0)
}

/// Formats a share of counted items: `97.3 %`, or `1 of 9` for few items.
pub fn counted(part: u64, whole: u64) -> String {
    if whole < COUNTED {
        of(part, whole)
    } else {
        percent(part, whole)
    }
}

fn of(part: u64, whole: u64) -> String {
    format!("{} of {}", count(part), count(whole))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        let durations = [
            (999, "999 ns"),
            (1_234, "1.23 µs"),
            (99_960_000, "100 ms"),
            (12_340_000_000, "12.3 s"),
        ];
        for (ns, text) in durations {
            assert_eq!(duration(ns), text);
        }
        assert_eq!(bytes(3_400_000), "3.40 MB");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "-");
        assert_eq!(
            [count(0), count(999), count(1000), count(12_345_678)],
            ["0", "999", "1,000", "12,345,678"]
        );
    }

    #[test]
    fn names_cannot_write_terminal_escapes() {
        assert_eq!(fit("a\x1b[31m\n", 20), "a\u{fffd}[31m\u{fffd}");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("🦀🦀🦀", 4), "🦀…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(columns("ἀρχή"), 4, "only characters that are wide take two columns");
        assert_eq!(columns("漢字"), 4);
    }

    #[test]
    fn a_full_name_is_escaped_reversibly() {
        assert_eq!(escaped("a b/é🦀".as_bytes()), "a b/é🦀");
        assert_eq!(
            escaped(b"a\nb\x1b[31m\\n\xff\xe2\x80\xae"),
            "a\\nb\\u{1b}[31m\\\\n\\xff\\u{202e}"
        );
    }

    #[test]
    fn a_path_is_cut_at_a_slash() {
        let path = "/usr/lib/firefox-esr/libxul.so";
        assert_eq!(fit_end(path, 30), path);
        assert_eq!(fit_end(path, 29), "…/lib/firefox-esr/libxul.so");
        assert_eq!(fit_end(path, 25), "…/firefox-esr/libxul.so");
        assert_eq!(fit_end(path, 6), "…ul.so");
        assert_eq!(fit_end(path, 1), "…");
    }

    #[test]
    fn shares_of_few_samples_are_marked() {
        assert_eq!(
            [estimate(1, 2), estimate(0, 0), estimate(9, 19)],
            ["1 of 2", "0 of 0", "9 of 19"]
        );
        assert_eq!([estimate(10, 20), estimate(100, 100)], ["50 ± 20 %", "100 ± 3 %"]);
        assert_eq!(
            [estimate(200, 400), counted(10, 20), counted(1, 19)],
            ["50.0 %", "50.0 %", "1 of 19"]
        );
    }

    #[test]
    fn a_name_that_is_shortened_in_the_middle_keeps_its_end() {
        assert_eq!(fit_middle("libQt6WebEngineCore.so.6", 21), "libQt6WebE…eCore.so.6");
        assert_eq!(
            [fit_middle("abc", 3), fit_middle("abcd", 3), fit_middle("a\n", 2)],
            ["abc", "a…d", "a\u{fffd}"]
        );
    }

    proptest! {
        #[test]
        fn a_shortened_name_keeps_its_end(name: String, width in 1usize..100) {
            prop_assert!(columns(&fit_middle(&name, width)) <= width);
        }

        #[test]
        fn a_path_fits(path in "(/\\PC{0,20}){0,5}", width in 1usize..100) {
            prop_assert!(columns(&fit_end(&path, width)) <= width);
        }

        #[test]
        fn a_name_fits(name: String, width in 1usize..100) {
            prop_assert!(columns(&fit(&name, width)) <= width);
        }
    }
}
