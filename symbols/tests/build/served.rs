//! A symbol server on the loopback device.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use symbols::SymbolServers;

/// How the server answers.
#[derive(Clone)]
pub enum Answer {
    /// With a file, compressed or not.
    File(Vec<u8>, bool),
    /// With these bytes, head included, and the end of the connection.
    Raw(Vec<u8>),
    /// With an endless file that begins like this.
    Endless(Vec<u8>),
    /// Never.
    Silence,
}

/// A symbol server on the loopback device.
pub struct Server {
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers at `path`, and with 404 elsewhere.
    pub fn start(path: &str, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/base/", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, path) = (Arc::clone(&requests), format!("/base{path}"));
        std::thread::spawn(move || {
            let mut unanswered = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                let text = String::from_utf8_lossy(&request[..length]);
                let asked = text.split(' ').nth(1).unwrap_or_default().to_owned();
                let is_it = asked == path;
                log.lock().unwrap().push(asked);
                if is_it && matches!(answer, Answer::Silence) {
                    unanswered.push(stream);
                } else if is_it {
                    respond(&mut stream, &answer);
                } else {
                    respond(
                        &mut stream,
                        &Answer::Raw(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into()),
                    );
                }
            }
        });
        Self { url, requests }
    }

    pub fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub fn config(&self, cache: PathBuf) -> SymbolServers {
        SymbolServers {
            urls: vec![self.url.clone()],
            for_mozilla: None,
            mozilla_folders: None,
            cache_directory: cache,
            timeout: Duration::from_mins(1),
        }
    }
}

/// The client may close the connection on a response that it rejects.
fn respond(stream: &mut TcpStream, answer: &Answer) {
    let head = |encoding: &str, length: usize| {
        format!("HTTP/1.1 200 OK\r\n{encoding}Content-Length: {length}\r\nConnection: close\r\n\r\n").into_bytes()
    };
    let bytes = match answer {
        Answer::File(file, false) => [head("", file.len()), file.clone()].concat(),
        Answer::File(file, true) => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(file).unwrap();
            let body = encoder.finish().unwrap();
            [head("Content-Encoding: gzip\r\n", body.len()), body].concat()
        }
        Answer::Raw(bytes) => bytes.clone(),
        Answer::Endless(start) => {
            let _ = stream.write_all(&[&b"HTTP/1.1 200 OK\r\n\r\n"[..], start].concat());
            let line = b"0 1 1 0\n".repeat(1 << 14);
            while stream.write_all(&line).is_ok() {}
            return;
        }
        Answer::Silence => return,
    };
    let _ = stream.write_all(&bytes);
}
