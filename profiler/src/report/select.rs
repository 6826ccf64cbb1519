//! Which of the things of a recording are asked for by name: patterns, looked up once in its tables.

use std::time::Duration;

use super::functions::Functions;
use crate::fact::{MappedFile, Tables};

/// A condition that nothing in the recording can fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {what} with {of} is called `{pattern}`; `ngmi {verb} FILE` without --{option} lists them")]
pub struct SelectError {
    what: &'static str,
    of: &'static str,
    verb: &'static str,
    option: &'static str,
    pattern: String,
}

/// How an error speaks of what is selected.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The verb.
    pub verb: &'static str,
    /// What it is about: `faults`.
    pub of: &'static str,
}

/// What is looked up by name in every report.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// For errors.
    pub words: Words,
    /// Of the recording.
    pub tables: &'a Tables,
    /// Those of its frames.
    pub functions: &'a Functions,
}

/// By index: the thing is wanted; `None`: each is.
pub type Wanted = Option<Vec<bool>>;

impl Names<'_> {
    /// By file.
    ///
    /// # Errors
    /// As [`fits`]; so do the others.
    pub fn files(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        fits(self.words, patterns, &self.tables.files, ("file", "file"), file_fits)
    }

    /// By process.
    pub fn processes(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        let processes = &self.tables.processes;
        fits(
            self.words,
            patterns,
            processes,
            ("process", "process"),
            |process, pattern| id_or_name(process.pid, &process.name, pattern),
        )
    }

    /// By thread.
    pub fn threads(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        let threads = &self.tables.threads;
        fits(
            self.words,
            patterns,
            threads,
            ("thread", "thread"),
            |thread, pattern| id_or_name(thread.tid, &thread.name, pattern),
        )
    }

    /// By function.
    pub fn functions(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        self.functions_for("function", patterns)
    }

    /// By stack: a function in it is wanted.
    pub fn under(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        let wanted = self.functions_for("under", patterns)?;
        Ok(wanted.map(|wanted| stacks_under(self.tables, self.functions, &wanted)))
    }

    fn functions_for(self, option: &'static str, patterns: &[String]) -> Result<Wanted, SelectError> {
        let functions = &self.functions.all;
        fits(
            self.words,
            patterns,
            functions,
            ("function", option),
            |function, pattern| glob(pattern, &function.name),
        )
    }
}

/// A part of a recording, in time since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    from: Duration,
    to: Option<Duration>,
}

impl Span {
    /// Not before `from`, and before `to`.
    pub fn new(from: Option<Duration>, to: Option<Duration>) -> Self {
        Self {
            from: from.unwrap_or_default(),
            to,
        }
    }

    /// The time is in it.
    pub fn has(self, time: Duration) -> bool {
        time >= self.from && self.to.is_none_or(|to| time < to)
    }
}

/// Whether the thing with this index is wanted; `wanted` is what [`fits`] said.
pub fn takes(wanted: Option<&[bool]>, index: Option<usize>) -> bool {
    wanted.is_none_or(|wanted| index.and_then(|index| wanted.get(index)) == Some(&true))
}

/// Which items fit any of the patterns; `None`: there are no patterns.
///
/// # Errors
/// When nothing fits one of them: probably a slip.
pub fn fits<T>(
    words: Words,
    patterns: &[String],
    items: &[T],
    (what, option): (&'static str, &'static str),
    fits: impl Fn(&T, &str) -> bool,
) -> Result<Wanted, SelectError> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut wanted = vec![false; items.len()];
    for pattern in patterns {
        let mut any = false;
        for (item, wanted) in items.iter().zip(&mut wanted) {
            if fits(item, pattern) {
                (any, *wanted) = (true, true);
            }
        }
        if !any {
            return Err(SelectError {
                what,
                of: words.of,
                verb: words.verb,
                option,
                pattern: super::text::fit(pattern, 200),
            });
        }
    }
    Ok(Some(wanted))
}

/// By stack: one of the functions is in it.
fn stacks_under(tables: &Tables, functions: &Functions, wanted: &[bool]) -> Vec<bool> {
    let mut under: Vec<bool> = Vec::with_capacity(tables.stacks.len());
    for node in &tables.stacks {
        // A parent comes before its children, so it is known; anything else is no parent.
        let above = node.parent.and_then(|parent| under.get(parent.index())) == Some(&true);
        let mut own = functions.of_frame(node.frame).iter();
        let here = above || own.any(|id| wanted.get(id.0 as usize) == Some(&true));
        under.push(here);
    }
    under
}

/// By its path.
pub fn file_fits(file: &MappedFile, pattern: &str) -> bool {
    path_fits(&file.path, pattern)
}

/// A pattern with a slash is about the whole path, others are about its last part.
pub fn path_fits(path: &str, pattern: &str) -> bool {
    let base = path.rsplit('/').next().unwrap_or(path);
    glob(pattern, path) || (!pattern.contains('/') && glob(pattern, base))
}

/// A pattern that is a number is about the id, and any about the name.
pub fn id_or_name(id: u32, name: &str, pattern: &str) -> bool {
    pattern.parse() == Ok(id) || glob(pattern, name)
}

/// Whether a name is the pattern, in which `*` stands for anything and `?` for one character.
pub fn glob(pattern: &str, name: &str) -> bool {
    if pattern == name {
        return true;
    }
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // Where to go on when the rest does not fit: behind the last `*`, one character later.
    let mut again = None;
    loop {
        let mut ahead = pattern.clone();
        match ahead.next() {
            Some('*') => {
                pattern = ahead;
                again = Some((pattern.clone(), name.clone()));
                continue;
            }
            Some(wanted) => {
                let mut rest = name.clone();
                if rest.next().is_some_and(|c| c == wanted || wanted == '?') {
                    (pattern, name) = (ahead, rest);
                    continue;
                }
            }
            None if name.as_str().is_empty() => return true,
            None => {}
        }
        let Some((behind, mut from)) = again.take() else {
            return false;
        };
        if from.next().is_none() {
            return false;
        }
        again = Some((behind.clone(), from.clone()));
        (pattern, name) = (behind, from);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("libxul.so", "libxul.so", true),
            ("lib*.so*", "libc.so.6", true),
            ("lib*.so", "libc.so.6", false),
            ("*", "", true),
            ("?", "", false),
            ("?", "é", true),
            ("a*b*c", "a b b d c", true),
            ("a*b*c", "a c b", false),
            ("operator*", "operator*", true),
        ] {
            assert_eq!(glob(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_that_backtracks_is_not_slow() {
        assert!(!glob(&"*a".repeat(1000), &"a".repeat(999)));
    }

    proptest! {
        #[test]
        fn a_pattern_made_of_the_name_fits(name in "[a-c?*é]{0,20}", from in 0..20_usize, to in 0..20_usize) {
            let chars: Vec<char> = name.chars().collect();
            let (from, to) = (from.min(to).min(chars.len()), from.max(to).min(chars.len()));
            let pattern: String = chars[..from].iter().chain(&['*']).chain(&chars[to..]).collect();
            prop_assert!(glob(&pattern, &name), "{} {}", pattern, name);
        }
    }
}
