//! A marker's payload in our profile: strings instead of their indices, times on the recording's clock, and nothing that
//! the front end could stumble over.

use serde_json::{Map, Value};

use super::Left;
use super::clock::Clock;
use super::limits;
use super::schema::{Kind, Schemas};
use base::addr::Timestamp;
use fact::gecko::{GeckoTables, TIME_KEYS};

/// Payloads that show a picture from the string table, which ngmi does not copy.
const SCREENSHOT: &str = "CompositorScreenshot";

/// A payload's text and times.
pub type Payload = (Option<Box<str>>, Box<[(u8, Timestamp)]>);

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
            self.left.screenshots += 1;
            return None;
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
        for (key, kind) in &known.fields {
            if let Some(value) = fields.get_mut(key) {
                match converted(*kind, value, strings) {
                    Some(new) => *value = new,
                    None => drop(fields.remove(key)),
                }
            }
        }
        fields.insert("type".to_owned(), Value::String(known.name.clone()));
        let text = Value::Object(fields).to_string();
        if text.len() > limits::PAYLOAD {
            self.left.payloads += 1;
            return Some(Payload::default());
        }
        Some((Some(text.into()), times))
    }

    fn times(&self, fields: &mut Map<String, Value>) -> Box<[(u8, Timestamp)]> {
        let time = |(key, number): (&&str, u8)| {
            let time = fields.remove(*key)?.as_f64()?;
            Some((number, self.clock.at(time)?))
        };
        TIME_KEYS.iter().zip(0..).filter_map(time).collect()
    }
}

/// The value in the form of its field; `None`: it has none.
fn converted(kind: Kind, value: &mut Value, strings: &[String]) -> Option<Value> {
    let value = std::mem::take(value);
    match kind {
        Kind::Text => Some(value),
        Kind::Indexed => match &value {
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
