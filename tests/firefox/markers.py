#!/usr/bin/env python3
"""markers.py PROFILE: judges the markers of Firefox's own profiler in a profile of marks.html.

Prints a JSON object: kinds and number of markers, how far the marks are from the page's own times in ms (the wall clock's
offset, of at most 2 ms, and how far any mark is outside the times between which the page set it), and whether they are on the
thread that ran the page's script.
"""

import collections
import json
import re
import sys

from profile import load

profile = load(sys.argv[1])
meta, strings = profile["meta"], profile["shared"]["stringArray"]
own = next(i for i, category in enumerate(meta["categories"]) if category["name"].endswith("(Firefox)"))
kinds, threads = collections.Counter(), set()
marked, after, before = {}, {}, {}
for thread in profile["threads"]:
    markers = thread["markers"]
    for row in range(markers["length"]):
        if markers["category"][row] < own:
            continue
        kinds[strings[markers["name"][row]]] += 1
        text = (markers["data"][row] or {}).get("name")
        said = re.fullmatch(r"mark (\d+) (after|before) ([\d.]+)", text) if isinstance(text, str) else None
        if said and said[2] == "after":
            marked[said[1]] = meta["startTime"] + markers["startTime"][row]
            after[said[1]] = float(said[3])
            threads.add((thread["pid"], thread["tid"]))
        elif said:
            before[said[1]] = float(said[3])
# A mark that was set at once is the nearest to the time before it.
offset = min((marked[mark] - after[mark] for mark in marked), default=None)
outside = [max(after[mark] - at, at - before[mark], 0) for mark, at in ((mark, at - offset) for mark, at in marked.items())]
print(json.dumps({
    "kinds": len(kinds),
    "markers": kinds.total(),
    "marks": len(marked),
    "offset_ms": offset,
    "distance_ms": max(outside, default=None),
    "on_main_thread": bool(threads) and all(str(pid) == str(tid) for pid, tid in threads),
}))
