"""The workloads, each with the recorders to compare."""

import os
import shutil
import subprocess

from .run import build
from .tools import HERE, PERF_SCHED, PERF_TRACE, PERF_TRACE_CALLS, ROOT, SAMPLY, bpftrace, perf


class Folder:
    """The folder of a workload's files."""

    def __init__(self, work):
        self.work = work

    def at(self, *names):
        return os.path.join(self.work, *names)

    def script(self, name, text):
        """A shell script with this text."""
        with open(self.at(name), "w") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(self.at(name), 0o755)
        return self.at(name)


class Workload(Folder):
    """A program that does the same work in each run."""

    name = title = ""
    rounds, peers = 5, ()
    shrinks = True  # --quick does a tenth of it

    def __init__(self, work, quick):
        super().__init__(work)
        self.quick = quick

    def words(self):
        return []

    def prepare(self):
        """Prepares a run: returns its command and its environment (`None`: inherited)."""
        return self.words(), None

    def timed(self, timed):
        """The command that times it, inside the recording."""
        return timed

    def missing(self):
        """Why it can't run here, or None."""
        return None


class Cpu(Workload):
    name, title = "cpu", "CPU-bound: two threads, twenty calls deep, no frame pointers"
    peers = (perf("perf dwarf", "-F", "1000", "--call-graph", "dwarf"), perf("perf -g", "-F", "1000", "-g"), PERF_TRACE, SAMPLY,
             bpftrace("profile:hz:1000 { @[ustack] = count(); }"))

    def __init__(self, work, quick):
        super().__init__(work, quick)
        self.program = build(work, "work")

    def words(self):
        return [self.program, "40000" if self.quick else "400000"]


class Firefox(Workload):
    name, title, page = "firefox-warm", "Firefox, headless, until a busy page is drawn; everything in memory", "busy.html"
    rounds, shrinks = 3, False
    # "all" requests from perf what ngmi records by default, except files and latencies of faults, and reasons and wakers of waits.
    peers = (perf("perf dwarf", "-F", "1000", "--call-graph", "dwarf"), perf("perf -g", "-F", "1000", "-g"),
             perf("perf faults dwarf", "-e", "page-faults", "-c", "1", "-d", "--call-graph", "dwarf"),
             perf("perf all dwarf", "-e", "cpu-clock/freq=1000/", "-e", "page-faults/period=1/", "-e", "sched:sched_switch", "-e", "sched:sched_waking",
                  "-e", "block:block_rq_issue", "-e", "block:block_rq_complete", "-d", "--call-graph", "dwarf"),
             PERF_TRACE, SAMPLY, bpftrace("tracepoint:exceptions:page_fault_user { @[ustack] = count(); }"))

    def missing(self):
        return None if shutil.which("firefox-esr") or shutil.which("firefox") else "no Firefox is installed"

    def prepare(self):
        """Starts each run with a fresh profile. A recorder's own cache stays: users record a program more than once."""
        pages, home = os.path.join(ROOT, "tests", "firefox"), self.at("home")
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        for file in ("user.js", self.page):
            shutil.copy(f"{pages}/{file}", home)
        firefox = shutil.which("firefox-esr") or shutil.which("firefox")
        words = [firefox, "--headless", "--no-remote", "--profile", home, "--screenshot", f"{home}/out.png", f"file://{home}/{self.page}"]
        return words, {**os.environ, "HOME": home, "XDG_CACHE_HOME": self.at("cache")}


class FirefoxCold(Firefox):
    name, title, page = "firefox-cold", "Firefox, headless, until a plain page is drawn; nothing in memory", "static.html"

    def timed(self, timed):
        """Drops the caches last, when the recorder is ready."""
        return self.script("cold", f'sync\necho 3 >/proc/sys/vm/drop_caches\nexec {timed} "$@"')


class Tar(Workload):
    name, title = "tar", "tar of a zstd archive: 5,000 files, 300 MiB, into an empty folder, and sync"
    rounds = 3
    peers = (perf("perf -g", "-F", "1000", "-g"), PERF_TRACE_CALLS,
             bpftrace("tracepoint:block:block_rq_issue { @[comm] = count(); }"))

    def __init__(self, work, quick):
        super().__init__(work, quick)
        self.archive = self.at("tree.tar.zst")
        size = ["--files", "500", "--mib", "30"] if quick else ["--files", "5000", "--mib", "300"]
        subprocess.run([f"{HERE}/tar-archive", self.archive, *size], check=True)

    def missing(self):
        return None if shutil.which("zstd") else "zstd is not installed"

    def prepare(self):
        folder = self.at("unpacked")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        # A file, because bpftrace splits words at each space.
        return [self.script("unpack", f"tar -C {folder} --zstd -xf {self.archive} && sync -f {folder}")], None


class Switches(Workload):
    name, title = "switches", "Two threads wake each other on one CPU by futex: 400,000 switches"
    peers = (PERF_SCHED, perf("perf -g", "-e", "sched:sched_switch", "-g"), PERF_TRACE_CALLS,
             bpftrace("tracepoint:sched:sched_switch { @[ustack] = count(); }"))

    def __init__(self, work, quick):
        super().__init__(work, quick)
        self.program = build(work, "pingpong")

    def words(self):
        return [self.program, "20000" if self.quick else "200000", "10"]


class Faults(Workload):
    name, title = "faults", "Nothing but page faults: 300,000 in one thread"
    peers = (perf("perf dwarf", "-e", "page-faults", "-c", "1", "-d", "--call-graph", "dwarf"),
             perf("perf -g", "-e", "page-faults", "-c", "1", "-d", "-g"), PERF_TRACE,
             bpftrace("tracepoint:exceptions:page_fault_user { @[ustack] = count(); }"))

    def __init__(self, work, quick):
        super().__init__(work, quick)
        self.program = build(work, "storm")

    def words(self):
        return [self.program, "1", "10000" if self.quick else "100000", "3"]


class Reads(Workload):
    name, title = "reads", "fio: direct reads of 4 KiB at random places, 20,000 of them"
    peers = (perf("perf block", "-a", "-e", "block:*", "-g"), PERF_TRACE_CALLS,
             bpftrace("tracepoint:block:block_rq_issue { @[comm, ustack] = count(); }"))

    def missing(self):
        return None if shutil.which("fio") else "fio is not installed"

    def __init__(self, work, quick):
        super().__init__(work, quick)
        self.reads = 2000 if quick else 20_000
        if not self.missing():
            subprocess.run(self.words(), check=True)  # creates the file

    def words(self):
        return [shutil.which("fio"), "--name=reads", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=psync", "--size=256m",
                f"--io_size={4 * self.reads}k", "--norandommap", "--randrepeat=1", "--output=/dev/null", f"--filename={self.at('file')}"]


ALL = [Cpu, Firefox, FirefoxCold, Tar, Switches, Faults, Reads]
