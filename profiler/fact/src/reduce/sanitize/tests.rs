//! Which parts of a text are removed, and which stay.

use super::*;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn person() -> Person {
    Person {
        homes: set(&[
            "/home/al",
            "/home/alice",
            "/home/alice.smith",
            "/data/nfs/alice",
            "/root",
            "/home/main",
        ]),
        users: set(&[
            "al",
            "alice",
            "alice.smith",
            "bob@corp.example",
            "josé",
            "main",
            "root",
            "Alice B. Smith",
        ]),
        hosts: set(&["wonderland", "rabbit-hole.example"]),
    }
}

#[track_caller]
fn becomes(kind: Kind, text: &str, sanitized: &str) {
    let without = without(&person().names(), kind, text);
    assert_eq!(without.as_deref().unwrap_or(text), sanitized, "{text}");
}

#[test]
fn homes_and_names_are_removed_everywhere() {
    for (text, sanitized) in [
        ("/home/alice/x/main.c", "/home/somebody/x/main.c"),
        ("/home/alice.smith/x", "/home/somebody/x"),
        ("/home/al/x", "/home/somebody/x"),
        ("/home/alice", "/home/somebody"),
        ("/data/nfs/alice/y", "/home/somebody/y"),
        ("/proc/7/root/home/alice/y", "/proc/7/root/home/somebody/y"),
        ("cd /root; ls", "cd /home/somebody; ls"),
        ("/home/main/main.c", "/home/somebody/main.c"),
        ("/tmp/build-alice/x", "/tmp/build-somebody/x"),
        ("/tmp/alice_2/alice-3", "/tmp/somebody_2/somebody-3"),
        ("/tmp/build-of/ALICE/x", "/tmp/build-of/somebody/x"),
        ("/srv/bob@corp.example/x", "/srv/somebody/x"),
        ("home-alice.mount", "home-somebody.mount"),
        (r"home-alice\x2dsmith.mount", r"home-somebody\x2dsmith.mount"),
        (r"home-alice\x2esmith.mount", "home-somebody.mount"),
        ("/x/José", "/x/somebody"),
        ("/x/Jose\u{301}/y", "/x/somebody/y"),
    ] {
        becomes(Kind::Path, text, sanitized);
        becomes(Kind::Text, text, sanitized);
    }
}

#[test]
fn texts_and_functions_contain_no_user_name() {
    for (text, sanitized) in [
        ("alice@wonderland: malice", "somebody@host: malice"),
        ("on rabbit-hole.example.", "on host."),
        ("Alice B. Smith's", "somebody's"),
        (
            "file:///home/alice/a file:///home/alice/b",
            "file:///home/somebody/a file:///home/somebody/b",
        ),
        (
            "x=file%3A%2F%2F%2Fhome%2Falice%2Fa",
            "x=file%3A%2F%2F/home/somebody%2Fa",
        ),
        (
            r#"{"user":"\u0061lice","at":"\/home\/alice\/x"}"#,
            r#"{"user":"somebody","at":"/home/somebody\/x"}"#,
        ),
        ("jos%C3%A9 jose%CC%81", "somebody somebody"),
        ("~main main@wonderland", "~somebody somebody@host"),
        (
            "by carol@corp.example from 10.20.30.40",
            "by somebody@host from 0.0.0.0",
        ),
    ] {
        becomes(Kind::Text, text, sanitized);
    }
    for (text, sanitized) in [
        ("alice::run", "somebody::run"),
        ("{closure@/home/alice/x.rs:3}", "{closure@/home/somebody/x.rs:3}"),
    ] {
        becomes(Kind::Function, text, sanitized);
    }
}

#[test]
fn words_that_merely_contain_a_name_are_kept() {
    for text in [
        "/home/alicent/x",
        "malice alices alice2",
        "al gore",
        "main root main.c",
        "/proc/7/root/etc",
        "/srv/root",
        "joséphine jose",
        "wonderlands",
        "100% %zz",
    ] {
        becomes(Kind::Path, text, text);
        becomes(Kind::Text, text, text);
    }
    becomes(Kind::Function, "main@plt", "main@plt");
    becomes(Kind::Function, "~main", "~main");
}

#[test]
fn account_names_are_found_in_texts() {
    let seen = |kind, text: &str| {
        let mut person = Person::default();
        seen::look(&mut person, kind, text);
        let Person { homes, users, hosts } = person;
        let all = homes.into_iter().chain(users).chain(hosts);
        all.collect::<Vec<_>>().join(" ")
    };
    for (text, names) in [
        ("at /home/alice.smith, and", "/home/alice.smith alice.smith"),
        (
            "file:///home/bob@corp.example/x",
            "/home/bob@corp.example bob bob@corp.example corp.example",
        ),
        ("%2Fexport%2Fhome%2Fjos%C3%A9", "/home/josé josé"),
        ("/run/media/alice/DISK", "alice"),
        ("/mnt/a/home/alice/x", "/home/alice alice"),
        // A folder in a source tree; a web page.
        ("/b/src/browser/components/home/widgets/x.js", "/home/widgets"),
        ("src/home/main.c", ""),
        ("https://www.example.org/home/news", ""),
        ("/home/ /home/. /home/12", ""),
        ("/root", "/root"),
    ] {
        assert_eq!(seen(Kind::Text, text), names, "{text}");
    }
    assert_eq!(seen(Kind::Path, "/home/alice smith/x"), "/home/alice smith alice smith");
}

#[test]
fn only_the_program_of_a_command_line_is_kept() {
    let name = |path: Option<&str>, first: &str| {
        let command_line = &mut vec![first.to_owned(), "--password=x".to_owned()];
        program_name(&Program { path, command_line }).unwrap()
    };
    for (path, first, program) in [
        (
            "/usr/lib/postgresql/15/bin/postgres",
            "postgres: carol payroll_db 10.20.30.40 SELECT",
            "postgres",
        ),
        (
            "/usr/lib/chromium/chromium",
            "/usr/lib/chromium/chromium --type=renderer",
            "/usr/lib/chromium/chromium",
        ),
        ("/opt/My App/run", "/opt/My App/run", "/opt/My App/run"),
        ("/usr/bin/python3.11", "python", "python"),
        ("/usr/bin/bash", "-bash", "-bash"),
        ("/usr/sbin/nginx (deleted)", "nginx: worker process", "nginx"),
        ("/opt/server", "carol's queue", "server"),
        ("/opt/server", "", "server"),
    ] {
        assert_eq!(name(Some(path), first), program, "{first}");
    }
    assert_eq!(name(None, "./my tool"), "./my tool");
}
