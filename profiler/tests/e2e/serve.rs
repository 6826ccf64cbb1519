//! `ngmi record` serves its profile at the end, `ngmi load` from the start: the link works, and a signal stops the server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::ngmi::Running;
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, ngmi};
use crate::profile_synthetic;

/// Address and path of the symbol server in the printed link.
fn server(running: &mut Running, folder: &Path) -> (String, String) {
    let link = || {
        let said = ngmi::read_lossy(&folder.join("stderr"));
        // The line may be incomplete.
        let (before, _) = said.split_once("the browser may ask")?;
        let encoded = before.split("symbolServer=").nth(1)?.trim().lines().next()?.to_owned();
        Some(encoded.replace("%3A", ":").replace("%2F", "/"))
    };
    running.wait_until("link", |_| link().is_some());
    let url = link().unwrap();
    let (address, base) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    (address.to_owned(), format!("/{base}"))
}

fn ask(server: &(String, String), method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
    ask_from("Origin: https://profiler.firefox.com\r\n", server, method, path, body)
}

/// Sends a request; `origin` is the requesting page's header.
fn ask_from(origin: &str, (address, base): &(String, String), method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {base}{path} HTTP/1.1\r\nHost: {address}\r\n{origin}Connection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer.split_off(head + 4))
}

#[test]
fn a_recording_is_served_until_a_signal_and_ends_like_its_command() {
    needs_capture!();
    let ngmi = Ngmi::subcommand("record").args(["-o", "out.json.gz", "--no-open"]);
    let folder = ngmi.dir().to_owned();
    let mut running = ngmi.program("sh", ["-c", "exit 3"]).start();
    let server = server(&mut running, &folder);
    let (status, body) = ask(&server, "GET", "/profile.json", "");
    assert_eq!(status, 200);
    assert!(body == std::fs::read(folder.join("out.json.gz")).unwrap());
    let (status, _) = ask(&(server.0.clone(), "/0".to_owned()), "GET", "/profile.json", "");
    assert_eq!(status, 404);
    running.signal(Signal::SIGINT);
    let outcome = running.wait();
    assert_eq!(outcome.status.code(), Some(3), "{}", outcome.stderr);
    assert!(TcpStream::connect(&server.0).is_err(), "the server no longer listens");
}

/// As after Ctrl-Z and `fg`: a client that connects meanwhile waits and is served.
#[test]
fn a_stopped_server_answers_when_continued() {
    needs_capture!();
    let ngmi = Ngmi::subcommand("record").args(["-o", "out.json.gz", "--no-open"]);
    let folder = ngmi.dir().to_owned();
    let mut running = ngmi.program("true", [""; 0]).start();
    let server = server(&mut running, &folder);
    running.signal(Signal::SIGSTOP);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&server, "GET", "/profile.json", ""));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(!asked.is_finished(), "a stopped process does not answer");
        running.signal(Signal::SIGCONT);
        let (status, body) = asked.join().unwrap();
        assert_eq!(status, 200);
        assert!(body == std::fs::read(folder.join("out.json.gz")).unwrap());
    });
    running.signal(Signal::SIGINT);
    running.wait().expect_code(0);
}

/// Another recording may replace the profile while it is served: all responses must be from the first one.
#[test]
fn a_file_replacing_the_profile_is_not_served() {
    let ngmi = Ngmi::subcommand("load").args(["--no-open", "profile.json"]);
    let folder = ngmi.dir().to_owned();
    let profile = folder.join("profile.json");
    let first = profile_synthetic::everything().json();
    std::fs::write(&profile, &first).unwrap();
    let mut running = ngmi.start();
    let server = server(&mut running, &folder);
    let other = folder.join("other");
    std::fs::write(&other, "no profile").unwrap();
    std::fs::rename(&other, &profile).unwrap();
    assert!(ask(&server, "GET", "/profile.json", "") == (200, first));
    let (status, faults) = ask_from("", &server, "GET", "/faults/data.bin", "");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&faults));
    running.signal(Signal::SIGINT);
    running.wait().expect_code(0);
}

#[test]
fn a_loaded_profile_shows_the_source_of_what_ran() {
    needs_capture!();
    let outcome = Ngmi::record().program(Oracle::c("burn").path, ["300"]).run();
    outcome.expect_code(0);
    let profile = outcome.file("out.json.gz");
    let (library, offset, file) = a_source(&profile).expect("the oracle has debug info");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let ngmi = Ngmi::subcommand("load")
        .args(["--no-open", "--source-root"])
        .arg(root)
        .arg(&profile);
    let folder = ngmi.dir().to_owned();
    let mut running = ngmi.start();
    let server = server(&mut running, &folder);
    let question = serde_json::json!({
        "debugName": library.0, "debugId": library.1, "moduleOffset": format!("0x{offset:x}"), "file": file,
    });
    let (status, answer) = ask(&server, "POST", "/source/v1", &question.to_string());
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let source = std::fs::read_to_string(&file).unwrap();
    assert_eq!(answer["source"].as_str(), Some(&*source), "{answer}");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait().status.code(), Some(0));
}

/// Name and ID of a library, an address in it, and the source file that the profile has for the address.
fn a_source(profile: &Path) -> Option<((String, String), u64, String)> {
    let bytes = std::io::read_to_string(flate2::read::GzDecoder::new(std::fs::File::open(profile).unwrap())).unwrap();
    let profile: Value = serde_json::from_str(&bytes).unwrap();
    let shared = &profile["shared"];
    let frames = &shared["frameTable"];
    (0..frames["length"].as_u64()?).find_map(|row| {
        let cell = |column: &str| frames[column][usize::try_from(row).unwrap()].as_u64();
        let source = shared["funcTable"]["source"][usize::try_from(cell("func")?).unwrap()].as_u64()?;
        let name = shared["sources"]["filename"][usize::try_from(source).unwrap()].as_u64()?;
        let file = shared["stringArray"][usize::try_from(name).unwrap()].as_str()?;
        let library = &profile["libs"][usize::try_from(cell("lib")?).unwrap()];
        let word = |key: &str| library[key].as_str().map(str::to_owned);
        let fits = file.ends_with("burn.c") && Path::new(file).is_absolute();
        fits.then_some((
            (word("debugName")?, word("breakpadId")?),
            cell("address")?,
            file.to_owned(),
        ))
    })
}
