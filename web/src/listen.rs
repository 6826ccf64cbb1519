//! Listens, and serves connections with limits on their number and on the size and time of their headers.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer::{Shared, answer};
use crate::entrance::Entrance;
use crate::guard::Guard;
use crate::peer::Peer;
use crate::profile::ProfileFile;
use crate::symbol_api::SymbolApi;
use crate::token::Token;
use crate::{ServeError, Site};

/// Maximum number of concurrent connections; a browser opens six. Others wait.
const CONNECTIONS: usize = 64;
/// Time limit for receiving a request's header, and for an idle connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Maximum size of a request's header in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// Maximum number of header fields of a request.
const HEADERS: usize = 64;
/// Maximum number of concurrent CPU-bound requests.
const WORK: usize = 2;
/// Delay before the next attempt when the system refuses a connection, usually because file descriptors are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A profile that is being served.
pub struct Server {
    listener: TcpListener,
    page: String,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts to listen; responses are sent only after [`Server::run`].
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn bind(site: Site) -> Result<Self, ServeError> {
        let (wanted, port) = (site.address, site.port);
        let refused = |source| ServeError::Listen {
            address: wanted,
            port,
            source,
        };
        let profile = ProfileFile::open(&site.profile)?;
        let listener = TcpListener::bind((wanted, port)).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let guard = Guard {
            token: Token::new()?,
            address,
            profiler: site.profiler.origin().clone(),
        };
        let page = page_url(&site, &guard);
        let shared = Shared {
            entrance: Entrance::new(&page)?,
            guard,
            profile,
            symbols: site.symbols.map(SymbolApi::new),
            explorer: site.explorer,
            work: Arc::new(Semaphore::new(WORK)),
        };
        Ok(Self {
            listener,
            page,
            shared: Arc::new(shared),
        })
    }

    /// URL of the symbol server for the front end.
    pub fn symbols_url(&self) -> Option<String> {
        self.shared.symbols.is_some().then(|| base_url(&self.shared.guard))
    }

    /// URL that opens the profile in the front end.
    pub fn page_url(&self) -> &str {
        &self.page
    }

    /// Single-use URL to start a browser with, since every user of the machine can read its arguments. `None`: the kernel does not
    /// report which user connects.
    pub fn entrance_url(&self) -> Option<String> {
        let entrance = self.shared.entrance.as_ref()?;
        Some(origin(&self.shared.guard) + &entrance.path())
    }

    /// URL of the page-fault explorer.
    pub fn explorer_url(&self) -> Option<String> {
        let base = self.shared.explorer.is_some().then(|| base_url(&self.shared.guard));
        base.map(|base| base + "/faults/")
    }

    /// Serves until `end` completes; open connections are then dropped.
    pub async fn run_until(self, end: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut end = pin!(end);
        loop {
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, self.listener.accept().await)
            };
            tokio::select! {
                () = &mut end => return,
                next = next => match next {
                    (Ok(place), Ok((stream, from))) => {
                        let peer = stream.local_addr().map_or(Peer::Another, |to| Peer::of(from, to));
                        // Other users of the machine are refused, and must not use up connections.
                        if peer != Peer::Another {
                            tokio::spawn(serve(stream, peer, Arc::clone(&self.shared), place));
                        }
                    }
                    _ => tokio::time::sleep(ACCEPT_PAUSE).await,
                },
            }
        }
    }
}

/// `http://ADDRESS:PORT` of the server.
fn origin(guard: &Guard) -> String {
    let mut address = guard.address;
    if address.ip().is_unspecified() {
        let loopback: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(loopback);
    }
    format!("http://{address}")
}

/// Base URL of all paths, including the token.
fn base_url(guard: &Guard) -> String {
    format!("{}/{}", origin(guard), guard.token.reveal())
}

fn profile_url(guard: &Guard) -> String {
    base_url(guard) + "/profile.json"
}

fn page_url(site: &Site, guard: &Guard) -> String {
    let symbols = site.symbols.is_some().then(|| base_url(guard));
    site.profiler.page(&profile_url(guard), symbols.as_deref())
}

/// Serves one connection. Errors are not printed: otherwise any client could flood the terminal.
async fn serve(stream: TcpStream, peer: Peer, shared: Arc<Shared>, place: OwnedSemaphorePermit) {
    let service = service_fn(|request| answer(&shared, peer, request));
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    drop(place);
}
