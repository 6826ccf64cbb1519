//! Listens, and serves connections within limits: their number, the size and time of their headers.

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

/// Connections at once; a browser opens six. Others wait.
const CONNECTIONS: usize = 64;
/// How long a request's head may take to arrive, and a connection may be silent.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;
/// Headers of a request.
const HEADERS: usize = 64;
/// Questions that keep a CPU busy, at once.
const WORK: usize = 2;
/// Before the next try when the system refuses a connection, for want of descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A profile that is being served.
pub struct Server {
    listener: TcpListener,
    page: String,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts to listen; nothing is answered before [`Server::run`].
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
            work: Semaphore::new(WORK),
        };
        Ok(Self {
            listener,
            page,
            shared: Arc::new(shared),
        })
    }

    /// Where the profile itself is.
    pub fn profile_url(&self) -> String {
        profile_url(&self.shared.guard)
    }

    /// Where the front end is to ask about symbols, sources and machine code.
    pub fn symbols_url(&self) -> Option<String> {
        self.shared.symbols.is_some().then(|| base_url(&self.shared.guard))
    }

    /// Where a person opens the profile.
    pub fn page_url(&self) -> &str {
        &self.page
    }

    /// What a browser may be started with, though every user of the machine can read it then: it leads to the page, once. `None`: the kernel does not say
    /// who connects.
    pub fn entrance_url(&self) -> Option<String> {
        let entrance = self.shared.entrance.as_ref()?;
        Some(origin(&self.shared.guard) + &entrance.path())
    }

    /// Where a person opens the page-fault explorer.
    pub fn explorer_url(&self) -> Option<String> {
        let base = self.shared.explorer.is_some().then(|| base_url(&self.shared.guard));
        base.map(|base| base + "/faults/")
    }

    /// Serves until Ctrl-C.
    pub async fn run(self) {
        let interrupted = async {
            let _ = tokio::signal::ctrl_c().await;
        };
        self.run_until(interrupted).await;
    }

    /// Serves until `end` is over; connections that are still open are cut.
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
                        // Another user of the machine has no business here, and is to take no place from who has.
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

/// `http://ADDRESS:PORT`
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

/// Where everything is below; it has the token.
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

/// Serves one connection. How it ended is nobody's business: a line for each would let anybody fill the terminal.
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
