//! A marker's payload in our profile: strings instead of their indices, times on the recording's clock, and nothing that
//! the front end could stumble over.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Left;
use super::clock::Clock;
use super::limits;
use super::schema::{Kind, Schemas};
use base::addr::Timestamp;
use fact::gecko::{GeckoTables, TIME_KEYS, is_flow};

use crate::marker::SCREENSHOT;

/// Starts of pictures that are kept; what follows is base64.
const IMAGES: [&str; 3] = [
    "data:image/jpeg;base64,",
    "data:image/png;base64,",
    "data:image/webp;base64,",
];

/// A payload's text, times, picture and flows.
#[derive(Default)]
pub struct Payload {
    /// JSON.
    pub data: Option<Box<str>>,
    /// As in a mark.
    pub times: Box<[(u8, Timestamp)]>,
    /// A `data:` URL.
    pub image: Option<Arc<str>>,
    /// Ids of its flows.
    pub flows: Box<[(Box<str>, Box<str>)]>,
}

/// What payloads of a process are converted with.
pub struct Converter<'a> {
    /// Types of payloads.
    pub schemas: &'a mut Schemas,
    /// Where their descriptions go.
    pub tables: &'a mut GeckoTables,
    /// Counts of what is missing.
    pub left: &'a mut Left,
    /// The process's clock.
    pub clock: Clock,
    /// Bytes of pictures so far.
    pub images: &'a mut usize,
    /// Bytes of other payloads so far.
    pub payloads: &'a mut usize,
}

impl Converter<'_> {
    /// Converts a payload; `None`: the marker is left out.
    pub fn payload(&mut self, data: Value, strings: &[String]) -> Option<Payload> {
        let Value::Object(mut fields) = data else {
            return Some(Payload::default());
        };
        let Some(Value::String(name)) = fields.remove("type") else {
            return Some(Payload::default());
        };
        if name == SCREENSHOT {
            return self.screenshot(&mut fields, strings);
        }
        for key in ["stack", "cause"] {
            self.left.stacks += u64::from(fields.remove(key).is_some());
        }
        let times = self.times(&mut fields);
        fields.retain(|_, value| !value.is_null());
        let Some(known) = self.schemas.of(&name, &fields, self.tables) else {
            self.left.payloads += 1;
            return Some(Payload::default());
        };
        let mut flows: Vec<(Box<str>, Box<str>)> = Vec::new();
        for (key, kind) in &known.fields {
            if *kind == Kind::Flow {
                let Some(mut value) = fields.remove(key) else { continue };
                match converted(*kind, &mut value, strings) {
                    Some(Value::String(id)) if is_flow(&id) => flows.push((key.as_str().into(), id.into())),
                    _ => self.left.damaged += 1,
                }
            } else if let Some(value) = fields.get_mut(key) {
                match converted(*kind, value, strings) {
                    Some(new) => *value = new,
                    None => drop(fields.remove(key)),
                }
            }
        }
        fields.insert("type".to_owned(), Value::String(known.name.clone()));
        let text = Value::Object(fields).to_string();
        let bytes = text.len() + flows.iter().map(|(key, id)| key.len() + id.len()).sum::<usize>();
        if text.len() > limits::PAYLOAD || !limits::has_room(self.payloads, bytes, limits::PAYLOADS) {
            self.left.payloads += 1;
            return Some(Payload::default());
        }
        flows.sort_unstable();
        Some(Payload {
            data: Some(text.into()),
            times,
            image: None,
            flows: flows.into(),
        })
    }

    /// A picture of a window; without one, the window's end.
    fn screenshot(&mut self, fields: &mut Map<String, Value>, strings: &[String]) -> Option<Payload> {
        let image = match fields.remove("url") {
            None | Some(Value::Null) => None,
            Some(url) => {
                let index = url.as_u64().and_then(|index| usize::try_from(index).ok());
                let image = index.and_then(|index| strings.get(index).map(String::as_str));
                let image = image
                    .or(url.as_str())
                    .filter(|text| is_image(text) && self.has_room(text.len()));
                let Some(image) = image else {
                    self.left.screenshots += 1;
                    return None;
                };
                *self.images += image.len();
                Some(image.into())
            }
        };
        let mut data = Map::new();
        data.insert("type".to_owned(), SCREENSHOT.into());
        for key in ["windowID", "windowWidth", "windowHeight"] {
            let is_short = |text: &str| text.len() <= limits::NAME;
            let value = fields.remove(key);
            let value = value.filter(|value| value.is_number() || value.as_str().is_some_and(is_short));
            data.extend(value.map(|value| (key.to_owned(), value)));
        }
        Some(Payload {
            data: Some(Value::Object(data).to_string().into()),
            image,
            ..Payload::default()
        })
    }

    fn has_room(&self, bytes: usize) -> bool {
        bytes <= limits::IMAGE && *self.images + bytes <= limits::IMAGES
    }

    fn times(&self, fields: &mut Map<String, Value>) -> Box<[(u8, Timestamp)]> {
        let time = |(key, number): (&&str, u8)| {
            let time = fields.remove(*key)?.as_f64()?;
            Some((number, self.clock.at(time)?))
        };
        TIME_KEYS.iter().zip(0..).filter_map(time).collect()
    }
}

/// Whether a text is a picture that is kept, a URL.
pub fn is_image(text: &str) -> bool {
    let base64 = IMAGES.iter().find_map(|start| text.strip_prefix(start));
    base64.is_some_and(|base64| {
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        base64.bytes().all(is_base64)
    })
}

/// The value in the form of its field; `None`: it has none.
fn converted(kind: Kind, value: &mut Value, strings: &[String]) -> Option<Value> {
    let value = std::mem::take(value);
    match kind {
        Kind::Text => Some(value),
        Kind::Indexed | Kind::Flow => match &value {
            Value::Number(index) => {
                let text = strings.get(usize::try_from(index.as_u64()?).ok()?)?;
                Some(limits::short(text, limits::TEXT).into())
            }
            Value::String(_) => Some(value),
            _ => None,
        },
        Kind::Number { signed } => {
            if let Value::Bool(yes) = value {
                return Some(u8::from(yes).into());
            }
            value
                .as_f64()
                .is_some_and(|number| signed || number >= 0.0)
                .then_some(value)
        }
        Kind::List => value.is_array().then_some(value),
        Kind::Table(columns) => {
            let is_row = |row: &Value| row.as_array().is_some_and(|cells| cells.len() == columns);
            value
                .as_array()
                .is_some_and(|rows| rows.iter().all(is_row))
                .then_some(value)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A failed unwrap fails the test.
mod tests {
    use serde_json::json;

    use super::*;
    use fact::Recording;

    #[test]
    fn all_payloads_together_are_limited() {
        let (mut schemas, mut tables, mut left) = (Schemas::default(), GeckoTables::default(), Left::default());
        let fields = json!([{"key": "name", "format": "unique-string"}, {"key": "flow", "format": "flow-id"}]);
        schemas.add(
            &json!({"markerSchema": [{"name": "Text", "fields": fields}]}),
            &mut tables,
        );
        let meta = json!({"startTimeAsClockMonotonicNanosecondsSinceBoot": 0});
        let mut payloads = 0;
        let mut convert = Converter {
            schemas: &mut schemas,
            tables: &mut tables,
            left: &mut left,
            clock: Clock::new(&meta, &Recording::default()).unwrap(),
            images: &mut 0,
            payloads: &mut payloads,
        };
        let strings = ["x".repeat(1000), "00ff".to_owned()];
        let mut data = |used: usize| {
            *convert.payloads = used;
            let payload = convert
                .payload(json!({"type": "Text", "name": 0, "flow": 1}), &strings)
                .unwrap();
            (
                payload.data.map_or(0, |data| data.len()),
                payload.flows.len(),
                *convert.payloads - used,
            )
        };
        // Indices become strings, and ids of flows have their keys.
        let bytes = 1025 + "flow".len() + "00ff".len();
        assert_eq!(data(0), (1025, 1, bytes));
        assert_eq!(data(limits::PAYLOADS - bytes), (1025, 1, bytes));
        assert_eq!(data(limits::PAYLOADS - bytes + 1), (0, 0, 0));
        assert_eq!(left.payloads, 1);
    }
}
