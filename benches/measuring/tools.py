"""The recorders: how each is started, and what it reports afterwards."""

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(HERE)
# Functions without a caller: a stack that ends in one of them is complete.
FIRST = re.compile(r"^(_start|__?clone3?|clone3|_dl_start_user|ret_from_fork\w*)(\+0x[0-9a-f]+)?$")
# Maximum number of a recorder's stacks to judge: more would only take longer.
JUDGED = 20_000
JUDGING_SECONDS = 60


class Tool:
    """One way to run a workload: its command line, and the files that it writes."""

    name, note, waits_for_workload = "bare", "", True

    def __init__(self, program=None, work=""):
        self.program, self.work = program, work
        self.output = self.data = None
        self.arguments = []

    def line(self, words):
        """The command line that runs those words under it."""
        return [self.program, *self.arguments, "--", *words] if self.program else words

    def reading(self):
        """The command that makes its output readable, if the user has to run one."""
        return None

    def said(self, text):
        """Results of a run: events `seen` and `lost`, and `complete` of `stacks`. `text` is the printed output."""
        return {}

    def writes(self, name, data=None):
        self.output = os.path.join(self.work, name)
        self.data = os.path.join(self.work, data) if data else self.output
        return self.output


class Ngmi(Tool):
    """`ngmi record` with its defaults, except for the options."""

    def __init__(self, program, work, options=""):
        super().__init__(program, work)
        self.name = f"ngmi {options}".strip()
        files = self.writes("n.json.gz", "n.json.gz.events")
        self.arguments = ["record", "--save-only", "--json", *shlex.split(options), "-o", files]

    def said(self, text):
        """From the summary, the only JSON object in the output."""
        for at in (match.start() for match in re.finditer(r"^\{", text, re.M)):
            try:
                summary = json.JSONDecoder().raw_decode(text[at:])[0]
            except ValueError:
                continue
            if "faults" in summary and "stacks" in summary:
                return self.of_summary(summary)
        return {}

    @staticmethod
    def of_summary(summary):
        faults = summary["faults"] or {}
        ends = [found for found in (summary["stacks"], faults.get("stacks")) if found]
        programs = summary["cost"]["programs"]["programs"]
        return {
            "seen": {"samples": summary["samples"], "faults": faults.get("faults", 0),
                     "switches": sum(one["runs"] for one in programs if one["name"] == "sched_switch")},
            "lost": sum(count for _, count in summary["losses"]), "losses": summary["losses"],
            "complete": sum(end["complete"] for end in ends), "stacks": sum(end["total"] for end in ends),
            "log_bytes": summary["cost"]["log_bytes"], "tier": faults.get("tier"),
        }


class Perf(Tool):
    """`perf record`, read with perf's own report."""

    def __init__(self, program, work, name, options, copies=False):
        super().__init__(program, work)
        self.name = name
        self.arguments = ["record", "-q", *options, "-o", self.writes(f"{name.replace(' ', '-')}.data")]
        self.copies = copies

    def reading(self):
        return [self.program, "report", "--stdio", "--no-children", "-i", self.output]

    def said(self, text):
        stats = subprocess.run([self.program, "report", "--stats", "-i", self.output], capture_output=True, text=True).stdout
        # First the totals, then the same for each event.
        count = lambda name: max((int(found) for found in re.findall(rf"^\s*{name} events:\s+(\d+)", stats, re.M)), default=0)
        lost = re.findall(r"lost (\d+) (?:samples|events)", text + stats)
        return {"seen": {"records": count("SAMPLE")}, "lost": count("LOST_SAMPLES") + max(map(int, lost), default=0), **self.judged()}

    def judged(self):
        """How many of its first stacks reach a first frame; stacks with only kernel frames are not judged."""
        script = [self.program, "script", "-F", "ip,sym", "--no-inline", "-i", self.output]
        complete = stacks = 0
        last = None
        shell = " ".join(map(shlex.quote, ["timeout", str(JUDGING_SECONDS), *script])) + " 2>/dev/null"
        with subprocess.Popen(shell, shell=True, stdout=subprocess.PIPE, text=True, errors="replace") as process:
            for line in process.stdout:
                words = line.split()
                if words:
                    last = words
                    continue
                if last and not last[0].startswith("ffffffff"):
                    stacks += 1
                    complete += bool(FIRST.match(last[1])) if len(last) > 1 else 0
                last = None
                if stacks >= JUDGED:
                    process.terminate()
                    break
        return {"complete": complete, "stacks": stacks} if stacks else {}


class PerfSched(Perf):
    """Switches and wakeups, without stacks."""

    def __init__(self, program, work):
        super().__init__(program, work, "perf sched", [])
        self.arguments = ["sched", "record", "-q", "-o", self.output]

    def reading(self):
        return [self.program, "sched", "latency", "-i", self.output]

    def judged(self):
        return {}


class PerfTrace(Tool):
    """`perf trace -F all`: page faults as lines of text, without stacks; also system calls, for programs that wait in them."""

    name, waits_for_workload = "perf trace", False

    def __init__(self, program, work, *more):
        super().__init__(program, work)
        self.arguments = ["trace", "-F", "all", *more, "-o", self.writes("t.txt")]

    def said(self, text):
        lines = lost = 0
        with open(self.output, encoding="utf-8", errors="replace") as file:
            for line in file:
                lines += 1
                found = re.search(r"LOST (\d+) events", line)
                lost += int(found[1]) if found else 0
        return {"seen": {"lines": lines}, "lost": lost + sum(map(int, re.findall(r"LOST (\d+) events", text)))}


class Samply(Tool):
    name = "samply"

    def __init__(self, program, work):
        super().__init__(program, work)
        # Resolves names too, which it would otherwise do when the profile is opened.
        self.arguments = ["record", "-r", "1000", "--save-only", "--unstable-presymbolicate", "-o", self.writes("s.json.gz")]

    def said(self, _):
        judge = subprocess.run(["python3", f"{ROOT}/tests/firefox/profile.py", self.output], capture_output=True, text=True)
        try:
            found = json.loads(judge.stdout.strip().splitlines()[-1])
        except (ValueError, IndexError):
            return {}
        with gzip.open(self.output) as file:
            seen = sum(thread["samples"]["length"] for thread in json.load(file)["threads"])
        return {"seen": {"samples": seen}, "complete": round(found["complete_share"] * seen), "stacks": seen}


class Bpftrace(Tool):
    """A one-liner that counts stacks in the kernel for the whole machine, without keeping single events."""

    name = "bpftrace"

    def __init__(self, program, work, line):
        super().__init__(program, work)
        self.note = line
        self.arguments = ["-q", "-o", self.writes("b.txt"), "-e", line]

    def line(self, words):
        # It runs programs only, not scripts.
        return [self.program, *self.arguments, "-c", shlex.join(["/usr/bin/env", *words])]

    def said(self, _):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            text = file.read()
        lost = re.findall(r"(?:lost|Lost) (\d+) events", text)
        complete = stacks = seen = 0
        for frames, count in re.findall(r"^@\[\n((?:.*\n)*?)(?:, \w+)?\]: (\d+)$", text, re.M):
            names = [line.strip() for line in frames.splitlines() if line.strip()]
            seen += int(count)
            stacks += int(count)
            complete += int(count) if names and FIRST.match(names[-1]) else 0
        return {"seen": {"counted": seen}, "lost": sum(map(int, lost)), "complete": complete, "stacks": stacks}


def find_samply():
    """samply from NGMI_SAMPLY, PATH or target/; `None` if there is none."""
    for path in (os.environ.get("NGMI_SAMPLY"), shutil.which("samply"), f"{ROOT}/target/samply/bin/samply"):
        if path and os.access(path, os.X_OK):
            return path
    return None


class Tools:
    """The installed recorders, writing into one folder; reports each missing one once."""

    def __init__(self, ngmi, work, without):
        self.ngmi, self.work, self.without = ngmi, work, without
        self.found = {name: shutil.which(name) for name in ("perf", "bpftrace")}
        self.found["samply"] = find_samply()
        self.missing = [name for name, path in self.found.items() if not path]

    def of(self, *makers):
        """Bare and ngmi, and those of `makers` (program, constructor) that are installed."""
        tools = [Tool(), Ngmi(self.ngmi, self.work)]
        tools += [make(self.found[program], self.work) for program, make in makers if self.found[program]]
        return [tool for tool in tools if tool.name not in self.without]

    def with_options(self, parts):
        """Bare and ngmi, and ngmi with each of these options."""
        return [Tool(), Ngmi(self.ngmi, self.work), *(Ngmi(self.ngmi, self.work, options) for options in parts)]


def perf(name, *options):
    """A variant of `perf record`."""
    return "perf", lambda program, work: Perf(program, work, name, list(options))


def bpftrace(line):
    """A bpftrace one-liner."""
    return "bpftrace", lambda program, work: Bpftrace(program, work, line)


PERF_TRACE = "perf", PerfTrace
PERF_TRACE_CALLS = "perf", lambda program, work: PerfTrace(program, work, "--syscalls")
PERF_SCHED = "perf", PerfSched
SAMPLY = "samply", Samply
