"""Where stacks may end: code without a caller, according to its own unwind information.

This is a thread's first function by construction (the entry code of a program and of ld.so, clone's child), independent
of any profiler's claims: binutils reads it from .eh_frame.
"""

import functools
import re
import subprocess

CIE = re.compile(r"^([0-9a-f]+) \S+ \S+ CIE")
FDE = re.compile(r" FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)")
FRAMES = ["readelf", "--wide", "--debug-dump=frames"]


@functools.cache
def first_functions(path):
    """Ranges (start, end) of a file's functions whose return address is undefined; empty if the file can't be read."""
    ranges, rootless, cie, fde = [], set(), None, None
    try:
        with subprocess.Popen(FRAMES + [path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as dump:
            for line in dump.stdout:
                if header := CIE.match(line):
                    cie, fde = header[1], None
                elif header := FDE.search(line):
                    cie, fde = None, (int(header[2], 16), int(header[3], 16))
                    if header[1] in rootless:
                        ranges.append(fde)
                elif "DW_CFA_undefined: r16 (rip)" in line:
                    # Recorded once for all functions of a common entry, or for one function.
                    ranges.extend([fde] if fde else [])
                    rootless.update([cie] if cie else [])
    except OSError:
        return ()
    return tuple(ranges)


def is_first(path, address):
    """Whether the address (in the file's own address space) is in a first function of the file."""
    # A return address may point just behind the last instruction.
    return any(start <= address <= end for start, end in first_functions(path))
