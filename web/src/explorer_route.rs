//! Serves the page-fault explorer below `/faults/`: its files, and its data, which are created on the first request.

use std::sync::{Arc, OnceLock};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};

use crate::answer::{self, Response, Shared, plain};
use crate::explorer::{self, POLICY};

/// Creates the page's data; an error is a sentence for the user.
type Make = dyn Fn() -> Result<Vec<u8>, String> + Send + Sync;

/// The explorer page and its data.
pub struct Explorer {
    data: Arc<Data>,
}

struct Data {
    make: Box<Make>,
    made: OnceLock<Result<Bytes, String>>,
}

impl Explorer {
    /// `make` is called once, on a blocking thread, when the page is first opened.
    pub fn new(make: impl Fn() -> Result<Vec<u8>, String> + Send + Sync + 'static) -> Self {
        let data = Data {
            make: Box::new(make),
            made: OnceLock::new(),
        };
        Self { data: Arc::new(data) }
    }
}

/// Responds to a GET of a path after the token.
pub(crate) async fn answer(shared: &Shared, path: &str) -> Response {
    let (Some(explorer), Some(name)) = (&shared.explorer, path.strip_prefix("/faults/")) else {
        return answer::not_found();
    };
    if name == explorer::DATA {
        return data(shared, explorer).await;
    }
    let name = if name.is_empty() { "index.html" } else { name };
    let Some(asset) = explorer::assets().iter().find(|asset| asset.path == name) else {
        return answer::not_found();
    };
    protected(answer::with_type(
        asset.content_type,
        Bytes::from_static(asset.body.as_bytes()),
    ))
}

async fn data(shared: &Shared, explorer: &Explorer) -> Response {
    let Ok(_place) = shared.work.acquire().await else {
        return answer::not_found();
    };
    let data = Arc::clone(&explorer.data);
    let make = move || data.made.get_or_init(|| (data.make)().map(Bytes::from)).clone();
    match tokio::task::spawn_blocking(make).await {
        Ok(Ok(bytes)) => protected(answer::with_type("application/octet-stream", bytes)),
        Ok(Err(why)) => {
            let mut response = answer::with_type("text/plain; charset=utf-8", Bytes::from(why));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot read the page faults\n"),
    }
}

fn protected(mut response: Response) -> Response {
    const EACH: [(HeaderName, &str); 3] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in EACH {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
