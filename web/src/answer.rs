//! HTTP responses: routing and common headers.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;

use crate::entrance::Entrance;
use crate::explorer_route::{self, Explorer};
use crate::guard::{Asker, Guard};
use crate::peer::Peer;
use crate::profile::ProfileFile;
use crate::symbol_api::{self, SymbolApi};

/// A response body, possibly streamed from a file.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;
/// A response.
pub(crate) type Response = hyper::Response<Body>;

/// Server state that all connections share.
pub(crate) struct Shared {
    pub guard: Guard,
    pub entrance: Option<Entrance>,
    pub profile: ProfileFile,
    pub symbols: Option<SymbolApi>,
    pub explorer: Option<Explorer>,
    /// Limits concurrent CPU-bound work.
    pub work: Arc<Semaphore>,
}

/// Responds to a request. All refusals look the same.
pub(crate) async fn answer(
    shared: &Shared,
    peer: Peer,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let (head, body) = request.into_parts();
    let entrance = shared.entrance.as_ref().filter(|_| shared.guard.is_for_us(&head));
    if let Some(response) = entrance.and_then(|entrance| entrance.answer(&head.method, head.uri.path(), peer)) {
        return Ok(response);
    }
    let Some(admitted) = shared.guard.admit(&head) else {
        return Ok(not_found());
    };
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let mut response = match (&head.method, admitted.path) {
        (&Method::OPTIONS, _) => {
            let mut response = plain(StatusCode::NO_CONTENT, "");
            if admitted.asker == Asker::Profiler {
                shared.guard.preflight(&head.headers, &mut response);
            }
            return Ok(response);
        }
        (_, "/profile.json") if is_read => shared.profile.answer(),
        (&Method::POST, path) => symbol_api::answer(shared, path, (&head.headers, body)).await,
        (_, path) if is_read && admitted.asker == Asker::Direct => {
            explorer_route::answer(shared, path, head.uri.query().unwrap_or_default()).await
        }
        _ => not_found(),
    };
    if admitted.asker == Asker::Profiler {
        shared.guard.allow(&mut response);
    }
    Ok(response)
}

/// The response for missing paths and for requests that are not admitted.
pub(crate) fn not_found() -> Response {
    plain(StatusCode::NOT_FOUND, "not found\n")
}

/// A plain-text response with one line.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut response = with_type("text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()));
    *response.status_mut() = status;
    response
}

/// A response with these bytes and content type.
pub(crate) fn with_type(content_type: &'static str, bytes: Bytes) -> Response {
    with_body(
        content_type,
        Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
    )
}

/// A response with this body and content type, and the common headers: no caching, no type guessing, no embedding, no referrer.
pub(crate) fn with_body(content_type: &'static str, body: Body) -> Response {
    const EACH: [(HeaderName, &str); 4] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in EACH {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
