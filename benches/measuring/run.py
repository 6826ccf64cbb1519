"""Runs of a workload, bare and under each recorder, paired: each round has one of each, and starts with a different one."""

import os
import statistics
import subprocess
import sys
import threading
import time

from .tools import HERE

MIB = 1 << 20
# Maximum number of seconds for perf to print what it recorded.
READING_SECONDS = 180


def build(work, name):
    """Compiles a C program of benches/."""
    path = os.path.join(work, name)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-pthread", "-o", path, f"{HERE}/{name}.c"], check=True)
    return path


class Failed(Exception):
    """A failed run, with its reason."""


class Observer(threading.Thread):
    """Observes a recorder from outside: its processes' peak memory, and the size of its data."""

    def __init__(self, pid, tool):
        super().__init__(daemon=True)
        self.pid, self.tool, self.peak, self.bytes, self.stopped = pid, tool, 0, 0, threading.Event()

    def run(self):
        while not self.stopped.wait(0.02):
            self.look()

    def look(self):
        try:
            self.bytes = max(self.bytes, os.path.getsize(self.tool.data))
        except OSError:
            pass
        # Only processes alive at the same time count: one that ended has released its memory.
        together, pending = 0, [self.pid]
        while pending:
            pid = pending.pop()
            try:
                if not os.path.samefile(f"/proc/{pid}/exe", self.tool.program):
                    continue
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    waiting = b"__exec" in file.read().split(b"\0")
                with open(f"/proc/{pid}/status") as file:
                    peak = next((int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0)
                if not waiting:
                    together += peak
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children") as file:
                        pending += map(int, file.read().split())
            except OSError:
                continue
        self.peak = max(self.peak, together)

    def finish(self):
        self.stopped.set()
        self.join()
        return self.peak / 1024, self.bytes / MIB


def seconds(usage):
    return usage.ru_utime + usage.ru_stime


def run_once(tool, workload, timed, work, observed=False):
    """One run: the workload's cost, and the recorder's results. Memory and the recorder's own report are included only if observed."""
    words, environment = workload.prepare()
    times = os.path.join(work, "times")
    for path in (times, tool.output, tool.data):
        if path and os.path.exists(path):
            os.remove(path)
    with open(os.path.join(work, "log"), "w+", errors="replace") as log:
        process = subprocess.Popen(tool.line([workload.timed(timed), times, *words]), stdout=log, stderr=log, env=environment)
        observer = Observer(process.pid, tool) if observed and tool.program else None
        if observer:
            observer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        over = time.time()
        memory, size = observer.finish() if observer else (0, 0)
        log.seek(0)
        text = log.read()
    if not os.path.exists(times) or (tool.output and not os.path.exists(tool.output)):
        raise Failed(f"{tool.name}: status {process.returncode}\n{text[-1500:]}")
    with open(times) as file:
        begin, end, own, failed = map(int, file.read().split())
    if failed:
        raise Failed(f"{tool.name}: the workload ended with {failed}\n{text[-1500:]}")
    if tool.data and os.path.exists(tool.data):
        size = max(size, os.path.getsize(tool.data) / MIB)
    cpu = max(0, seconds(usage) - (own / 1e9 if tool.waits_for_workload else 0))
    run = {"wall": (end - begin) / 1e9, "cpu": cpu, "workload_cpu": own / 1e9, "ready": over - end / 1e9, "data_mib": size}
    if observed and tool.program:
        run |= {"memory_mib": memory, **tool.said(text), **read_time(tool)}
        if "log_bytes" in run:
            run["data_mib"] = max(run["data_mib"], run["log_bytes"] / MIB)
    return run


def read_time(tool):
    """The cost of making the output readable, where that takes a separate command. One that takes too long is killed, and `unread`."""
    command = tool.reading()
    if not command:
        return {"reading": 0, "reading_mib": 0, "unread": False}
    before = time.time()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = threading.Timer(READING_SECONDS, process.kill)
    ended.start()
    _, status, usage = os.wait4(process.pid, 0)
    ended.cancel()
    process.returncode = 0
    return {"reading": time.time() - before, "reading_mib": usage.ru_maxrss / 1024, "unread": os.WIFSIGNALED(status)}


def row_of(tool, own, bare, observed):
    """A tool's results over all rounds."""
    ratios = [run["wall"] / other["wall"] for run, other in zip(own, bare)]
    middle = lambda key: statistics.median(run[key] for run in own)
    row = {"tool": tool.name, "note": tool.note, "wall_s": round(middle("wall"), 3),
           "slowdown": [round(f(ratios), 4) for f in (statistics.median, min, max)],
           "wall_spread_s": [round(f(run["wall"] for run in own), 3) for f in (min, max)]}
    if tool.program:
        row |= {
            "cpu_s": round(middle("cpu"), 3), "data_mib": round(observed["data_mib"], 2),
            "ready_s": round(middle("ready") + observed["reading"], 3), "unread": observed["unread"],
            "memory_mib": round(max(observed["memory_mib"], observed["reading_mib"]), 1),
            "seen": observed.get("seen"), "lost": observed.get("lost"),
            "complete": observed["complete"] / observed["stacks"] if observed.get("stacks") else None,
        }
    return row | {"runs": own, "observed": observed}


def measure(workload, tools, rounds, timed, work):
    """Rows of one workload, and the reasons of tools that failed."""
    runs, failed = {tool.name: [] for tool in tools}, {}
    for number in range(rounds):
        first = number % len(tools)  # no tool always follows the same one
        for tool in tools[first:] + tools[:first]:
            if tool.name in failed:
                continue
            try:
                runs[tool.name].append(run_once(tool, workload, timed, work))
            except Failed as why:
                failed[tool.name] = str(why)
                print(f"{workload.name}: {why}", file=sys.stderr)
                continue
            print(f"{workload.name} {number + 1}/{rounds} {tool.name}: {runs[tool.name][-1]['wall']:.3f} s", file=sys.stderr)
    rows = []
    for tool in tools:
        if tool.name in failed:
            continue
        # Observing a recorder costs the workload a percent: memory and the recorder's own report come from a separate run.
        observed = run_once(tool, workload, timed, work, observed=True)
        rows.append(row_of(tool, runs[tool.name], runs["bare"], observed))
    return rows, failed
