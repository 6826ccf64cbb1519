//! Marker schemas, which describe payload types to the front end.

pub(crate) mod fault;
pub(crate) mod limit;
pub(crate) mod link;
pub(crate) mod peak;
pub(crate) mod wait;

use fxprof_processed_profile::{
    MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, Profile, RuntimeSchemaMarkerField, RuntimeSchemaMarkerGraph,
    RuntimeSchemaMarkerSchema,
};
use serde_json::Value;

/// Key, label and format of a field.
pub type Field = (&'static str, &'static str, MarkerFieldFormat);

/// The id that the markers of a chain of events share; [`complete`] corrects its format.
pub const FLOW: Field = ("flow", "Flow", MarkerFieldFormat::String);

/// Marker labels in the chart and in the table; the tooltip shows the marker's name before the
/// latter.
#[derive(Clone, Copy)]
pub struct Labels<'a> {
    pub chart: &'a str,
    pub table: &'a str,
}

/// Builds the schema of a payload type.
pub fn add(
    profile: &mut Profile,
    words: (&str, &str),
    locations: MarkerLocations,
    labels: Labels<'_>,
    fields: impl IntoIterator<Item = Field>,
) {
    add_with_graph(profile, words, locations, labels, fields, Vec::new());
}

/// The same, for a type that is also drawn as a graph.
pub fn add_with_graph(
    profile: &mut Profile,
    (name, description): (&str, &str),
    locations: MarkerLocations,
    labels: Labels<'_>,
    fields: impl IntoIterator<Item = Field>,
    graphs: Vec<RuntimeSchemaMarkerGraph>,
) {
    let field = |(key, label, format): Field| RuntimeSchemaMarkerField {
        key: key.into(),
        label: label.into(),
        format,
        flags: MarkerFieldFlags::SEARCHABLE,
    };
    profile.register_marker_type(RuntimeSchemaMarkerSchema {
        type_name: name.into(),
        description: Some(description.into()),
        locations,
        chart_label: Some(labels.chart.into()),
        tooltip_label: Some(format!("{{marker.name}} {}", labels.table)),
        table_label: Some(labels.table.into()),
        fields: fields.into_iter().map(field).collect(),
        graphs,
    });
}

/// Adds what the library's schema cannot express: flows, and the colour of faults that waited.
pub fn complete(schema: &mut Value) {
    fault::complete(schema);
    let fields = schema.get_mut("fields").and_then(Value::as_array_mut);
    for field in fields.into_iter().flatten().filter(|field| field["key"] == FLOW.0) {
        field["format"] = "flow-id".into();
    }
}
