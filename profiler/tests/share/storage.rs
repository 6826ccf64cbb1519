//! A storage of shared profiles that enforces the protocol: version in `Accept`, a stated length, gzip of JSON, the
//! deletion token.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Required `Accept` header of every request.
const ACCEPT: &str = "application/vnd.firefox-profiler+json;version=1.0";

/// How it responds to uploads.
#[derive(Debug, Clone, Copy)]
pub enum Mood {
    Kind,
    /// With a status.
    Refuse(u16),
    /// In the middle of the upload.
    HangUp,
    HangUpInTheAnswer,
    SayNonsense,
}

/// A storage that runs until the test ends.
pub struct Storage {
    pub url: String,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// Token, deletion token, bytes.
    profiles: Vec<(String, String, Vec<u8>)>,
    count: usize,
    jwt: String,
}

impl Storage {
    pub fn start(mood: Mood) -> Self {
        Self::watched(mood, |_| {})
    }

    /// `asked` gets the first line of each request before it is answered.
    pub fn watched(mood: Mood, asked: impl Fn(&str) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Below a path, as behind a proxy.
        let url = format!("http://{}/api/", listener.local_addr().unwrap());
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = kept.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, mood, &shared, &asked);
            }
        });
        Self { url, kept }
    }

    pub fn kept(&self) -> Vec<Vec<u8>> {
        let kept = self.kept.lock().unwrap();
        kept.profiles.iter().map(|(_, _, bytes)| bytes.clone()).collect()
    }

    pub fn last_jwt(&self) -> String {
        self.kept.lock().unwrap().jwt.clone()
    }

    pub fn forget_all(&self) {
        self.kept.lock().unwrap().profiles.clear();
    }
}

struct Request {
    line: String,
    headers: Vec<(String, String)>,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

fn answer(stream: TcpStream, mood: Mood, kept: &Mutex<Kept>, asked: &dyn Fn(&str)) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        match header.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let request = Request {
        line: line.trim_end().to_owned(),
        headers,
    };
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    if matches!(mood, Mood::HangUp) {
        reader.read_exact(&mut [0; 100])?;
        return Ok(());
    }
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    asked(&request.line);
    let (status, text) = reply(&request, length, body, mood, kept);
    let mut stream = reader.into_inner();
    if matches!(mood, Mood::HangUpInTheAnswer) {
        return write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\neyJ");
    }
    let close = "Location: http://127.0.0.1:1/\r\nConnection: close";
    write!(
        stream,
        "HTTP/1.1 {status} Word\r\nContent-Length: {}\r\n{close}\r\n\r\n{text}",
        text.len()
    )
}

fn reply(request: &Request, length: Option<usize>, body: Vec<u8>, mood: Mood, kept: &Mutex<Kept>) -> (u16, String) {
    let no = |status, why: &str| (status, why.to_owned());
    if request.header("accept") != Some(ACCEPT) {
        return no(406, "The header 'Accept' should have another value");
    }
    let mut kept = kept.lock().unwrap();
    let mut words = request.line.split(' ');
    match (words.next().unwrap(), words.next().unwrap()) {
        ("POST", "/api/compressed-store") => match mood {
            Mood::Refuse(status) => no(status, "no\u{1b}[31m luck"),
            Mood::SayNonsense => no(200, "<html>Welcome to the hotel's network</html>"),
            _ if length.is_none() => no(411, "length?"),
            _ => match check(request, &body) {
                Ok(()) => (200, keep(&mut kept, body)),
                Err(why) => no(400, why),
            },
        },
        ("POST", "/api/shorten") => {
            let question: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let long = question["longUrl"].as_str().unwrap();
            let token = &kept.profiles.last().unwrap().0;
            assert_eq!(long, format!("https://profiler.firefox.com/public/{token}/"));
            (
                200,
                format!(r#"{{"shortUrl":"https://share.example/short{}"}}"#, kept.count),
            )
        }
        ("DELETE", path) => {
            let token = path.strip_prefix("/api/profile/").unwrap();
            let right = request
                .header("authorization")
                .and_then(|value| value.strip_prefix("Bearer "));
            let issued = format!("eyJhbGciOiJIUzI1NiJ9.{}.c2lnbmF0dXJl", payload(token));
            if right != Some(&*issued) {
                return no(403, "A valid authentication token is needed to execute this operation.");
            }
            let before = kept.profiles.len();
            kept.profiles.retain(|(found, _, _)| found != token);
            if kept.profiles.len() == before {
                return no(404, "That profile was most likely already deleted.");
            }
            no(200, "Profile successfully deleted.")
        }
        _ => no(404, "Not Found"),
    }
}

fn check(request: &Request, body: &[u8]) -> Result<(), &'static str> {
    if request.header("content-type") != Some("application/octet-stream") {
        return Err("content type?");
    }
    if body.len() > 150 << 20 {
        return Err("too large");
    }
    let json = std::io::read_to_string(flate2::read::GzDecoder::new(body)).map_err(|_| "no gzip")?;
    let value: serde_json::Value = serde_json::from_str(&json).map_err(|_| "no JSON")?;
    value.get("meta").is_some().then_some(()).ok_or("no profile")
}

fn keep(kept: &mut Kept, body: Vec<u8>) -> String {
    kept.count += 1;
    let token = format!("token{}", kept.count);
    let jwt = format!("eyJhbGciOiJIUzI1NiJ9.{}.c2lnbmF0dXJl", payload(&token));
    kept.profiles.push((token, jwt.clone(), body));
    kept.jwt.clone_from(&jwt);
    jwt
}

/// Base64 for URLs, without padding.
fn payload(token: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let json = format!(r#"{{"profileToken":"{token}","iat":1}}"#);
    let mut out = String::new();
    for chunk in json.as_bytes().chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            out.push(char::from(LETTERS[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    out
}
