//! The single-use address that a browser is started with. Other users can read it in the process list, so it leads to the page
//! only once, and only for this user.

use std::sync::atomic::{AtomicBool, Ordering};

use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};

use crate::ServeError;
use crate::answer::{Response, plain};
use crate::peer::Peer;
use crate::token::Token;

/// A random code that redirects to the link until it is used.
pub(crate) struct Entrance {
    code: Token,
    used: AtomicBool,
    /// The link that it redirects to.
    page: HeaderValue,
}

impl Entrance {
    /// Creates an entrance to `page`; `None` if the kernel does not report which user connects.
    ///
    /// # Errors
    /// When the system provides no random bytes.
    pub fn new(page: &str) -> Result<Option<Self>, ServeError> {
        let page = HeaderValue::from_str(page).ok().filter(|_| Peer::can_be_known());
        let with_code = |page| {
            Ok(Self {
                code: Token::new()?,
                used: AtomicBool::new(false),
                page,
            })
        };
        page.map(with_code).transpose()
    }

    /// Path of the entrance.
    pub fn path(&self) -> String {
        format!("/{}", self.code.reveal())
    }

    /// The response to the first request for the entrance by this user; `None` for all other requests.
    pub fn answer(&self, method: &Method, path: &str, peer: Peer) -> Option<Response> {
        let is_asked_for = method == Method::GET && peer == Peer::Ours && self.code.strip(path) == Some("");
        if !is_asked_for || self.used.swap(true, Ordering::Relaxed) {
            return None;
        }
        let mut response = plain(StatusCode::SEE_OTHER, "");
        response.headers_mut().insert(header::LOCATION, self.page.clone());
        Some(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entrance_opens_once_for_the_same_user() {
        let entrance = Entrance::new("https://a.example/from-url/x").unwrap().unwrap();
        let path = entrance.path();
        let ask = |method: &Method, path: &str, peer| {
            let answer = entrance.answer(method, path, peer)?;
            Some(answer.headers()[header::LOCATION].to_str().unwrap().to_owned())
        };
        for (method, path, peer) in [
            (&Method::GET, &*path, Peer::Another),
            (&Method::GET, &*path, Peer::Unknown),
            (&Method::HEAD, &*path, Peer::Ours),
            (&Method::GET, &*format!("{path}/"), Peer::Ours),
            (&Method::GET, "/", Peer::Ours),
        ] {
            assert_eq!(ask(method, path, peer), None, "{method} {path} {peer:?}");
        }
        let page = Some("https://a.example/from-url/x".to_owned());
        assert_eq!(ask(&Method::GET, &path, Peer::Ours), page);
        assert_eq!(ask(&Method::GET, &path, Peer::Ours), None, "a second time");
    }
}
