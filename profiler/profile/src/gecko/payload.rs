//! Payloads of Firefox's markers, written and read back: their texts stay as they are, and their times are relative to
//! the profile's time 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::error::ReadError;
use crate::exact::references::References;
use crate::marker::SCREENSHOT;
use crate::shared::categories::COUNT;
use crate::units::{advance, ms};
use base::addr::Timestamp;
use fact::GeckoMark;
use fact::gecko::TIME_KEYS;

/// Index of the category in `meta.categories`.
pub fn category(mark: &GeckoMark) -> u16 {
    COUNT.saturating_add(mark.category)
}

/// Firefox's category with this index in `meta.categories`; `None`: a category of ours.
pub fn category_of(index: Option<i64>) -> Option<u16> {
    u16::try_from(index?).ok()?.checked_sub(COUNT)
}

/// The payload as JSON, with the index of its picture among the strings.
pub fn payload(mark: &GeckoMark, image: Option<u32>, zero: Timestamp) -> Option<Box<RawValue>> {
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
    text.push('}');
    RawValue::from_string(text).ok()
}

/// Reads a marker back; `strings` contain its picture.
pub fn read(
    name: &str,
    category: u16,
    data: &str,
    (to, strings): (References<'_>, &[String]),
) -> Result<GeckoMark, ReadError> {
    let gecko = to.tables.recording.gecko.as_ref();
    if usize::from(category) >= gecko.map_or(0, |gecko| gecko.categories.len()) {
        return Err(ReadError::Damaged("marker's category"));
    }
    let mut mark = GeckoMark {
        name: name.into(),
        category,
        data: None,
        times: Box::default(),
        image: None,
    };
    let Some(mut fields) = serde_json::from_str::<Option<BTreeMap<String, &RawValue>>>(data)? else {
        return Ok(mark);
    };
    let r#type = fields.get("type").map(|value| value.get());
    if r#type.is_some_and(|text| text.trim_matches('"') == SCREENSHOT)
        && let Some(index) = fields.remove("url")
    {
        let index: usize = serde_json::from_str(index.get())?;
        let image = strings.get(index).ok_or(ReadError::Damaged("screenshot"))?;
        mark.image = Some(image.as_str().into());
    }
    let mut times = Vec::new();
    for (key, number) in TIME_KEYS.iter().zip(0..) {
        if let Some(time) = fields.remove(*key) {
            times.push((number, advance(to.zero, serde_json::from_str(time.get())?)?));
        }
    }
    mark.times = times.into();
    mark.data = Some(serde_json::to_string(&fields)?.into());
    Ok(mark)
}
