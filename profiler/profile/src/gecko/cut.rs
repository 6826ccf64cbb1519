//! Repairs JSON that ends too early, as a file does whose writer was killed: closes what is open after the last complete
//! value.

/// What is open.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Array,
    /// The next string is a key.
    Key,
    /// The next value belongs to a key.
    Value,
}

/// Deepest nesting that is followed.
const DEPTH: usize = 120;

/// The text up to its last complete value, with everything closed; `None`: nothing is complete, or it is not JSON.
pub fn closed(text: &[u8]) -> Option<Vec<u8>> {
    let mut open: Vec<Open> = Vec::new();
    // The end of the last complete value, and how many are open there: those are never changed before the next one.
    let mut whole: Option<(usize, Vec<Open>)> = None;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let mut is_value = false;
        match byte {
            b'[' => open.push(Open::Array),
            b'{' => open.push(Open::Key),
            b']' | b'}' => {
                open.pop()?;
                is_value = true;
            }
            b':' => *open.last_mut()? = Open::Value,
            b',' | b' ' | b'\n' | b'\t' | b'\r' => {}
            b'"' => {
                at = end_of_string(text, at).unwrap_or(text.len());
                is_value = at < text.len() && open.last() != Some(&Open::Key);
            }
            _ => {
                let rest = &text[at..];
                let len = rest.iter().take_while(|byte| !b",]} \n\t\r:".contains(byte)).count();
                at += len.max(1) - 1;
                // A number at the very end may be cut.
                is_value = at + 1 < text.len();
            }
        }
        if open.len() > DEPTH {
            return None;
        }
        at += 1;
        if is_value {
            if let Some(last @ Open::Value) = open.last_mut() {
                *last = Open::Key;
            }
            match &mut whole {
                Some((end, at_end)) => {
                    *end = at;
                    at_end.clone_from(&open);
                }
                None => whole = Some((at, open.clone())),
            }
        }
    }
    let (end, open) = whole?;
    let mut text = text.get(..end)?.to_owned();
    text.extend(
        open.iter()
            .rev()
            .map(|open| if *open == Open::Array { b']' } else { b'}' }),
    );
    Some(text)
}

/// Index of the closing quote; `None`: the text ends before.
fn end_of_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A failed unwrap fails the test.
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn complete_values_stay() {
        let text = br#"{"a":[1,{"b":"x\"","c":2},3],"d":{"e":[4,5"#;
        let value = |len: usize| closed(&text[..len]).map(|text| serde_json::from_slice::<Value>(&text).unwrap());
        assert_eq!(
            value(text.len()),
            Some(json!({"a": [1, {"b": "x\"", "c": 2}, 3], "d": {"e": [4]}}))
        );
        assert_eq!(value(8), Some(json!({"a": [1]})));
        assert_eq!((value(1), value(6)), (None, None));
        assert_eq!(closed(&b"[1,".repeat(200)), None);
        assert_eq!((closed(b"]]"), closed(b"")), (None, None));
    }

    proptest! {
        #[test]
        fn any_text_is_repaired_or_refused(text: Vec<u8>, part in 0.0..1.0) {
            let _ = closed(&text);
            let whole = br#"{"k":[{"x":"\\"},[-1.5e3,true,null]],"l":{"m":""}}"#;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let len = (part * whole.len() as f64) as usize;
            if let Some(text) = closed(&whole[..len]) {
                prop_assert!(serde_json::from_slice::<Value>(&text).is_ok(), "{}", String::from_utf8_lossy(&text));
            }
        }
    }
}
