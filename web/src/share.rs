//! Uploads profiles to where the Firefox Profiler keeps shared ones, and deletes them again. See docs/sharing.md.

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

/// Mozilla's storage.
pub const API_URL: &str = "https://api.profiler.firefox.com";
/// Bytes that the storage takes, compressed.
pub const SIZE_LIMIT: u64 = 150 << 20;
/// The version of the protocol.
const PROTOCOL: &str = "application/vnd.firefox-profiler+json;version=1.0";
/// Short answers are expected; a longer one is cut.
const ANSWER_LIMIT: usize = 64 << 10;
/// For a connection to be made.
const CONNECT_TIME: Duration = Duration::from_secs(20);
/// For an answer to go on, once there is nothing to send.
const ANSWER_TIME: Duration = Duration::from_mins(2);

/// Why something could not be shared or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The address is no server's, or nothing protects what goes there.
    #[error("`{0}` is no address to upload to; give one with https://, or with http:// on this machine")]
    Address(String),
    /// No TLS, no threads.
    #[error("cannot prepare the upload: {0}")]
    Client(String),
    /// The profile is larger than the storage takes.
    #[error(
        "the profile is too large to share: {} MiB of at most 150; make it smaller with `ngmi trim --from --to --process`",
        .0.div_ceil(1 << 20)
    )]
    TooLarge(u64),
    /// The profile can't be read.
    #[error("cannot read the profile: {0}")]
    Profile(io::Error),
    /// The connection could not be made, or broke.
    #[error("{host} can't be reached, or hung up: {why}; check the network and try again")]
    Network {
        /// Who.
        host: String,
        /// Why.
        why: String,
    },
    /// The server said no.
    #[error("{host} refused: {status}{said}")]
    Refused {
        /// Who.
        host: String,
        /// The status.
        status: StatusCode,
        /// In its own words.
        said: String,
    },
    /// The server said something else than the protocol has.
    #[error("{0} answered with something that is no token; is it the profiler's storage?")]
    Answer(String),
    /// The server does not know the right to delete.
    #[error("{0} does not accept the right to delete this profile: it was given by another server, or changed since")]
    Forbidden(String),
    /// It is gone already.
    #[error("the profile is not there any more: it was deleted before")]
    Gone,
}

/// A profile that was uploaded.
#[derive(Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// Its name in links.
    pub profile_token: String,
    /// The right to delete it; it has no `Debug`, so that no log ever has it.
    pub deletion_token: String,
}

/// A storage of profiles.
pub struct Storage {
    client: Client,
    url: Url,
    host: String,
}

impl Storage {
    /// The storage at an address.
    ///
    /// # Errors
    /// It is none, or what goes there could be read on the way.
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
        // Where a redirect leads nobody agreed to.
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

    /// Uploads a gzip file. `progress` hears how many bytes have been handed to the network.
    ///
    /// # Errors
    /// See [`ShareError`]; nothing is shared then.
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

    /// Makes a short link of a long one; `None`: this storage has none for it.
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
        // As an address is spelled: what the server wrote may command a terminal.
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

    /// What deletes a profile without ngmi, for a person who has to keep the right to do so by hand. The token is not among curl's arguments, which every user of the
    /// machine can read.
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
                said: "; make it smaller with `ngmi trim --from --to --process`".to_owned(),
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

    /// The innermost reason is the one that helps.
    fn broken(&self, error: &reqwest::Error) -> ShareError {
        let mut why = error.source();
        while let Some(deeper) = why.and_then(|why| why.source()) {
            why = Some(deeper);
        }
        ShareError::Network {
            host: self.host.clone(),
            why: why.map_or_else(|| "no answer".to_owned(), ToString::to_string),
        }
    }
}

/// Where a person opens a shared profile.
pub fn public_url(profiler: &ProfilerUrl, profile_token: &str) -> String {
    profiler.public(profile_token)
}

/// A line of the server's words, without what a terminal would obey; and what to do.
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

/// The name of the profile in the middle part of a JWT. Its signature is for the server to check.
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
    fn only_addresses_that_nobody_listens_at_are_taken() {
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
    fn what_a_server_says_can_not_command_a_terminal() {
        let words = said("No\u{1b}[2J luck\nmore", StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(words, ": No[2J luck; try again later");
    }
}
