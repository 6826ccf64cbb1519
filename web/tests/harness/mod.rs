//! A server on a separate thread, and a client that sends raw bytes.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)] // Not every test file uses every helper.
#![allow(clippy::format_collect, clippy::format_push_string)] // Short code matters more than speed here.

pub mod programs;
pub mod questions;
pub mod samply;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use symbols::server::{Named, ServerConfig, SourceRoots, SymbolServer};
use tokio::sync::oneshot;
use web::{Explorer, PathQuery, ProfilerUrl, Server, Site};

/// Origin of the front end.
pub const PROFILER: &str = "https://profiler.firefox.com";

/// A server that stops with the test.
pub struct Running {
    /// `127.0.0.1:PORT` of the server.
    pub address: String,
    /// `/TOKEN`, the prefix of all paths.
    pub base: String,
    pub page: String,
    /// URL that a browser would be started with.
    pub entrance: Option<String>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread whose path takes a while.
pub const SLOW: u32 = 99;
/// How many of its paths are being followed.
static NOW: AtomicUsize = AtomicUsize::new(0);
/// The most at one time.
pub static MOST: AtomicUsize = AtomicUsize::new(0);

fn follow(query: &PathQuery) -> Vec<u8> {
    if query.thread == Some(SLOW) {
        let now = NOW.fetch_add(1, Ordering::SeqCst) + 1;
        MOST.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(300));
        NOW.fetch_sub(1, Ordering::SeqCst);
    }
    format!("{query:?}").into_bytes()
}

/// Serves `profile`, symbols of the `named` libraries, and an explorer with placeholder data.
pub fn serve(profile: &Path, named: Named, roots: SourceRoots) -> Running {
    let config = ServerConfig {
        roots,
        ..ServerConfig::default()
    };
    let symbols = SymbolServer::new(config, move || Ok(named.clone())).unwrap();
    let site = Site {
        profile: profile.to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 0,
        profiler: ProfilerUrl::new(PROFILER).unwrap(),
        symbols: Some(Arc::new(symbols)),
        explorer: Some(Explorer::new(|| Ok(b"the data".to_vec()), |query| Ok(follow(&query)))),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(Server::bind(site)).unwrap();
    let url = server.symbols_url().unwrap();
    let (address, base) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let (address, base) = (address.to_owned(), format!("/{base}"));
    let page = server.page_url().to_owned();
    let entrance = server.entrance_url();
    let (end, ended) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        runtime.block_on(server.run_until(async {
            let _ = ended.await;
        }));
    });
    Running {
        address,
        base,
        page,
        entrance,
        end: Some(end),
        thread: Some(thread),
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names are in lower case; the date is left out.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        Some(Self {
            status,
            headers: headers
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .filter(|(name, _)| name != "date")
                .collect(),
            body: bytes[end + 4..].to_vec(),
        })
    }
}

impl Running {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
        stream
    }

    /// Sends bytes and reads until the server closes the connection; `None` if there is no response.
    pub fn send(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        // A server that has already refused may not read the rest.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::parse(&answer)
    }

    /// Sends a request below the token, with additional header lines.
    pub fn request(&self, method: &str, path: &str, lines: &[&str], body: &[u8]) -> Answer {
        let mut head = format!("{method} {}{path} HTTP/1.1\r\nConnection: close\r\n", self.base);
        if !lines.iter().any(|line| line.to_ascii_lowercase().starts_with("host:")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        if !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        for line in lines {
            head += line;
            head += "\r\n";
        }
        head += "\r\n";
        let bytes = [head.as_bytes(), body].concat();
        self.send(&bytes).expect("a response")
    }

    /// Sends a query as the profiler's page does.
    pub fn ask(&self, path: &str, question: &str) -> serde_json::Value {
        let lines = [
            &*format!("Origin: {PROFILER}"),
            "Content-Type: text/plain;charset=UTF-8",
        ];
        let answer = self.request("POST", path, &lines, question.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some(PROFILER));
        serde_json::from_slice(&answer.body).unwrap()
    }
}
