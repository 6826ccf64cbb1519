"""Checks that the packages for crates.io contain each file that the program was compiled from; one line per package.

  crates.py NGMI.d      the list of files that cargo writes beside the program
"""

import json
import pathlib
import re
import subprocess
import sys


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def needed(path):
    """Files after the colon; a space in a name is escaped."""
    names = pathlib.Path(path).read_text().split(": ", 1)[1]
    return [pathlib.Path(name.replace("\\ ", " ")) for name in re.split(r"(?<!\\)\s+", names.strip())]


def crate_of(file, folders):
    inside = [folder for folder in folders if folder in file.parents]
    return max(inside, key=lambda folder: len(folder.parts), default=None)


def judge(path):
    """Yields names and what is wrong, or None."""
    packages = json.loads(cargo("metadata", "--no-deps", "--locked", "--format-version", "1"))["packages"]
    crates = {pathlib.Path(package["manifest_path"]).parent: package for package in packages}
    files = needed(path)
    # Those of other processors are compiled on these.
    files += [other for file in files if file.suffix == ".o" for other in file.parent.glob("*.o")]
    by_crate = {}
    for file in files:
        by_crate.setdefault(crate_of(file, crates), set()).add(file)
    for file in by_crate.pop(None, ()):
        yield str(file), "it belongs to no crate"
    if len(by_crate) < 2:
        yield path, f"it names files of {len(by_crate)} crates"
    for folder, wanted in sorted(by_crate.items()):
        yield crates[folder]["name"], lacks(crates[folder], folder, wanted)


def lacks(crate, folder, wanted):
    if crate["publish"] == []:
        return "the program needs it, but it is not published"
    packed = {folder / line for line in cargo("package", "--list", "--allow-dirty", "-p", crate["name"]).splitlines()}
    texts = {folder / "LICENSE-APACHE", folder / "LICENSE-MIT"}
    missing = sorted(str(file.relative_to(folder)) for file in (wanted | texts) - packed)
    return f"its package lacks {', '.join(missing)}" if missing else None


def main(path):
    results = list(judge(path))
    for name, why in results:
        print(f"fail: crates.io: {name}: {why}" if why else f"pass: crates.io: {name}: its package has each file that is compiled")
    return any(why for _, why in results)


if len(sys.argv) != 2:
    sys.exit(__doc__)
sys.exit(main(sys.argv[1]))
