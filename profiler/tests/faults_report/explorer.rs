//! The document of the explorer page: every column matches the facts, for all faults and for some,
//! whatever the names and numbers.

use std::collections::HashMap;
use std::io::Read as _;

use profiler::fact::upwards;
use profiler::fact::{FactSource as _, FrameId, ThreadId};
use profiler::report::explorer::{Facts, write};
use profiler::report::faults::{Selection, Selector, View};
use serde_json::Value;

use super::synthetic::{Made, empty, many};

const NONE: u32 = u32::MAX;

/// A document, parsed as profiler/report/src/explorer.rs describes.
struct Document {
    header: Value,
    columns: HashMap<String, Vec<u64>>,
}

impl Document {
    fn column(&self, name: &str) -> &[u64] {
        &self.columns[name]
    }

    fn string(&self, id: u64) -> &str {
        self.header["strings"][usize::try_from(id).unwrap()].as_str().unwrap()
    }
}

fn document(made: &Made, selection: &Selection) -> Document {
    let mut facts = Facts::default();
    let tables = made.clone().replay(&mut facts).unwrap();
    let view = View::new(&tables, &facts.faults);
    let selector = Selector::new(&view, selection).unwrap();
    let mut packed = Vec::new();
    write(&mut packed, &view, &selector, &facts, None).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut bytes)
        .unwrap();
    assert_eq!(&bytes[..8], b"NGMIPAGE");
    let number = |at: usize, width: usize| {
        let part = &bytes[at..at + width];
        part.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let end = 16 + usize::try_from(number(12, 4)).unwrap();
    let header: Value = serde_json::from_slice(&bytes[16..end]).unwrap();
    let mut at = end.next_multiple_of(8);
    let mut columns = HashMap::new();
    for column in header["columns"].as_array().unwrap() {
        let kind = column["type"].as_str().unwrap();
        let width = match kind {
            "u8" => 1,
            "u16" => 2,
            _ => 4,
        };
        let count = usize::try_from(column["count"].as_u64().unwrap()).unwrap();
        let mut values: Vec<u64> = (0..count).map(|row| number(at + row * width, width)).collect();
        for long in column["long"].as_array().unwrap_or(&Vec::new()) {
            values[usize::try_from(long[0].as_u64().unwrap()).unwrap()] = long[1].as_u64().unwrap();
        }
        if kind == "delta" {
            values.iter_mut().fold(0, |sum, value| {
                *value += sum;
                *value
            });
        }
        columns.insert(column["name"].as_str().unwrap().to_owned(), values);
        at = (at + count * width).next_multiple_of(8);
    }
    assert_eq!(at, bytes.len());
    Document { header, columns }
}

fn stack_of(document: &Document, mut node: u64) -> Vec<String> {
    let mut names = Vec::new();
    while node != u64::from(NONE) {
        let at = usize::try_from(node).unwrap();
        let function = usize::try_from(document.column("node_function")[at]).unwrap();
        names.push(document.string(document.column("function_name")[function]).to_owned());
        node = document.column("node_parent")[at];
    }
    names
}

fn same_as_the_facts(made: &Made) {
    let document = document(made, &Selection::default());
    let mut facts = Facts::default();
    let tables = made.clone().replay(&mut facts).unwrap();
    let view = View::new(&tables, &facts.faults);
    let frame_names = |frame: FrameId| match tables.names.get(&frame) {
        Some(name) => name
            .inline_chain
            .iter()
            .map(|inner| inner.function.to_string())
            .collect(),
        None => vec![tables.function_name(frame).into_owned()],
    };
    assert_eq!(document.header["totals"]["shown"], view.len());
    for (row, fault) in view.faults().enumerate() {
        let cell = |name: &str| document.column(name)[row];
        assert_eq!(cell("fault_start"), view.time_ns(&fault));
        let latency = fault
            .latency
            .map_or(u64::from(NONE), |time| u64::try_from(time.as_nanos()).unwrap());
        assert_eq!(cell("fault_duration"), latency);
        assert_eq!(cell("fault_thread"), u64::from(fault.thread.0));
        let class = &document.header["classes"][usize::try_from(cell("fault_class")).unwrap()];
        assert_eq!(class, fault.class.name());
        let file = &document.header["files"][usize::try_from(cell("fault_file")).unwrap()];
        match fault.place {
            Some(place) => {
                let path = document.string(file["path"].as_u64().unwrap());
                assert_eq!(path, &*view.file(place).unwrap().path);
                let page = place.offset.0 / 4096;
                assert_eq!(
                    cell("fault_page") * 4096 + cell("fault_in_page"),
                    page * 4096 + place.byte.0 % 4096
                );
            }
            None => assert_eq!(cell("fault_file"), u64::from(NONE)),
        }
        assert_eq!(cell("fault_flags") & 1 == 1, fault.major);
        assert_eq!(cell("fault_flags") & 2 == 2, fault.waited());
        let expected: Vec<String> = fault.stack.map_or_else(Vec::new, |stack| {
            upwards(&tables, stack).flat_map(frame_names).collect()
        });
        let shown = stack_of(&document, cell("fault_stack"));
        assert_eq!(shown.len(), expected.len());
        for (shown, expected) in shown.iter().zip(&expected) {
            assert_eq!(shown, expected);
        }
    }
}

#[test]
fn every_column_matches_the_facts() {
    same_as_the_facts(&many(300));
}

#[test]
fn the_selected_faults_only_but_pages_of_the_whole_recording() {
    let made = many(300);
    let all = document(&made, &Selection::default());
    let major = Selection {
        major: true,
        ..Selection::default()
    };
    let some = document(&made, &major);
    let expected = made.faults.iter().filter(|fault| fault.major).count();
    assert!(expected > 0 && expected < made.faults.len());
    assert_eq!(some.header["totals"]["shown"], expected);
    assert_eq!(some.header["totals"]["in_input"], made.faults.len());
    assert_eq!(some.column("read_first"), all.column("read_first"));
}

#[test]
fn a_recording_without_faults_is_a_document_too() {
    let document = document(&empty(), &Selection::default());
    assert_eq!(document.header["totals"]["shown"], 0);
    assert!(document.column("fault_start").is_empty());
}

#[test]
fn dangling_references_are_none() {
    let mut made = many(20);
    for (fault, number) in made.faults.iter_mut().zip(0u32..) {
        fault.thread = ThreadId(7_000 + number);
        if let Some(place) = &mut fault.place {
            place.offset.0 = u64::MAX - 4095;
            place.byte.0 = u64::MAX;
        }
    }
    for file in &mut made.tables.files {
        file.path = "é".repeat(1 << 20).into();
        file.sections.iter_mut().for_each(|section| section.size = u64::MAX);
    }
    let document = document(&made, &Selection::default());
    assert!(
        document
            .column("fault_thread")
            .iter()
            .all(|thread| *thread == u64::from(NONE))
    );
    assert!(
        document
            .column("fault_page")
            .iter()
            .all(|page| *page == u64::from(NONE))
    );
    assert!(
        document.header["strings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|name| name.as_str().unwrap().len() < 3_000)
    );
}
