"""Compares a Parquet file, read by DuckDB, with the rows of --ndjson: rows.py PARQUET NDJSON. An empty NDJSON file is not compared."""

import json
import sys

import duckdb

parquet, ndjson = sys.argv[1:]
table = duckdb.from_parquet(parquet)
rows = [dict(zip(table.columns, row)) for row in table.fetchall()]
with open(ndjson, encoding="utf-8") as file:
    wanted = [json.loads(line) for line in file]
differences = []
if wanted:
    if len(rows) != len(wanted):
        differences.append(f"{len(rows)} rows, not {len(wanted)}")
    for number, (row, want) in enumerate(zip(rows, wanted)):
        if list(row) != list(want):
            differences.append(f"columns {list(row)}")
            break
        for column, value in want.items():
            found = row[column]
            # An impossibly large value is unknown, thus NULL in Parquet.
            if isinstance(value, int) and value >= 1 << 63 and found is None:
                continue
            if found != value or type(found) is not type(value):
                differences.append(f"row {number}: {column}: {found!r}, not {value!r}")
types = dict(zip(table.columns, map(str, table.types)))
sums = {name: sum(row[name] or 0 for row in rows) for name, kind in types.items() if kind in ("BIGINT", "UBIGINT")}
notes = duckdb.sql(f"SELECT key::VARCHAR, value::VARCHAR FROM parquet_kv_metadata('{parquet}')").fetchall()
print(json.dumps({
    "rows": len(rows),
    "differences": differences[:20],
    "types": types,
    "sums": sums,
    "notes": dict(notes),
}))
