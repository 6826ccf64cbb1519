#!/usr/bin/env python3
"""offsets.py FAULTS.csv OUT.svg [TITLE]: where in one file the page faults were, over time.

FAULTS.csv is what `ngmi faults LOG --file libxul.so --csv` writes. A dot is a fault: those of the process with the most are blue, those of other
processes grey, and those that waited for a disk red, with a line as long as the wait. Bands are the sections as far as faults touched them.
"""

import collections
import csv
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 1100, 720
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 66, 52
BLUE, GREY, RED = "#1f5fa8", "#b4b4b4", "#d62728"
LEAST = 0.02  # of the file's height: lower sections get no band


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["offset"]]
    if not rows:
        sys.exit(f"{path} has no fault in a file: name one, as in `ngmi faults LOG --file libxul.so --csv`")
    if len({row["file"] for row in rows}) > 1:
        sys.exit(f"{path} is of several files: name one, as in `ngmi faults LOG --file libxul.so --csv`")
    return rows


def bands(rows):
    """(section, first byte, last byte) as far as faults touched it, in the order of the file."""
    extents = {}
    for row in rows:
        if row["section"]:
            at = int(row["offset"])
            low, high = extents.get(row["section"], (at, at))
            extents[row["section"]] = (min(low, at), max(high, at))
    return sorted(((name, low, high) for name, (low, high) in extents.items()), key=lambda band: band[1])


def step(span, most):
    """A round number of which at most `most` fit into span."""
    for size in (base * 10**power for power in range(-3, 12) for base in (1, 2, 5)):
        if span / size <= most:
            return size
    return span


class Picture:
    def __init__(self, rows):
        self.last = max(int(row["time_ns"]) + int(row["latency_ns"] or 0) for row in rows) / 1e6 * 1.01
        self.size = max(int(row["offset"]) for row in rows) * 1.02 or 1
        self.parts = []

    def x(self, milliseconds):
        return LEFT + milliseconds / self.last * (WIDTH - LEFT - RIGHT)

    def y(self, offset):
        """The file's first byte is at the top, as in a listing of its sections."""
        return TOP + offset / self.size * (HEIGHT - TOP - BOTTOM)

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, words, anchor="start", more=""):
        self.add(f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {more}>{escape(words)}</text>')

    def axes(self):
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        tick = step(self.last, 10)
        for number in range(int(self.last / tick) + 1):
            at = self.x(number * tick)
            self.add(f'<path d="M{at:.1f} {TOP}V{bottom + 4}" stroke="#ddd"/>')
            self.text(at, bottom + 18, f"{number * tick:g}", "middle")
        tick = step(self.size / 1e6, 10)
        for number in range(int(self.size / 1e6 / tick) + 1):
            at = self.y(number * tick * 1e6)
            self.add(f'<path d="M{LEFT - 4} {at:.1f}H{LEFT}" stroke="#888"/>')
            self.text(LEFT - 8, at + 4, f"{number * tick:g}", "end")
        self.add(f'<path d="M{LEFT} {TOP}V{bottom}H{right}V{TOP}Z" fill="none" stroke="#888"/>')
        self.text((LEFT + right) / 2, HEIGHT - 12, "ms since the recording began", "middle")
        middle = (TOP + bottom) / 2
        self.text(18, middle, "offset in the file [MB]", "middle", f'transform="rotate(-90 18 {middle:.0f})"')

    def sections(self, found):
        right, above = WIDTH - RIGHT, TOP - 6
        colours = ("#f6f1e4", "#eaf3ea")
        large = [band for band in found if band[2] - band[1] >= LEAST * self.size]
        for number, (name, low, high) in enumerate(large):
            top, bottom = self.y(low), self.y(high)
            self.add(f'<rect x="{LEFT}" y="{top:.1f}" width="{right - LEFT}" height="{max(bottom - top, 1):.1f}" fill="{colours[number % 2]}"/>')
        for name, low, high in found:
            is_large = high - low >= LEAST * self.size
            middle = self.y((low + high) / 2)
            if is_large or name in (".data", ".plt"):
                at = max(middle, above + 13)
                above = at
                self.add(f'<path d="M{right + 1} {middle:.1f}L{right + 10} {at:.1f}" stroke="#888" fill="none"/>')
                self.text(right + 13, at + 4, name)

    def dots(self, rows, colour, size):
        """One path for all: a dot is a line of no length with round ends."""
        places = collections.Counter((round(self.x(int(row["time_ns"]) / 1e6), 1), round(self.y(int(row["offset"])), 1)) for row in rows)
        path, last = [], None
        for x, y in sorted(places):
            # Relative moves are shorter, in tenths of a pixel.
            x, y = round(x * 10), round(y * 10)
            path.append(f"M{x} {y}h0" if last is None else f"m{x - last[0]} {y - last[1]}h0")
            last = (x, y)
        if path:
            self.add(f'<path transform="scale(.1)" d="{"".join(path)}" stroke="{colour}" stroke-width="{size * 10:g}" '
                     'stroke-linecap="round" fill="none"/>')

    def waits(self, rows):
        for row in rows:
            begin, end = int(row["time_ns"]) / 1e6, (int(row["time_ns"]) + int(row["latency_ns"])) / 1e6
            x, y = self.x(begin), self.y(int(row["offset"]))
            self.add(f'<path d="M{x:.1f} {y:.1f}H{self.x(end):.1f}" stroke="{RED}" stroke-width="2"/>'
                     f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{RED}"/>')

    def legend(self, items):
        x = LEFT
        for colour, words in items:
            self.add(f'<circle cx="{x + 5}" cy="{TOP - 18}" r="4" fill="{colour}"/>')
            self.text(x + 14, TOP - 14, words)
            x += 30 + 6.6 * len(words)

    def write(self, path):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
                'font-family="sans-serif" font-size="12" fill="#222">')
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *self.parts, "</svg>"]) + "\n")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    rows = read(sys.argv[1])
    waited = [row for row in rows if row["waited"] == "true"]
    rest = [row for row in rows if row["waited"] != "true"]
    first = collections.Counter(row["pid"] for row in rows).most_common(1)[0][0]
    own, others = [row for row in rest if row["pid"] == first], [row for row in rest if row["pid"] != first]
    picture = Picture(rows)
    picture.sections(bands(rows))
    picture.axes()
    picture.dots(others, GREY, 1.6)
    picture.dots(own, BLUE, 2)
    picture.waits(waited)
    name = rows[0]["file"].rsplit("/", 1)[-1]
    picture.text(LEFT, 24, sys.argv[3] if len(sys.argv) > 3 else f"page faults in {name}", more='font-size="17"')
    time = sum(int(row["latency_ns"]) for row in waited) / 1e6
    processes = len({row["pid"] for row in others})
    items = [(BLUE, f"process {first}: {len(own):,} without a wait"), (GREY, f"{processes} other processes: {len(others):,}"),
             (RED, f"waited for the disk: {len(waited):,}, {time:,.0f} ms together")]
    picture.legend(items)
    picture.write(sys.argv[2])


if __name__ == "__main__":
    main()
