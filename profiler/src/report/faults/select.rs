//! Which faults are asked for. Within one kind of condition any may fit, and every kind has to.

use std::time::Duration;

use super::functions::FunctionId;
use super::view::View;
use crate::fact::fault::{FaultClass, MappedFile};
use crate::fact::{FaultFact, Process, StackId, Thread};

/// What a person asked for; empty lists ask for everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Path, base name or pattern of a file.
    pub files: Vec<String>,
    /// Process id, or name or pattern.
    pub processes: Vec<String>,
    /// Thread id, or name or pattern.
    pub threads: Vec<String>,
    /// Classes.
    pub classes: Vec<FaultClass>,
    /// Name or pattern of the function that the fault belongs to.
    pub functions: Vec<String>,
    /// Name or pattern of a function anywhere in the stack.
    pub under: Vec<String>,
    /// Not before this time since the recording's start.
    pub from: Option<Duration>,
    /// Before this time since the recording's start.
    pub to: Option<Duration>,
    /// Only those that the kernel counts as major.
    pub major: bool,
    /// Only those that waited for a read.
    pub waited: bool,
}

/// A condition that nothing in the recording can fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {what} with faults is called `{pattern}`; `ngmi faults FILE` without --{option} lists them")]
pub struct SelectError {
    what: &'static str,
    option: &'static str,
    pattern: String,
}

/// A selection, looked up once in the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    files: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    functions: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    classes: Vec<FaultClass>,
    from: Duration,
    to: Option<Duration>,
    major: bool,
    waited: bool,
}

impl Selector {
    /// Looks names up.
    ///
    /// # Errors
    /// When nothing of the recording has such a name: probably a slip.
    pub fn new(view: &View<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let tables = view.tables;
        let files = fits(&selection.files, &tables.files, ("file", "file"), file_fits)?;
        let processes = fits(
            &selection.processes,
            &tables.processes,
            ("process", "process"),
            |process: &Process, pattern| id_or_name(process.pid, &process.name, pattern),
        )?;
        let mut threads = fits(
            &selection.threads,
            &tables.threads,
            ("thread", "thread"),
            |thread: &Thread, pattern| id_or_name(thread.tid, &thread.name, pattern),
        )?;
        if let Some(processes) = processes {
            let of_process = (tables.threads.iter()).map(|thread| processes.get(thread.process.index()) == Some(&true));
            threads = Some(match threads {
                Some(threads) => threads
                    .iter()
                    .zip(of_process)
                    .map(|(one, other)| *one && other)
                    .collect(),
                None => of_process.collect(),
            });
        }
        let by_name = |patterns: &[String], option| {
            fits(
                patterns,
                &view.functions.all,
                ("function", option),
                |function, pattern| glob(pattern, &function.name),
            )
        };
        Ok(Self {
            files,
            threads,
            functions: by_name(&selection.functions, "function")?,
            stacks: by_name(&selection.under, "under")?.map(|functions| stacks_under(view, &functions)),
            classes: selection.classes.clone(),
            from: selection.from.unwrap_or_default(),
            to: selection.to,
            major: selection.major,
            waited: selection.waited,
        })
    }

    /// The fault is asked for.
    pub fn takes(&self, view: &View<'_>, fault: &FaultFact) -> bool {
        let time = fault.start.since(view.tables.recording.start);
        (!self.major || fault.major)
            && (!self.waited || fault.waited())
            && (self.classes.is_empty() || self.classes.contains(&fault.class))
            && time >= self.from
            && self.to.is_none_or(|to| time < to)
            && takes(self.files.as_deref(), fault.place.map(|place| place.file.index()))
            && takes(self.threads.as_deref(), Some(fault.thread.index()))
            && takes(self.stacks.as_deref(), fault.stack.map(StackId::index))
            && (self.functions.is_none()
                || takes(
                    self.functions.as_deref(),
                    view.function(fault).map(|FunctionId(id)| id as usize),
                ))
    }
}

fn takes(wanted: Option<&[bool]>, index: Option<usize>) -> bool {
    wanted.is_none_or(|wanted| index.and_then(|index| wanted.get(index)) == Some(&true))
}

/// Which items fit any of the patterns; `None`: there are no patterns.
fn fits<T>(
    patterns: &[String],
    items: &[T],
    (what, option): (&'static str, &'static str),
    fits: impl Fn(&T, &str) -> bool,
) -> Result<Option<Vec<bool>>, SelectError> {
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
                option,
                pattern: super::super::text::fit(pattern, 200),
            });
        }
    }
    Ok(Some(wanted))
}

/// By stack: one of the functions is in it.
fn stacks_under(view: &View<'_>, functions: &[bool]) -> Vec<bool> {
    let mut under: Vec<bool> = Vec::with_capacity(view.tables.stacks.len());
    for node in &view.tables.stacks {
        // A parent comes before its children, so it is known; anything else is no parent.
        let above = node.parent.and_then(|parent| under.get(parent.index())) == Some(&true);
        let own = view.functions.of_frame(node.frame).iter();
        let here = above || own.clone().any(|id| functions.get(id.0 as usize) == Some(&true));
        under.push(here);
    }
    under
}

/// A pattern with a slash is about the whole path, others are about its last part.
fn file_fits(file: &MappedFile, pattern: &str) -> bool {
    let base = file.path.rsplit('/').next().unwrap_or(&file.path);
    glob(pattern, &file.path) || (!pattern.contains('/') && glob(pattern, base))
}

fn id_or_name(id: u32, name: &str, pattern: &str) -> bool {
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
