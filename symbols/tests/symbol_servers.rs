//! Names from a server for Breakpad symbol files: whole ones, and everything that can be wrong with
//! a server, a file or the cache.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use build::served::{Answer, Server};
use build::sym::{debug_id, symbol_file};
use build::{Build, Symbol};
use flate2::Compression;
use flate2::write::GzEncoder;
use symbols::{AddressNames, Config, Debuginfod, SymbolServers, Symbolicator, mozilla};

const SOURCE: &str = include_str!("programs/inlined.cpp");

fn symbolicator(servers: SymbolServers) -> Symbolicator {
    Symbolicator::new(Config {
        symbol_servers: Some(servers),
        ..Config::default()
    })
    .unwrap()
}

/// A stripped program, the path of its symbol file on a server, and the file.
struct Stripped {
    build: Build,
    path: String,
    file: String,
    functions: Vec<Symbol>,
    /// Names of all bytes of all functions, from DWARF.
    expected: Vec<AddressNames>,
}

fn stripped() -> Stripped {
    let build = Build::new("inlined", "cpp", SOURCE, &["-O2", "-g"]);
    let file = symbol_file(&build);
    // Functions of the C library's start files are not in DWARF.
    let functions: Vec<Symbol> = (build.functions())
        .filter(|symbol| {
            let name = build.resolve(&[symbol.start]).unwrap().remove(0).unwrap();
            name.inline_chain.last().unwrap().file.is_some()
        })
        .cloned()
        .collect();
    assert!(functions.len() >= 2, "{functions:?}");
    let names = |symbol: &Symbol| build.resolve(&addresses(symbol)).unwrap();
    let expected = functions.iter().map(names).collect();
    build.tool("strip", &["--strip-all", "inlined"]);
    let path = format!("/inlined/{}/inlined.sym", debug_id(&build));
    Stripped {
        build,
        path,
        file,
        functions,
        expected,
    }
}

fn addresses(symbol: &Symbol) -> Vec<u32> {
    (symbol.start..symbol.end()).collect()
}

impl Stripped {
    #[track_caller]
    fn assert_named(&self, symbolicator: &Symbolicator) {
        for (symbol, expected) in self.functions.iter().zip(&self.expected) {
            let names = symbolicator.resolve(&self.build.request(), &addresses(symbol)).unwrap();
            assert_eq!(&names, expected, "{symbol:?}");
        }
    }

    /// No function has a name, and the reason is among the notes.
    #[track_caller]
    fn assert_nameless(&self, symbolicator: &Symbolicator, why: &str) {
        for symbol in &self.functions {
            let names = symbolicator.resolve(&self.build.request(), &addresses(symbol)).unwrap();
            assert!(names.iter().flatten().all(|name| name.is_nameless), "{names:?}");
        }
        let notes = symbolicator.notes();
        assert!(notes.iter().any(|note| note.contains(why)), "{why}: {notes:#?}");
    }

    fn answer(&self, answer: Answer) -> (Server, tempfile::TempDir) {
        (Server::start(&self.path, answer), tempfile::tempdir().unwrap())
    }
}

#[test]
fn every_function_has_its_name_inline_chain_and_lines() {
    let program = stripped();
    for compressed in [false, true] {
        let (server, cache) = program.answer(Answer::File(program.file.clone().into(), compressed));
        let servers = server.config(cache.path().join("cache"));
        let first = symbolicator(servers.clone());
        program.assert_named(&first);
        let notes = first.notes();
        assert!(
            notes.len() == 1 && notes[0].contains("asked for the symbols of 1 file and had 1"),
            "{notes:?}"
        );
        program.assert_named(&symbolicator(servers));
        assert_eq!(server.requests(), 1, "the second time it is in the cache");
    }
}

#[test]
fn a_symbol_without_a_size_does_not_reach_into_the_next_function() {
    let program = stripped();
    let mut functions = program.functions.clone();
    functions.sort_by_key(|symbol| symbol.start);
    let (first, rest) = functions.split_first().unwrap();
    let module = program.file.lines().next().unwrap();
    let file = format!("{module}\nPUBLIC {:x} 0 only_this()\n", first.start);
    let (server, cache) = program.answer(Answer::File(file.into(), false));
    let symbolicator = symbolicator(server.config(cache.path().join("cache")));
    for name in symbolicator
        .resolve(&program.build.request(), &addresses(first))
        .unwrap()
    {
        assert_eq!(name.unwrap().symbol, "only_this()");
    }
    for other in rest {
        let names = symbolicator
            .resolve(&program.build.request(), &addresses(other))
            .unwrap();
        assert!(names.iter().flatten().all(|name| name.is_nameless), "{names:?}");
    }
}

#[test]
fn bad_answers_give_no_names_and_a_reason() {
    let program = stripped();
    let whole = program.file.as_bytes();
    let other = program.file.replacen(&debug_id(&program.build), &"7".repeat(33), 1);
    let page = |status: &str| {
        let body = "<!DOCTYPE html><title>Log in</title>";
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Answer::Raw((head + body).into())
    };
    let redirect = |to: &str| {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        Answer::Raw(head.into())
    };
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(whole).unwrap();
    let compressed = compressed.finish().unwrap();
    let gzip = |body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Answer::Raw([head.as_bytes(), body].concat())
    };
    let cut = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
        whole.len(),
        &program.file[..whole.len() / 2]
    );
    for (answer, why) in [
        (Answer::File(whole[..whole.len() - 1].to_vec(), false), "cut off"),
        (Answer::File(Vec::new(), false), "cut off"),
        (Answer::Raw(cut.into()), "failed and is not asked again"),
        (gzip(&compressed[..compressed.len() / 2]), "damaged or cut off"),
        (gzip(whole), "damaged or cut off"),
        (Answer::File(other.into(), false), "another build"),
        (page("200 OK"), "web page"),
        (page("503 Service Unavailable"), "503"),
        (page("404 Not Found"), "had 0"),
        (redirect("file:///etc/passwd"), "redirected"),
        (redirect("ftp://127.0.0.1/x"), "redirected"),
        (redirect(&format!("/base{}", program.path)), "redirected too often"),
        (
            Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx".into()),
            "compression is unknown",
        ),
        (
            Answer::Raw(b"\x00\x01 not HTTP".into()),
            "failed and is not asked again",
        ),
        (Answer::Endless(program.file.clone().into()), "implausibly long"),
    ] {
        let (server, cache) = program.answer(answer);
        program.assert_nameless(&symbolicator(server.config(cache.path().join("cache"))), why);
        assert!(
            files_below(cache.path()).is_empty(),
            "nothing half-written stays: {why}"
        );
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] })
        .collect()
}

#[test]
fn a_server_that_fails_is_asked_once() {
    let program = stripped();
    let (server, cache) = program.answer(Answer::Silence);
    let servers = SymbolServers {
        timeout: Duration::from_millis(300),
        ..server.config(cache.path().join("cache"))
    };
    program.assert_nameless(&symbolicator(servers), "failed and is not asked again");
    assert_eq!(server.requests(), 1);

    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let servers = SymbolServers {
        urls: vec![format!("http://{gone}")],
        ..server.config(cache.path().join("cache"))
    };
    let offline = symbolicator(servers);
    program.assert_nameless(&offline, "not asked again");
    assert!(
        offline.notes().len() == 2 && offline.notes()[0].contains("1 file "),
        "{:?}",
        offline.notes()
    );
}

#[test]
fn the_next_server_is_asked() {
    let program = stripped();
    let (empty, cache) = program.answer(Answer::Raw(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n".into()));
    let (server, _) = program.answer(Answer::File(program.file.clone().into(), true));
    let servers = SymbolServers {
        urls: vec![empty.url.clone(), server.url.clone()],
        ..server.config(cache.path().join("cache"))
    };
    program.assert_named(&symbolicator(servers));
    assert_eq!((empty.requests(), server.requests()), (1, 1));
}

#[test]
fn mozillas_server_is_asked_about_builds_from_mozilla_only() {
    let program = stripped();
    let (server, cache) = program.answer(Answer::File(program.file.clone().into(), true));
    let servers = SymbolServers {
        urls: Vec::new(),
        for_mozilla: Some(server.url.clone()),
        ..server.config(cache.path().join("cache"))
    };
    let names = |servers: &SymbolServers| {
        let names = symbolicator(servers.clone()).resolve(&program.build.request(), &[program.functions[0].start]);
        names.unwrap().remove(0).unwrap().symbol
    };
    let application = program.build.path(mozilla::APPLICATION);
    assert!(names(&servers).starts_with("fun_"));
    fs::write(&application, "[App]\nSourceRepository=https://example.org/firefox\n").unwrap();
    assert!(names(&servers).starts_with("fun_"));
    assert_eq!(server.requests(), 0);
    let listed = SymbolServers {
        mozilla_folders: Some(vec![PathBuf::from("/opt/firefox")]),
        ..servers.clone()
    };
    fs::write(
        &application,
        "[App]\nSourceRepository=https://hg.mozilla.org/mozilla-central\n",
    )
    .unwrap();
    assert!(names(&listed).starts_with("fun_"), "only in the listed folders");
    assert!(!names(&servers).starts_with("fun_"));
    let listed = SymbolServers {
        mozilla_folders: Some(vec![program.build.directory.path().to_owned()]),
        ..servers
    };
    assert!(!names(&listed).starts_with("fun_"));
    assert_eq!(server.requests(), 1);
}

#[test]
fn a_cached_file_of_another_user_or_build_is_not_used() {
    let program = stripped();
    let (server, cache) = program.answer(Answer::File(program.file.clone().into(), false));
    let servers = server.config(cache.path().join("cache"));
    program.assert_named(&symbolicator(servers.clone()));
    let saved = files_below(cache.path()).remove(0);

    fs::set_permissions(&saved, fs::Permissions::from_mode(0o666)).unwrap();
    program.assert_nameless(&symbolicator(servers.clone()), "others may change it: remove it");
    fs::set_permissions(&saved, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(
        &saved,
        program.file.replacen(&debug_id(&program.build), &"7".repeat(33), 1),
    )
    .unwrap();
    program.assert_nameless(&symbolicator(servers.clone()), "damaged");
    // As after a crash of the machine: it is downloaded again.
    fs::write(&saved, program.file[..program.file.len() / 2].trim_end()).unwrap();
    program.assert_named(&symbolicator(servers));
    assert_eq!(server.requests(), 2);
}

#[test]
fn a_cache_that_cannot_be_written_costs_names_only() {
    let program = stripped();
    let (server, _) = program.answer(Answer::File(program.file.clone().into(), false));
    let servers = server.config(PathBuf::from("/proc/self/cache"));
    program.assert_nameless(&symbolicator(servers), "can't be saved");
}

#[test]
fn a_cache_of_debug_files_that_is_not_used_is_named() {
    let program = stripped();
    let path = format!("/buildid/{}/debuginfo", program.build.build_id());
    let server = Server::start(&path, Answer::File(b"\x7fELF".into(), false));
    let asked = |cache: &Path| {
        let debuginfod = Debuginfod {
            urls: vec![server.url.clone()],
            cache_directory: cache.into(),
            timeout: Duration::from_mins(1),
        };
        let config = Config {
            debuginfod: Some(debuginfod),
            ..Config::default()
        };
        Symbolicator::new(config).unwrap()
    };
    program.assert_nameless(&asked(Path::new("/proc/self/cache")), "debug files can't be saved");
    let cache = tempfile::tempdir().unwrap();
    fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).unwrap();
    program.assert_nameless(&asked(cache.path()), "others may change it: remove it");
    assert_eq!(server.requests(), 0);
    // Saved, since its beginning is right; whether the rest is can only be seen later.
    let cache = tempfile::tempdir().unwrap();
    program.assert_nameless(&asked(cache.path()), "debuginfo is not used: it is damaged");
    program.assert_nameless(&asked(cache.path()), "once removed, it is requested again");
    assert_eq!(server.requests(), 1);
}
