//! Payloads of Firefox's markers, written and read back: their texts stay as they are, and their times are relative to
//! the profile's time 0.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use serde_json::value::RawValue;

use super::convert::is_image;
use super::limits;
use super::schema::FLOWS;
use crate::error::ReadError;
use crate::exact::references::References;
use crate::marker::SCREENSHOT;
use crate::shared::categories::COUNT;
use crate::units::{advance, ms};
use base::addr::Timestamp;
use fact::gecko::{TIME_KEYS, is_flow};
use fact::{GeckoMark, Tables};

/// Keys of ids of flows, by the type of payload.
struct FlowKeys(FxHashMap<String, Vec<String>>);

impl FlowKeys {
    /// From the descriptions of types.
    fn new(tables: &Tables) -> Self {
        let schemas = tables.recording.gecko.iter().flat_map(|gecko| &gecko.schemas);
        let keys = schemas.filter_map(|schema| {
            let json: Value = serde_json::from_str(&schema.json).ok()?;
            let fields = json["fields"].as_array()?.iter();
            let flows = fields.filter(|field| field["format"].as_str().is_some_and(|format| FLOWS.contains(&format)));
            let keys = flows.filter_map(|field| field["key"].as_str().map(str::to_owned));
            let mut keys: Vec<String> = keys.collect();
            keys.sort_unstable();
            Some((schema.name.clone(), keys))
        });
        Self(keys.filter(|(_, keys)| !keys.is_empty()).collect())
    }

    fn of(&self, fields: &BTreeMap<String, &RawValue>) -> &[String] {
        let name = fields
            .get("type")
            .and_then(|name| serde_json::from_str::<Cow<'_, str>>(name.get()).ok());
        name.and_then(|name| self.0.get(&*name)).map_or(&[], Vec::as_slice)
    }
}

/// Strings of a profile while its markers are read back.
pub struct Texts<'a> {
    strings: &'a [String],
    keys: FlowKeys,
    /// Names and pictures by their indices: many markers share a long one.
    shared: FxHashMap<usize, Arc<str>>,
    /// Indices of strings that are known to be pictures.
    images: FxHashSet<usize>,
}

impl<'a> Texts<'a> {
    /// The strings, and the types that the tables describe.
    pub fn new(strings: &'a [String], tables: &Tables) -> Self {
        Self {
            strings,
            keys: FlowKeys::new(tables),
            shared: FxHashMap::default(),
            images: FxHashSet::default(),
        }
    }

    fn shared(&mut self, index: usize) -> Option<Arc<str>> {
        if let Some(text) = self.shared.get(&index) {
            return Some(Arc::clone(text));
        }
        let text: Arc<str> = self.strings.get(index)?.as_str().into();
        self.shared.insert(index, Arc::clone(&text));
        Some(text)
    }

    /// A picture within the limits of the merge.
    fn image(&mut self, index: usize) -> Option<Arc<str>> {
        if !self.images.contains(&index) {
            let text = self.strings.get(index)?;
            if text.len() > limits::IMAGE || !is_image(text) {
                return None;
            }
            self.images.insert(index);
        }
        self.shared(index)
    }
}

/// Index of the category in `meta.categories`.
pub fn category(mark: &GeckoMark) -> u16 {
    COUNT.saturating_add(mark.category)
}

/// Firefox's category with this index in `meta.categories`; `None`: a category of ours.
pub fn category_of(index: Option<i64>) -> Option<u16> {
    u16::try_from(index?).ok()?.checked_sub(COUNT)
}

/// The payload as JSON, with the indices of its picture and its flows' ids in the string array.
pub fn payload(
    mark: &GeckoMark,
    (image, flows): (Option<u32>, &FxHashMap<&str, u32>),
    zero: Timestamp,
) -> Option<Box<RawValue>> {
    let data = mark.data.as_deref()?;
    let mut text = data.strip_suffix('}')?.to_owned();
    for (key, time) in &mark.times {
        let key = TIME_KEYS.get(usize::from(*key))?;
        let comma = if text.ends_with('{') { "" } else { "," };
        let time = serde_json::to_string(&ms(*time, zero)).ok()?;
        let _ = write!(text, "{comma}\"{key}\":{time}"); // writing to a string can't fail
    }
    if let Some(image) = image {
        let _ = write!(text, ",\"url\":{image}"); // it follows the type
    }
    for (key, id) in &mark.flows {
        let comma = if text.ends_with('{') { "" } else { "," };
        let key = serde_json::to_string(key).ok()?;
        let _ = write!(text, "{comma}{key}:{}", flows.get(&**id)?);
    }
    text.push('}');
    RawValue::from_string(text).ok()
}

/// Reads a marker back; `texts` contain its name, its picture and the ids of its flows.
pub fn read(
    name: usize,
    category: u16,
    data: &str,
    texts: &mut Texts<'_>,
    to: References<'_>,
) -> Result<GeckoMark, ReadError> {
    let gecko = to.tables.recording.gecko.as_ref();
    if usize::from(category) >= gecko.map_or(0, |gecko| gecko.categories.len()) {
        return Err(ReadError::Damaged("marker's category"));
    }
    let mut mark = GeckoMark {
        name: texts.shared(name).ok_or(ReadError::Damaged("marker's name"))?,
        category,
        data: None,
        times: Box::default(),
        image: None,
        flows: Box::default(),
    };
    let Some(mut fields) = serde_json::from_str::<Option<BTreeMap<String, &RawValue>>>(data)? else {
        return Ok(mark);
    };
    let r#type = fields.get("type").map(|value| value.get());
    if r#type.is_some_and(|text| text.trim_matches('"') == SCREENSHOT)
        && let Some(index) = fields.remove("url")
    {
        let index: usize = serde_json::from_str(index.get())?;
        mark.image = Some(texts.image(index).ok_or(ReadError::Damaged("screenshot"))?);
    }
    let mut times = Vec::new();
    for (key, number) in TIME_KEYS.iter().zip(0..) {
        if let Some(time) = fields.remove(*key) {
            times.push((number, advance(to.zero, serde_json::from_str(time.get())?)?));
        }
    }
    mark.times = times.into();
    let mut flows = Vec::new();
    for key in texts.keys.of(&fields) {
        if let Some(index) = fields.remove(key) {
            let id = texts.strings.get(serde_json::from_str::<usize>(index.get())?);
            let id = id.filter(|id| is_flow(id)).ok_or(ReadError::Damaged("marker's flow"))?;
            flows.push((key.as_str().into(), id.as_str().into()));
        }
    }
    mark.flows = flows.into();
    mark.data = Some(serde_json::to_string(&fields)?.into());
    Ok(mark)
}
