//! Names from a symbol server: while recording, from a kept log, and without the network.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use symbols::elf::ElfFile;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome};

/// A symbol server on the loopback device for one file.
struct Server {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Server {
    /// Serves the symbols of a program, which has them.
    fn of(program: &Oracle) -> Self {
        let elf = ElfFile::open(fs::File::open(&program.path).unwrap()).unwrap();
        let (name, id) = (program.name(), debug_id(elf.build_id()));
        let mut file = format!("MODULE Linux x86_64 {id} {name}\n");
        for function in elf.functions() {
            let start = function.svma - elf.base_svma();
            writeln!(file, "FUNC {start:x} {:x} 0 {}", function.size, function.name).unwrap();
        }
        let path = format!("GET /{name}/{id}/{name}.sym ");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                let (status, body) = if request[..length].starts_with(path.as_bytes()) {
                    ("200 OK", file.as_str())
                } else {
                    ("404 Not Found", "")
                };
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all((head + body).as_bytes());
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// The first 16 bytes of the build id as a little-endian GUID.
fn debug_id(build_id: &[u8]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let digits: Vec<String> = order.iter().map(|at| format!("{:02X}", build_id[*at])).collect();
    digits.concat() + "0"
}

/// A program whose names only the server knows, in a folder, with a cache.
struct Setting {
    folder: tempfile::TempDir,
    program: PathBuf,
    server: Server,
}

impl Setting {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let oracle = Oracle::c_with("split.c", "split", &["-Wl,--build-id=sha1"]);
        let program = oracle.stripped().copied(&folder.path().join("split")).path;
        let server = Server::of(&oracle);
        Self {
            folder,
            program,
            server,
        }
    }

    fn in_cache(&self, ngmi: Ngmi) -> Ngmi {
        ngmi.env("XDG_CACHE_HOME", self.folder.path().join("cache"))
    }

    fn record(&self, args: &[&str]) -> Outcome {
        let ngmi = self.in_cache(Ngmi::record()).args(args);
        ngmi.program(&self.program, ["500"]).run()
    }

    fn convert(&self, log: &Path, args: &[&str]) -> Outcome {
        let ngmi = self.in_cache(Ngmi::subcommand("convert")).arg(log);
        ngmi.args(["-o", "out.json.gz"]).args(args).run()
    }
}

#[track_caller]
fn share_of_the_named(outcome: &Outcome) -> f64 {
    outcome.expect_code(0);
    outcome.profile().main_of("split").share("takes_three_parts")
}

#[test]
fn a_stripped_program_has_the_names_of_the_server() {
    needs_capture!();
    let setting = Setting::new();
    let server = &["--symbol-server", &*setting.server.url][..];
    let named = setting.record(server);
    let share = share_of_the_named(&named);
    assert!((share - 0.75).abs() < 0.1, "{share}");
    assert!(
        named.stderr.contains("was asked for the symbols of"),
        "{}",
        named.stderr
    );
    let asked = setting.server.requests();
    assert!(asked > 0);
    // From the cache.
    assert!(share_of_the_named(&setting.record(server)) > 0.6);

    let offline = setting.record(&[server, &["--no-network"]].concat());
    assert_eq!(share_of_the_named(&offline).to_bits(), 0, "no server, no name");
    let said = &offline.stderr;
    assert!(
        said.contains("split has no symbols") && said.contains("--symbol-server URL"),
        "{said}"
    );
    assert!(!named.stderr.contains("split has no symbols"), "{}", named.stderr);
    let info = |outcome: &Outcome| outcome.profile().meta["extra"].to_string();
    assert!(info(&offline).contains("split has no symbols"), "{}", info(&offline));
    assert!(!info(&named).contains("has no symbols"), "{}", info(&named));
}

#[test]
fn without_a_cache_folder_no_server_is_asked_and_that_is_reported() {
    needs_capture!();
    let setting = Setting::new();
    let record = |args: &[&str]| {
        let ngmi = Ngmi::record().env("XDG_CACHE_HOME", "").env("HOME", "").args(args);
        ngmi.program(&setting.program, ["200"]).run()
    };
    let outcome = record(&["--symbol-server", &setting.server.url]);
    let said = "no server was asked for names";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert_eq!(setting.server.requests(), 0);
    assert!(!record(&[]).stderr.contains(said), "none was named");
}

#[test]
fn no_network_asks_no_server() {
    needs_capture!();
    let setting = Setting::new();
    let outcome = setting
        .in_cache(Ngmi::record())
        .env("NGMI_SYMBOL_SERVER", &setting.server.url)
        .env("DEBUGINFOD_URLS", &setting.server.url)
        .arg("--no-network")
        .program(&setting.program, ["200"])
        .run();
    assert_eq!(share_of_the_named(&outcome).to_bits(), 0);
    assert_eq!(setting.server.requests(), 0);
}

#[test]
fn a_kept_log_can_be_named_later_and_without_the_binary() {
    needs_capture!();
    let setting = Setting::new();
    let recorded = setting.record(&["--keep-events", "kept.log"]);
    assert_eq!(share_of_the_named(&recorded).to_bits(), 0);
    let log = recorded.file("kept.log");
    let server = &["--symbol-server", &*setting.server.url][..];
    assert_eq!(share_of_the_named(&setting.convert(&log, &[])).to_bits(), 0);
    assert_eq!(setting.server.requests(), 0);
    let by_log = share_of_the_named(&setting.convert(&log, server));
    assert!(by_log > 0.6, "{by_log}");
    fs::remove_file(&setting.program).unwrap();
    fs::remove_dir_all(setting.folder.path().join("cache")).unwrap();
    let without = share_of_the_named(&setting.convert(&log, server));
    assert!(without > 0.6, "{without}");
}

#[test]
fn a_debuginfod_is_asked_about_a_kept_log() {
    needs_capture!();
    let setting = Setting::new();
    let recorded = setting.record(&["--keep-events", "kept.log"]);
    assert_eq!(setting.server.requests(), 0);
    let convert = setting
        .in_cache(Ngmi::subcommand("convert"))
        .arg(recorded.file("kept.log"));
    let convert = convert.env("DEBUGINFOD_URLS", &setting.server.url);
    convert.args(["-o", "out.json.gz"]).run().expect_code(0);
    assert!(setting.server.requests() > 0);
}

#[test]
fn an_empty_variable_names_no_server() {
    needs_capture!();
    let outcome = Ngmi::record()
        .env("NGMI_SYMBOL_SERVER", "")
        .program("true", [""; 0])
        .run();
    outcome.expect_code(0);
}

#[test]
fn a_bad_address_is_refused_before_recording() {
    let outcome = Ngmi::record()
        .args(["--symbol-server", "file:///etc"])
        .program("true", [""; 0])
        .run();
    assert_eq!(outcome.status.code(), Some(2));
    assert!(outcome.stderr.contains("write https://HOST/"), "{}", outcome.stderr);
}
