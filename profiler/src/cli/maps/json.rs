//! Mappings and addresses as JSON. Addresses and offsets are strings: JSON numbers are exact only
//! up to 2⁵³.

use serde_json::{Value, json};

use super::lookup::Place;
use super::name;
use super::table::permissions;
use crate::capture::space::maps::Way;
use crate::event::Mapping;
use crate::hex::hex;

/// The mappings of a process as JSON.
pub fn mappings(pid: u32, way: Way, mappings: &[Mapping]) -> String {
    let mappings: Vec<Value> = mappings.iter().map(mapping).collect();
    format!("{:#}", json!({ "pid": pid, "way": name(way), "mappings": mappings }))
}

/// Resolved addresses as JSON.
pub fn places(pid: u32, way: Way, places: &[Place]) -> String {
    let places: Vec<Value> = places.iter().map(place).collect();
    format!("{:#}", json!({ "pid": pid, "way": name(way), "addresses": places }))
}

fn mapping(mapping: &Mapping) -> Value {
    let mut object = json!({
        "start": number(mapping.start.0),
        "end": number(mapping.start.0.saturating_add(mapping.len)),
        "bytes": mapping.len,
        "permissions": permissions(mapping),
        "offset": number(mapping.offset.0),
        "device": [mapping.file.major, mapping.file.minor],
        "inode": mapping.file.inode,
        "path": String::from_utf8_lossy(&mapping.path),
        "build_id": id(&mapping.build_id),
    });
    // A path may contain any bytes; `path_bytes` distinguishes a lossy path from an exact one.
    if std::str::from_utf8(&mapping.path).is_err() {
        object["path_bytes"] = json!(hex(&mapping.path));
    }
    object
}

fn place(place: &Place) -> Value {
    let address = number(place.address.0);
    let Some(mapped) = &place.mapped else {
        return json!({ "address": address, "mapping": null });
    };
    json!({
        "address": address,
        "mapping": mapping(&mapped.mapping),
        "build_id": id(&mapped.build_id),
        "file_offset": mapped.offset.map(|offset| number(offset.0)),
        "svma": mapped.svma.as_ref().ok().map(|svma| number(svma.0)),
        "svma_unknown": mapped.svma.as_ref().err(),
    })
}

fn number(number: u64) -> String {
    format!("{number:#x}")
}

fn id(build_id: &[u8]) -> Value {
    if build_id.is_empty() {
        Value::Null
    } else {
        json!(hex(build_id))
    }
}
