"""The programs, and for each of them what its path names first and how that is removed."""

import glob
import os
import random
import shutil
import subprocess
import sys
import zlib

from measuring.tools import ROOT
from measuring.workloads import Folder

HERE = os.path.dirname(os.path.abspath(__file__))


class Workload(Folder):
    """A program, with something on its critical path that can be removed."""

    name = removal = ""
    # A table of `ngmi path --json`, the column and patterns of what is removed, and how many rows of it: None for all.
    table, column, patterns, rows = "by_function", "function", ["*"], 1
    # Selects the thread whose path it is; default: the first one of the command.
    select = ()

    def missing(self):
        """Why it can't run here, or None."""
        return None

    def build(self):
        """Builds what all runs need."""

    def prepare(self, removed):
        """Prepares a run; returns its command and additional environment variables."""
        raise NotImplementedError

    def timed(self, timed):
        """What precedes the command to time it."""
        return timed


class Seeded(Workload):
    name, removal = "seeded bottleneck", "the reads, by an option of the program"
    patterns = ["reload"]

    def build(self):
        subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", self.at("seeded"), f"{HERE}/seeded.c"], check=True)
        with open(self.at("cold"), "wb") as file:
            for _ in range(64):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())

    def prepare(self, removed):
        with open(self.at("cold"), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return [self.at("seeded"), self.work, *(["removed"] if removed else [])], {}


class Loader(Workload):
    name, removal = "Python data loader", "inflating: the same data, stored without compression"
    # In the stripped library, this is what the function `inflate_fast` is called.
    patterns = ["*libz.so*"]
    items = 160

    def build(self):
        random.seed(1)
        letters = b"abcdefghijklmnopqrstuvwxyz"
        words = [bytes(random.choices(letters, k=random.randint(3, 9))) for _ in range(4000)]
        for folder in ("packed", "stored"):
            os.makedirs(self.at(folder))
        for number in range(8):
            data = b" ".join(random.choices(words, k=700_000))[: 4 << 20]
            for level, folder in ((6, "packed"), (0, "stored")):
                with open(self.at(folder, str(number)), "wb") as file:
                    file.write(zlib.compress(data, level))

    def prepare(self, removed):
        python = os.path.realpath(sys.executable)
        return [python, f"{HERE}/loader.py", self.at("stored" if removed else "packed"), str(self.items)], {}


class Make(Workload):
    name, removal = "make -j2", "the slow file's contents"
    table, column, patterns = "by_thread", "thread", ["cc1*"]

    def missing(self):
        return None if shutil.which("make") and shutil.which("gcc") else "make or gcc is not installed"

    def source(self, name, sums):
        """A file that takes the compiler long to read, and whose code is small."""
        ten = "0 + 0 + 0 + 0 + 0 + 0 + 0 + 0 + 0 + 0"
        body = "".join(f"x += {' + '.join([ten] * 100)};\n" for _ in range(sums))
        with open(self.at("project", name), "w") as file:
            file.write(f"int {name[:-2]}(int x) {{\n{body}return x;\n}}\n")

    def build(self):
        os.makedirs(self.at("project"))
        names = [f"part{number}" for number in range(6)]
        for name in names:
            self.source(f"{name}.c", 120)
        objects = " ".join(f"{name}.o" for name in [*names, "slow"])
        with open(self.at("project", "Makefile"), "w") as file:
            file.write(f"all: {objects}\n\tgcc -shared -o all.so {objects}\n%.o: %.c\n\tgcc -O1 -fPIC -c -o $@ $<\n")

    def prepare(self, removed):
        for path in glob.glob(self.at("project", "*.o")):
            os.remove(path)
        self.source("slow.c", 0 if removed else 1500)
        return ["make", "-s", "-j2", "-C", self.at("project")], {}


class Postgres(Workload):
    name, removal = "PostgreSQL, pgbench", "waiting for the log's fsync: `synchronous_commit=off`"
    # In the stripped program, this is what the function `XLogWrite` is called, which writes the log and waits for it.
    patterns = ["postgres + 0x*"]
    transactions = 3000
    select = ("--process", "pgbench")

    def __init__(self, work):
        super().__init__(work)
        folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        self.bin = folders[-1] if folders else None

    def missing(self):
        return None if self.bin and shutil.which("pgbench") else "postgresql is not installed"

    def as_postgres(self):
        return f"setpriv --reuid=postgres --regid=postgres --clear-groups {self.bin}"

    def build(self):
        data = self.at("data")
        os.makedirs(data)
        shutil.chown(data, "postgres", "postgres")
        subprocess.run(f"{self.as_postgres()}/initdb -D {data} -A trust --no-sync", shell=True, check=True, stdout=subprocess.DEVNULL)
        script = self.script("with-server", f"""{self.as_postgres()}/postgres -D {data} -k {data} -c listen_addresses= -c synchronous_commit=$1 >/dev/null 2>&1 &
server=$!
shift
until pg_isready -q -h {data}; do sleep 0.05; done
"$@"
status=$?
kill -INT $server
wait $server
exit $status""")
        subprocess.run([script, "off", "pgbench", "-q", "-i", "-h", data, "-U", "postgres", "postgres"], check=True, stderr=subprocess.DEVNULL)

    def prepare(self, removed):
        self.setting = "off" if removed else "on"
        # Each run starts from a checkpoint, that of the last server's end.
        return ["pgbench", "-n", "-N", "-M", "prepared", "-t", str(self.transactions), "-h", self.at("data"), "-U", "postgres", "postgres"], {}

    def timed(self, timed):
        return [self.at("with-server"), self.setting, *timed]


class Firefox(Workload):
    name, removal = "Firefox, warm", "compressing the picture: a preloaded zlib does not"
    patterns, rows = ["libz.so*", "adler32*", "crc32*"], None
    # Whether its profile exists before.
    is_known = True

    def missing(self):
        return None if shutil.which("firefox-esr") else "firefox-esr is not installed"

    def build(self):
        # With ngmi's unwind tables from earlier recordings: without them it reads files.
        os.makedirs(self.at("known/.cache"))
        os.makedirs(self.at("tables"), mode=0o700)
        os.symlink(self.at("tables"), self.at("known/.cache/ngmi"))
        for name in ("static.html", "user.js"):
            shutil.copy(f"{ROOT}/tests/firefox/{name}", self.at("known"))
        if self.is_known:
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", self.at("nocompress.so"), f"{HERE}/nocompress.c"], check=True)
            words, variables = self.command(self.at("known"))
            subprocess.run(words, env={**os.environ, **variables}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def command(self, home):
        words = ["firefox-esr", "--headless", "--no-remote", "--profile", home, "--screenshot", f"{home}/out.png", f"file://{home}/static.html"]
        return words, {"HOME": home, "MOZ_HEADLESS": "1", "MOZ_DISABLE_AUTO_SAFE_MODE": "1"}

    def prepare(self, removed):
        shutil.rmtree(self.at("home"), ignore_errors=True)
        shutil.copytree(self.at("known"), self.at("home"), symlinks=True)
        words, variables = self.command(self.at("home"))
        return words, variables | ({"LD_PRELOAD": self.at("nocompress.so")} if removed and self.is_known else {})


class FirefoxCold(Firefox):
    name, removal = "Firefox, cold", "reads of libxul.so: it alone is in memory"
    table, column, patterns, rows = "by_file", "file", ["*/libxul.so"], 1
    is_known = False
    library = "/usr/lib/firefox-esr/libxul.so"

    def prepare(self, removed):
        read = f"cat {self.library} >/dev/null" if removed else ""
        # Last, when the recorder is ready.
        self.script("cold", f'sync\necho 3 >/proc/sys/vm/drop_caches\n{read}\nexec "$@"')
        return super().prepare(removed)

    def timed(self, timed):
        return [self.at("cold"), *timed]


ALL = [FirefoxCold, Firefox, Postgres, Loader, Make, Seeded]
