//! The pages that were open.

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::limits;
use fact::gecko::GeckoPage;

/// Adds the pages of a process. The front end needs numbers and an address.
pub fn add(raw: &Value, pages: &mut Vec<GeckoPage>) {
    let mut known: rustc_hash::FxHashSet<u64> = pages.iter().map(|page| page.inner_window).collect();
    for row in raw.as_array().into_iter().flatten() {
        let number = |key: &str| row[key].as_u64();
        let (Some(tab), Some(inner_window), Some(url)) = (
            number("tabID").or_else(|| number("browsingContextID")),
            number("innerWindowID"),
            row["url"].as_str(),
        ) else {
            continue;
        };
        if pages.len() < limits::PAGES && known.insert(inner_window) {
            pages.push(GeckoPage {
                tab,
                inner_window,
                embedder: number("embedderInnerWindowID").unwrap_or(0),
                url: limits::short(url, limits::TEXT).to_owned(),
                is_private: row["isPrivateBrowsing"] == true,
            });
        }
    }
}

/// Cuts embedders that are not listed or embed each other: the front end follows them to the outermost page.
pub fn root(pages: &mut [GeckoPage]) {
    let mut embedders: FxHashMap<u64, u64> = pages.iter().map(|page| (page.inner_window, page.embedder)).collect();
    for page in pages {
        let (mut at, mut steps) = (page.embedder, 0);
        while at != 0 && steps <= limits::NESTING {
            at = embedders.get(&at).copied().unwrap_or(u64::MAX);
            steps += 1;
            if at == u64::MAX {
                break;
            }
        }
        if at != 0 {
            page.embedder = 0;
            embedders.insert(page.inner_window, 0);
        }
    }
}
