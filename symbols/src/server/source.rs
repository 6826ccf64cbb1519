//! `/source/v1`: a source file that both the profile and a library's debug info name.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use samply_symbols::{LookupAddress, MappedPath, SourceFilePath};
use serde::Deserialize;
use serde_json::json;

use super::libraries::{Asked, Entry};
use super::{ServerConfig, ServerState, address, fetch, parse};

/// Maximum size of a source file in bytes.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// The request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    debug_name: String,
    debug_id: String,
    module_offset: String,
    file: String,
}

/// Answers the request, or returns the reason why not.
pub(super) async fn answer(known: &ServerState, config: &ServerConfig, question: &str) -> Result<String, String> {
    let request: Request = parse(question)?;
    let entry = known.libraries.find(Asked {
        debug_name: Some(&request.debug_name),
        debug_id: Some(&request.debug_id),
        code_id: None,
    })?;
    let offset = address(&request.module_offset)?;
    let path = named_path(known, entry, offset, &request.file).await?;
    let raw = path.raw_path();
    if !known.sources.contains(raw) && !known.sources.contains(&request.file) {
        return Err("the profile does not name this source".to_owned());
    }
    let source = match local(entry, config, raw) {
        Ok(source) => source,
        Err(_) if config.fetch_source => fetch::source(&path, entry, config.debuginfod.as_ref()).await?,
        Err(why) => return Err(format!("An error occurred when reading the file: {why}")),
    };
    let answer = json!({
        "symbolsLastModified": null,
        "sourceLastModified": null,
        "file": request.file,
        "source": source,
    });
    Ok(answer.to_string())
}

/// The path in the debug info at `offset` that `file` refers to: by its plain name, or by the
/// spelling for files on the web.
async fn named_path(known: &ServerState, entry: &Entry, offset: u32, file: &str) -> Result<SourceFilePath, String> {
    let map = known.libraries.symbols(&entry.key).await?;
    let found = map.lookup(LookupAddress::Relative(offset)).await;
    let frames = found
        .and_then(|info| info.frames)
        .ok_or("Don't have any debug info for the requested library")?;
    frames
        .into_iter()
        .filter_map(|frame| frame.file_path)
        .find(|path| {
            let special = path.mapped_path().map(MappedPath::to_special_path_str);
            path.raw_path() == file || special.as_deref() == Some(file)
        })
        .ok_or_else(|| "The requested path is not present in the symbolication frames".to_owned())
}

fn local(entry: &Entry, config: &ServerConfig, raw: &str) -> Result<String, String> {
    // A relative path is relative to the library's folder.
    let sibling = Path::new(&entry.path).parent().unwrap_or(Path::new("")).join(raw);
    config.roots.read(&sibling)
}

/// Reads the text of a file in any encoding.
pub(super) fn text_of(file: &File) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut limited = file.take(MAX_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    text(bytes)
}

/// Converts bytes to text, if they are text.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err("it is larger than 16 MiB, too large for a source".to_owned());
    }
    if bytes.contains(&0) {
        return Err("it is not text".to_owned());
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
