//! The page-fault explorer: a page of our own, as separate files for a server, or as one file that opens without a network.
//!
//! The page reads one document (`data.bin` beside `index.html`, or what is embedded), which docs/explorer.md describes. Its modules share
//! one scope in the single file: a policy that names one script's hash admits that script only, where modules in `data:` addresses would
//! have to admit every such address.

mod join;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its name below the folder that the page is served in.
    pub path: &'static str,
    /// For the header `Content-Type`.
    pub content_type: &'static str,
    /// What it holds.
    pub body: &'static str,
}

/// Where the served page looks for its document, beside `index.html`.
pub const DATA: &str = "data.bin";

/// The policy that the served page works under: nothing inline, nothing from elsewhere.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
                          form-action 'none'; frame-ancestors 'none'";

macro_rules! assets {
    ($($path:literal: $kind:expr),* $(,)?) => {
        &[$(Asset { path: $path, content_type: $kind, body: include_str!(concat!("../page/", $path)) }),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Modules come after those that they import.
const ASSETS: &[Asset] = assets! {
    "index.html": HTML,
    "page.css": CSS,
    "format.js": SCRIPT,
    "document.js": SCRIPT,
    "load.js": SCRIPT,
    "model.js": SCRIPT,
    "groups.js": SCRIPT,
    "bins.js": SCRIPT,
    "pages.js": SCRIPT,
    "flame.js": SCRIPT,
    "plot.js": SCRIPT,
    "theme.js": SCRIPT,
    "surface.js": SCRIPT,
    "scatter.js": SCRIPT,
    "timeline.js": SCRIPT,
    "heatmap.js": SCRIPT,
    "flamegraph.js": SCRIPT,
    "table.js": SCRIPT,
    "chooser.js": SCRIPT,
    "detail.js": SCRIPT,
    "keys.js": SCRIPT,
    "summary.js": SCRIPT,
    "app.js": SCRIPT,
    "main.js": SCRIPT,
};

/// Lines of `index.html` that the single file replaces.
const STYLE: &str = "<link rel=\"stylesheet\" href=\"page.css\">";
const MAIN: &str = "<script type=\"module\" src=\"main.js\"></script>";
const META: &str = "<meta charset=\"utf-8\">";

/// Why there is no single page: one of the page's files is not as the others expect it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// `index.html` lacks a line.
    #[error("index.html has no line {0}; this build of ngmi is damaged: install it again")]
    Line(&'static str),
    /// A module can't be joined with the others.
    #[error("{0}; this build of ngmi is damaged: install it again")]
    Module(String),
}

/// The files of the page; `index.html` comes first.
pub fn assets() -> &'static [Asset] {
    ASSETS
}

/// The whole page with its document in one HTML file. It runs its own script and no other, and reaches for nothing.
///
/// # Errors
/// When the page's own files do not fit together, whatever the document holds.
pub fn single_page(document: &[u8]) -> Result<String, PageError> {
    let of_kind = |kind| ASSETS.iter().filter(move |asset| asset.content_type == kind);
    let script = join::modules(of_kind(SCRIPT))?;
    let style: String = of_kind(CSS).map(|asset| asset.body).collect();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(&style)
    );
    let html = of_kind(HTML).map(|asset| asset.body).collect::<String>();
    let (head, rest) = html.split_once(META).ok_or(PageError::Line(META))?;
    let (middle, rest) = rest.split_once(STYLE).ok_or(PageError::Line(STYLE))?;
    let (body, tail) = rest.split_once(MAIN).ok_or(PageError::Line(MAIN))?;
    let data = BASE64.encode(document);
    Ok([
        head,
        META,
        "\n<meta http-equiv=\"Content-Security-Policy\" content=\"",
        &policy,
        "\">",
        middle,
        "<style>",
        &style,
        "</style>",
        body,
        // Never run: no browser knows a script of this type. Base64 has no `<`, so nothing in it ends the element.
        "<script type=\"application/octet-stream\" id=\"document\">",
        &data,
        "</script>\n<script type=\"module\">",
        &script,
        "</script>",
        tail,
    ]
    .concat())
}

/// As a policy names an inline script or style.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests;
