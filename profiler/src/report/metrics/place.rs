//! What figures are of: the whole recording, or a part of it, by names that other recordings have too.

use serde::Serialize;

use super::Metric;
use crate::report::faults::phase::Phase;
use crate::report::select::glob;

/// By what a figure is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Not at all.
    Total,
    /// Phase of the process.
    Phase,
    /// File: whose page, whose bytes, whose code, or what the system call is about.
    File,
    /// Section of the file whose page it is.
    Section,
    /// Function of the program.
    Function,
    /// Thread, by its name and its process's.
    Thread,
}

impl By {
    /// Each, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Total,
        Self::Phase,
        Self::File,
        Self::Section,
        Self::Function,
        Self::Thread,
    ];

    /// As budgets and JSON call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Phase => "phase",
            Self::File => "file",
            Self::Section => "section",
            Self::Function => "function",
            Self::Thread => "thread",
        }
    }

    /// A figure is told by it.
    pub fn tells(self, metric: Metric) -> bool {
        match metric {
            Metric::Wall => self == Self::Total,
            // Running and waiting happen in functions, not in pages.
            Metric::Cpu | Metric::Wait(_) => self != Self::Section,
            _ => true,
        }
    }
}

/// What a figure is of, by names: the same thing has the same ones in every recording.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The whole recording.
    Total,
    /// A phase of the processes.
    Phase(Phase),
    /// A file's path.
    File(String),
    /// A section of a file.
    Section(String, String),
    /// A function, and its module.
    Function(String, String),
    /// Threads: their process's name, and theirs.
    Thread(String, String),
}

impl Place {
    /// What the recording is divided by.
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

    /// A name that tells it from the others that the recording is divided into.
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

    /// A pattern is about it: a file by its path if the pattern has a slash, else by its last part; functions and threads by their own
    /// names, sections as `FILE:SECTION`.
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
    fn patterns_are_about_names_as_a_person_knows_them() {
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
