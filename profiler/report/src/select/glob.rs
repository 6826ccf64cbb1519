//! Patterns of names.

/// Whether a name matches a pattern, in which `*` matches any text and `?` one character.
pub fn glob(pattern: &str, name: &str) -> bool {
    if pattern == name {
        return true;
    }
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // Where to resume on a mismatch: after the last `*`, one character later in the name.
    let mut again = None;
    loop {
        let mut ahead = pattern.clone();
        match ahead.next() {
            Some('*') => {
                pattern = ahead;
                again = Some((pattern.clone(), name.clone()));
                continue;
            }
            Some(wanted) => {
                let mut rest = name.clone();
                if rest.next().is_some_and(|c| c == wanted || wanted == '?') {
                    (pattern, name) = (ahead, rest);
                    continue;
                }
            }
            None if name.as_str().is_empty() => return true,
            None => {}
        }
        let Some((behind, mut from)) = again.take() else {
            return false;
        };
        if from.next().is_none() {
            return false;
        }
        again = Some((behind.clone(), from.clone()));
        (pattern, name) = (behind, from);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("libxul.so", "libxul.so", true),
            ("lib*.so*", "libc.so.6", true),
            ("lib*.so", "libc.so.6", false),
            ("*", "", true),
            ("?", "", false),
            ("?", "é", true),
            ("a*b*c", "a b b d c", true),
            ("a*b*c", "a c b", false),
            ("operator*", "operator*", true),
        ] {
            assert_eq!(glob(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_that_backtracks_is_not_slow() {
        assert!(!glob(&"*a".repeat(1000), &"a".repeat(999)));
    }

    proptest! {
        #[test]
        fn a_pattern_made_from_a_name_matches_it(name in "[a-c?*é]{0,20}", from in 0..20_usize, to in 0..20_usize) {
            let chars: Vec<char> = name.chars().collect();
            let (from, to) = (from.min(to).min(chars.len()), from.max(to).min(chars.len()));
            let pattern: String = chars[..from].iter().chain(&['*']).chain(&chars[to..]).collect();
            prop_assert!(glob(&pattern, &name), "{} {}", pattern, name);
        }
    }
}
