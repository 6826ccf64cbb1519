//! A sanitized profile contains no name of a person or machine, in any spelling; other words stay.

use profiler::fact::Tables;
use profiler::fact::reduce::budget::{Budget, Collected};
use profiler::fact::reduce::sanitize::{Person, sanitize};
use profiler::fact::reduce::strings::{self, Kind};
use profiler::profile::lint;
use profiler::report::privacy::disclosures;
use proptest::prelude::*;

use super::profile_synthetic::everything;
use super::{json, read, sums};

/// Puts a text into every text field, as a function of the field's kind; arguments on every command line.
fn planted(text: impl Fn(Kind) -> String) -> (Tables, Collected) {
    let mut facts = everything();
    facts.tables.sources = [("src/main.c".to_owned(), String::new())].into_iter().collect();
    for call in facts.waits.iter_mut().filter_map(|wait| wait.call.as_mut()) {
        call.path = Some(String::new());
    }
    let (mut tables, mut collected) = facts.collect(Budget::default());
    tables.recording.cost = Some(profiler::event::Cost {
        programs_refused: Some(String::new()),
        ..profiler::event::Cost::default()
    });
    let (mut number, mut places) = (0, 0);
    strings::each(&mut tables, &mut collected, &mut |kind, old| {
        // Distinct, or tables would be merged.
        number += 1;
        *old = format!("{} {number}", text(kind));
        places += 1;
    });
    assert!(places > 50, "{places}");
    for program in strings::programs(&mut tables, &mut collected) {
        *program.command_line = vec![format!("tool: {}", text(Kind::Text)), "--password=hunter2".into()];
    }
    (tables, collected)
}

/// Writes the profile without personal data.
fn sanitized((mut tables, mut collected): (Tables, Collected), mut person: Person) -> String {
    person.add_seen(&mut tables, &mut collected);
    let before = sums(&tables, &collected);
    sanitize(&mut tables, &mut collected, &person);
    assert_eq!(sums(&tables, &collected), before);
    let after = String::from_utf8(json(&tables, &collected)).unwrap();
    assert_eq!(lint(after.as_bytes()), Vec::<String>::new());
    // Reading it back gives the same.
    assert_eq!(read(after.as_bytes()).0.processes, tables.processes);
    let lines = disclosures(&mut tables, &mut collected, &person).join("\n");
    assert!(lines.contains("no arguments") && lines.contains("not named"), "{lines}");
    after
}

#[test]
fn sanitized_profiles_reveal_no_personal_data() {
    let alice = || planted(|_| "file:///home/alice.smith/x of alice.smith@wonderland".into());
    let person = Person {
        homes: ["/home/elsewhere".to_owned()].into(),
        hosts: ["wonderland".to_owned()].into(),
        ..Person::default()
    };
    let (mut tables, mut collected) = alice();
    let mut seen = person.clone();
    seen.add_seen(&mut tables, &mut collected);
    let lines = disclosures(&mut tables, &mut collected, &seen).join("\n");
    for word in ["command lines: 1, e.g. tool: ", "/home/alice.smith", "wonderland"] {
        assert!(lines.contains(word), "{lines}");
    }
    assert!(!lines.contains("elsewhere"), "the profile does not contain it: {lines}");
    let after = sanitized(alice(), person);
    for word in ["alice", "smith", "hunter2", "wonderland"] {
        assert!(!after.contains(word), "{word}");
    }
    assert!(after.contains("/home/somebody/x of somebody@host"));
}

/// Encodes characters other than letters as in URLs, JSON and systemd.
fn spelled(text: &str, how: usize) -> String {
    let bytes = |c: char, spell: fn(u8) -> String| -> String {
        let spelled: Vec<String> = c.to_string().bytes().map(spell).collect();
        spelled.concat()
    };
    let escape = |c: char| match how {
        1 => bytes(c, |byte| format!("%{byte:02X}")),
        2 if (c as u32) < 0x1_0000 => format!("\\u{:04x}", c as u32),
        3 => bytes(c, |byte| format!("\\x{byte:02x}")),
        _ => c.to_string(),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { escape(c) })
        .collect()
}

fn name() -> impl Strategy<Value = String> {
    // Rare letters, to avoid matching a word of the profile by chance.
    let part = "[qzxj][qzxj][a-z0-9éü]{1,6}";
    let more = prop::collection::vec(("[-._@]", part), 0..3);
    (part, more).prop_map(|(first, more)| {
        let rest: String = more.into_iter().map(|(joint, part)| joint + &part).collect();
        first + &rest
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_name_remains(
        user in name(),
        host in name(),
        by_path: bool,
        how in 0..4usize,
        upper: bool,
        around in ("[a-z]{0,2}", "[-_./: ~=]", "[-_./: =]"),
    ) {
        prop_assume!(!user.contains(&host) && !host.contains(&user));
        // A longer word that begins or ends with the name is a different word.
        let longer = [format!("{user}qq"), format!("qq{user}")];
        let written = if upper { user.to_uppercase() } else { user.clone() };
        let place = |name: &str| {
            let before = format!("{}{}", around.0, around.1);
            before + &spelled(name, how) + &around.2
        };
        let text = format!(
            "{} {} {} {}",
            if by_path { format!("/home/{user}/a") } else { String::new() },
            place(&written),
            place(&host),
            longer.join(" ")
        );
        let mut person = Person::default();
        person.hosts.insert(host.clone());
        if !by_path {
            person.users.insert(user.clone());
        }
        let after = sanitized(planted(|_| text.clone()), person);
        // As spelled in JSON.
        let escaped = [&written, &host].map(|name| spelled(name, how).replace('\\', "\\\\"));
        for name in [&user, &written, &host, &escaped[0], &escaped[1]] {
            for (at, _) in after.match_indices(name.as_str()) {
                let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                let (before, behind) = (after[..at].chars().next_back(), after[at + name.len()..].chars().next());
                prop_assert!(is_word(before) || is_word(behind), "{name} in {}", &after[at.saturating_sub(40)..at + name.len()]);
            }
        }
        prop_assert!(!after.contains("hunter2"));
        // Those with @ may be e-mail addresses.
        if !user.contains(['@', '.', '-', '_']) {
            prop_assert!(longer.iter().all(|word| after.contains(word)));
        }
    }
}
