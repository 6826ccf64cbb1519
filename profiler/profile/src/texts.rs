//! Visits every text of a JSON file with its location: the last check before a file is shared.

use std::fmt;
use std::io::{BufReader, Read};

use flate2::read::MultiGzDecoder;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Parts of `meta` that contain this program's own words.
const OWN: [&str; 2] = ["markerSchema", "categories"];

/// Location of a text, from the outermost part inwards.
#[derive(Debug, Default)]
pub struct TextPlace(Vec<Step>);

#[derive(Debug)]
enum Step {
    Key(String),
    Row(usize),
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, number) in self.0.iter().zip(0..) {
            match step {
                Step::Key(key) if number == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Row(row) => write!(f, "[{row}]")?,
            }
        }
        Ok(())
    }
}

/// Passes each text of a compressed profile to a callback, except keys and the words of the format.
///
/// # Errors
/// The input fails, or is not JSON.
pub fn texts(packed: impl Read, take: &mut dyn FnMut(&TextPlace, &str)) -> Result<(), serde_json::Error> {
    let json = BufReader::new(MultiGzDecoder::new(BufReader::new(packed)));
    let mut deserializer = serde_json::Deserializer::from_reader(json);
    let mut place = TextPlace::default();
    Texts {
        place: &mut place,
        take,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()
}

struct Texts<'a> {
    place: &'a mut TextPlace,
    take: &'a mut dyn FnMut(&TextPlace, &str),
}

impl Texts<'_> {
    fn within(&mut self) -> Texts<'_> {
        Texts {
            place: self.place,
            take: self.take,
        }
    }

    fn is_own(&self) -> bool {
        matches!(self.place.0.as_slice(), [Step::Key(meta), Step::Key(key)] if meta == "meta" && OWN.contains(&key.as_str()))
    }
}

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        (self.take)(self.place, text);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        for row in 0.. {
            self.place.0.push(Step::Row(row));
            let item = seq.next_element_seed(self.within())?;
            self.place.0.pop();
            if item.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.place.0.push(Step::Key(key));
            if self.is_own() {
                map.next_value::<serde::de::IgnoredAny>()?;
            } else {
                map.next_value_seed(self.within())?;
            }
            self.place.0.pop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_handed_out_with_its_place() {
        let json = br#"{"meta": {"product": "a", "markerSchema": ["b"]}, "threads": [{"name": "c\u0064"}, 1, null, true, -1, 0.5]}"#;
        let mut packed = Vec::new();
        crate::gzip::gzip(&mut packed, 1, |out| Ok(std::io::Write::write_all(out, json)?)).unwrap();
        let mut found = Vec::new();
        texts(&packed[..], &mut |place, text| found.push(format!("{place}={text}"))).unwrap();
        assert_eq!(found, ["meta.product=a", "threads[0].name=cd"]);
        assert!(texts(&packed[..20], &mut |_, _| {}).is_err());
    }
}
