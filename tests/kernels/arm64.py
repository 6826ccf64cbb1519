"""The guest's part of tests/kernels/arm64: records programs that know what they do, and compares.

arm64.py PROGRAMS OUTPUT: folders, of ngmi with the oracles, and for logs. The guest has a disk, /dev/vda.
"""

import json
import os
import subprocess
import sys
import traceback

PROGRAMS, OUT = (os.path.abspath(folder) for folder in sys.argv[1:3])
NGMI = os.path.join(PROGRAMS, "ngmi")
# In memory: the shared folder is slow.
LOCAL = "/run/programs"
DISK = "/run/disk"
# Complete stacks, in percent.
COMPLETE = 99


class Skipped(Exception):
    """Why a test can't run here."""


def objects(text):
    """The lines of JSON in a text."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{\"")]


def output(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"{words}: status {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def rows(subcommand, name):
    return objects(output(NGMI, subcommand, log(name), "--ndjson"))


def log(name):
    return os.path.join(OUT, name + ".log")


def record(name, oracle, *arguments, options=()):
    """Records an oracle; returns the summary and what the oracle printed."""
    profile = os.path.join(OUT, name + ".json.gz")
    command = [NGMI, "record", "--json", "--save-only", "-o", profile, "--keep-events", log(name), *options]
    text = output(*command, "--", os.path.join(LOCAL, oracle), *arguments)
    # The oracle's objects are one line each; the summary has several.
    start = text.index("{\n")
    summary, said = json.loads(text[start:]), objects(text[:start])
    for line in said:
        if "skip" in line:
            raise Skipped(line["skip"])
    return summary, said


def doctor():
    found = json.loads(output(NGMI, "doctor", "--json"))
    refused = {row["hook"]: row["refused"] for row in found["rows"] if row["refused"]}
    print("refused:", refused)
    if "fentry do_mem_abort" in refused or "fentry/fexit handle_mm_fault" in refused:
        raise Skipped("this kernel has no tier 1: " + str(refused))


def account(summary):
    """Each fault that the kernel counted was seen; nothing was lost."""
    account = summary["faults"]["account"]
    print(summary["faults"]["tier"], account, summary["losses"])
    names = ("seen", "lost", "filtered", "not_visible")
    assert sum(account[name] for name in names) == account["kernel"], account
    assert account["lost"] == 0 and not account["open"], account
    assert summary["faults"]["problem"] is None, summary["faults"]["problem"]
    assert summary["losses"] == [], summary["losses"]


def faults():
    summary, said = record("anon", "anon", "anonymous", options=("--faults", "all"))
    account(summary)
    (phase,) = said
    end = phase["base"] + phase["pages"] * 4096
    mine = [row for row in rows("faults", "anon") if phase["base"] <= int(row["address"], 16) < end]
    found = [int(row["address"], 16) for row in mine]
    touched = [touch["address"] for touch in phase["touches"] if touch["minor"]]
    assert found == touched, (found, touched)
    if summary["faults"]["tier"] == "fentry":
        assert {row["access"] for row in mine} == {"write"}, mine
        assert {row["class"] for row in mine} == {"anonymous"}, mine


def complete(summary):
    stacks = summary["stacks"]
    print(stacks, summary["losses"])
    assert stacks["total"] > 100, stacks
    assert stacks["complete"] * 100 >= stacks["total"] * COMPLETE, stacks


def whole(name, leaf, counts):
    """Each stack with this leaf has exactly so many frames of each function."""
    folded = os.path.join(OUT, name + ".folded")
    output(NGMI, "export", log(name), "--table", "samples", "--format", "folded", "--weight", "count", "-o", folded)
    with open(folded, encoding="utf-8") as file:
        stacks = [line.rsplit(" ", 1)[0].split(";") for line in file]
    stacks = [stack for stack in stacks if leaf in stack]
    assert stacks, f"no stack with {leaf}"
    for stack in stacks:
        found = {function: stack.count(function) for function in counts}
        assert found == counts, (found, stack[:20])


def recursion():
    summary, _ = record("deep", "deep", "1000", "16")
    account(summary)
    whole("deep", "deep_leaf", {"descend": 1000, "main": 1})
    complete(summary)


def signals():
    summary, _ = record("sigdeep", "sigdeep")
    complete(summary)
    whole("sigdeep", "handler_leaf", {"handler_descend": 50, "handler": 1, "interrupted": 1, "main": 1})


def disk():
    if not os.path.exists("/dev/vda"):
        raise Skipped("no disk")
    os.makedirs(DISK, exist_ok=True)
    output("mount", "-t", "ext4", "/dev/vda", DISK)
    summary, episodes = record("disk", "disk", DISK)
    assert summary["losses"] == [], summary["losses"]
    waits = [row for row in rows("waits", "disk") if row["reason"] == "disk"]
    requests = rows("io", "disk")
    for name, source in (("direct", "direct"), ("buffered", "cache")):
        mine = [one for one in episodes if one["episode"] == name]
        path = mine[0]["file"]
        found = [row for row in waits if row["file"] == path and row["call"] == "pread64"]
        # A direct read may wait for several requests.
        print(name, len(mine), len(found), found[:1])
        assert len(found) >= sum(one["switches"] > 0 for one in mine), (mine, found)
        assert {row["cause"] for row in found} == {"request"}, found
        read = [row for row in requests if (row["operation"], row["source"], row["file"]) == ("read", source, path)]
        assert sum(row["bytes"] for row in read) == sum(one["bytes"] for one in mine), read
    assert not [one for one in episodes if one["episode"] == "hit" and one["switches"]]


def main():
    os.makedirs(LOCAL, exist_ok=True)
    for name in ("deep", "sigdeep", "anon", "disk"):
        output("cp", os.path.join(PROGRAMS, name), LOCAL)
    failed = False
    for test in (doctor, faults, recursion, signals, disk):
        try:
            test()
            print(f"pass: {test.__name__}", flush=True)
        except Skipped as reason:
            print(f"skipped: {test.__name__}: {reason}", flush=True)
        except Exception as error:  # the others still run
            traceback.print_exc()
            print(f"fail: {test.__name__}: {str(error)[:200]}", flush=True)
            failed = True
    sys.exit(failed)


main()
