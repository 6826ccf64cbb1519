//! A finished profile in the browser: the one place that knows the profiler's address and the local server.
//!
//! The server listens on 127.0.0.1 only, answers the profiler's page only (CORS), and serves one file below a random
//! token, so that other pages and other users can't guess it. [`explorer`] is the page of page faults.

pub mod explorer;

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::net::TcpListener;

/// The Firefox Profiler's front end.
pub const PROFILER_ORIGIN: &str = "https://profiler.firefox.com";

/// Why a profile can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The profile can't be read.
    #[error("cannot read {path}: {source}; name the profile that `ngmi record` wrote")]
    Profile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The port is taken or forbidden.
    #[error("cannot listen on 127.0.0.1:{port}: {source}; choose another --port, or 0 for any")]
    Listen {
        /// The port asked for.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The system has no randomness to give.
    #[error("no random token: {0}")]
    Token(getrandom::Error),
    /// The server stopped by itself.
    #[error("the server stopped: {0}")]
    Stopped(io::Error),
}

/// A profile that is being served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    state: Arc<Served>,
    token: String,
}

#[derive(Debug)]
struct Served {
    path: PathBuf,
    gzip: bool,
}

impl Server {
    /// Starts to listen; nothing is answered before [`Server::run`].
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn bind(profile: &Path, port: u16) -> Result<Self, ServeError> {
        let unreadable = |source| ServeError::Profile {
            path: profile.to_owned(),
            source,
        };
        let mut magic = [0; 2];
        let file = std::fs::File::open(profile).map_err(unreadable)?;
        let len = io::Read::read(&mut &file, &mut magic).map_err(unreadable)?;
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .await
            .map_err(|source| ServeError::Listen { port, source })?;
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).map_err(ServeError::Token)?;
        let token = random.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let state = Arc::new(Served {
            path: profile.to_owned(),
            gzip: len == 2 && magic == [0x1f, 0x8b],
        });
        Ok(Self { listener, state, token })
    }

    /// Where the profile itself is.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn profile_url(&self) -> Result<String, ServeError> {
        let address = self.listener.local_addr().map_err(ServeError::Stopped)?;
        Ok(format!("http://{address}/{}/profile.json", self.token))
    }

    /// Where a person opens it.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn page_url(&self) -> Result<String, ServeError> {
        Ok(format!(
            "{PROFILER_ORIGIN}/from-url/{}",
            percent_encode(&self.profile_url()?)
        ))
    }

    /// Serves until Ctrl-C.
    ///
    /// # Errors
    /// When the listening socket fails.
    pub async fn run(self) -> Result<(), ServeError> {
        let router = Router::new()
            .route(&format!("/{}/profile.json", self.token), any(answer))
            .with_state(self.state);
        let until_interrupted = async {
            let _ = tokio::signal::ctrl_c().await;
        };
        axum::serve(self.listener, router)
            .with_graceful_shutdown(until_interrupted)
            .await
            .map_err(ServeError::Stopped)
    }
}

async fn answer(State(served): State<Arc<Served>>, method: Method, headers: HeaderMap) -> Response {
    let ours = HeaderValue::from_static(PROFILER_ORIGIN);
    let origin = headers.get(header::ORIGIN);
    if origin.is_some_and(|origin| origin != ours) {
        return (
            StatusCode::FORBIDDEN,
            "this profile is for the Firefox Profiler's page only\n",
        )
            .into_response();
    }
    let mut response = match method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        Method::GET | Method::HEAD => body(&served),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ours);
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD, OPTIONS"),
    );
    headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn body(served: &Served) -> Response {
    match std::fs::read(&served.path) {
        Ok(bytes) => {
            let mut response = Body::from(bytes).into_response();
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if served.gzip {
                response
                    .headers_mut()
                    .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            response
        }
        Err(_) => (StatusCode::NOT_FOUND, "the profile is gone\n").into_response(),
    }
}

fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_url_within_a_url_is_encoded() {
        assert_eq!(
            percent_encode("http://127.0.0.1:80/a~b"),
            "http%3A%2F%2F127.0.0.1%3A80%2Fa~b"
        );
    }

    fn ask(address: &str, path: &str, origin: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    }

    #[test]
    fn only_the_profilers_page_gets_the_profile() {
        let dir = std::env::temp_dir().join(format!("ngmi-web-{}", std::process::id()));
        std::fs::write(&dir, b"{\"meta\":{}}").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(Server::bind(&dir, 0)).unwrap();
        let url = server.profile_url().unwrap();
        let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
        let (address, path) = (address.to_owned(), format!("/{path}"));
        std::thread::spawn(move || runtime.block_on(server.run()));
        let good = ask(&address, &path, PROFILER_ORIGIN);
        assert!(
            good.starts_with("HTTP/1.1 200") && good.ends_with("{\"meta\":{}}"),
            "{good}"
        );
        assert!(ask(&address, &path, "https://evil.example").starts_with("HTTP/1.1 403"));
        assert!(ask(&address, "/guess/profile.json", PROFILER_ORIGIN).starts_with("HTTP/1.1 404"));
        std::fs::remove_file(&dir).unwrap();
    }
}
