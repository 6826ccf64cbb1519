//! Serves the page-fault explorer below `/faults/`: its files, its data, which are created on the first request, and
//! critical paths, each of which is computed when it is requested.

use std::sync::{Arc, OnceLock};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};

use crate::answer::{self, Response, Shared, plain};
use crate::explorer::{self, POLICY};

/// Creates the page's data; an error is a sentence for the user.
type Make = dyn Fn() -> Result<Vec<u8>, String> + Send + Sync;
/// Computes a critical path, as JSON; an error is a sentence for the user.
type Follow = dyn Fn(PathQuery) -> Result<Vec<u8>, String> + Send + Sync;

/// The explorer page and its data.
pub struct Explorer {
    data: Arc<Data>,
    follow: Arc<Follow>,
}

/// Whose critical path over which time is requested: the query `thread=3&from=0&to=1000000`, each part at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathQuery {
    /// The thread, by a number of an earlier answer; `None`: the main one.
    pub thread: Option<u32>,
    /// From this time on, in ns since the start of the recording.
    pub from_ns: Option<u64>,
    /// Up to this time.
    pub to_ns: Option<u64>,
}

impl PathQuery {
    fn parse(query: &str) -> Option<Self> {
        let mut parsed = Self::default();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=')?;
            let is_new = match key {
                "thread" => parsed.thread.replace(value.parse().ok()?).is_none(),
                "from" => parsed.from_ns.replace(value.parse().ok()?).is_none(),
                "to" => parsed.to_ns.replace(value.parse().ok()?).is_none(),
                _ => false,
            };
            is_new.then_some(())?;
        }
        Some(parsed)
    }
}

struct Data {
    make: Box<Make>,
    made: OnceLock<Result<Bytes, String>>,
}

impl Explorer {
    /// `make` is called once, on a blocking thread, when the page is first opened; `follow` for each path.
    pub fn new(
        make: impl Fn() -> Result<Vec<u8>, String> + Send + Sync + 'static,
        follow: impl Fn(PathQuery) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Self {
        let data = Data {
            make: Box::new(make),
            made: OnceLock::new(),
        };
        Self {
            data: Arc::new(data),
            follow: Arc::new(follow),
        }
    }
}

/// Responds to a GET of a path after the token, with this query.
pub(crate) async fn answer(shared: &Shared, path: &str, query: &str) -> Response {
    let (Some(explorer), Some(name)) = (&shared.explorer, path.strip_prefix("/faults/")) else {
        return answer::not_found();
    };
    if name == explorer::DATA {
        let data = Arc::clone(&explorer.data);
        let make = move || data.made.get_or_init(|| (data.make)().map(Bytes::from)).clone();
        return computed(shared, "application/octet-stream", make).await;
    }
    if name == explorer::PATH {
        let Some(query) = PathQuery::parse(query) else {
            return answer::not_found();
        };
        let follow = Arc::clone(&explorer.follow);
        let make = move || follow(query).map(Bytes::from);
        return computed(shared, "application/json", make).await;
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

/// Responds with what `make` returns, on a blocking thread.
async fn computed(
    shared: &Shared,
    content_type: &'static str,
    make: impl FnOnce() -> Result<Bytes, String> + Send + 'static,
) -> Response {
    let Ok(place) = Arc::clone(&shared.work).acquire_owned().await else {
        return answer::not_found();
    };
    // The work goes on if the client leaves, and occupies its place until it is done.
    let work = move || {
        let answer = make();
        drop(place);
        answer
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(bytes)) => protected(answer::with_type(content_type, bytes)),
        Ok(Err(why)) => {
            let mut response = answer::with_type("text/plain; charset=utf-8", Bytes::from(why));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot read the recording\n"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_known_parts_once() {
        let query = |thread, from_ns, to_ns| PathQuery { thread, from_ns, to_ns };
        for (text, expected) in [
            ("", query(None, None, None)),
            ("thread=7", query(Some(7), None, None)),
            ("to=9&from=0", query(None, Some(0), Some(9))),
            (
                "thread=0&from=1&to=18446744073709551615",
                query(Some(0), Some(1), Some(u64::MAX)),
            ),
        ] {
            assert_eq!(PathQuery::parse(text), Some(expected), "{text}");
        }
        for text in [
            "thread",
            "thread=",
            "thread=-1",
            "thread=4294967296",
            "from=1e9",
            "to=1&to=1",
            "other=1",
            "thread=%31",
            "from=1;to=2",
        ] {
            assert_eq!(PathQuery::parse(text), None, "{text}");
        }
    }
}
