//! Opens a finished profile in the browser. Only this crate knows the profiler's address and the local server.
//!
//! By default, the server listens on this machine only, serves everything below a random token, and responds only to the
//! profiler's page. docs/server.md describes the attacks that it prevents. [`explorer`] is the page-fault explorer.
//!
//! Only addresses that can be a profiler's are accepted:
//!
//! ```
//! use web::ProfilerUrl;
//!
//! assert!(ProfilerUrl::new("http://localhost:4242").is_ok());
//! assert!(ProfilerUrl::new("file:///etc/passwd").is_err());
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))] // A failed unwrap fails the test.

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

pub use explorer_route::{Explorer, PathQuery};
pub use link::{PROFILER_URL, ProfilerUrl, UrlError};
pub use listen::Server;

/// What to serve, and where.
pub struct Site {
    /// Path of the profile, plain or gzip.
    pub profile: PathBuf,
    /// Address to listen on; any other than loopback admits other machines that know the token.
    pub address: IpAddr,
    /// Port to listen on; 0: any free port.
    pub port: u16,
    /// Front end that opens the profile; no other origin is admitted.
    pub profiler: ProfilerUrl,
    /// Answers queries for symbols, sources and machine code.
    pub symbols: Option<Arc<SymbolServer>>,
    /// The page-fault explorer.
    pub explorer: Option<Explorer>,
}

/// Why a profile can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The profile can't be read.
    #[error("cannot read {path}; name the profile that `ngmi record` wrote")]
    Profile {
        /// Path of the profile.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The port is in use or forbidden, or the address does not belong to this machine.
    #[error(
        "cannot listen on {address}:{port}; choose another --port (0: any free one), or a --host address of this machine"
    )]
    Listen {
        /// The requested address.
        address: IpAddr,
        /// The requested port.
        port: u16,
        /// The error.
        source: io::Error,
    },
    /// The system provides no random bytes.
    #[error("cannot create a random token: {0}")]
    Token(getrandom::Error),
}
