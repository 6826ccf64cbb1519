//! What Firefox's markers refer to, in the profile: categories after ours, schemas, pages.

use serde_json::{Map, Value, json};

use fact::Tables;

/// Appends categories and schemas.
pub fn describe(meta: &mut Map<String, Value>, tables: &Tables) {
    let Some(gecko) = &tables.recording.gecko else { return };
    let categories = gecko.categories.iter();
    let categories =
        categories.map(|category| json!({"name": category.name, "color": category.color, "subcategories": ["Other"]}));
    extend(meta, "categories", categories);
    let schemas = gecko.schemas.iter();
    extend(
        meta,
        "markerSchema",
        schemas.filter_map(|schema| serde_json::from_str(&schema.json).ok()),
    );
}

fn extend(meta: &mut Map<String, Value>, key: &str, rows: impl Iterator<Item = Value>) {
    if let Some(list) = meta.get_mut(key).and_then(Value::as_array_mut) {
        list.extend(rows);
    }
}

/// The rows of `pages`.
pub fn pages(tables: &Tables) -> Vec<Value> {
    let pages = tables.recording.gecko.iter().flat_map(|gecko| &gecko.pages);
    let row = |page: &fact::gecko::GeckoPage| {
        json!({
            "tabID": page.tab,
            "innerWindowID": page.inner_window,
            "url": page.url,
            "embedderInnerWindowID": page.embedder,
            "isPrivateBrowsing": page.is_private,
        })
    };
    pages.map(row).collect()
}
