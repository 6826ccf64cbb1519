"""Tables of results: eighty columns wide for a terminal, and in Markdown for docs/measurements.md."""

import re

BEGIN, END = "<!-- made by benches/all: begin -->", "<!-- made by benches/all: end -->"


def lost(row):
    return "?" if row["lost"] is None else f"{row['lost']:,}"


def complete(row):
    share = row["complete"]
    if share is None:
        return "–"
    # 99.97 % is not 100 %.
    return f"{int(share * 1000) / 10:.1f} %"


def size(mib):
    return f"{mib:.0f}" if mib >= 100 else f"{mib:.1f}"


def ready(row):
    # Older files lack the key, and no run of theirs was killed.
    return f"{'> ' if row.get('unread') else ''}{row['ready_s']:.2f}"


def text(name, result):
    """Lines of at most eighty columns."""
    lines = [f"{name}: {result['title']}, {result['rounds']} rounds"]
    lines.append(f"{'':11}{'slowdown (min–max)':<20}{'CPU s':>6}{'MiB':>7}{'ready s':>8}{'RSS MiB':>8}{'lost':>11}{'complete':>9}")
    for row in result["rows"]:
        middle, low, high = row["slowdown"]
        if "cpu_s" not in row:
            low, high = row["wall_spread_s"]
            lines.append(f"{row['tool']:11}{row['wall_s']:.3f} s ({low:.2f}–{high:.2f})")
            continue
        spread = f"{middle:.2f} ({low:.2f}–{high:.2f})"
        name = row["tool"]
        if len(name) > 10:
            lines.append(name)
            name = ""
        lines.append(f"{name:11}{spread:<20}{row['cpu_s']:6.2f}{size(row['data_mib']):>7}{ready(row):>8}"
                     f"{row['memory_mib']:8.0f}{lost(row):>11}{complete(row):>9}")
    lines += [f"{tool}: failed, {why.splitlines()[0]}"[:80] for tool, why in result["failed"].items()]
    return "\n".join(lines)


def bare(result):
    """The wall time without a recorder."""
    row = next(row for row in result["rows"] if "cpu_s" not in row)
    low, high = row["wall_spread_s"]
    return f"Bare: {row['wall_s']:.2f} s ({low:.2f}–{high:.2f})."


def markdown(results):
    """The tables of docs/measurements.md between its markers."""
    parts = []
    for name, result in results.items():
        machine = result["machine"]
        parts.append(f"**{name}** — {result['title']}.\n{result['rounds']} rounds on {machine['date']}, kernel {machine['kernel']}, "
                     f"{machine['cpus']} CPUs, load before {machine['load']:.1f}, {machine['ngmi']}. {bare(result)}\n")
        parts.append("| | slowdown (min–max) | CPU s | data MiB | ready s | RSS MiB | lost | complete |")
        parts.append("|---|---|---|---|---|---|---|---|")
        for row in result["rows"]:
            if "cpu_s" not in row:
                continue
            middle, low, high = row["slowdown"]
            parts.append(f"| {row['tool']} | {middle:.2f} ({low:.2f}–{high:.2f}) | {row['cpu_s']:.2f} | {size(row['data_mib'])} "
                         f"| {ready(row)} | {row['memory_mib']:.0f} | {lost(row)} | {complete(row)} |")
        parts += [f"\n{tool} failed: {why.splitlines()[0]}" for tool, why in result["failed"].items()]
        parts.append("")
    return "\n".join(parts)


def into(path, results):
    """Replaces the tables in a document, between its markers."""
    with open(path, encoding="utf-8") as file:
        document = file.read()
    if BEGIN not in document or END not in document:
        raise SystemExit(f"{path} has no markers for the tables; insert these two lines:\n{BEGIN}\n{END}")
    between = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.S)
    made = f"{BEGIN}\n{markdown(results)}{END}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(between.sub(lambda _: made, document))
