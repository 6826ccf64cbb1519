//! The time range from one marker to another, or during one, of those that the program or its own profiler wrote.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::lookup::Lookup as _;
use super::select::glob;
use super::text::{count, duration, fit};
use base::addr::Timestamp;
use base::similar;
use fact::{EventKind, FactSink, GeckoMark, Mark, MarkKind, SampleFact, Tables};

/// Maximum number of names from which those in an error are chosen.
const NAMES: usize = 4096;
/// Maximum width of a name in an error.
const WIDTH: usize = 40;

/// No marker matches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BetweenError {
    /// There is none with such a name, or none after the first.
    #[error("no marker matches {what}{after}{others}")]
    Missing {
        /// The option and its value, or the value and the window of a budget.
        what: String,
        /// What else it would have to fulfill.
        after: &'static str,
        /// Names of other markers, as a sentence.
        others: String,
    },
    /// All that match are moments.
    #[error(
        "markers that match {what} are moments without a duration; select the time from or up to one (--from-marker, \
         --to-marker)"
    )]
    NoDuration {
        /// As above.
        what: String,
    },
    /// The recording has no markers.
    #[error("the recording contains no markers of the program; see `ngmi record --gecko`")]
    None,
}

/// Which part of a recording is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// From the start of the first marker that matches one pattern, to the end of the first that matches the other and
    /// ends after it.
    Between(Option<String>, Option<String>),
    /// During the longest marker that matches.
    During(String),
}

/// Finds the markers while facts arrive.
#[derive(Debug, Clone)]
pub struct Between {
    part: Part,
    /// Name of the window in a budget; `None`: options name the markers.
    window: Option<String>,
    /// Start of the first marker that matches.
    start: Option<Timestamp>,
    /// Ends of all that match.
    ends: Vec<Timestamp>,
    lasting: Lasting,
    /// Names of some markers.
    names: BTreeSet<String>,
}

/// Markers that match and may last.
#[derive(Debug, Clone, Default)]
struct Lasting {
    longest: Option<(Timestamp, Timestamp)>,
    /// Those with a duration.
    count: u64,
    has_moments: bool,
}

impl Between {
    /// For patterns of names: from the start of the first marker that matches `from`, to the end of the first that matches
    /// `to` and ends after it.
    pub fn new(from: Option<String>, to: Option<String>) -> Self {
        Self::of(Part::Between(from, to))
    }

    /// For the time of the longest marker that matches a pattern, the first of equally long ones.
    pub fn during(pattern: String) -> Self {
        Self::of(Part::During(pattern))
    }

    fn of(part: Part) -> Self {
        Self {
            part,
            window: None,
            start: None,
            ends: Vec::new(),
            lasting: Lasting::default(),
            names: BTreeSet::new(),
        }
    }

    /// For a window of a budget, which errors name.
    #[must_use]
    pub fn of_window(self, name: &str) -> Self {
        Self {
            window: Some(name.to_owned()),
            ..self
        }
    }

    /// The range, relative to the recording's start; `None`: unlimited.
    ///
    /// # Errors
    /// No marker matches.
    pub fn range(&self, tables: &Tables) -> Result<(Option<Duration>, Option<Duration>), BetweenError> {
        if self.names.is_empty() {
            return Err(BetweenError::None);
        }
        let (from, to) = match &self.part {
            Part::Between(from, to) => self.between(from.as_deref(), to.as_deref())?,
            Part::During(pattern) => {
                let (start, end) = self.longest(pattern)?;
                (Some(start), Some(end))
            }
        };
        let since = |time: Timestamp| time.since(tables.recording.start);
        Ok((from.map(since), to.map(since)))
    }

    /// Which of several markers was taken, in words.
    pub fn chosen(&self, tables: &Tables) -> Option<String> {
        let (Part::During(pattern), Some((start, end)), 2..) = (&self.part, self.lasting.longest, self.lasting.count)
        else {
            return None;
        };
        Some(format!(
            "{}: the longest of {} matching markers, from {} to {}",
            self.named("--span", pattern),
            count(self.lasting.count),
            duration(tables.time_ns(start)),
            duration(tables.time_ns(end))
        ))
    }

    fn between(
        &self,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>), BetweenError> {
        let from = match from {
            Some(pattern) => Some(self.start.ok_or_else(|| self.missing("--from-marker", pattern, ""))?),
            None => None,
        };
        let to = match to {
            Some(pattern) => {
                let ends = self.ends.iter().copied();
                let ends = ends.filter(|end| from.is_none_or(|from| *end > from));
                let after = if self.ends.is_empty() {
                    ""
                } else {
                    " after the first one"
                };
                Some(ends.min().ok_or_else(|| self.missing("--to-marker", pattern, after))?)
            }
            None => None,
        };
        Ok((from, to))
    }

    fn longest(&self, pattern: &str) -> Result<(Timestamp, Timestamp), BetweenError> {
        match self.lasting.longest {
            Some(longest) => Ok(longest),
            None if self.lasting.has_moments => Err(BetweenError::NoDuration {
                what: self.named("--span", pattern),
            }),
            None => Err(self.missing("--span", pattern, "")),
        }
    }

    fn missing(&self, option: &'static str, pattern: &str, after: &'static str) -> BetweenError {
        let names = self.names.iter().map(|name| fit(name, WIDTH));
        BetweenError::Missing {
            what: self.named(option, pattern),
            after,
            others: similar::sentence(&pattern.replace(['*', '?'], ""), names),
        }
    }

    /// What the user named.
    fn named(&self, option: &'static str, pattern: &str) -> String {
        let pattern = fit(pattern, WIDTH);
        match &self.window {
            Some(window) => format!("`{pattern}` of [markers.\"{}\"]", fit(window, WIDTH)),
            None => format!("{option} `{pattern}`"),
        }
    }
}

impl Lasting {
    fn add(&mut self, mark: &Mark) {
        let Some(end) = mark.end.filter(|end| *end > mark.start) else {
            self.has_moments = true;
            return;
        };
        self.count += 1;
        let order = |(start, end): (Timestamp, Timestamp)| (end.since(start), Reverse(start));
        let (this, longest) = ((mark.start, end), self.longest);
        if longest.is_none_or(|longest| order(this) > order(longest)) {
            self.longest = Some(this);
        }
    }
}

impl FactSink for Between {
    fn wants_stacks(&self, _: EventKind) -> bool {
        false
    }

    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, _: &Tables, mark: &Mark) {
        let (name, own) = match &mark.kind {
            MarkKind::Program { text } => (text.as_str(), None),
            MarkKind::Gecko(mark) => (&*mark.name, page_name(mark)),
            _ => return,
        };
        let fits = |pattern: &String| glob(pattern, name) || own.as_deref().is_some_and(|own| glob(pattern, own));
        match &self.part {
            Part::Between(from, to) => {
                if from.as_ref().is_some_and(fits) {
                    self.start = Some(self.start.map_or(mark.start, |start| start.min(mark.start)));
                }
                if to.as_ref().is_some_and(fits) {
                    self.ends.push(mark.end.unwrap_or(mark.start));
                }
            }
            Part::During(pattern) if fits(pattern) => self.lasting.add(mark),
            Part::During(_) => {}
        }
        for name in own.as_deref().into_iter().chain([name]) {
            if self.names.len() < NAMES && !self.names.contains(name) {
                self.names.insert(name.to_owned());
            }
        }
    }
}

/// The name that a page gave to its marker (`performance.mark`).
fn page_name(mark: &GeckoMark) -> Option<String> {
    let data = mark.data.as_deref().filter(|_| &*mark.name == "UserTiming")?;
    match serde_json::from_str::<Value>(data).ok()?.get_mut("name")?.take() {
        Value::String(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A failed unwrap fails the test.
mod tests {
    use std::sync::Arc;

    use super::*;
    use fact::ThreadId;

    fn mark(start: u64, end: Option<u64>, kind: MarkKind) -> Mark {
        Mark {
            start: Timestamp(start),
            end: end.map(Timestamp),
            thread: ThreadId(0),
            stack: None,
            kind,
        }
    }

    fn own(text: &str) -> MarkKind {
        MarkKind::Program { text: text.to_owned() }
    }

    fn gecko(name: &str, data: &str) -> MarkKind {
        MarkKind::Gecko(Arc::new(GeckoMark {
            name: name.into(),
            category: 0,
            data: Some(data.into()),
            times: Box::default(),
            image: None,
            flows: Box::default(),
        }))
    }

    /// The time span in ns, or the error.
    type Range = Result<(Option<u64>, Option<u64>), String>;

    fn found(mut between: Between) -> (Between, Range) {
        let tables = Tables::default();
        for mark in [
            mark(70, Some(80), own("paint")),
            mark(10, Some(30), own("load")),
            mark(40, Some(60), own("load")),
            mark(5, None, own("paint")),
            mark(20, None, gecko("UserTiming", r#"{"name":"ready","type":"UserTiming"}"#)),
            mark(25, None, gecko("DOMContentLoaded", "{}")),
            mark(1, None, MarkKind::ProcessStart),
        ] {
            between.mark(&tables, &mark);
        }
        let ns = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_nanos()).unwrap());
        let range = between.range(&tables);
        let range = range
            .map(|(from, to)| (ns(from), ns(to)))
            .map_err(|error| error.to_string());
        (between, range)
    }

    fn range(from: Option<&str>, to: Option<&str>) -> Result<(Option<u64>, Option<u64>), String> {
        found(Between::new(from.map(str::to_owned), to.map(str::to_owned))).1
    }

    #[test]
    fn the_range_is_from_the_first_start_to_the_first_end_after_it() {
        assert_eq!(range(Some("load"), Some("paint")), Ok((Some(10), Some(80))));
        assert_eq!(range(Some("load"), Some("load")), Ok((Some(10), Some(30))));
        assert_eq!(range(None, Some("paint")), Ok((None, Some(5))));
        assert_eq!(range(Some("ready"), Some("DOMContent*")), Ok((Some(20), Some(25))));
    }

    #[test]
    fn a_missing_marker_is_an_error_that_names_others() {
        let error = range(Some("lod"), None).unwrap_err();
        assert!(error.contains("--from-marker `lod`; similar: `load`"), "{error}");
        let error = range(Some("nothing"), None).unwrap_err();
        let all = "; there are: `paint`, `UserTiming`, `load`, `ready`, `DOMContentLoaded`";
        assert!(error.ends_with(all), "{error}");
        let error = range(Some("DOMContent*"), Some("ready")).unwrap_err();
        assert!(error.contains("`ready` after the first one"), "{error}");
        let error = range(Some("load"), Some("Process*")).unwrap_err();
        assert!(error.contains("--to-marker"), "{error}");
        let window = Between {
            names: BTreeSet::from(["load".to_owned()]),
            ..Between::new(Some("a".to_owned()), Some("b".to_owned())).of_window("a..b")
        };
        let error = window.range(&Tables::default()).unwrap_err().to_string();
        assert_eq!(error, "no marker matches `a` of [markers.\"a..b\"]; similar: `load`");
        let empty = Between::new(None, None).range(&Tables::default());
        assert_eq!(empty, Err(BetweenError::None));
    }

    #[test]
    fn a_span_is_that_of_the_longest_marker() {
        let during = |pattern: &str| found(Between::during(pattern.to_owned()));
        let (between, range) = during("load");
        // Of two that last equally long, the first one.
        assert_eq!(range, Ok((Some(10), Some(30))));
        let chosen = between.chosen(&Tables::default()).unwrap();
        assert_eq!(
            chosen,
            "--span `load`: the longest of 2 matching markers, from 10 ns to 30 ns"
        );
        let (between, range) = during("pa*");
        // One has no duration.
        assert_eq!(range, Ok((Some(70), Some(80))));
        assert_eq!(between.chosen(&Tables::default()), None);
        let error = during("ready").1.unwrap_err();
        assert!(error.contains("--span `ready` are moments"), "{error}");
        let error = during("Load*s").1.unwrap_err();
        assert_eq!(error, "no marker matches --span `Load*s`; similar: `load`");
    }
}
