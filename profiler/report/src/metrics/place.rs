//! Places to which metrics apply: the whole recording or a part of it, identified by names that are equal across recordings.

use serde::Serialize;

use super::Metric;
use crate::faults::phase::Phase;
use crate::select::glob;
use base::named;

named! {
    /// Dimension by which metrics are grouped.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum By {
        /// Not grouped: the whole recording.
        Total => "total",
        /// By phase of the process.
        Phase => "phase",
        /// By file: the owner of the page, bytes or code, or the object of the system call.
        File => "file",
        /// By section of the file that the page belongs to.
        Section => "section",
        /// By function of the program.
        Function => "function",
        /// By the names of the thread and its process.
        Thread => "thread",
    }
}

impl By {
    /// Whether a metric is available by this dimension.
    pub fn has_metric(self, metric: Metric) -> bool {
        match metric {
            Metric::Wall => self == Self::Total,
            // Of a function or file, `ngmi path` shows the part in a path.
            Metric::Path(_) => matches!(self, Self::Total | Self::Thread),
            // Running and waiting happen in functions, not in pages.
            Metric::Cpu | Metric::Wait(_) => self != Self::Section,
            _ => true,
        }
    }
}

/// The part of a recording that a value applies to, by names that stay the same across recordings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The whole recording.
    Total,
    /// A phase of processes.
    Phase(Phase),
    /// A file, by its path.
    File(String),
    /// A file and the name of a section in it.
    Section(String, String),
    /// A function and its module.
    Function(String, String),
    /// Threads, by the name of their process and their own.
    Thread(String, String),
}

impl Place {
    /// Dimension of the place.
    pub fn by(&self) -> By {
        match self {
            Self::Total => By::Total,
            Self::Phase(_) => By::Phase,
            Self::File(_) => By::File,
            Self::Section(..) => By::Section,
            Self::Function(..) => By::Function,
            Self::Thread(..) => By::Thread,
        }
    }

    /// Display name, unique within its dimension.
    pub fn name(&self) -> String {
        match self {
            Self::Total => "total".to_owned(),
            Self::Phase(phase) => phase.name().to_owned(),
            Self::File(path) => path.clone(),
            Self::Section(file, section) => format!("{file}:{section}"),
            Self::Function(function, module) if module.is_empty() => function.clone(),
            Self::Function(function, module) => format!("{function} ({module})"),
            Self::Thread(process, thread) if process == thread => thread.clone(),
            Self::Thread(process, thread) => format!("{process}/{thread}"),
        }
    }

    /// Whether a pattern matches the place. A pattern with a slash matches a file's whole path, others its last component. Functions
    /// and threads match by name, sections also as `FILE:SECTION`, threads also as `PROCESS/THREAD`.
    pub fn fits(&self, pattern: &str) -> bool {
        match self {
            Self::Total => true,
            Self::Phase(phase) => glob(pattern, phase.name()),
            Self::File(path) => path_fits(pattern, path),
            Self::Section(file, section) => match pattern.rsplit_once(':') {
                Some((of, pattern)) => glob(pattern, section) && path_fits(of, file),
                None => glob(pattern, section),
            },
            Self::Function(name, _) => name == pattern || glob(pattern, name),
            Self::Thread(process, thread) => match pattern.split_once('/') {
                Some((of, pattern)) if glob(of, process) && glob(pattern, thread) => true,
                _ => glob(pattern, thread),
            },
        }
    }
}

fn path_fits(pattern: &str, path: &str) -> bool {
    let base = path.rsplit('/').next().unwrap_or(path);
    glob(pattern, if pattern.contains('/') { path } else { base })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_displayed_names() {
        let file = Place::File("/usr/lib/libxul.so".into());
        assert!(file.fits("libxul.so") && file.fits("/usr/lib/*") && !file.fits("/libxul.so") && !file.fits("lib"));
        let section = Place::Section("/usr/lib/libxul.so".into(), ".data".into());
        assert!(section.fits(".data") && section.fits("libxul.so:.d*") && !section.fits("libc.so:.data"));
        let function = Place::Function("operator*".into(), "demo".into());
        assert!(function.fits("operator*") && !function.fits("operator"));
        let thread = Place::Thread("firefox".into(), "IPC I/O Parent".into());
        assert!(thread.fits("IPC I/O Parent") && thread.fits("firefox/IPC*") && !thread.fits("other/IPC*"));
    }
}
