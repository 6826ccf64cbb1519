//! A finished profile in the browser: the one place that knows the profiler's address and the local server.
//!
//! The server listens on this machine only, below a random token, and answers the profiler's page only. See docs/server.md
//! for what it defends against. [`explorer`] is the page of page faults.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))] // Tests say what they need by failing.

mod answer;
mod entrance;
pub mod explorer;
mod explorer_route;
mod guard;
mod link;
mod listen;
mod peer;
mod profile;
pub mod share;
mod symbol_api;
mod token;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use symbols::server::SymbolServer;

pub use explorer_route::Explorer;
pub use link::{PROFILER_URL, ProfilerUrl, UrlError};
pub use listen::Server;

/// What is served, and where.
pub struct Site {
    /// The profile, plain or gzip.
    pub profile: PathBuf,
    /// The address to listen on; anything but loopback lets others in who know the token.
    pub address: IpAddr,
    /// The port; 0: any free one.
    pub port: u16,
    /// The front end that opens the profile, and that alone may ask.
    pub profiler: ProfilerUrl,
    /// Answers questions about symbols, sources and machine code.
    pub symbols: Option<Arc<SymbolServer>>,
    /// The page-fault explorer.
    pub explorer: Option<Explorer>,
}

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
    /// The port is taken or forbidden, or the address is not of this machine.
    #[error("cannot listen on {address}:{port}: {source}; choose another --port, or 0 for any")]
    Listen {
        /// The address asked for.
        address: IpAddr,
        /// The port asked for.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The system has no randomness to give.
    #[error("no random token: {0}")]
    Token(getrandom::Error),
}
