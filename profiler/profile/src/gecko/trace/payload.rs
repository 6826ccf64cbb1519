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
/// Starts of pictures: of URLs, and of JPEG, PNG and WebP in base64.
const PICTURES: [&str; 4] = ["data:image/", "/9j/", "iVBOR", "UklGR"];

/// The payload; `None`: there are no arguments, or too many.
pub fn of(event: &Event<'_>, args: [Option<&RawValue>; 2], merge: &mut Merge) -> Option<Box<str>> {
    let mut fields = Map::new();
    let left = &mut merge.merged.left;
    for args in args.into_iter().flatten() {
        if let Ok(Value::Object(mut args)) = serde_json::from_str(args.get()) {
            args.retain(|_, value| !drop_pictures(value, &mut left.screenshots));
            left.arguments += flatten("", args, DEPTH, &mut fields);
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
    if text.len() > limits::PAYLOAD || !limits::has_room(&mut merge.payloads, text.len(), limits::PAYLOADS) {
        merge.merged.left.payloads += 1;
        return None;
    }
    Some(text.into())
}

/// Whether a value is a picture; removes and counts those within it.
fn drop_pictures(value: &mut Value, dropped: &mut u64) -> bool {
    match value {
        Value::String(text) => {
            let is_picture = PICTURES.iter().any(|start| text.starts_with(start));
            *dropped += u64::from(is_picture);
            is_picture
        }
        Value::Array(items) => {
            items.retain_mut(|item| !drop_pictures(item, dropped));
            false
        }
        Value::Object(fields) => {
            fields.retain(|_, field| !drop_pictures(field, dropped));
            false
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the number of arguments that are lost: beyond the limit of fields, or replaced by another of the same key.
fn flatten(before: &str, fields: Map<String, Value>, depth: usize, into: &mut Map<String, Value>) -> u64 {
    let mut lost = 0;
    for (key, value) in fields {
        let key = format!("{before}{}", short(&key, limits::NAME / 2));
        match value {
            Value::Object(inner) if depth > 1 => lost += flatten(&format!("{key}."), inner, depth - 1, into),
            Value::Null => {}
            value => {
                let is_reserved = RESERVED.contains(&&*key) || TIME_KEYS.contains(&&*key) || key.len() > limits::NAME;
                let key = if is_reserved {
                    format!("args.{}", short(&key, limits::NAME / 2))
                } else {
                    key
                };
                if into.len() >= limits::FIELDS && !into.contains_key(&key) {
                    lost += 1;
                    continue;
                }
                let text = matches!(value, Value::Array(_) | Value::Object(_)).then(|| value.to_string().into());
                let value = text.unwrap_or(value);
                let is_other = into.get(&key).is_some_and(|old| *old != value);
                lost += u64::from(is_other);
                into.insert(key, value);
            }
        }
    }
    lost
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A failed unwrap fails the test.
mod tests {
    use super::*;
    use crate::gecko::trace::event::RawEvent;
    use fact::Tables;

    #[test]
    fn all_payloads_together_are_limited() {
        let json = r#"{"ph": "I", "name": "a", "pid": 1, "tid": 1, "args": {"key": "text"}}"#;
        let raw: RawEvent<'_> = serde_json::from_str(json).unwrap();
        let phase = raw.phase();
        let event = raw.event(phase).unwrap();
        let mut merge = Merge::new(&Tables::default());
        let data = of(&event, [event.args, None], &mut merge).unwrap();
        assert_eq!(merge.payloads, data.len());
        merge.payloads = limits::PAYLOADS - data.len();
        assert_eq!(of(&event, [event.args, None], &mut merge), Some(data));
        assert_eq!(of(&event, [event.args, None], &mut merge), None);
        assert_eq!((merge.payloads, merge.merged.left.payloads), (limits::PAYLOADS, 1));
    }
}
