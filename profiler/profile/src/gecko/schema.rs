//! Descriptions of Firefox's payload types, converted to the processed format. The input is untrusted: only what the
//! front end knows passes.

use serde_json::{Map, Value, json};

use super::limits::{self, short};
use crate::marker::OWN_TYPES;
use fact::gecko::{GeckoSchema, GeckoTables};
use rustc_hash::FxHashMap;

/// Where markers can be displayed.
const PLACES: [&str; 7] = [
    "marker-chart",
    "marker-table",
    "timeline-overview",
    "timeline-memory",
    "timeline-ipc",
    "timeline-fileio",
    "stack-chart",
];
/// Formats of text, which show any scalar.
const TEXT: [&str; 7] = ["url", "file-path", "sanitized-string", "string", "pid", "tid", "list"];
/// Format of indices of strings.
const INDEXED: &str = "unique-string";
/// The same for ids of flows.
pub const FLOWS: [&str; 2] = ["flow-id", "terminating-flow-id"];
/// Formats of numbers.
const NUMBERS: [&str; 12] = [
    "duration",
    "time",
    "seconds",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "bytes",
    "percentage",
    "integer",
    "decimal",
    "hexadecimal",
    "number",
];
/// Types that the front end knows without a description.
const KNOWN: [&str; 2] = ["IPC", "Network"];

/// How the values of a field are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As it is.
    Text,
    /// An index of a string, which becomes the string.
    Indexed,
    /// An index of the id of a flow, which remains one.
    Flow,
    /// A number; negative ones may be invalid.
    Number {
        /// Below zero is possible.
        signed: bool,
    },
    /// A list.
    List,
    /// Rows of this many columns.
    Table(usize),
}

/// A type of payload: its name in our profile, and its fields.
#[derive(Debug)]
pub struct PayloadType {
    /// The name.
    pub name: String,
    /// The fields that the front end formats.
    pub fields: FxHashMap<String, Kind>,
}

/// The types of payloads so far.
#[derive(Debug, Default)]
pub struct Schemas {
    types: FxHashMap<String, PayloadType>,
}

impl Schemas {
    /// Adds the descriptions of a process, as far as they are new.
    pub fn add(&mut self, meta: &Value, tables: &mut GeckoTables) {
        for raw in meta["markerSchema"].as_array().into_iter().flatten() {
            let Some(name) = raw["name"].as_str().filter(|name| name.len() <= limits::NAME) else {
                continue;
            };
            if !self.types.contains_key(name) && self.types.len() < limits::SCHEMAS {
                let (payload, schema) = converted(name, raw);
                self.insert(name, payload, &schema, tables);
            }
        }
    }

    /// The type with this name; one without a description is described by the keys of its first payload.
    pub fn of(&mut self, name: &str, first: &Map<String, Value>, tables: &mut GeckoTables) -> Option<&PayloadType> {
        if !self.types.contains_key(name) && name.len() <= limits::NAME && self.types.len() < limits::SCHEMAS {
            let (payload, schema) = converted(name, &described(name, first));
            self.insert(name, payload, &schema, tables);
        }
        self.types.get(name)
    }

    fn insert(&mut self, name: &str, payload: PayloadType, schema: &Value, tables: &mut GeckoTables) {
        tables.schemas.push(GeckoSchema {
            name: payload.name.clone(),
            json: schema.to_string(),
        });
        self.types.insert(name.to_owned(), payload);
    }
}

/// A description of a type that Firefox does not describe.
fn described(name: &str, first: &Map<String, Value>) -> Value {
    let fields = first.iter().filter(|(key, value)| {
        let is_text = value.is_string() || value.is_number() || value.is_boolean();
        is_text && *key != "type" && !key.ends_with("Time") && (name != "IPC" || *key != "threadId")
    });
    let fields: Vec<Value> = fields
        .take(limits::FIELDS)
        .map(|(key, _)| json!({"key": key, "label": key, "format": "string"}))
        .collect();
    let mut schema = json!({"name": name, "display": ["marker-chart", "marker-table"], "data": fields});
    match KNOWN.iter().position(|known| *known == name) {
        Some(0) => {
            schema["chartLabel"] = json!("{marker.data.messageType}");
            schema["tableLabel"] = json!("{marker.data.messageType} ({marker.data.direction})");
            schema["display"] = json!(["marker-chart", "marker-table", "timeline-ipc"]);
        }
        Some(_) => schema["tableLabel"] = json!("{marker.data.URI}"),
        None => {}
    }
    schema
}

fn converted(name: &str, raw: &Value) -> (PayloadType, Value) {
    // A type of ours has another meaning.
    let own_name = if OWN_TYPES.contains(&name) {
        format!("{name} (Firefox)")
    } else {
        name.to_owned()
    };
    let mut schema = json!({"name": own_name});
    let labels = ["chartLabel", "tooltipLabel", "tableLabel", "description", "colorField"];
    for key in labels {
        if let Some(text) = raw[key].as_str() {
            schema[key] = json!(short(text, limits::TEXT));
        }
    }
    let display = raw["display"].as_array().into_iter().flatten();
    let display = display.filter(|place| place.as_str().is_some_and(|place| PLACES.contains(&place)));
    schema["display"] = display.take(PLACES.len()).cloned().collect();
    if raw["isStackBased"] == true {
        schema["isStackBased"] = json!(true);
    }
    let mut payload = PayloadType {
        name: own_name,
        fields: FxHashMap::default(),
    };
    let mut fields = Vec::new();
    let rows = [&raw["data"], &raw["fields"]];
    let rows = rows.into_iter().filter_map(Value::as_array).flatten();
    for field in rows.take(limits::FIELDS) {
        match field["key"].as_str().filter(|key| key.len() <= limits::NAME) {
            Some(key) => fields.push(self::field(key, field, &mut payload)),
            // A static field.
            None if schema["description"].is_null() => {
                if let Some(text) = field["value"].as_str() {
                    schema["description"] = json!(short(text, limits::TEXT));
                }
            }
            None => {}
        }
    }
    schema["fields"] = fields.into();
    (payload, schema)
}

fn field(key: &str, raw: &Value, payload: &mut PayloadType) -> Value {
    let (kind, format) = kind_of(&raw["format"]);
    payload.fields.insert(key.to_owned(), kind);
    let mut field = json!({"key": key, "format": format});
    if let Some(label) = raw["label"].as_str() {
        field["label"] = json!(short(label, limits::TEXT));
    }
    if raw["hidden"] == true {
        field["hidden"] = json!(true);
    }
    field
}

/// How values are converted, and the format that describes them then.
fn kind_of(format: &Value) -> (Kind, Value) {
    let text = || (Kind::Text, json!("string"));
    match format {
        Value::String(word) if word == INDEXED => (Kind::Indexed, json!("string")),
        Value::String(word) if FLOWS.contains(&word.as_str()) => (Kind::Flow, json!(word)),
        Value::String(word) if word == "list" => (Kind::List, json!(word)),
        Value::String(word) if TEXT.contains(&word.as_str()) => (Kind::Text, json!(word)),
        Value::String(word) if NUMBERS.contains(&word.as_str()) => {
            let signed = !matches!(word.as_str(), "duration" | "bytes");
            (Kind::Number { signed }, json!(word))
        }
        Value::Object(table) if table.get("type") == Some(&json!("table")) => {
            let columns = table.get("columns").and_then(Value::as_array);
            let Some(columns) = columns.filter(|columns| (1..=limits::FIELDS).contains(&columns.len())) else {
                return text();
            };
            let column = |raw: &Value| {
                let label = raw["label"].as_str().unwrap_or_default();
                json!({"format": "string", "label": short(label, limits::TEXT)})
            };
            let columns: Vec<Value> = columns.iter().map(column).collect();
            (Kind::Table(columns.len()), json!({"type": "table", "columns": columns}))
        }
        _ => text(),
    }
}
