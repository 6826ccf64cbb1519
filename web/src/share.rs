//! Uploads profiles to the Firefox Profiler's storage of shared profiles, and deletes them. See docs/sharing.md.
//!
//! - Upload: `POST /compressed-store`, gzip of JSON with its length, `Accept:
//!   application/vnd.firefox-profiler+json;version=1.0`; the answer is a JWT, whose payload has `profileToken`.
//! - Link: `https://profiler.firefox.com/public/TOKEN/`, shortened by `POST /shorten` where the storage supports it.
//! - Delete: `DELETE /profile/TOKEN` with the JWT as bearer.

use std::error::Error as _;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::Deserialize;

use crate::link::ProfilerUrl;
use crate::profile::FileBody;

/// URL of Mozilla's storage.
pub const API_URL: &str = "https://api.profiler.firefox.com";
/// Maximum size of a compressed profile in bytes.
pub const SIZE_LIMIT: u64 = 150 << 20;
/// Media type with the protocol version.
const PROTOCOL: &str = "application/vnd.firefox-profiler+json;version=1.0";
/// Maximum size of a response in bytes; longer ones are truncated.
const ANSWER_LIMIT: usize = 64 << 10;
/// Time limit for connecting.
const CONNECT_TIME: Duration = Duration::from_secs(20);
/// Time limit for receiving the next part of a response after sending.
const ANSWER_TIME: Duration = Duration::from_mins(2);

/// Why a profile could not be shared or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The URL is invalid, or the connection would not be encrypted.
    #[error("`{0}` is not a valid upload URL; use https://, or http:// for this machine")]
    Address(String),
    /// TLS or threads are not available.
    #[error("cannot prepare the upload: {0}")]
    Client(String),
    /// The profile exceeds the size limit.
    #[error(
        "the profile is too large to share: {} MiB, but the limit is 150 MiB; reduce it with `ngmi trim --from --to --process`",
        .0.div_ceil(1 << 20)
    )]
    TooLarge(u64),
    /// The profile can't be read.
    #[error("cannot read the profile: {0}")]
    Profile(io::Error),
    /// The connection failed or was interrupted.
    #[error("cannot reach {host}, or it closed the connection: {why}; check the network and try again")]
    Network {
        /// The server.
        host: String,
        /// The cause.
        why: String,
    },
    /// The server refused the request.
    #[error("{host} refused: {status}{said}")]
    Refused {
        /// The server.
        host: String,
        /// HTTP status.
        status: StatusCode,
        /// The server's message and a remedy.
        said: String,
    },
    /// The response does not follow the protocol.
    #[error("{0} did not return a deletion token; check that it is the profiler's storage")]
    Answer(String),
    /// The server rejected the deletion token.
    #[error("{0} rejected the deletion token of this profile: it was issued by another server, or has changed since")]
    Forbidden(String),
    /// The profile no longer exists.
    #[error("the profile no longer exists: it was deleted before")]
    Gone,
}

/// An uploaded profile.
#[derive(Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// Token of the profile in links.
    pub profile_token: String,
    /// Token that permits deleting the profile. The struct has no `Debug`, so the token is never logged.
    pub deletion_token: String,
}

/// A storage of shared profiles.
pub struct Storage {
    client: Client,
    url: Url,
    host: String,
}

impl Storage {
    /// Creates a client for the storage at a URL.
    ///
    /// # Errors
    /// When the URL is invalid, or the connection would not be encrypted.
    pub fn new(url: &str) -> Result<Self, ShareError> {
        let wrong = || ShareError::Address(url.to_owned());
        let parsed = Url::parse(url).map_err(|_| wrong())?;
        let host = parsed.host_str().ok_or_else(wrong)?.to_owned();
        let is_here = ["localhost", "127.0.0.1", "[::1]"].contains(&host.as_str());
        let is_safe = parsed.scheme() == "https" || (parsed.scheme() == "http" && is_here);
        let is_plain = parsed.query().is_none() && parsed.fragment().is_none();
        let is_plain = is_plain && parsed.username().is_empty() && parsed.password().is_none();
        if !is_safe || !is_plain {
            return Err(wrong());
        }
        // The user has not agreed to uploads to a redirect's target.
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIME)
            .read_timeout(ANSWER_TIME)
            .user_agent(concat!("ngmi/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            client: client.map_err(|error| ShareError::Client(error.to_string()))?,
            url: parsed,
            host,
        })
    }

    /// Uploads a gzip file. `progress` is called with the number of bytes handed to the network.
    ///
    /// # Errors
    /// See [`ShareError`]; on error, nothing is shared.
    pub async fn upload(
        &self,
        profile: File,
        progress: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Uploaded, ShareError> {
        let len = profile.metadata().map_err(ShareError::Profile)?.len();
        if len > SIZE_LIMIT {
            return Err(ShareError::TooLarge(len));
        }
        let body = FileBody::new(Arc::new(profile), len).with_progress(progress);
        let request = self
            .request(Method::POST, &["compressed-store"])
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(Body::wrap(body));
        let deletion_token = self.answer(request).await?.trim().to_owned();
        let profile_token = profile_token(&deletion_token).ok_or_else(|| ShareError::Answer(self.host.clone()))?;
        Ok(Uploaded {
            profile_token,
            deletion_token,
        })
    }

    /// Shortens a link; `None` if the storage provides no short link.
    pub async fn shorten(&self, long: &str) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Short {
            short_url: String,
        }
        let question = serde_json::json!({ "longUrl": long }).to_string();
        let request = self
            .request(Method::POST, &["shorten"])
            .header(CONTENT_TYPE, "application/json")
            .body(question);
        let answer = self.answer(request).await.ok()?;
        let short: Short = serde_json::from_str(&answer).ok()?;
        // Normalizes the URL, since the server's text may contain terminal control characters.
        let url = Url::parse(&short.short_url).ok()?;
        (url.scheme() == "https").then(|| url.into())
    }

    /// Deletes a profile.
    ///
    /// # Errors
    /// See [`ShareError`]; [`ShareError::Gone`] if it was deleted before.
    pub async fn delete(&self, uploaded: &Uploaded) -> Result<(), ShareError> {
        let request = self
            .request(Method::DELETE, &["profile", &uploaded.profile_token])
            .header(AUTHORIZATION, format!("Bearer {}", uploaded.deletion_token));
        match self.answer(request).await {
            Ok(_) => Ok(()),
            Err(ShareError::Refused {
                status: StatusCode::NOT_FOUND | StatusCode::GONE,
                ..
            }) => Err(ShareError::Gone),
            Err(ShareError::Refused {
                status: StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED,
                host,
                ..
            }) => Err(ShareError::Forbidden(host)),
            Err(other) => Err(other),
        }
    }

    /// Shell command that deletes a profile without ngmi, for users who have to store the deletion token themselves. The token is
    /// not among curl's arguments, which every user of the machine can read.
    pub fn delete_command(&self, uploaded: &Uploaded) -> String {
        format!(
            "printf 'Authorization: Bearer %s' '{}' | curl -X DELETE -H 'Accept: {PROTOCOL}' -H @- '{}'",
            uploaded.deletion_token,
            self.below(&["profile", &uploaded.profile_token])
        )
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.client.request(method, self.below(path)).header(ACCEPT, PROTOCOL)
    }

    fn below(&self, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    async fn answer(&self, request: RequestBuilder) -> Result<String, ShareError> {
        let response = request.send().await.map_err(|error| self.broken(&error))?;
        let status = response.status();
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return Err(ShareError::Refused {
                host: self.host.clone(),
                status,
                said: "; reduce it with `ngmi trim --from --to --process`".to_owned(),
            });
        }
        let text = self.text(response).await;
        if status.is_success() {
            return text;
        }
        Err(ShareError::Refused {
            host: self.host.clone(),
            status,
            said: said(&text.unwrap_or_default(), status),
        })
    }

    async fn text(&self, mut response: Response) -> Result<String, ShareError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWER_LIMIT {
                break;
            }
        }
        bytes.truncate(ANSWER_LIMIT);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Network error with the innermost cause, which is the most specific.
    fn broken(&self, error: &reqwest::Error) -> ShareError {
        let mut why = error.source();
        while let Some(deeper) = why.and_then(|why| why.source()) {
            why = Some(deeper);
        }
        ShareError::Network {
            host: self.host.clone(),
            why: why.map_or_else(|| "no response".to_owned(), ToString::to_string),
        }
    }
}

/// URL of a shared profile.
pub fn public_url(profiler: &ProfilerUrl, profile_token: &str) -> String {
    profiler.public(profile_token)
}

/// The first line of the server's message without control characters, and a remedy.
fn said(text: &str, status: StatusCode) -> String {
    let words: String = text
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    let remedy = if status.is_server_error() {
        "; try again later"
    } else {
        ""
    };
    if words.is_empty() {
        remedy.to_owned()
    } else {
        format!(": {words}{remedy}")
    }
}

/// Extracts the profile token from the payload of a JWT. Only the server can check the signature.
fn profile_token(jwt: &str) -> Option<String> {
    use base64::Engine as _;
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload {
        profile_token: String,
    }
    let mut parts = jwt.split('.');
    let (payload, _signature) = (parts.nth(1)?, parts.next()?);
    let is_word = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    if parts.next().is_some() || !is_word(jwt) {
        return None;
    }
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).ok()?;
    let Payload { profile_token } = serde_json::from_slice(&payload).ok()?;
    let fits =
        (1..=128).contains(&profile_token.len()) && profile_token.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then_some(profile_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_profile() {
        // {"alg":"HS256"} . {"profileToken":"abc123","iat":1} . signature
        let payload = "eyJwcm9maWxlVG9rZW4iOiJhYmMxMjMiLCJpYXQiOjF9";
        let jwt = |payload: &str| format!("eyJhbGciOiJIUzI1NiJ9.{payload}.c2ln");
        assert_eq!(profile_token(&jwt(payload)).as_deref(), Some("abc123"));
        // {"profileToken":"../x"}, {}, no base64, too few parts, too many, words around it
        for other in [
            &*jwt("eyJwcm9maWxlVG9rZW4iOiIuLi94In0"),
            &jwt("e30"),
            &jwt("!"),
            "a.b",
            "a.b.c.d",
            &format!("<html>{}", jwt(payload)),
            "",
        ] {
            assert_eq!(profile_token(other), None, "{other}");
        }
    }

    #[test]
    fn only_https_or_loopback_urls_are_accepted() {
        for url in [
            API_URL,
            "http://127.0.0.1:8000",
            "http://localhost:1/sub/",
            "http://[::1]:1",
            "https://a.example",
        ] {
            assert!(Storage::new(url).is_ok(), "{url}");
        }
        for url in [
            "http://a.example",
            "ftp://a",
            "",
            "api",
            "https://user@a",
            "https://a?b",
            "http://127.0.0.1.evil.example",
        ] {
            assert!(Storage::new(url).is_err(), "{url}");
        }
    }

    #[test]
    fn server_messages_cannot_control_the_terminal() {
        let words = said("No\u{1b}[2J luck\nmore", StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(words, ": No[2J luck; try again later");
    }
}
