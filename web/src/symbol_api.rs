//! `/symbolicate/v5`, `/source/v1` and `/asm/v1`: passes size-limited requests to the symbol server.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, StatusCode};
use symbols::server::{Query, SymbolServer};
use tokio::sync::Semaphore;

use crate::answer::{self, Response, Shared, plain};

/// Maximum size of a request in bytes; all addresses of a Firefox profile need a tenth of it.
pub(crate) const BODY_BYTES: usize = 16 << 20;
/// Time limit for receiving a request.
const BODY_TIME: Duration = Duration::from_secs(20);
/// Maximum number of requests received concurrently.
const BODIES: usize = 4;

/// The symbol server, with a limit on concurrent requests.
pub(crate) struct SymbolApi {
    server: Arc<SymbolServer>,
    bodies: Semaphore,
}

impl SymbolApi {
    pub fn new(server: Arc<SymbolServer>) -> Self {
        Self {
            server,
            bodies: Semaphore::new(BODIES),
        }
    }
}

/// Responds to a POST.
pub(crate) async fn answer(shared: &Shared, path: &str, (headers, body): (&HeaderMap, Incoming)) -> Response {
    let (Some(api), Some(query)) = (&shared.symbols, Query::from_path(path)) else {
        return answer::not_found();
    };
    if !is_json(headers) {
        return plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send JSON, as application/json or text/plain\n",
        );
    }
    let bytes = match arrive(api, body).await {
        Ok(bytes) => bytes,
        Err(refused) => return refused,
    };
    // Fails only when the program ends.
    let Ok(place) = Arc::clone(&shared.work).acquire_owned().await else {
        return answer::not_found();
    };
    let server = Arc::clone(&api.server);
    // The work goes on if the client leaves, and occupies its place until it is done.
    let work = tokio::task::spawn_blocking(move || {
        let answer = server.answer(query, &bytes);
        drop(place);
        answer
    });
    match work.await {
        Ok(json) => answer::with_type("application/json", Bytes::from(json)),
        Err(_) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the symbol server failed to process this request\n",
        ),
    }
}

/// Whether the content type is acceptable. The profiler sends text/plain, which needs no preflight.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(stated) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let essence = stated
        .to_str()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    ["application/json", "text/plain"].contains(&essence.trim().to_ascii_lowercase().as_str())
}

async fn arrive(api: &SymbolApi, body: Incoming) -> Result<Bytes, Response> {
    const TOO_LARGE: &str = "the request is larger than 16 MiB\n";
    if body.size_hint().lower() > BODY_BYTES as u64 {
        return Err(plain(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE));
    }
    let collect = async {
        let _place = api.bodies.acquire().await;
        Limited::new(body, BODY_BYTES).collect().await
    };
    match tokio::time::timeout(BODY_TIME, collect).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(plain(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE)),
        Ok(Err(_)) => Err(plain(StatusCode::BAD_REQUEST, "the request is incomplete\n")),
        Err(_) => Err(plain(
            StatusCode::REQUEST_TIMEOUT,
            "the request took too long to arrive\n",
        )),
    }
}
