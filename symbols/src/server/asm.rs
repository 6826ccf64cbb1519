//! `/asm/v1`: disassembled machine code of a library, from samply-api.

use samply_symbols::LookupAddress;
use serde::Deserialize;
use serde_json::json;

use super::libraries::{Asked, Entry, Libraries};
use super::{ServerState, address, parse};

/// Maximum bytes of code in a response: larger functions are truncated.
const MAX_BYTES: u32 = 1 << 20;

/// The request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    code_id: Option<String>,
    debug_name: Option<String>,
    debug_id: Option<String>,
    start_address: String,
    size: String,
    #[serde(default)]
    continue_until_function_end: bool,
}

/// Answers the request, or returns the reason why not.
pub(super) async fn answer(known: &ServerState, question: &str) -> Result<String, String> {
    let request: Request = parse(question)?;
    let entry = known.libraries.find(Asked {
        debug_name: request.debug_name.as_deref(),
        debug_id: request.debug_id.as_deref(),
        code_id: request.code_id.as_deref(),
    })?;
    let start = address(&request.start_address)?;
    let mut size = address(&request.size)?;
    if request.continue_until_function_end
        && let Some(end) = function_end(&known.libraries, entry, start).await
    {
        size = size.max(end.saturating_sub(start));
    }
    // The request is rebuilt: only checked values are passed on.
    let checked = json!({
        "name": entry.name,
        "codeId": entry.code_id,
        "debugName": entry.key.0,
        "debugId": entry.key.1.breakpad().to_string(),
        "startAddress": format!("0x{start:x}"),
        "size": format!("0x{:x}", size.min(MAX_BYTES)),
    });
    Ok(known.libraries.query("/asm/v1", &checked.to_string()).await)
}

async fn function_end(libraries: &Libraries, entry: &Entry, start: u32) -> Option<u32> {
    let map = libraries.symbols(&entry.key).await.ok()?;
    let symbol = map.lookup_sync(LookupAddress::Relative(start))?.symbol;
    symbol.address.checked_add(symbol.size?)
}
