//! Reached limits of a cgroup's memory as the payloads of markers on its track. They are for display only.

use std::borrow::Cow;

use serde::Serialize;

use base::event::usage::UsageHierarchy;
use base::plural::counted;
use fact::usage::LimitReached;

/// Payload type of reached limits.
pub const LIMIT: &str = "CgroupLimit";

/// Payload of some events of one kind.
#[derive(Debug, Serialize)]
pub struct LimitPayload {
    r#type: &'static str,
    times: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
}

impl LimitPayload {
    /// For these events.
    pub fn new(reached: &LimitReached) -> Self {
        Self {
            r#type: LIMIT,
            times: counted(reached.count, "time"),
            limit: reached.limit,
        }
    }
}

/// The marker's name: what happened, and in which cgroup.
pub fn name(reached: &LimitReached, hierarchy: UsageHierarchy, cgroup: &str) -> Cow<'static, str> {
    format!("{} in {cgroup}", reached.event.words(hierarchy)).into()
}
