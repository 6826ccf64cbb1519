//! Checks that each of our flows connects markers. One of Firefox's may have a single marker: its other ends may be in
//! threads that were not recorded.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::problems::Problems;
use crate::marker::OWN_TYPES;
use crate::marker::schema::FLOW;

/// The number of markers of each of our flows, by the index of its id.
#[derive(Debug, Default)]
pub struct Flows(HashMap<u64, u64>);

impl Flows {
    /// Counts a marker.
    pub fn add(&mut self, data: &Map<String, Value>) {
        let Some(flow) = data.get(FLOW.0).and_then(Value::as_u64) else {
            return;
        };
        let is_own = |name: &str| OWN_TYPES.contains(&name);
        if data.get("type").and_then(Value::as_str).is_some_and(is_own) {
            *self.0.entry(flow).or_default() += 1;
        }
    }

    /// Reports flows that connect nothing.
    pub fn check(&self, problems: &mut Problems) {
        for _ in self.0.values().filter(|markers| **markers < 2) {
            problems.add("markers", &"a flow has only one marker");
        }
    }
}
