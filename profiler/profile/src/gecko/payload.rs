//! Payloads of Firefox's markers, written and read back: their texts stay as they are, and their times are relative to
//! the profile's time 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::error::ReadError;
use crate::exact::references::References;
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

/// The payload as JSON.
pub fn payload(mark: &GeckoMark, zero: Timestamp) -> Option<Box<RawValue>> {
    let data = mark.data.as_deref()?;
    let mut text = data.strip_suffix('}')?.to_owned();
    for (key, time) in &mark.times {
        let key = TIME_KEYS.get(usize::from(*key))?;
        let comma = if text.ends_with('{') { "" } else { "," };
        let time = serde_json::to_string(&ms(*time, zero)).ok()?;
        let _ = write!(text, "{comma}\"{key}\":{time}"); // writing to a string can't fail
    }
    text.push('}');
    RawValue::from_string(text).ok()
}

/// Reads a marker back.
pub fn read(name: &str, category: u16, data: &str, to: References<'_>) -> Result<GeckoMark, ReadError> {
    let gecko = to.tables.recording.gecko.as_ref();
    if usize::from(category) >= gecko.map_or(0, |gecko| gecko.categories.len()) {
        return Err(ReadError::Damaged("marker's category"));
    }
    let mut mark = GeckoMark {
        name: name.into(),
        category,
        data: None,
        times: Box::default(),
    };
    let Some(mut fields) = serde_json::from_str::<Option<BTreeMap<String, &RawValue>>>(data)? else {
        return Ok(mark);
    };
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
