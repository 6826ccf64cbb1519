//! Marker schemas, which describe payload types to the front end.

pub(crate) mod fault;
pub(crate) mod wait;

use fxprof_processed_profile::{
    MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, Profile, RuntimeSchemaMarkerField, RuntimeSchemaMarkerSchema,
};

/// Key, label and format of a field.
pub type Field = (&'static str, &'static str, MarkerFieldFormat);

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
    (name, description): (&str, &str),
    locations: MarkerLocations,
    labels: Labels<'_>,
    fields: impl IntoIterator<Item = Field>,
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
        graphs: Vec::new(),
    });
}
