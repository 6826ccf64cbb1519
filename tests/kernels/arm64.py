"""The guest's part of tests/kernels/arm64: records programs that know what they do, and compares.

arm64.py PROGRAMS OUTPUT [TEST...]: folders, of ngmi with the oracles, and for logs; without names, all tests. The guest has a disk, /dev/vda.
"""

import json
import os
import subprocess
import sys
import time
import traceback

PROGRAMS, OUT = (os.path.abspath(folder) for folder in sys.argv[1:3])
NGMI = os.path.join(PROGRAMS, "ngmi")
# In memory: the shared folder is slow.
LOCAL = "/run/programs"
DISK = "/run/disk"
PAGE = os.sysconf("SC_PAGESIZE")
# Complete stacks, in percent.
COMPLETE = 99
# A recording with losses is repeated: kernels that preempt programs skip runs of others (docs/waits.md).
ATTEMPTS = 4


class Skipped(Exception):
    """Why a test can't run here."""


def objects(text):
    """The lines of JSON in a text."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{\"")]


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"{words}: status {done.returncode}: {done.stderr[-2000:]}"
    return done


def output(*words):
    return run(*words).stdout


def rows(subcommand, name):
    return objects(output(NGMI, subcommand, log(name), "--ndjson"))


def log(name):
    return os.path.join(OUT, name + ".log")


def record(name, oracle, *arguments, options=()):
    """Records an oracle; returns the summary and what the oracle printed."""
    for attempt in range(ATTEMPTS):
        summary, said = record_once(name, oracle, arguments, options)
        if not summary["losses"]:
            break
        print(f"attempt {attempt + 1}:", summary["losses"])
        clear()
    return summary, said


def clear():
    """Oracles create new files: removes those of the attempt before."""
    for entry in os.scandir(DISK) if os.path.ismount(DISK) else ():
        if entry.is_file():
            os.remove(entry.path)


def record_once(name, oracle, arguments, options):
    profile = os.path.join(OUT, name + ".json.gz")
    command = [NGMI, "record", "--json", "--save-only", "-o", profile, "--keep-events", log(name), *options]
    done = run(*command, "--", os.path.join(LOCAL, oracle), *arguments)
    print(done.stderr.strip())
    # The oracle's objects are one line each; the summary has several.
    start = done.stdout.index("{\n")
    summary, said = json.loads(done.stdout[start:]), objects(done.stdout[:start])
    for line in said:
        if "skip" in line:
            raise Skipped(line["skip"])
    return summary, said


def doctor():
    """Nothing is refused but what this kernel or this machine can't have."""
    found = json.loads(output(NGMI, "doctor", "--json"))
    refused = {row["hook"]: row["refused"] for row in found["rows"] if row["refused"]}
    print("page size", PAGE, "refused:", refused)
    # Entries of functions: 6.4 and later have direct calls.
    hooks = {hook for hook in refused if not hook.startswith("perf_event")}
    assert not hooks or release() < (6, 4), refused


def release():
    return tuple(int(number) for number in os.uname().release.split(".")[:2])


def account(summary):
    """Each fault that the kernel counted was seen; nothing was lost."""
    account = summary["faults"]["account"]
    print(summary["faults"]["tier"], account, summary["losses"])
    names = ("seen", "lost", "filtered", "not_visible")
    assert sum(account[name] for name in names) == account["kernel"], account
    assert account["lost"] == 0 and not account["open"], account
    assert summary["faults"]["problem"] is None, summary["faults"]["problem"]
    assert summary["losses"] == [], summary["losses"]


def faults_of(tier):
    """Each page that the program touched has its fault."""
    needs(tier)
    name = f"anon-{tier}"
    summary, said = record(name, "anon", "anonymous", options=("--faults", "all", "--fault-source", tier))
    account(summary)
    assert summary["faults"]["tier"] == tier, summary["faults"]
    (phase,) = said
    end = phase["base"] + phase["pages"] * PAGE
    mine = [row for row in rows("faults", name) if phase["base"] <= int(row["address"], 16) < end]
    found = [int(row["address"], 16) for row in mine]
    touched = [touch["address"] for touch in phase["touches"] if touch["minor"]]
    assert found == touched, (found, touched)
    # Tier 3 does not know the access, and by that the class.
    if tier != "perf":
        assert {row["access"] for row in mine} == {"write"}, mine
        assert {row["class"] for row in mine} == {"anonymous"}, mine


def needs(tier):
    """Entries of functions can be attached where the kernel has direct calls."""
    if tier != "perf" and release() < (6, 4):
        raise Skipped("this kernel has no direct calls on arm64")


def faults():
    faults_of("fentry")


def faults_by_exception():
    faults_of("tracepoint")


def faults_by_count():
    faults_of("perf")


def mapped():
    """The pages that faults mapped are those of the kernel's pagemap."""
    with open("/proc/kallsyms", encoding="utf-8") as symbols:
        if not any(line.split()[2] == "swapper_pg_dir" for line in symbols):
            raise Skipped("this kernel does not list its page table (CONFIG_KALLSYMS_ALL)")
    mount()
    files = ("shared:sparse", "private:half", "exec:all", "aligned:scattered", "processes:half", "warm:sparse", "warmmixed:edges")
    summary, said = record("mapped", "mapped", DISK, *files, options=("--faults", "all"))
    account(summary)
    pages = json.loads(output(NGMI, "faults", log("mapped"), "--json"))["pages"]
    wrong = []
    for file in said:
        (row,) = [row for row in pages if f"/mapped-0-{file['kind']}-{file['pattern']}-" in row["file"]]
        found = row["faulted_bytes"] + row["around_bytes"] + row["populated_bytes"]
        print(file, row)
        if found != file["mapped"] * PAGE:
            wrong.append((file, found // PAGE))
    assert not wrong, wrong


def smaps():
    """The memory of each file is split by its sections, which only adds up by the machine's pages."""
    with subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL) as process:
        time.sleep(1)
        found = json.loads(output(NGMI, "smaps", str(process.pid), "--json"))
        process.kill()
    unknown = {row["file"]: row["unknown"] for row in found["by_section"] if row["unknown"]}
    assert not unknown, unknown
    sections = {(os.path.basename(row["file"]), row["section"]) for row in found["by_section"]}
    assert ("libc.so.6", ".text") in sections and ("libc.so.6", ".data") in sections, sections


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


def joined():
    """Walks that join the last one of their thread are those of the copied stacks."""
    summary, _ = record("joined", "deep", "200", "16", options=("--check-walks", "--self-account"))
    print(summary["stacks"])
    same, different = summary["stacks"]["walks"]["checked"]
    assert same > 100 and different == 0, (same, different)
    whole("joined", "deep_leaf", {"descend": 200, "main": 1})


def signals():
    summary, _ = record("sigdeep", "sigdeep")
    complete(summary)
    whole("sigdeep", "handler_leaf", {"handler_descend": 50, "handler": 1, "interrupted": 1, "main": 1})


def recursion_in_signals():
    """A thousand frames, with the signal's in their middle."""
    summary, _ = record("nested", "sigdeep", "500", "500")
    complete(summary)
    frames = {"handler_descend": 500, "handler": 1, "interrupted": 1, "outer_descend": 500, "main": 1}
    whole("nested", "handler_leaf", frames)


def mount():
    """The guest's disk, at `DISK`."""
    if not os.path.exists("/dev/vda"):
        raise Skipped("no disk")
    if not os.path.ismount(DISK):
        os.makedirs(DISK, exist_ok=True)
        output("mount", "-t", "ext4", "/dev/vda", DISK)


def disk():
    mount()
    summary, episodes = record("disk", "disk", DISK)
    assert summary["losses"] == [], summary["losses"]
    waits = [row for row in rows("waits", "disk") if row["reason"] == "disk"]
    requests = rows("io", "disk")
    for name, source in (("direct", "direct"), ("buffered", "cache")):
        mine = [one for one in episodes if one["episode"] == name]
        path = mine[0]["file"]
        found = [row for row in waits if row["file"] == path and row["call"] == "pread64"]
        # A direct read may wait for several requests.
        print(name, len(mine), len(found))
        assert len(found) >= sum(one["switches"] > 0 for one in mine), (mine, found)
        assert {row["cause"] for row in found} == {"request"}, found
        read = [row for row in requests if (row["operation"], row["source"], row["file"]) == ("read", source, path)]
        # Of a cached file, whole pages are read.
        least = 1 if source == "direct" else PAGE
        assert sum(row["bytes"] for row in read) == sum(max(one["bytes"], least) for one in mine), read
        assert {one["offset"] for one in mine} <= {row["offset"] for row in read}, read
    assert not [one for one in episodes if one["episode"] == "hit" and one["switches"]]


def main():
    os.makedirs(LOCAL, exist_ok=True)
    for name in ("deep", "sigdeep", "anon", "mapped", "disk"):
        output("cp", os.path.join(PROGRAMS, str(PAGE), name), os.path.join(LOCAL, name))
    failed = False
    tests = (
        doctor,
        faults,
        faults_by_exception,
        faults_by_count,
        mapped,
        smaps,
        recursion,
        joined,
        signals,
        recursion_in_signals,
        disk,
    )
    wanted = sys.argv[3:]
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        began = time.monotonic()
        try:
            test()
            print(f"pass: {test.__name__}", flush=True)
        except Skipped as reason:
            print(f"skipped: {test.__name__}: {reason}", flush=True)
        except Exception as error:  # the others still run
            traceback.print_exc()
            print(f"fail: {test.__name__}: {str(error)[:200]}", flush=True)
            failed = True
        print(f"{test.__name__}: {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(failed)


main()
