//! Inline chains with file and line, compared with the sources and with binutils' `addr2line`.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use build::{Build, Symbol, symbolicator};
use symbols::{AddressName, Config, Debuginfod, Symbolicator};

const C_SOURCE: &str = include_str!("programs/functions.c");
const CPP_SOURCE: &str = include_str!("programs/inlined.cpp");
const RUST_SOURCE: &str = include_str!("programs/inlined.rs");

fn all_names(symbolicator: &Symbolicator, build: &Build, symbol: &Symbol) -> Vec<AddressName> {
    let addresses: Vec<u32> = (symbol.start..symbol.end()).collect();
    let names = symbolicator.resolve(&build.request(), &addresses).unwrap();
    names
        .into_iter()
        .map(|name| name.expect("every byte of a sized function has a name"))
        .collect()
}

/// The chains of a function as `function:line`, innermost first.
fn chains(names: &[AddressName]) -> Vec<Vec<String>> {
    let frame = |frame: &symbols::SourceFrame| format!("{}:{}", frame.function, frame.line.unwrap_or(0));
    names
        .iter()
        .map(|name| name.inline_chain.iter().map(frame).collect())
        .collect()
}

#[track_caller]
fn assert_cpp_chain(symbolicator: &Symbolicator, build: &Build) {
    let names = all_names(symbolicator, build, &build.symbol_with("outer"));
    for name in &names {
        assert_eq!(name.symbol, "shapes::outer(shapes::Box const&, int)");
    }
    let expected = ["int shapes::leaf<int>(int):8", "shapes::Box::area(int) const:14"];
    let expected_without_return_type = ["shapes::leaf<int>(int):8", expected[1]];
    let outer = "shapes::outer(shapes::Box const&, int):19";
    let chains = chains(&names);
    assert!(
        chains.iter().any(|chain| chain.len() == 3
            && (chain[..2] == expected || chain[..2] == expected_without_return_type)
            && chain[2] == outer),
        "{chains:#?}"
    );
    let file = names[0].inline_chain[0].file.as_deref().unwrap();
    assert!(file.ends_with("inlined.cpp"), "{file}");
}

#[test]
fn functions_with_several_names_keep_their_underscores() {
    // As in libc: the function is `__NAME_impl`, but is commonly known by the other name.
    let source = "
        __attribute__((noinline)) int __twin_impl(int x) { return x * 3; }
        int twin(int x) __attribute__((alias(\"__twin_impl\")));
        __attribute__((noinline)) int plain(int x) { return x * 5; }
        int _plain(int x) __attribute__((alias(\"plain\")));
        __attribute__((noinline)) int _one(int x) { return x * 7; }
        static inline __attribute__((always_inline)) int __two(int x) { return x * 9; }
        int main(int n, char **v) { return twin(n) + _plain(n) + _one(n) + __two(n); }";
    let build = Build::new("twins", "c", source, &["-O1", "-g"]);
    let symbolicator = symbolicator();
    for (symbol, known, function) in [
        ("twin", "twin", "__twin_impl"),
        ("plain", "plain", "plain"),
        ("_one", "_one", "_one"),
    ] {
        for name in all_names(&symbolicator, &build, &build.symbol(symbol)) {
            assert_eq!((name.symbol.as_str(), name.inline_chain.len()), (known, 1));
            assert_eq!(name.inline_chain[0].function, function);
        }
    }
    let inlined = chains(&all_names(&symbolicator, &build, &build.symbol("main")));
    assert!(inlined.iter().any(|chain| chain[0] == "__two:7"), "{inlined:?}");
}

#[test]
fn cpp_inlining() {
    let build = Build::new("inlined", "cpp", CPP_SOURCE, &["-O2", "-g"]);
    assert_cpp_chain(&symbolicator(), &build);
}

#[test]
fn cpp_inlining_in_compressed_debug_info() {
    let build = Build::new("inlined", "cpp", CPP_SOURCE, &["-O2", "-g", "-gz"]);
    assert_cpp_chain(&symbolicator(), &build);
}

#[test]
fn cpp_inlining_in_a_linked_debug_file() {
    let build = Build::new("inlined", "cpp", CPP_SOURCE, &["-O2", "-g"]);
    build.tool("objcopy", &["--only-keep-debug", "inlined", "inlined.debug"]);
    build.tool(
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=inlined.debug", "inlined"],
    );
    assert_cpp_chain(&symbolicator(), &build);
}

#[test]
fn cpp_inlining_in_split_dwarf() {
    let build = Build::new(
        "inlined",
        "cpp",
        CPP_SOURCE,
        &["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf"],
    );
    assert_cpp_chain(&symbolicator(), &build);
}

#[test]
fn cpp_inlining_in_split_dwarf_5() {
    let build = Build::new(
        "inlined",
        "cpp",
        CPP_SOURCE,
        &["-O2", "-g", "-gdwarf-5", "-gsplit-dwarf"],
    );
    assert_cpp_chain(&symbolicator(), &build);
    // Another unit's file is not accepted for it.
    let dwo = fs::read_dir(&build.directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let dwo = dwo
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "dwo"))
        .unwrap();
    let other = Build::new(
        "other",
        "c",
        "int main(void) { return 5; }",
        &["-g", "-gdwarf-5", "-gsplit-dwarf"],
    );
    let others = fs::read_dir(&other.directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let others = others
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "dwo"))
        .unwrap();
    fs::copy(others, dwo).unwrap();
    for name in all_names(&symbolicator(), &build, &build.symbol_with("outer")) {
        assert_eq!(
            (name.symbol.as_str(), name.inline_chain.len()),
            ("shapes::outer(shapes::Box const&, int)", 1)
        );
    }
}

#[test]
fn cpp_inlining_with_mini_debug_info() {
    let build = Build::new("inlined", "cpp", CPP_SOURCE, &["-O2", "-g"]);
    build.tool("objcopy", &["-S", "inlined", "mini"]);
    build.tool("xz", &["mini"]);
    build.tool("objcopy", &["--add-section", ".gnu_debugdata=mini.xz", "inlined"]);
    assert_cpp_chain(&symbolicator(), &build);
}

#[test]
fn rust_inlining() {
    let build = Build::new("inlined", "rs", RUST_SOURCE, &["-O", "-g"]);
    let names = all_names(&symbolicator(), &build, &build.symbol_with("busy_loop"));
    for name in &names {
        assert_eq!(name.symbol, "inlined::busy_loop");
    }
    let chains = chains(&names);
    // The standard library's `black_box` may be further inside.
    let expected = ["inlined::Counter::add:11", "inlined::twice:17", "inlined::busy_loop:24"];
    let with_brackets = ["<inlined::Counter>::add:11", expected[1], expected[2]];
    let matches = |chain: &Vec<String>| {
        chain.ends_with(&expected.map(str::to_owned)) || chain.ends_with(&with_brackets.map(str::to_owned))
    };
    assert!(chains.iter().any(matches), "{chains:#?}");
}

#[test]
fn names_that_start_with_an_underscore_keep_it() {
    let build = Build::new("underscore", "c", C_SOURCE, &["-O1", "-g"]);
    for name in all_names(&symbolicator(), &build, &build.symbol("_underscored")) {
        assert_eq!(name.symbol, "_underscored");
        assert_eq!(name.inline_chain[0].function, "_underscored");
    }
}

/// An executable at fixed addresses that is larger than its base address. Relative to the base, the
/// long function at its end has the addresses that the unwind tables state for the short functions
/// at its start.
#[test]
fn large_executable_with_fixed_addresses() {
    let build = Build::new("small", "c", C_SOURCE, &[]);
    let statements = (0..400)
        .map(|number| format!("    sink += n * {number};\n"))
        .collect::<Vec<_>>()
        .concat();
    let long = format!("extern volatile int sink;\nint long_function(int n) {{\n{statements}    return n;\n}}\n");
    fs::write(build.path("long.c"), long).unwrap();
    fs::write(build.path("padding.s"), ".text\n.skip 0x3ff000, 0x90\n").unwrap();
    let sources = ["small.c", "padding.s", "long.c"];
    let arguments = ["-O0", "-g", "-no-pie", "-Wl,--build-id=sha1", "-o", "large"];
    build.tool("gcc", &[&arguments[..], &sources].concat());
    let build = build.reread("large");
    assert_eq!(build.base(), 0x40_0000);
    let (short, long) = (build.symbol("exported_first"), build.symbol("long_function"));
    let stated = u32::try_from(build.base()).unwrap() + short.end();
    assert!(
        (long.start..long.end()).contains(&stated),
        "{stated:#x} should be in {long:x?}"
    );
    for function in ["exported_first", "private_middle", "long_function"] {
        for name in all_names(&symbolicator(), &build, &build.symbol(function)) {
            assert_eq!(name.symbol, function);
            assert_eq!(name.inline_chain[0].function, function);
            assert!(name.inline_chain[0].line.is_some(), "{name:?}");
        }
    }
}

/// Every byte of several functions.
#[test]
fn agrees_with_addr2line() {
    let build = Build::new("inlined", "cpp", CPP_SOURCE, &["-O2", "-g"]);
    for symbol in [build.symbol_with("outer"), build.symbol("main")] {
        for (offset, name) in all_names(&symbolicator(), &build, &symbol).iter().enumerate() {
            let address = build.base() + u64::from(symbol.start) + offset as u64;
            let arguments = ["-C", "-f", "-i", "-e", "inlined", &format!("{address:#x}")];
            let output = Command::new("addr2line")
                .current_dir(&build.directory)
                .args(arguments)
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let lines: Vec<_> = text.lines().collect();
            let expected: Vec<u32> = lines
                .chunks(2)
                .map(|pair| {
                    pair[1]
                        .rsplit_once(':')
                        .unwrap()
                        .1
                        .split(' ')
                        .next()
                        .unwrap()
                        .parse()
                        .unwrap_or(0)
                })
                .collect();
            let found: Vec<u32> = name.inline_chain.iter().map(|frame| frame.line.unwrap_or(0)).collect();
            assert_eq!(found, expected, "{address:#x}: {text}");
        }
    }
}

/// A debuginfod server on the loopback device.
struct Server {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Server {
    /// Serves `contents` at `path` and nothing else; with `None`, it accepts connections and never
    /// responds.
    fn start(path: String, contents: Option<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut unanswered = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let Some(contents) = &contents else {
                    unanswered.push(stream);
                    continue;
                };
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                let found = request[..length].starts_with(format!("GET {path} ").as_bytes());
                let (status, body) = if found {
                    ("200 OK", &contents[..])
                } else {
                    ("404 Not Found", &b"no"[..])
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                // The client may close the connection on a response that it rejects.
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
            }
        });
        Self { url, requests }
    }

    fn symbolicator(&self, cache_directory: PathBuf, timeout: Duration) -> Symbolicator {
        let debuginfod = Debuginfod {
            urls: vec![self.url.clone()],
            cache_directory,
            timeout,
        };
        Symbolicator::new(Config {
            debuginfod: Some(debuginfod),
            ..Config::default()
        })
        .unwrap()
    }
}

fn split_for_server() -> (Build, String, Vec<u8>) {
    let build = Build::new("inlined", "cpp", CPP_SOURCE, &["-O2", "-g"]);
    build.tool("objcopy", &["--only-keep-debug", "inlined", "debug"]);
    build.tool("strip", &["--strip-all", "inlined"]);
    let id = build.build_id();
    let contents = fs::read(build.path("debug")).unwrap();
    fs::remove_file(build.path("debug")).unwrap();
    (build, format!("/buildid/{id}/debuginfo"), contents)
}

#[test]
fn debuginfod_server() {
    let (build, path, contents) = split_for_server();
    let server = Server::start(path, Some(contents));
    let timeout = Duration::from_mins(1);
    assert_cpp_chain(&server.symbolicator(build.path("cache"), timeout), &build);
    let requests = server.requests.load(Ordering::SeqCst);
    assert!(requests >= 1);
    assert_cpp_chain(&server.symbolicator(build.path("cache"), timeout), &build);
    assert_eq!(
        server.requests.load(Ordering::SeqCst),
        requests,
        "the second answer is from the cache"
    );
}

#[test]
fn debuginfod_server_without_the_file_or_with_another() {
    let (build, path, _) = split_for_server();
    let symbol = build.symbol_with("outer");
    for contents in [Vec::new(), b"garbage".to_vec(), fs::read("/proc/self/exe").unwrap()] {
        let path = if contents.is_empty() {
            "/elsewhere".to_owned()
        } else {
            path.clone()
        };
        let server = Server::start(path, Some(contents));
        let cache = tempfile::tempdir().unwrap();
        let symbolicator = server.symbolicator(cache.path().to_path_buf(), Duration::from_mins(1));
        let names = symbolicator.resolve(&build.request(), &[symbol.start]).unwrap();
        assert_eq!(names[0].as_ref().unwrap().symbol, format!("fun_{:x}", symbol.start));
        let failed = symbolicator.notes().iter().any(|note| note.contains("not asked again"));
        assert!(!failed);
    }
}

#[test]
fn a_hanging_debuginfod_server_is_queried_once() {
    let (build, path, _) = split_for_server();
    let server = Server::start(path, None);
    let symbolicator = server.symbolicator(build.path("cache"), Duration::from_millis(300));
    let symbol = build.symbol_with("outer");
    for _ in 0..3 {
        let names = symbolicator.resolve(&build.request(), &[symbol.start]).unwrap();
        assert_eq!(names[0].as_ref().unwrap().symbol, format!("fun_{:x}", symbol.start));
    }
    let notes = symbolicator.notes();
    assert!(notes.iter().any(|note| note.contains("not asked again")), "{notes:?}");
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

#[test]
fn extra_symbol_directory() {
    let (build, _, contents) = split_for_server();
    let id = build.build_id();
    let by_id = format!(".build-id/{}/{}.debug", &id[..2], &id[2..]);
    for place in [by_id.as_str(), "inlined.debug", "inlined"] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(place);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &contents).unwrap();
        let extra_symbol_directories = vec![directory.path().to_path_buf()];
        let symbolicator = Symbolicator::new(Config {
            extra_symbol_directories,
            ..Config::default()
        })
        .unwrap();
        assert_cpp_chain(&symbolicator, &build);
    }
}
