//! Downloads of symbols: from servers that may be slow, endless, hostile, or not there at all.

use std::collections::HashSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flate2::write::GzDecoder;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response, StatusCode, Url};

/// Timeout for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Timeout for the next bytes of an answer.
const IDLE: Duration = Duration::from_secs(20);
const REDIRECTS: usize = 4;
/// Notes about one server, at most.
const NOTES: usize = 8;
/// Files that are remembered as missing, at most.
const MISSING: usize = 1 << 16;

/// Called with what is being downloaded, and the bytes so far.
pub type OnDownload = Arc<dyn Fn(&str, u64) + Send + Sync>;

/// Why a download failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server does not have the file.
    Missing,
    /// This file is unusable.
    File(String),
    /// The server will not answer further requests, either.
    Server(String),
    /// The file can't be saved here.
    Disk(String),
}

/// A server for files.
pub(crate) struct Server {
    base: Url,
    /// Held during a request.
    known: tokio::sync::Mutex<Known>,
    log: Mutex<Log>,
}

/// What the server is not asked again.
#[derive(Debug, Default)]
struct Known {
    /// It failed.
    failed: bool,
    /// Files that it does not have.
    missing: HashSet<Url>,
}

/// What a server was asked, and what happened.
#[derive(Debug, Default, Clone)]
struct Log {
    asked: usize,
    found: usize,
    notes: Vec<String>,
}

impl Server {
    /// `None`: not the address of a server.
    pub(crate) fn new(base: &str) -> Option<Self> {
        Some(Self {
            base: Url::parse(&server_url(base).ok()?).ok()?,
            known: tokio::sync::Mutex::default(),
            log: Mutex::default(),
        })
    }

    /// Downloads the file with this path below the server's address into `target`, unless the
    /// server failed before. True: it is complete.
    pub(crate) async fn download(
        &self,
        parts: &[&str],
        target: &mut (dyn Write + Send),
        timeout: Duration,
        on_download: Option<&OnDownload>,
    ) -> bool {
        let mut known = self.known.lock().await;
        let is_new = |url: &Url| !known.failed && !known.missing.contains(url);
        let Some(url) = self.address(parts).filter(is_new) else {
            return false;
        };
        let name = parts.last().copied().unwrap_or_default();
        let progress = |bytes| {
            if let Some(on_download) = on_download {
                on_download(name, bytes);
            }
        };
        let transfer = tokio::time::timeout(timeout, transfer(url.clone(), target, timeout.min(IDLE), &progress));
        let result = transfer.await.unwrap_or_else(|_| {
            let seconds = timeout.as_secs_f32();
            Err(Failure::Server(format!("no complete answer within {seconds} s")))
        });
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.asked += 1;
        if result.is_err() && known.missing.len() < MISSING {
            known.missing.insert(url);
        }
        let note = match result {
            Ok(()) => {
                log.found += 1;
                return true;
            }
            Err(Failure::Missing) => return false,
            Err(Failure::File(why)) => format!("{name} from {} is not used: {why}", self.base),
            Err(Failure::Disk(why)) => format!("{name} from {} can't be saved: {why}", self.base),
            Err(Failure::Server(why)) => {
                known.failed = true;
                format!("{} failed and is not asked again: {why}", self.base)
            }
        };
        if log.notes.len() < NOTES {
            log.notes.push(note);
        }
        false
    }

    /// Whether the server is no longer asked.
    pub(crate) fn has_failed(&self) -> bool {
        // Locked: a request is running.
        self.known.try_lock().is_ok_and(|known| known.failed)
    }

    /// What happened, for the user: empty if the server was not asked.
    pub(crate) fn notes(&self) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if log.asked == 0 {
            return Vec::new();
        }
        let (files, s) = (log.asked, if log.asked == 1 { "" } else { "s" });
        let asked = format!(
            "{} was asked for the symbols of {files} file{s} and had {} (--no-network contacts no server)",
            self.base, log.found
        );
        [asked].into_iter().chain(log.notes).collect()
    }

    fn address(&self, parts: &[&str]) -> Option<Url> {
        let mut url = self.base.clone();
        let mut path = url.path_segments_mut().ok()?;
        path.pop_if_empty();
        for part in parts {
            if ["", ".", ".."].contains(part) {
                return None;
            }
            path.push(part);
        }
        drop(path);
        Some(url)
    }
}

/// Checks the address of a server.
///
/// # Errors
/// It is not a plain `http://` or `https://` URL.
pub fn server_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("not a URL ({error}); write https://HOST/"))?;
    let is_plain = ["http", "https"].contains(&url.scheme())
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err("not the address of a server; write https://HOST/, without a name, password or query".to_owned())
    }
}

async fn transfer(
    url: Url,
    target: &mut (dyn Write + Send),
    idle: Duration,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), Failure> {
    let client = Client::builder()
        .user_agent(concat!("ngmi/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(redirect))
        .connect_timeout(CONNECT)
        .read_timeout(idle)
        .build()
        .map_err(|error| server_failure(&error))?;
    let request = client.get(url).header(ACCEPT_ENCODING, "gzip");
    let response = request.send().await.map_err(|error| server_failure(&error))?;
    check_status(response.status())?;
    let encoding = response.headers().get(CONTENT_ENCODING);
    match encoding.map(|value| value.as_bytes().to_ascii_lowercase()).as_deref() {
        None | Some(b"" | b"identity") => copy(response, target, progress).await,
        Some(b"gzip" | b"x-gzip") => {
            let mut decoder = GzDecoder::new(target);
            copy(response, &mut decoder, progress).await?;
            decoder.try_finish().map_err(|error| write_failure(&error))
        }
        Some(_) => Err(Failure::File("its compression is unknown".to_owned())),
    }
}

/// Follows a few redirects, never from https to http or to another kind of address.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let was_safe = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    let is_safe = match attempt.url().scheme() {
        "https" => true,
        "http" => !was_safe,
        _ => false,
    };
    if !is_safe {
        return attempt.error("redirected to an address that is not https");
    }
    if attempt.previous().len() > REDIRECTS {
        return attempt.error("redirected too often");
    }
    attempt.follow()
}

/// Servers of static files answer 403 for missing ones.
fn check_status(status: StatusCode) -> Result<(), Failure> {
    match status {
        StatusCode::OK => Ok(()),
        StatusCode::UNAUTHORIZED
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS => Err(Failure::Server(format!("it answered {status}"))),
        status if status.is_redirection() => Err(Failure::Server("it redirected to an unusable address".to_owned())),
        status if status.is_client_error() => Err(Failure::Missing),
        status => Err(Failure::Server(format!("it answered {status}"))),
    }
}

async fn copy(
    mut response: Response,
    target: &mut (dyn Write + Send),
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), Failure> {
    let mut bytes = 0_u64;
    while let Some(chunk) = response.chunk().await.map_err(|error| server_failure(&error))? {
        target.write_all(&chunk).map_err(|error| write_failure(&error))?;
        bytes = bytes.saturating_add(chunk.len() as u64);
        progress(bytes);
    }
    Ok(())
}

/// The target refuses contents with [`io::ErrorKind::InvalidData`], as does the decompressor with
/// its kinds.
fn write_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::InvalidData => Failure::File(error.to_string()),
        io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => {
            Failure::File("its compressed contents are damaged or cut off".to_owned())
        }
        _ => Failure::Disk(error.to_string()),
    }
}

/// The innermost cause says most.
fn server_failure(error: &reqwest::Error) -> Failure {
    let is_timeout = error.is_timeout();
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let cause: &dyn Display = if is_timeout { &"it does not answer" } else { &innermost };
    Failure::Server(cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers() {
        assert_eq!(server_url("https://a.example/x/").unwrap(), "https://a.example/x");
        for bad in [
            "a.example",
            "file:///etc",
            "ftp://a.example",
            "https://me:secret@a.example",
            "https://a.example/?x",
            "",
        ] {
            assert!(server_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hostile_names_stay_below_the_server() {
        let server = Server::new("https://a.example/base/").unwrap();
        let address = |parts: &[&str]| server.address(parts).map(String::from);
        assert_eq!(
            address(&["a b/../c?d#e", "ID"]).unwrap(),
            "https://a.example/base/a%20b%2F..%2Fc%3Fd%23e/ID"
        );
        assert_eq!(address(&["..", "x"]), None);
        assert_eq!(address(&["", "x"]), None);
    }
}
