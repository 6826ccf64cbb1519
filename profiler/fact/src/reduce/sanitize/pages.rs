//! Pages that were open in a browser: private ones are removed, and of other addresses only scheme and host stay.

use std::collections::BTreeSet;

use crate::Tables;
use crate::gecko::GeckoPage;

/// Scheme of pages of extensions, whose host is a random number of this installation.
const EXTENSION: &str = "moz-extension";

/// Removes private pages and what others reveal beyond their hosts.
pub fn reduce(tables: &mut Tables) {
    let Some(gecko) = &mut tables.recording.gecko else {
        return;
    };
    gecko.pages.retain(|page| !page.is_private);
    let known: BTreeSet<u64> = gecko.pages.iter().map(|page| page.inner_window).collect();
    for GeckoPage { url, embedder, .. } in &mut gecko.pages {
        *url = origin(url);
        if !known.contains(embedder) {
            *embedder = 0;
        }
    }
}

/// The scheme and the host, without user, password and port: `https://example.org`; of a page of the browser its name
/// (`about:newtab`).
fn origin(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':') else {
        return String::new();
    };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if !scheme.chars().all(is_scheme) {
        return String::new();
    }
    if scheme == "about" {
        let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next();
        return format!("{scheme}:{}", name.unwrap_or_default());
    }
    let Some(rest) = rest.strip_prefix("//") else {
        return format!("{scheme}:");
    };
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.find(']') {
        Some(end) => &host[..=end],
        None => host.split(':').next().unwrap_or_default(),
    };
    let host = if scheme == EXTENSION { "" } else { host };
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scheme_and_host_stay() {
        for (url, expected) in [
            ("https://example.org/a/b?q=1#c", "https://example.org"),
            ("https://bob:secret@example.org:8443/a", "https://example.org"),
            ("https://example.org?q=a@b", "https://example.org"),
            ("http://[::1]:80/a", "http://[::1]"),
            ("file:///home/alice/a.html", "file://"),
            ("about:newtab", "about:newtab"),
            ("about:reader?url=https%3A%2F%2Fexample.org", "about:reader"),
            ("data:text/html,secret", "data:"),
            ("blob:https://example.org/4f1e", "blob:"),
            ("moz-extension://4f1e-22/page.html", "moz-extension://"),
            ("my words: secret", ""),
            ("secret", ""),
        ] {
            assert_eq!(origin(url), expected, "{url}");
        }
    }
}
