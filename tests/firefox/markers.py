#!/usr/bin/env python3
"""markers.py PROFILE: judges the markers of Firefox's own profiler in a profile of marks.html.

Prints a JSON object: kinds and number of markers, how far the marks are from the page's own times in ms (the wall clock's
offset, of at most 2 ms, and the largest distance from it), and whether they are on the thread that ran the page's script.
"""

import collections
import json
import sys

from profile import load

profile = load(sys.argv[1])
meta, strings = profile["meta"], profile["shared"]["stringArray"]
own = next(i for i, category in enumerate(meta["categories"]) if category["name"].endswith("(Firefox)"))
kinds, off, threads = collections.Counter(), [], set()
for thread in profile["threads"]:
    markers = thread["markers"]
    for row in range(markers["length"]):
        if markers["category"][row] < own:
            continue
        kinds[strings[markers["name"][row]]] += 1
        text = (markers["data"][row] or {}).get("name")
        if isinstance(text, str) and text.startswith("set at "):
            off.append(meta["startTime"] + markers["startTime"][row] - float(text.removeprefix("set at ")))
            threads.add((thread["pid"], thread["tid"]))
offset = sorted(off)[len(off) // 2] if off else None
print(json.dumps({
    "kinds": len(kinds),
    "markers": kinds.total(),
    "marks": len(off),
    "offset_ms": offset,
    "distance_ms": max((abs(each - offset) for each in off), default=None),
    "on_main_thread": bool(threads) and all(str(pid) == str(tid) for pid, tid in threads),
}))
