"""Compares what a package recorded with what the recorded program said of itself.

  judge.py FOLDER      the folder of `exercise`; prints what is wrong, or nothing
"""

import gzip
import json
import pathlib
import re
import sys


def read(path):
    with gzip.open(path) as file:
        return json.load(file)


def main(folder):
    folder = pathlib.Path(folder)
    said = (folder / "said").read_text()
    pid = re.search(r"^oracle: pid ([0-9]+)$", said, re.M)
    if not pid:
        return f"the recorded program said {said!r}"
    profiles = {name: read(folder / f"{name}.json.gz") for name in ("recorded", "converted")}
    for name, profile in profiles.items():
        # Threads of the process with its number; the others are companions, as of its page faults.
        threads = [thread for thread in profile["threads"] if str(thread["pid"]) == str(thread["tid"]) == pid[1]]
        if len(threads) != 1:
            return f"{name}: {len(threads)} threads of the program"
        # In microseconds: a loop of 200,000 steps is sampled on any machine.
        if not sum(filter(None, threads[0]["samples"]["threadCPUDelta"])):
            return f"{name}: the program used no CPU time"
        # The program and its C library, whichever files these are here.
        libraries = {lib["name"] for lib in profile["libs"]}
        if not libraries & {"dash", "bash", "sh"} or not any(lib.startswith(("libc.so", "libc-2")) for lib in libraries):
            return f"{name}: libraries are {sorted(libraries)}"
    if profiles["recorded"] != profiles["converted"]:
        return "the log's profile differs from the recorded one"
    return None


sys.exit(main(sys.argv[1]))
