"""Compares profiles of services with the process numbers of these services; one line per profile.

  units.py FOLDER      the folder of `units`: NAME.json.gz and NAME.numbers
"""

import gzip
import json
import pathlib
import sys


# Profiles that `units` makes.
EXPECTED = {"work", "restarted", "late", "timer", "mine"}


def judge(profile, numbers):
    used = {}
    for thread in profile["threads"]:
        cpu = sum(filter(None, thread["samples"].get("threadCPUDelta") or []))
        pid = str(thread["pid"]).split(".")[0]
        used[pid] = used.get(pid, 0) + cpu
    busy = {pid for pid, cpu in used.items() if cpu}
    if missing := numbers - busy:
        return f"no CPU time of processes {sorted(missing)}"
    return None


def main(folder):
    folder = pathlib.Path(folder)
    others = set((folder / "other.numbers").read_text().split())
    if not others:
        print("fail: systemd: the other service's processes are unknown")
    profiles = sorted(folder.glob("*.json.gz"))
    for path in profiles:
        name = path.name.removesuffix(".json.gz")
        with gzip.open(path) as file:
            profile = json.load(file)
        numbers = set((folder / f"{name}.numbers").read_text().split())
        why = judge(profile, numbers) if numbers else "the service's processes are unknown"
        if others & {str(thread["pid"]).split(".")[0] for thread in profile["threads"]}:
            why = "it contains another service"
        print(f"fail: systemd: {name}: {why}" if why else f"pass: systemd: {name}: the processes are the service's")
    names = {path.name.removesuffix(".json.gz") for path in profiles}
    for name in EXPECTED - names:
        print(f"fail: systemd: {name}: there is no profile")


main(sys.argv[1])
