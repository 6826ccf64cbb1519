//! URLs of the front end, and of a profile opened in it.

use std::fmt::Write as _;

use hyper::Uri;
use hyper::header::HeaderValue;

/// The Firefox Profiler's front end.
pub const PROFILER_URL: &str = "https://profiler.firefox.com";

/// URL of a front end, and the origin of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilerUrl {
    /// Without a trailing slash.
    url: String,
    origin: HeaderValue,
}

/// The text is not a valid front-end URL.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a valid profiler URL; use one such as https://profiler.firefox.com or http://localhost:4242")]
pub struct UrlError(String);

impl ProfilerUrl {
    /// Checks a URL: http or https, with a host, without user and query.
    ///
    /// # Errors
    /// When the URL is invalid.
    pub fn new(text: &str) -> Result<Self, UrlError> {
        let wrong = || UrlError(text.to_owned());
        let url: Uri = text.parse().map_err(|_| wrong())?;
        let scheme = url.scheme_str().filter(|scheme| ["http", "https"].contains(scheme));
        let (scheme, authority) = scheme.zip(url.authority()).ok_or_else(wrong)?;
        if url.query().is_some() || text.contains('#') || authority.as_str().contains('@') {
            return Err(wrong());
        }
        let default_port = if scheme == "https" { 443 } else { 80 };
        let port = authority.port_u16().filter(|port| *port != default_port);
        let mut origin = format!("{scheme}://{}", authority.host().to_ascii_lowercase());
        if let Some(port) = port {
            let _ = write!(origin, ":{port}");
        }
        Ok(Self {
            url: text.trim_end_matches('/').to_owned(),
            origin: origin.parse().map_err(|_| wrong())?,
        })
    }

    /// Origin of the front end's requests.
    pub(crate) fn origin(&self) -> &HeaderValue {
        &self.origin
    }

    /// URL of an uploaded profile.
    pub(crate) fn public(&self, profile_token: &str) -> String {
        format!("{}/public/{profile_token}/", self.url)
    }

    /// URL that opens a profile with this symbol server.
    pub(crate) fn page(&self, profile: &str, symbol_server: Option<&str>) -> String {
        let mut page = format!("{}/from-url/{}", self.url, percent_encode(profile));
        if let Some(server) = symbol_server {
            let _ = write!(page, "/?symbolServer={}", percent_encode(server));
        }
        page
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
    use super::*;

    #[test]
    fn a_nested_url_is_encoded() {
        let profiler = ProfilerUrl::new("https://profiler.firefox.com/").unwrap();
        assert_eq!(
            profiler.page("http://127.0.0.1:80/a~b", Some("http://127.0.0.1:80/a")),
            "https://profiler.firefox.com/from-url/http%3A%2F%2F127.0.0.1%3A80%2Fa~b/?symbolServer=http%3A%2F%2F127.0.0.1%3A80%2Fa"
        );
    }

    #[test]
    fn an_origin_matches_the_browsers() {
        for (url, origin) in [
            (PROFILER_URL, "https://profiler.firefox.com"),
            ("http://LOCALHOST:4242/", "http://localhost:4242"),
            ("https://a.example:443/sub/", "https://a.example"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(ProfilerUrl::new(url).unwrap().origin(), origin, "{url}");
        }
        for wrong in [
            "",
            "profiler.firefox.com",
            "ftp://a",
            "https://a@b",
            "https://a?b",
            "https://a#b",
            "javascript:1",
        ] {
            assert!(ProfilerUrl::new(wrong).is_err(), "{wrong}");
        }
    }
}
