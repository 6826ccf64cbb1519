//! Marks as markers: their payloads, and the schemas that describe them to the front end.

use std::borrow::Cow;
use std::sync::Arc;

use fxprof_processed_profile::{
    MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, Profile, RuntimeSchemaMarkerField, RuntimeSchemaMarkerSchema,
};
use serde::{Deserialize, Serialize};

use super::shell;
use fact::{Mark, MarkKind};

/// Maximum length of a marker name, which is a row of the chart; the payload contains the full
/// text.
const NAME_LIMIT: usize = 100;

/// The payload of a marker; the front end shows the fields that the schema names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Payload<'a> {
    /// [`MarkKind::ProcessStart`]
    ProcessStart,
    /// [`MarkKind::Exec`]
    Exec {
        /// Path of the program.
        path: Cow<'a, str>,
        /// Its arguments, quoted for a shell.
        #[serde(rename = "commandLine")]
        command_line: String,
    },
    /// [`MarkKind::ProcessExit`]
    ProcessExit {
        /// Wait status.
        status: u32,
        /// The status in words.
        result: String,
    },
    /// [`MarkKind::Program`]
    Program {
        /// The text that the program wrote.
        text: Cow<'a, str>,
    },
}

impl<'a> Payload<'a> {
    /// The payload of a mark; `None` for a marker of Firefox's own profiler, which has its own.
    pub fn of(kind: &'a MarkKind) -> Option<Self> {
        Some(match kind {
            MarkKind::Gecko(_) => return None,
            MarkKind::ProcessStart => Self::ProcessStart,
            MarkKind::Exec { path, command_line } => Self::Exec {
                path: Cow::Borrowed(path),
                command_line: shell::join(command_line),
            },
            MarkKind::ProcessExit { status } => Self::ProcessExit {
                status: *status,
                result: exit_words(*status),
            },
            MarkKind::Program { text } => Self::Program {
                text: Cow::Borrowed(text),
            },
        })
    }
}

impl Payload<'_> {
    /// Converts back to the fact; `None` if no fact has such a payload.
    pub fn into_kind(self) -> Option<MarkKind> {
        Some(match self {
            Self::ProcessStart => MarkKind::ProcessStart,
            Self::Exec { path, command_line } => MarkKind::Exec {
                path: path.into_owned(),
                command_line: Arc::new(shell::split(&command_line)?),
            },
            Self::ProcessExit { status, .. } => MarkKind::ProcessExit { status },
            Self::Program { text } => MarkKind::Program {
                text: text.into_owned(),
            },
        })
    }
}

/// Describes a wait status in words.
pub fn exit_words(status: u32) -> String {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("exit status {code}"),
        (signal, _) => format!("killed by signal {signal}"),
    }
}

/// The marker name in the chart.
pub fn name(mark: &Mark) -> Cow<'_, str> {
    match &mark.kind {
        MarkKind::Gecko(mark) => Cow::Borrowed(&mark.name),
        MarkKind::ProcessStart => Cow::Borrowed("Process start"),
        MarkKind::Exec { .. } => Cow::Borrowed("Exec"),
        MarkKind::ProcessExit { .. } => Cow::Borrowed("Process exit"),
        MarkKind::Program { text } => {
            let line = text.lines().next().unwrap_or_default();
            let end = line.char_indices().nth(NAME_LIMIT).map_or(line.len(), |(end, _)| end);
            Cow::Borrowed(&line[..end])
        }
    }
}

/// Registers each payload type.
pub fn add_schemas(profile: &mut Profile) {
    let field = |key: &str, label: &str, format| RuntimeSchemaMarkerField {
        key: key.into(),
        label: label.into(),
        format,
        flags: MarkerFieldFlags::empty(),
    };
    let schema = |name: &str, label: &str, description: &str, fields| RuntimeSchemaMarkerSchema {
        type_name: name.into(),
        description: Some(description.into()),
        locations: MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE | MarkerLocations::TIMELINE_OVERVIEW,
        chart_label: (!label.is_empty()).then(|| label.into()),
        tooltip_label: None,
        table_label: (!label.is_empty()).then(|| label.into()),
        fields,
        graphs: Vec::new(),
    };
    profile.register_marker_type(schema("ProcessStart", "", "The process started.", Vec::new()));
    profile.register_marker_type(schema(
        "Exec",
        "{marker.data.commandLine}",
        "The process replaced its program.",
        vec![
            field("path", "Program", MarkerFieldFormat::FilePath),
            field("commandLine", "Command line", MarkerFieldFormat::SanitizedString),
        ],
    ));
    profile.register_marker_type(schema(
        "ProcessExit",
        "{marker.data.result}",
        "The process ended.",
        vec![
            field("result", "Result", MarkerFieldFormat::SanitizedString),
            field("status", "Wait status", MarkerFieldFormat::Integer),
        ],
    ));
    profile.register_marker_type(schema(
        "Program",
        "{marker.data.text}",
        "The program wrote this marker itself.",
        vec![field("text", "Text", MarkerFieldFormat::SanitizedString)],
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::addr::Timestamp;

    #[test]
    fn a_wait_status_is_described() {
        assert_eq!(exit_words(3 << 8), "exit status 3");
        assert_eq!(exit_words(0x8b), "killed by signal 11");
    }

    #[test]
    fn a_long_text_becomes_a_short_name() {
        let kind = MarkKind::Program {
            text: format!("{}\nsecond line", "é".repeat(300)),
        };
        let mark = Mark {
            start: Timestamp(0),
            end: None,
            thread: fact::ThreadId(0),
            stack: None,
            kind,
        };
        assert_eq!(name(&mark), "é".repeat(NAME_LIMIT));
    }
}
