//! Arguments of an event become a payload: objects in them become keys such as `data.url`.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::event::Event;
use super::limits::{self, short};
use crate::gecko::merge::Merge;
use fact::gecko::TIME_KEYS;

/// Category of marks that a page names, each otherwise.
const OF_PAGE: &str = "blink.user_timing";
/// Deepest objects that become keys.
const DEPTH: usize = 4;
/// Keys with a meaning in payloads of ours.
const RESERVED: [&str; 4] = ["type", "cause", "stack", "url"];

/// The payload; `None`: there are no arguments, or too many.
pub fn of(event: &Event<'_>, args: [Option<&RawValue>; 2], merge: &mut Merge) -> Option<Box<str>> {
    let mut fields = Map::new();
    for args in args.into_iter().flatten() {
        if let Ok(Value::Object(args)) = serde_json::from_str(args.get()) {
            flatten("", args, DEPTH, &mut fields);
        }
    }
    if fields.is_empty() {
        return None;
    }
    let name = if event.category.contains(OF_PAGE) {
        "user timing"
    } else {
        &*event.name
    };
    // Types that the front end knows have other fields.
    let r#type = format!("{} (Chrome)", short(name, limits::NAME / 2));
    let Some(known) = merge.schemas.of(&r#type, &fields, &mut merge.gecko) else {
        merge.merged.left.payloads += 1;
        return None;
    };
    fields.insert("type".to_owned(), known.name.clone().into());
    let text = Value::Object(fields).to_string();
    if text.len() > limits::PAYLOAD {
        merge.merged.left.payloads += 1;
        return None;
    }
    Some(text.into())
}

fn flatten(before: &str, fields: Map<String, Value>, depth: usize, into: &mut Map<String, Value>) {
    for (key, value) in fields {
        if into.len() >= limits::FIELDS {
            return;
        }
        let key = format!("{before}{}", short(&key, limits::NAME / 2));
        match value {
            Value::Object(inner) if depth > 1 => flatten(&format!("{key}."), inner, depth - 1, into),
            Value::Null => {}
            value => {
                let is_reserved = RESERVED.contains(&&*key) || TIME_KEYS.contains(&&*key) || key.len() > limits::NAME;
                let key = if is_reserved {
                    format!("args.{}", short(&key, limits::NAME / 2))
                } else {
                    key
                };
                let text = matches!(value, Value::Array(_) | Value::Object(_)).then(|| value.to_string().into());
                into.insert(key, text.unwrap_or(value));
            }
        }
    }
}
