//! Streams the profile, which may be larger than memory.

use std::fs::File;
use std::future::Future as _;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderValue};
use tokio::task::JoinHandle;

use crate::ServeError;
use crate::answer::{self, Response};

/// Size of a read in bytes.
const CHUNK: u64 = 256 << 10;
/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A profile, opened once: a file that replaces it later is not served.
pub(crate) struct ProfileFile {
    file: Arc<File>,
    len: u64,
    gzip: bool,
}

impl ProfileFile {
    /// Opens the profile.
    ///
    /// # Errors
    /// When the file can't be read, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, ServeError> {
        Self::try_open(path).map_err(|source| ServeError::Profile {
            path: path.to_owned(),
            source,
        })
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        let mut start = Vec::new();
        (&file).take(GZIP.len() as u64).read_to_end(&mut start)?;
        Ok(Self {
            len: file.metadata()?.len(),
            gzip: start == GZIP,
            file: Arc::new(file),
        })
    }

    /// Response with the whole profile.
    pub fn answer(&self) -> Response {
        let body = FileBody::new(Arc::clone(&self.file), self.len);
        let mut response = answer::with_body("application/json", body.boxed_unsync());
        if self.gzip {
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// Body that reads a file while it is sent.
pub(crate) struct FileBody {
    file: Arc<File>,
    at: u64,
    end: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    progress: Option<Box<dyn Fn(u64) + Send + Sync>>,
}

impl FileBody {
    /// Body with the first `len` bytes of a file.
    pub fn new(file: Arc<File>, len: u64) -> Self {
        Self {
            file,
            at: 0,
            end: len,
            reading: None,
            progress: None,
        }
    }

    /// Calls `progress` with the number of bytes handed out after each chunk.
    pub fn with_progress(self, progress: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self {
            progress: Some(Box::new(progress)),
            ..self
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let (at, left) = (self.at, self.end.saturating_sub(self.at));
        if left == 0 {
            return Poll::Ready(None);
        }
        let file = Arc::clone(&self.file);
        let read = move || {
            // At most CHUNK, which fits `usize`.
            let mut bytes = vec![0; usize::try_from(left.min(CHUNK)).unwrap_or_default()];
            file.read_exact_at(&mut bytes, at)?;
            Ok(Bytes::from(bytes))
        };
        let reading = self.reading.get_or_insert_with(|| tokio::task::spawn_blocking(read));
        let result = ready!(Pin::new(reading).poll(cx)).unwrap_or_else(|error| Err(io::Error::other(error)));
        self.reading = None;
        match &result {
            Ok(bytes) => {
                self.at += bytes.len() as u64;
                self.progress.iter().for_each(|progress| progress(self.at));
            }
            // The connection ends before the announced length, so the browser notices that data is missing.
            Err(_) => self.end = self.at,
        }
        Poll::Ready(Some(result.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.at >= self.end
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.end.saturating_sub(self.at))
    }
}
