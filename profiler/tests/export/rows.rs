//! Parquet in `DuckDB`: the rows and columns are those of `--ndjson`, and the queries of docs/export.md run.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::readers::{python, root};
use super::{exported, ngmi, profile};

#[test]
fn duckdb_reads_the_rows_that_ndjson_has() {
    let (folder, input) = profile();
    for (table, subcommand) in [
        ("faults", "faults"),
        ("requests", "io"),
        ("waits", "waits"),
        ("path", "path"),
    ] {
        let file = exported(&input, &["--format=parquet", "--table", table], "rows.parquet");
        let rows = folder.path().join("rows.ndjson");
        std::fs::write(&rows, ngmi(&[subcommand, "--ndjson"], &input).stdout).unwrap();
        let Some(found) = python("rows.py", &[&file, &rows]) else {
            return;
        };
        assert_eq!(found["differences"], json!([]), "{table}");
        assert!(found["rows"].as_u64() > Some(0), "{table}");
        assert_eq!(found["notes"]["ngmi.table"], table);
        assert_eq!(found["notes"]["ngmi.start_unix_ms"], "1700000000000");
    }
}

#[test]
fn samples_are_rows_too() {
    let (folder, input) = profile();
    let file = exported(&input, &["--format=parquet", "--table=samples"], "samples.parquet");
    let none = folder.path().join("none.ndjson");
    std::fs::write(&none, "").unwrap();
    let Some(found) = python("rows.py", &[&file, &none]) else {
        return;
    };
    assert_eq!(found["rows"], 100);
    // Sample i ran for 990,000 + i ns.
    assert_eq!(found["sums"]["cpu_ns"], 100 * 990_000 + 99 * 100 / 2);
    assert_eq!(found["sums"]["weight"], 100);
    assert_eq!(found["types"]["time_ns"], "BIGINT");
    assert_eq!(found["types"]["in_kernel"], "BOOLEAN");
}

#[test]
fn the_documented_queries_run() {
    let text = std::fs::read_to_string(root().join("docs/export.md")).unwrap();
    let queries: Vec<&str> = text
        .split("```sql\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(queries.len() >= 5, "{}", queries.len());
    let (folder, input) = profile();
    for table in ["samples", "faults", "requests", "waits", "path"] {
        exported(
            &input,
            &["--format=parquet", "--table", table],
            &format!("{table}.parquet"),
        );
    }
    let all = queries.iter().fold(String::new(), |mut all, query| {
        let _ = write!(all, "{query}\n;;\n");
        all
    });
    let file = folder.path().join("queries");
    std::fs::write(&file, all).unwrap();
    let Some(found) = python("queries.py", &[folder.path(), Path::new(&file)]) else {
        return;
    };
    for (query, rows) in queries.iter().zip(found["rows"].as_array().unwrap()) {
        assert!(rows.as_u64() > Some(0), "no row: {query}");
    }
}
