//! The time range from one marker to another, of those that the program or its own profiler wrote.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::select::glob;
use super::text::fit;
use base::addr::Timestamp;
use fact::{EventKind, FactSink, GeckoMark, Mark, MarkKind, SampleFact, Tables};

/// Maximum number of names in an error.
const EXAMPLES: usize = 12;
/// Maximum width of a name in an error.
const WIDTH: usize = 40;

/// No marker matches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BetweenError {
    /// There is none with such a name, or none after the first.
    #[error("no marker matches {what}{after}; there are: {others}")]
    Missing {
        /// The option and its value, or the value and the window of a budget.
        what: String,
        /// What else it would have to fulfill.
        after: &'static str,
        /// Names of other markers.
        others: String,
    },
    /// The recording has no markers.
    #[error("the recording contains no markers of the program; see `ngmi record --gecko`")]
    None,
}

/// Finds the markers while facts arrive.
#[derive(Debug, Clone, Default)]
pub struct Between {
    from: Option<String>,
    to: Option<String>,
    /// Name of the window in a budget; `None`: options name the markers.
    window: Option<String>,
    /// Start of the first marker that matches.
    start: Option<Timestamp>,
    /// Ends of all that match.
    ends: Vec<Timestamp>,
    /// Names of some markers.
    names: BTreeSet<String>,
}

impl Between {
    /// For patterns of names: from the start of the first marker that matches `from`, to the end of the first that matches
    /// `to` and ends after it.
    pub fn new(from: Option<String>, to: Option<String>) -> Self {
        Self {
            from,
            to,
            ..Self::default()
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
        let since = |time: Timestamp| time.since(tables.recording.start);
        let from = match &self.from {
            Some(pattern) => Some(self.start.ok_or_else(|| self.missing("--from-marker", pattern, ""))?),
            None => None,
        };
        let to = match &self.to {
            Some(pattern) => {
                let ends = self
                    .ends
                    .iter()
                    .copied()
                    .filter(|end| from.is_none_or(|from| *end > from));
                let after = if self.ends.is_empty() {
                    ""
                } else {
                    " after the first one"
                };
                Some(ends.min().ok_or_else(|| self.missing("--to-marker", pattern, after))?)
            }
            None => None,
        };
        Ok((from.map(since), to.map(since)))
    }

    fn missing(&self, option: &'static str, pattern: &str, after: &'static str) -> BetweenError {
        let others: Vec<String> = self.names.iter().map(|name| fit(name, WIDTH)).collect();
        let pattern = fit(pattern, WIDTH);
        let what = match &self.window {
            Some(window) => format!("`{pattern}` of [markers.\"{}\"]", fit(window, WIDTH)),
            None => format!("{option} `{pattern}`"),
        };
        BetweenError::Missing {
            what,
            after,
            others: others.join(", "),
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
        let fits = |pattern: &Option<String>| {
            let fits = |pattern: &String| glob(pattern, name) || own.as_deref().is_some_and(|own| glob(pattern, own));
            pattern.as_ref().is_some_and(fits)
        };
        if fits(&self.from) {
            self.start = Some(self.start.map_or(mark.start, |start| start.min(mark.start)));
        }
        if fits(&self.to) {
            self.ends.push(mark.end.unwrap_or(mark.start));
        }
        if self.names.len() < EXAMPLES && !self.names.contains(name) {
            self.names.insert(name.to_owned());
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

    fn range(from: Option<&str>, to: Option<&str>) -> Result<(Option<u64>, Option<u64>), String> {
        let mut between = Between::new(from.map(str::to_owned), to.map(str::to_owned));
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
        between
            .range(&tables)
            .map(|(from, to)| (ns(from), ns(to)))
            .map_err(|error| error.to_string())
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
        assert!(
            error.contains("--from-marker `lod`; there are: DOMContentLoaded, UserTiming, load, paint"),
            "{error}"
        );
        let error = range(Some("DOMContent*"), Some("ready")).unwrap_err();
        assert!(error.contains("`ready` after the first one"), "{error}");
        let error = range(Some("load"), Some("Process*")).unwrap_err();
        assert!(error.contains("--to-marker"), "{error}");
        let window = Between {
            names: BTreeSet::from(["load".to_owned()]),
            ..Between::new(Some("a".to_owned()), Some("b".to_owned())).of_window("a..b")
        };
        let error = window.range(&Tables::default()).unwrap_err().to_string();
        assert_eq!(error, "no marker matches `a` of [markers.\"a..b\"]; there are: load");
        assert!(Between::default().range(&Tables::default()).is_err());
    }
}
