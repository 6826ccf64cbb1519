#!/usr/bin/env python3
"""profile.py FILE...: prints measurements of Firefox Profiler profiles from any recorder, as one JSON object per file.

Reads them as the format defines; nothing here is specific to ngmi or samply.
"""

import collections
import gzip
import json
import os
import sys

import ends

KERNEL = ("[kernel", "kernel", "vmlinux", "[guest")
# Big files without any thread's first function: reading their unwind tables takes long and finds nothing.
NEVER_FIRST = ("libxul.so",)


def load(path):
    """A profile's JSON, plain or gzip."""
    with open(path, "rb") as file:
        data = file.read()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


class Thread:
    """One thread with its tables, which threads share in newer versions of the format."""

    def __init__(self, profile, thread):
        shared = profile.get("shared", {})
        self.thread, self.libs = thread, profile["libs"]
        table = lambda name: thread.get(name) or shared.get(name)
        self.stacks, self.frames, self.funcs = table("stackTable"), table("frameTable"), table("funcTable")
        self.resources, self.strings = table("resourceTable"), table("stringArray")
        self.categories = profile["meta"]["categories"]

    def name(self, frame):
        return self.strings[self.funcs["name"][self.frames["func"][frame]]]

    def lib(self, frame):
        """The frame's library, or None."""
        if "lib" in self.frames:
            lib = self.frames["lib"][frame]
            return None if lib is None or lib < 0 else self.libs[lib]
        resource = self.funcs["resource"][self.frames["func"][frame]]
        if resource is None or resource < 0:
            return None
        lib = self.resources["lib"][resource]
        return None if lib is None else self.libs[lib]

    def module(self, frame):
        """The name of the frame's module, pseudo modules included, or None."""
        resource = self.funcs["resource"][self.frames["func"][frame]]
        return None if resource is None or resource < 0 else self.strings[self.resources["name"][resource]]

    def caller(self, index):
        """The caller's stack, or None."""
        if "prefix" in self.stacks:
            return self.stacks["prefix"][index]
        offset = self.stacks["prefixOffset"][index]
        return index - offset if offset else None

    def stack(self, index):
        """Frames, innermost first."""
        frames = []
        while index is not None:
            frames.append(self.stacks["frame"][index])
            index = self.caller(index)
        return frames

    def is_waiting(self, stack):
        """Whether the thread did not run, according to the stack's category."""
        category = self.categories[self.frames["category"][self.stacks["frame"][stack]] or 0]["name"]
        return category == "Idle" or category.startswith("Waiting: ")

    def samples(self):
        """(stack index, weight, CPU delta) of every sample on a CPU; CPU time used before a wait counts for the sample after it."""
        samples = self.thread["samples"]
        counted = samples.get("weightType", "samples") == "samples"
        weights = counted and samples.get("weight") or [1] * samples["length"]
        deltas = samples.get("threadCPUDelta") or [0] * samples["length"]
        used = 0
        for stack, weight, delta in zip(samples["stack"], weights, deltas):
            used += delta or 0
            if stack is None or not self.is_waiting(stack):
                yield stack, weight, used
                used = 0


def user_frames(thread, frames):
    """The stack without the kernel's frames."""
    return [f for f in frames if not (thread.module(f) or "").startswith(KERNEL) and not thread.name(f).startswith("[kernel")]


def is_complete(thread, frames):
    """Whether the outermost user frame is in a thread's first function."""
    lib, address = thread.lib(frames[-1]), thread.frames["address"][frames[-1]]
    if lib is None or address is None or address < 0 or lib["name"] in NEVER_FIRST:
        return False
    path = lib["path"] if os.path.exists(lib["path"]) else lib["debugPath"]
    return ends.is_first(path, address)


def sampled(profile):
    """The threads, without the tracks of page faults and devices, which use no CPU."""
    return [t for t in profile["threads"] if t["samples"].get("weightType", "samples") == "samples" or "threadCPUDelta" in t["samples"]]


def measure(profile):
    """Counts and shares, by sample weight."""
    total = user = complete = placed = cpu = 0
    lost_in = collections.Counter()
    for thread in (Thread(profile, t) for t in sampled(profile)):
        known = {}
        for stack, weight, delta in thread.samples():
            cpu += delta or 0
            if stack is None:
                # The CPU time after a thread's last sample.
                continue
            total += weight
            if stack not in known:
                frames = thread.stack(stack)
                own = user_frames(thread, frames)
                whole = bool(own) and is_complete(thread, own)
                last = next((thread.module(f) for f in reversed(own) if thread.module(f)), "?") if own and not whole else None
                known[stack] = (bool(own), whole, thread.module(frames[0]) is not None, last)
            has_user, whole, has_module, last = known[stack]
            user += weight * has_user
            complete += weight * whole
            placed += weight * has_module
            if last:
                lost_in[last] += weight
    return {
        "processes": len({t["pid"] for t in sampled(profile)}),
        "threads": len(sampled(profile)),
        "samples": total,
        "cpu_delta_sum": cpu,
        "user_stacks": user,
        "complete_share": round(complete / user, 4) if user else None,
        "module_share": round(placed / total, 4) if total else None,
        "incomplete_last_module": dict(lost_in.most_common(5)),
    }


def main():
    for path in sys.argv[1:]:
        print(json.dumps({"file": path} | measure(load(path))))


if __name__ == "__main__":
    main()
