//! Every text in a recording that comes from the recorded machine, for listing or removing what it reveals.

use std::sync::Arc;

use serde_json::Value;

use crate::reduce::budget::Collected;
use crate::{FrameName, GeckoMark, MarkKind, Tables};

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Path of a program, library, data file or source file.
    Path,
    /// Name of a function or an object.
    Function,
    /// Anything else: names of processes and threads, the program's own markers, notes.
    Text,
}

/// Passes each text to `take`, which may change it. Excludes argument lists: see [`programs`].
pub fn each(tables: &mut Tables, collected: &mut Collected, take: &mut dyn FnMut(Kind, &mut String)) {
    of_tables(tables, take);
    for thread in &mut collected.threads {
        for mark in &mut thread.marks {
            match &mut mark.kind {
                MarkKind::Exec { path, .. } => take(Kind::Path, path),
                MarkKind::Program { text } => take(Kind::Text, text),
                MarkKind::Gecko(mark) => of_gecko(Arc::make_mut(mark), take),
                MarkKind::ProcessStart | MarkKind::ProcessExit { .. } => {}
            }
        }
        let locks = thread.waits.iter_mut().filter_map(|wait| wait.lock.as_mut());
        locks
            .filter_map(|lock| lock.name.as_mut())
            .for_each(|name| shared(Kind::Function, name, take));
        let calls = thread.waits.iter_mut().filter_map(|wait| wait.call.as_mut());
        calls
            .filter_map(|call| call.path.as_mut())
            .for_each(|path| take(Kind::Path, path));
    }
    let bios = collected.requests.iter_mut().flat_map(|request| &mut request.bios);
    bios.for_each(|bio| take(Kind::Text, &mut bio.name));
}

fn of_tables(tables: &mut Tables, take: &mut dyn FnMut(Kind, &mut String)) {
    let recording = &mut tables.recording;
    take(Kind::Function, &mut recording.kernel);
    recording.notes.iter_mut().for_each(|note| take(Kind::Text, note));
    let pages = recording.gecko.iter_mut().flat_map(|gecko| &mut gecko.pages);
    pages.for_each(|page| take(Kind::Text, &mut page.url));
    let counters = recording.gecko.iter_mut().flat_map(|gecko| &mut gecko.counters);
    for counter in counters {
        let texts = [&mut counter.name, &mut counter.category, &mut counter.description];
        for text in texts {
            take(Kind::Text, text);
        }
    }
    recording
        .end_reason
        .iter_mut()
        .for_each(|reason| take(Kind::Text, reason));
    for hook in &mut recording.hooks {
        let words = [&mut hook.refused, &mut hook.remedy];
        words.into_iter().flatten().for_each(|words| take(Kind::Text, words));
    }
    let refused = recording.cost.iter_mut().flat_map(|cost| &mut cost.programs_refused);
    refused.for_each(|refused| take(Kind::Text, refused));
    for container in &mut recording.containers {
        let pod = container.pod.iter_mut();
        let of_pod = pod.flat_map(|pod| [&mut pod.namespace, &mut pod.name, &mut pod.uid]);
        let own = [&mut container.id].into_iter().chain(&mut container.name);
        of_pod.chain(own).for_each(|name| take(Kind::Text, name));
    }
    for usage in &mut recording.cgroup_usage {
        take(Kind::Text, &mut usage.path);
    }
    let ends = [
        &mut recording.stack_ends,
        &mut recording.fault_stack_ends,
        &mut recording.wait_stack_ends,
    ];
    ends.into_iter()
        .flatten()
        .for_each(|end| take(Kind::Text, &mut end.module));
    for process in &mut tables.processes {
        take(Kind::Text, &mut process.name);
        take(Kind::Path, &mut process.path);
        process
            .cgroup
            .iter_mut()
            .for_each(|cgroup| shared(Kind::Text, cgroup, take));
    }
    tables
        .threads
        .iter_mut()
        .for_each(|thread| take(Kind::Text, &mut thread.name));
    for module in &mut tables.modules {
        take(Kind::Text, &mut module.name);
        take(Kind::Path, &mut module.path);
        module.problem.iter_mut().for_each(|problem| take(Kind::Text, problem));
    }
    for file in &mut tables.files {
        shared(Kind::Path, &mut file.path, take);
        file.sections
            .iter_mut()
            .for_each(|section| take(Kind::Function, &mut section.name));
        file.symbols
            .iter_mut()
            .for_each(|symbol| take(Kind::Function, &mut symbol.name));
        file.variables
            .iter_mut()
            .for_each(|variable| take(Kind::Function, &mut variable.name));
    }
    tables
        .devices
        .iter_mut()
        .for_each(|device| take(Kind::Text, &mut device.name));
    tables.names.values_mut().for_each(|name| of_name(name, take));
    let sources = std::mem::take(&mut tables.sources).into_iter();
    let renamed = sources.map(|(mut path, mut text)| {
        take(Kind::Path, &mut path);
        take(Kind::Text, &mut text);
        (path, text)
    });
    tables.sources = renamed.collect();
}

/// The name, and each text in the payload.
fn of_gecko(mark: &mut GeckoMark, take: &mut dyn FnMut(Kind, &mut String)) {
    shared(Kind::Text, &mut mark.name, take);
    let Some(data) = &mut mark.data else { return };
    let Ok(mut payload) = serde_json::from_str::<Value>(data) else {
        mark.data = None; // not written by us: nothing is known about its texts
        return;
    };
    let mut is_changed = false;
    of_json(&mut payload, &mut |text| {
        let before = text.clone();
        take(Kind::Text, text);
        is_changed |= *text != before;
    });
    if is_changed {
        *data = payload.to_string().into();
    }
}

fn of_json(value: &mut Value, take: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter_mut().for_each(|item| of_json(item, take)),
        // A type is a word of the format.
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(key, _)| *key != "type")
            .for_each(|(_, field)| of_json(field, take)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn of_name(name: &mut FrameName, take: &mut dyn FnMut(Kind, &mut String)) {
    shared(Kind::Function, &mut name.symbol, take);
    for frame in &mut name.inline_chain {
        shared(Kind::Function, &mut frame.function, take);
        frame.file.iter_mut().for_each(|file| shared(Kind::Path, file, take));
    }
}

/// A text that may be shared: other holders keep the old value.
fn shared(kind: Kind, text: &mut Arc<str>, take: &mut dyn FnMut(Kind, &mut String)) {
    let mut own = text.to_string();
    take(kind, &mut own);
    if *own != **text {
        *text = own.into();
    }
}

/// A program that ran, and its arguments.
pub struct Program<'a> {
    /// Path or name of the program; `None` for the arguments typed by the user.
    pub path: Option<&'a str>,
    /// Its arguments, starting with the program.
    pub command_line: &'a mut Vec<String>,
}

/// Every argument list; shared ones are separate afterwards.
pub fn programs<'a>(tables: &'a mut Tables, collected: &'a mut Collected) -> impl Iterator<Item = Program<'a>> {
    let own = std::iter::once(Program {
        path: None,
        command_line: &mut tables.recording.command,
    });
    let processes = tables.processes.iter_mut().map(|process| Program {
        path: Some(if process.path.is_empty() {
            &process.name
        } else {
            &process.path
        }),
        command_line: Arc::make_mut(&mut process.command_line),
    });
    let marks = collected.threads.iter_mut().flat_map(|thread| &mut thread.marks);
    let execs = marks.filter_map(|mark| match &mut mark.kind {
        MarkKind::Exec { path, command_line } => Some(Program {
            path: Some(path),
            command_line: Arc::make_mut(command_line),
        }),
        _ => None,
    });
    own.chain(processes).chain(execs)
}
