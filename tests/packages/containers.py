"""Compares profiles and tables of containers with the numbers of their processes that Podman says; one line per profile.

  containers.py NAME FOLDER PROFILE=CONTAINER[,CONTAINER...]...      FOLDER has PROFILE.json.gz, PROFILE.csv and CONTAINER.number
"""

import csv
import gzip
import json
import pathlib
import sys


def judge(folder, name, containers):
    numbers = {(folder / f"{container}.number").read_text().strip(): container for container in containers}
    with gzip.open(folder / f"{name}.json.gz") as file:
        threads = json.load(file)["threads"]
    # Others are tracks of devices and cgroups, and companions of threads.
    processes = {str(thread["pid"]): thread for thread in threads if str(thread["pid"]).isdigit() and str(thread["pid"]) == str(thread["tid"])}
    if set(processes) != set(numbers):
        return f"processes {sorted(processes)} instead of {sorted(numbers)}"
    for pid, thread in processes.items():
        if not sum(filter(None, thread["samples"].get("threadCPUDelta") or [])):
            return f"no CPU time of process {pid}"
        if f"[{numbers[pid]}]" not in thread["processName"]:
            return f"process {pid} is called {thread['processName']!r}"
    with open(folder / f"{name}.csv", newline="") as file:
        rows = {(row["pid"], row["container"]) for row in csv.DictReader(file)}
    if rows != set(numbers.items()):
        return f"the table has {sorted(rows)}"
    return None


def main(prefix, folder, *profiles):
    status = 0
    for profile in profiles:
        name, containers = profile.split("=")
        try:
            why = judge(pathlib.Path(folder), name, containers.split(","))
        except (OSError, KeyError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
        print(f"fail: {prefix}: {name}: {why}" if why else f"pass: {prefix}: {name}: the processes are the container's")
        status |= bool(why)
    return status


sys.exit(main(*sys.argv[1:]))
