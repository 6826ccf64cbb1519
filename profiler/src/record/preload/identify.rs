//! Builds a list of what a recording needed: each file is checked in its current state.

use std::collections::BTreeMap;

use super::{Skip, build_id, changed, open_listed};
use crate::addr::PAGE;
use crate::report::preload::{FileNeed, List, Listed, Range, Read};

/// The result of identifying a recording's files.
#[derive(Debug, Default)]
pub struct Identified {
    /// What to read ahead.
    pub list: List,
    /// Files that are not in the list: the reason, with their paths and needed bytes.
    pub left_out: BTreeMap<String, Vec<(String, u64)>>,
}

/// Checks the files, and builds a list of the ranges of those that are unchanged since the recording, which began at
/// `start_unix_ms`.
pub fn identify(files: &[FileNeed], ranges: &[Range], start_unix_ms: u64) -> Identified {
    let mut made = Identified::default();
    let mut numbers: Vec<Option<u32>> = Vec::with_capacity(files.len());
    for file in files {
        let looked = if file.pages.is_empty() {
            numbers.push(None);
            continue;
        } else {
            look(file, start_unix_ms)
        };
        numbers.push(match looked {
            Ok(listed) => {
                made.list.files.push(listed);
                u32::try_from(made.list.files.len() - 1).ok()
            }
            Err(skip) => {
                let needed = file.pages.len() as u64 * PAGE;
                let of_reason = made.left_out.entry(reason(skip)).or_default();
                of_reason.push((file.path.clone(), needed));
                None
            }
        });
    }
    for range in ranges {
        let Some(Some(number)) = numbers.get(range.file) else {
            continue;
        };
        let size = made.list.files.get(*number as usize).map_or(0, |file| file.size);
        let len = range.len.min(size.saturating_sub(range.offset));
        if len > 0 {
            made.list.reads.push(Read {
                file: *number,
                offset: range.offset,
                len,
            });
        }
    }
    made
}

fn look(file: &FileNeed, start_unix_ms: u64) -> Result<Listed, Skip> {
    if !file.path.starts_with('/') {
        return Err(Skip::Nameless);
    }
    if file.deleted {
        return Err(Skip::Gone);
    }
    let (opened, metadata) = open_listed(file.path.as_bytes())?;
    let (seconds, ns) = changed(&metadata);
    let id = build_id(&opened);
    let changed_ms = i128::from(seconds) * 1000 + i128::from(ns / 1_000_000);
    let is_same = if file.build_id.is_empty() {
        changed_ms < i128::from(start_unix_ms)
    } else {
        file.build_id == id
    };
    if !is_same {
        return Err(Skip::Changed);
    }
    Ok(Listed {
        path: file.path.clone().into_bytes(),
        size: metadata.len(),
        changed: (seconds, ns),
        build_id: id,
    })
}

fn reason(skip: Skip) -> String {
    match skip {
        Skip::Changed => "changed during or after the recorded run".to_owned(),
        _ => skip.to_string(),
    }
}
