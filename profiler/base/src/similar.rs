//! Names that a mistyped one may mean.

/// Names that are listed, at most.
const LISTED: usize = 5;
/// Bytes of a name that are compared.
const COMPARED: usize = 64;

/// A sentence with the names that are most similar to `typed`, or with some of all names; empty if there are none.
pub fn sentence(typed: &str, names: impl IntoIterator<Item = String>) -> String {
    let mut names: Vec<(usize, String)> = names.into_iter().map(|name| (distance(typed, &name), name)).collect();
    names.sort_unstable();
    names.dedup();
    let close = typed.len().min(COMPARED) / 2;
    let count = names.iter().filter(|(distance, _)| *distance <= close).count();
    let (word, count) = if count > 0 {
        ("similar", count)
    } else {
        ("there are", names.len())
    };
    let listed: Vec<String> = (names.iter().take(count.min(LISTED)))
        .map(|(_, name)| format!("`{}`", name.escape_debug()))
        .collect();
    match listed.as_slice() {
        [] => String::new(),
        some if count > LISTED => format!("; {word}: {} and {} more", some.join(", "), count - LISTED),
        some => format!("; {word}: {}", some.join(", ")),
    }
}

/// How many bytes have to be inserted, removed or replaced; 0 also if one contains the other.
fn distance(typed: &str, name: &str) -> usize {
    let (typed, name) = (typed.to_ascii_lowercase(), name.to_ascii_lowercase());
    if !typed.is_empty() && name.contains(&typed) {
        return 0;
    }
    let cut = |text: String| text.into_bytes().into_iter().take(COMPARED).collect::<Vec<u8>>();
    let (typed, name) = (cut(typed), cut(name));
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (line, byte) in typed.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..name.len() {
            let replaced = diagonal + usize::from(*byte != name[column]);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_first() {
        let names = || ["nginx", "sshd", "postgres", "ng\x1bx"].map(str::to_owned);
        assert_eq!(sentence("ngnix", names()), "; similar: `ng\\u{1b}x`, `nginx`");
        assert_eq!(sentence("post", names()), "; similar: `postgres`");
        assert_eq!(sentence("firefox-bin", ["a".to_owned()]), "; there are: `a`");
        assert_eq!(sentence("x", []), "");
        let many = (0..9).map(|number| format!("name{number}"));
        assert_eq!(
            sentence("name", many),
            "; similar: `name0`, `name1`, `name2`, `name3`, `name4` and 4 more"
        );
        assert!(!sentence("ng", names()).contains('\x1b'));
    }

    #[test]
    fn distances() {
        for (one, other, expected) in [
            ("kitten", "sitting", 3),
            ("", "ab", 2),
            ("ab", "", 2),
            ("b", "abc", 0),
            ("AB", "ab", 0),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
