//! Runs samply's server for comparison.
#![allow(dead_code, clippy::unwrap_used)] // Not every test file uses every helper.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::programs::Program;

/// A samply server that stops with the test.
pub struct Samply {
    child: Child,
    address: String,
    base: String,
}

impl Drop for Samply {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Samply {
    /// Starts samply; `None` if it is not installed.
    pub fn load(folder: &Path, programs: &[Program]) -> Option<Self> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/samply/bin/samply");
        let samply = std::env::var_os("NGMI_SAMPLY").map_or(own, PathBuf::from);
        let libs: Vec<Value> = (programs.iter().map(|program| &program.library))
            .map(|library| {
                json!({
                    "name": library.name, "path": library.path, "debugName": library.debug_name, "debugPath": library.debug_path,
                    "breakpadId": library.breakpad_id, "codeId": library.code_id, "arch": "x86_64",
                })
            })
            .collect();
        let profile = folder.join("samply.json");
        let meta = json!({"version": 24, "preprocessedProfileVersion": 48});
        std::fs::write(&profile, json!({"meta": meta, "libs": libs, "threads": []}).to_string()).unwrap();
        // samply does not accept port 0: use a port that is free now.
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut child = Command::new(samply)
            .args(["load", "--no-open", "--port", &free.to_string()])
            .arg(&profile)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
        let encoded = line
            .trim()
            .split("symbolServer=")
            .nth(1)
            .unwrap_or_else(|| panic!("{line}"));
        let url = encoded.replace("%3A", ":").replace("%2F", "/");
        let (address, base) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        Some(Self {
            child,
            address: address.to_owned(),
            base: format!("/{base}"),
        })
    }

    pub fn ask(&self, path: &str, question: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let Self { base, address, .. } = self;
        let length = question.len();
        write!(
            stream,
            "POST {base}{path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{question}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}
