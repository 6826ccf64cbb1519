#!/usr/bin/env python3
"""named.py NGMI LOG PROFILE FOLDER: converts the log of the profile with debug symbols of libxul from a debuginfod of its own; 99 % must be named.

Counts the frames of CPU samples in libxul. The server, and ngmi with it, are in a separate network namespace, so no other server is asked.
"""

import collections
import ctypes
import fcntl
import functools
import http.server
import os
import socket
import struct
import subprocess
import sys
import threading

import debug_file
from profile import Thread, load, sampled

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def enter_own_network():
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        sys.exit(f"no network of its own: {os.strerror(ctypes.get_errno())}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


class Server(http.server.SimpleHTTPRequestHandler):
    asked = 0

    def log_request(self, code="-", size="-"):
        Server.asked += 1


def converted(ngmi, log, folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = os.environ | {
        "DEBUGINFOD_URLS": f"http://127.0.0.1:{server.server_port}",
        "XDG_CACHE_HOME": os.path.join(folder, "cache"),
    }
    output = os.path.join(folder, "named.json.gz")
    subprocess.run([ngmi, "convert", log, "-o", output], env=environment, check=True, stdout=subprocess.DEVNULL)
    server.shutdown()
    return load(output)


def libxul(profile):
    return next((lib for lib in profile["libs"] if lib["name"] == "libxul.so"), None) or sys.exit("no frame is in libxul.so")


def names(profile):
    """Weight of each function's frames in libxul."""
    found = collections.Counter()
    for thread in (Thread(profile, thread) for thread in sampled(profile)):
        of_stack = {}
        for stack, weight, _ in thread.samples():
            if stack is None:
                continue
            if stack not in of_stack:
                frames = [f for f in thread.stack(stack) if thread.module(f) == "libxul.so"]
                of_stack[stack] = collections.Counter(thread.name(f) for f in frames)
            for name, count in of_stack[stack].items():
                found[name] += count * weight
    return found


def main():
    ngmi, log, profile, folder = sys.argv[1:]
    enter_own_network()
    debug_file.write(libxul(load(profile))["path"], folder)
    found = names(converted(ngmi, log, folder))
    named = sum(weight for name, weight in found.items() if name.startswith("named_"))
    nameless = [(name, weight) for name, weight in found.most_common() if not name.startswith("named_")]
    print(f"{named} of {found.total()} frames in libxul are named; most frequent others: {nameless[:3]}; {Server.asked} requests")
    sys.exit(None if named >= 0.99 * found.total() > 0 else "fewer than 99 % are named")


main()
