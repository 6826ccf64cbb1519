//! Command lines as one line with shell quoting, which [`split`] reverses.

/// Quotes and joins arguments.
pub fn join(arguments: &[String]) -> String {
    arguments
        .iter()
        .map(|argument| quote(argument))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quote(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// Splits what [`join`] produced; `None` if a quote is not closed.
pub fn split(line: &str) -> Option<Vec<String>> {
    let mut arguments = Vec::new();
    let mut argument: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => arguments.extend(argument.take()),
            '\'' => {
                let argument = argument.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        quoted => argument.push(quoted),
                    }
                }
            }
            '\\' => argument.get_or_insert_default().push(chars.next()?),
            plain => argument.get_or_insert_default().push(plain),
        }
    }
    arguments.extend(argument);
    Some(arguments)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_as_a_shell_does() {
        let arguments = ["a b", "", "it's", "-x=1", "\n"].map(String::from);
        assert_eq!(join(&arguments), "'a b' '' 'it'\\''s' -x=1 '\n'");
        assert_eq!(split("'open"), None);
    }

    proptest! {
        #[test]
        fn arguments_round_trip(arguments: Vec<String>) {
            prop_assert_eq!(split(&join(&arguments)), Some(arguments));
        }
    }
}
