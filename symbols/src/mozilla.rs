//! Builds from Mozilla, whose symbols are on Mozilla's public server.

use std::io::Read as _;
use std::path::Path;

use reqwest::Url;

use crate::vetted;

/// The public server: <https://symbols.mozilla.org/help>.
pub const SYMBOL_SERVER: &str = "https://symbols.mozilla.org";
/// The file next to the programs of a build. Its format: `build/application.ini.in` in Firefox's
/// source.
pub const APPLICATION: &str = "application.ini";
/// Longest text of that file that is read; it has a kilobyte.
const MAX_BYTES: u64 = 64 << 10;

/// Whether the binary at `path` is part of a build of a repository of Mozilla: its folder says so.
pub fn is_build(path: &Path) -> bool {
    let Some(folder) = path.parent().filter(|_| path.is_absolute()) else {
        return false;
    };
    let mut text = String::new();
    let read =
        vetted::open_stored(&folder.join(APPLICATION)).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
    read.is_ok() && names_mozilla(&text)
}

/// Whether the text of an `application.ini` names a repository of Mozilla. Builds of distributions
/// name none, or their own.
pub fn names_mozilla(text: &str) -> bool {
    let sources = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("SourceRepository="));
    sources
        .filter_map(|source| Url::parse(source.trim()).ok())
        .any(|url| match url.host_str() {
            Some("hg.mozilla.org") => true,
            Some("github.com") => url
                .path_segments()
                .is_some_and(|mut parts| parts.next() == Some("mozilla-firefox")),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_repository_decides() {
        for (source, expected) in [
            ("https://hg.mozilla.org/releases/mozilla-release", true),
            ("https://github.com/mozilla-firefox/firefox", true),
            ("https://github.com/mozilla-firefox.evil/firefox", false),
            ("https://hg.mozilla.org.evil.example/x", false),
            ("https://evil.example/https://hg.mozilla.org/x", false),
            ("https://salsa.debian.org/mozilla-team/firefox", false),
            ("", false),
        ] {
            let text = format!("[App]\nVendor=Mozilla\nName=Firefox\nSourceRepository={source}\nSourceStamp=1\n");
            assert_eq!(names_mozilla(&text), expected, "{source}");
        }
        assert!(!names_mozilla("[App]\nVendor=Mozilla\nName=Firefox\n"));
    }

    #[test]
    fn the_file_is_next_to_the_binary() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("libxul.so");
        assert!(!is_build(&binary));
        let text = "[App]\r\nSourceRepository=https://hg.mozilla.org/mozilla-central\r\n";
        std::fs::write(folder.path().join(APPLICATION), text).unwrap();
        assert!(is_build(&binary) && !is_build(Path::new("libxul.so")));
    }
}
