//! Downloads sources that are not on this machine, from debuginfod or from the location in a
//! release's debug info. Only with `--fetch-source`, and only from the hosts listed here: debug
//! info may name any host.

use std::time::Duration;

use reqwest::{Client, Url, redirect};
use samply_symbols::{MappedPath, SourceFilePath};

use super::libraries::Entry;
use super::source::{MAX_BYTES, text};
use crate::Debuginfod;

/// Timeout for one file.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The host of Firefox's repositories, and the bucket of the sources that its build generates.
const MOZILLA_HG: &str = "hg.mozilla.org";
const MOZILLA_BUCKET: &str = "gecko-generated-sources";

/// Returns the text of a source file.
///
/// # Errors
/// No server has it: the reason of the last one.
pub(super) async fn source(
    path: &SourceFilePath,
    entry: &Entry,
    debuginfod: Option<&Debuginfod>,
) -> Result<String, String> {
    let client = Client::builder()
        .timeout(TIMEOUT)
        .redirect(redirect::Policy::limited(3))
        .user_agent(concat!("ngmi/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())?;
    let on_the_web = path.mapped_path().and_then(web_address);
    let mut last = "the source is not on this machine, and its debug info names no other location".to_owned();
    for url in on_the_web
        .into_iter()
        .chain(debuginfod_addresses(path.raw_path(), entry, debuginfod))
    {
        match download(&client, url).await {
            Ok(source) => return Ok(source),
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// Location of the file in a public repository.
fn web_address(path: &MappedPath) -> Option<Url> {
    let (host, parts) = match path {
        MappedPath::Git { repo, path, rev } => {
            let repo = repo.strip_prefix("github.com/")?;
            ("https://raw.githubusercontent.com".to_owned(), [repo, rev, path])
        }
        MappedPath::Hg { repo, path, rev } => {
            let repo = repo.strip_prefix(MOZILLA_HG)?.trim_start_matches('/');
            let host = format!("https://{MOZILLA_HG}/{repo}/raw-file");
            (host, [rev.as_str(), path, ""])
        }
        MappedPath::S3 { bucket, digest, path } if bucket == MOZILLA_BUCKET => (
            format!("https://{MOZILLA_BUCKET}.s3.amazonaws.com"),
            [digest.as_str(), path, ""],
        ),
        _ => return None,
    };
    below(&host, parts.into_iter().flat_map(|part| part.split('/')))
}

fn debuginfod_addresses(raw: &str, entry: &Entry, debuginfod: Option<&Debuginfod>) -> Vec<Url> {
    let (Some(debuginfod), Some(build_id)) = (debuginfod, &entry.code_id) else {
        return Vec::new();
    };
    let start = ["buildid", build_id, "source"];
    let address = |url: &String| below(url, start.into_iter().chain(raw.split('/')));
    debuginfod.urls.iter().filter_map(address).collect()
}

/// Builds a URL from a host and path segments; special characters are encoded, and `..` is
/// rejected.
fn below<'p>(base: &str, parts: impl Iterator<Item = &'p str>) -> Option<Url> {
    let mut url = Url::parse(base).ok()?;
    let mut path = url.path_segments_mut().ok()?;
    path.pop_if_empty();
    for part in parts.filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            return None;
        }
        path.push(part);
    }
    drop(path);
    Some(url)
}

async fn download(client: &Client, url: Url) -> Result<String, String> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let failed = |error: reqwest::Error| format!("{host}: {}", error.without_url());
    let sent = client.get(url).send().await.map_err(failed)?;
    let mut response = sent.error_for_status().map_err(failed)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > MAX_BYTES {
            break;
        }
    }
    text(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(special: &str) -> Option<String> {
        MappedPath::from_special_path_str(special)
            .and_then(|path| web_address(&path))
            .map(String::from)
    }

    #[test]
    fn only_known_hosts_are_asked() {
        assert_eq!(
            address("git:github.com/rust-lang/rust:library/std/src/a b.rs:53cb7b").as_deref(),
            Some("https://raw.githubusercontent.com/rust-lang/rust/53cb7b/library/std/src/a%20b.rs")
        );
        assert_eq!(
            address("hg:hg.mozilla.org/mozilla-central:widget/a.cpp:997f00").as_deref(),
            Some("https://hg.mozilla.org/mozilla-central/raw-file/997f00/widget/a.cpp")
        );
        assert_eq!(
            address("s3:gecko-generated-sources:a5d3/ipc/ipdl/P.cpp:").as_deref(),
            Some("https://gecko-generated-sources.s3.amazonaws.com/a5d3/ipc/ipdl/P.cpp")
        );
        for other in [
            "git:evil.example/a/b:c:d",
            "hg:evil.example/a:c:d",
            "s3:my-bucket:a/b:",
            "git:github.com/a/b:../../c:d",
        ] {
            assert_eq!(address(other), None, "{other}");
        }
    }
}
