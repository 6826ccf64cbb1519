//! Removes guesses from the names of addresses: samply-symbols names every address after the last
//! symbol before it, however far away that is. The front end asks for names on its own
//! (docs/profile.md), so a wrong one would look like any other.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::libraries::{Asked, Entry, Libraries};
use super::parse;
use crate::symbolicator::{BinaryRequest, Symbolicator};

/// The libraries and addresses of a request.
#[derive(Deserialize)]
struct Job {
    #[serde(rename = "memoryMap")]
    memory_map: Vec<(String, String)>,
    stacks: Vec<Vec<(i64, u32)>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Jobs {
    Many { jobs: Vec<Job> },
    One(Job),
}

/// The response without the names of functions that [`Symbolicator`] finds nameless. A library with
/// no other names counts as not found, so that the front end leaves it as it is.
///
/// # Errors
/// The request or the response is not of this protocol.
pub(super) fn removed(
    answer: &str,
    question: &str,
    libraries: &Libraries,
    symbolicator: &Symbolicator,
) -> Result<String, String> {
    let jobs = match parse(question)? {
        Jobs::Many { jobs } => jobs,
        Jobs::One(job) => vec![job],
    };
    let mut answer: Value = parse(answer)?;
    let results = answer.get_mut("results").and_then(Value::as_array_mut);
    for (result, job) in results.into_iter().flatten().zip(&jobs) {
        for (index, (name, id)) in (0..).zip(&job.memory_map) {
            let asked = Asked {
                debug_name: Some(name),
                debug_id: Some(id),
                code_id: None,
            };
            let named = libraries
                .find(asked)
                .ok()
                .and_then(|entry| name_again(result, (index, job), entry, symbolicator));
            if named == Some(false)
                && let Some(found) = result.get_mut("found_modules").and_then(Value::as_object_mut)
            {
                found.insert(format!("{name}/{id}"), Value::Bool(false));
            }
        }
    }
    Ok(answer.to_string())
}

/// Removes the guesses for one library. False: all names were guesses; `None`: there were none.
fn name_again(
    result: &mut Value,
    (index, job): (i64, &Job),
    entry: &Entry,
    symbolicator: &Symbolicator,
) -> Option<bool> {
    let stacks = result.get_mut("stacks")?.as_array_mut()?.iter_mut();
    let frames = stacks.zip(&job.stacks).flat_map(|(frames, asked)| {
        let frames = frames.as_array_mut().into_iter().flatten();
        frames.zip(asked).filter(|(_, (module, _))| *module == index)
    });
    let frames = frames.filter_map(|(frame, (_, address))| Some((frame.as_object_mut()?, *address)));
    let (doubtful, sure): (Vec<_>, Vec<_>) = frames
        .filter(|(frame, _)| frame.contains_key("function"))
        // Debug info has the bounds of its functions.
        .partition(|(frame, _)| !frame.contains_key("file"));
    if doubtful.is_empty() {
        return None;
    }
    let addresses: Vec<u32> = doubtful.iter().map(|(_, address)| *address).collect();
    let names = symbolicator.functions(&request(entry)?, &addresses).ok()?;
    let mut any_named = !sure.is_empty();
    for ((frame, _), name) in doubtful.into_iter().zip(names) {
        if name.is_some_and(|name| !name.is_nameless) {
            any_named = true;
        } else {
            forget(frame);
        }
    }
    Some(any_named)
}

fn forget(frame: &mut Map<String, Value>) {
    for field in ["function", "function_offset", "function_size", "inlines"] {
        frame.remove(field);
    }
}

fn request(entry: &Entry) -> Option<BinaryRequest> {
    let id = entry.code_id.as_deref()?;
    let byte = |at: usize| u8::from_str_radix(id.get(at..at + 2)?, 16).ok();
    Some(BinaryRequest {
        open_path: entry.usable.clone()?.into(),
        path: entry.path.clone().into(),
        build_id: (0..id.len()).step_by(2).map(byte).collect::<Option<_>>()?,
    })
}
