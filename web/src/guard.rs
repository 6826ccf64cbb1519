//! Access control: checks the token in the path, this server's name in `Host`, and the profiler's origin in `Origin`.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;

use crate::answer::Response;
use crate::token::Token;

/// Request headers that a page of another origin may send.
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static("accept, content-type");
const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");
/// Seconds for which a browser may cache the preflight response.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("600");
const ASKS_FOR_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Decides whether a request is admitted. Others get the response for a missing path.
pub(crate) struct Guard {
    pub token: Token,
    /// Address that the server listens on.
    pub address: SocketAddr,
    /// Origin of the front end.
    pub profiler: HeaderValue,
}

/// Source of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Not a page of another origin: the address bar, a page of this server, or a program.
    Direct,
    /// The profiler's page, whose browser requires CORS headers.
    Profiler,
}

/// An admitted request.
pub(crate) struct Admitted<'r> {
    /// The path after the token.
    pub path: &'r str,
    pub asker: Asker,
}

impl Guard {
    /// Checks a request; `None` refuses it without a reason.
    pub fn admit<'r>(&self, request: &'r Parts) -> Option<Admitted<'r>> {
        let path = self.token.strip(request.uri.path())?;
        if !self.is_for_us(request) {
            return None;
        }
        let asker = match only(&request.headers, &header::ORIGIN).ok()? {
            None => Asker::Direct,
            Some(origin) if *origin == self.profiler => Asker::Profiler,
            Some(origin) => {
                let host = origin.as_bytes().strip_prefix(b"http://")?;
                self.is_ours(host).then_some(Asker::Direct)?
            }
        };
        Some(Admitted { path, asker })
    }

    /// Whether the request is addressed to this server by name.
    pub fn is_for_us(&self, request: &Parts) -> bool {
        // The request line may name a host as well.
        let stated = request.uri.authority().map(|authority| authority.as_str().as_bytes());
        let host = only(&request.headers, &header::HOST).ok().flatten();
        host.is_some_and(|host| self.is_ours(host.as_bytes())) && stated.is_none_or(|stated| self.is_ours(stated))
    }

    /// Whether `host` names this server and can't be a DNS name that an attacker points here: a page at `evil.example` that resolves
    /// to this machine still sends `evil.example`.
    fn is_ours(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else {
            return false;
        };
        let port = self.address.port();
        let (name, stated) = match host.rsplit_once(':') {
            Some((name, digits)) if !name.contains(':') || name.ends_with(']') => (name, digits.parse().ok()),
            _ => (host, Some(80)),
        };
        if stated != Some(port) {
            return false;
        }
        let address = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(name);
        match (address.parse::<IpAddr>(), self.address.ip()) {
            (Ok(_), listening) if listening.is_unspecified() => true,
            (Ok(address), listening) => address == listening,
            (Err(_), listening) => {
                name.eq_ignore_ascii_case("localhost") && (listening.is_loopback() || listening.is_unspecified())
            }
        }
    }

    /// Allows the profiler's page to read the response.
    pub fn allow(&self, response: &mut Response) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.profiler.clone());
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    }

    /// Responds to a CORS preflight request.
    pub fn preflight(&self, request: &HeaderMap, response: &mut Response) {
        self.allow(response);
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
        if request.contains_key(ASKS_FOR_PRIVATE_NETWORK) {
            headers.insert(ALLOWS_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
    }
}

/// A header occurs more than once.
struct Repeated;

/// The value of a header that may occur once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, Repeated> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        Err(Repeated)
    } else {
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str) -> Guard {
        Guard {
            token: Token::new().unwrap(),
            address: address.parse().unwrap(),
            profiler: HeaderValue::from_static("https://profiler.firefox.com"),
        }
    }

    #[test]
    fn only_unrebindable_host_names_are_accepted() {
        let loopback = guard("127.0.0.1:3000");
        for ours in ["127.0.0.1:3000", "localhost:3000", "LocalHost:3000"] {
            assert!(loopback.is_ours(ours.as_bytes()), "{ours}");
        }
        for other in [
            "evil.example:3000",
            "127.0.0.1",
            "127.0.0.1:3001",
            "127.0.0.1.evil.example:3000",
            "localhost.evil.example:3000",
            "[::1]:3000",
            "10.0.0.1:3000",
            "user@127.0.0.1:3000",
            "127.0.0.1:3000/",
            "127.0.0.1:03000x",
            "",
            ":",
        ] {
            assert!(!loopback.is_ours(other.as_bytes()), "{other}");
        }
        assert!(guard("[::1]:3000").is_ours(b"[::1]:3000"));
        assert!(!guard("[::1]:3000").is_ours(b"::1:3000"));
        assert!(guard("127.0.0.1:80").is_ours(b"127.0.0.1"));
        let open = guard("0.0.0.0:3000");
        assert!(open.is_ours(b"192.168.1.2:3000") && open.is_ours(b"localhost:3000"));
        assert!(!open.is_ours(b"evil.example:3000"), "a name can be made to lead here");
    }
}
