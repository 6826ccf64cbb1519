//! The page-fault explorer: a web page, as separate files for a server or as one file that works offline.
//!
//! The page reads one document, `data.bin` next to `index.html` or embedded; `profiler/report/src/explorer.rs` describes
//! its format. In the single file, the modules share one scope: a policy with one script's hash admits only that script,
//! but modules in `data:` URLs would require admitting every such URL.

mod join;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Path below the folder in which the page is served.
    pub path: &'static str,
    /// Value of the `Content-Type` header.
    pub content_type: &'static str,
    /// Content of the file.
    pub body: &'static str,
}

/// Path of the served page's document, next to `index.html`.
pub const DATA: &str = "data.bin";

/// Path of the critical paths that the served page requests, with the query of [`PathQuery`](crate::PathQuery).
pub const PATH: &str = "path.json";

/// Content security policy of the served page: nothing inline, nothing from other origins.
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

/// Files of the page. Modules follow those that they import.
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
    "reasons.js": SCRIPT,
    "path.js": SCRIPT,
    "lanes.js": SCRIPT,
    "piece.js": SCRIPT,
    "pathchart.js": SCRIPT,
    "pathtable.js": SCRIPT,
    "threadchooser.js": SCRIPT,
    "pathpage.js": SCRIPT,
    "keys.js": SCRIPT,
    "shell.js": SCRIPT,
    "summary.js": SCRIPT,
    "app.js": SCRIPT,
    "main.js": SCRIPT,
};

/// Lines of `index.html` that the single file replaces.
const STYLE: &str = "<link rel=\"stylesheet\" href=\"page.css\">";
const MAIN: &str = "<script type=\"module\" src=\"main.js\"></script>";
const META: &str = "<meta charset=\"utf-8\">";

/// Why the single page can't be built: the page's files do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// `index.html` lacks a line.
    #[error("index.html has no line {0}; this build of ngmi is broken: reinstall it")]
    Line(&'static str),
    /// A module can't be joined with the others.
    #[error("{0}; this build of ngmi is broken: reinstall it")]
    Module(String),
}

/// The files of the page; `index.html` comes first.
pub fn assets() -> &'static [Asset] {
    ASSETS
}

/// The whole page with its document in one HTML file. It runs only its own script and loads nothing.
///
/// # Errors
/// When the page's own files do not fit together, regardless of the document.
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
        // Browsers do not run scripts of this type. Base64 has no `<`, so the data can't end the element.
        "<script type=\"application/octet-stream\" id=\"document\">",
        &data,
        "</script>\n<script type=\"module\">",
        &script,
        "</script>",
        tail,
    ]
    .concat())
}

/// Hash of an inline script or style, as a policy expects it.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests;
