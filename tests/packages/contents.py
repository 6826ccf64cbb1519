"""Unpacks the packages of one processor, and compares their fields and files; one line per test.

  contents.py PACKAGES FOLDER ARCHITECTURE [OTHER]

PACKAGES is the folder of packages, FOLDER the one to unpack to, ARCHITECTURE Debian's name of the processor. With OTHER,
a FOLDER of another processor, all but the program has to be as there.
"""

import gzip
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile

# Debian's name, and those of rpm, ELF (e_machine) and OCI.
PROCESSORS = {"amd64": ("x86_64", 62, "amd64"), "arm64": ("aarch64", 183, "arm64")}
LITTLE_ENDIAN_64 = b"\x7fELF\x02\x01"
ZSH = ("usr/share/zsh/site-functions/_ngmi", "usr/share/zsh/vendor-completions/_ngmi")
# What only Debian and rpm install.
NOT_IN_TAR = {"ngmi-group", "copyright"}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def untar(source, to):
    to.mkdir()
    subprocess.run(["tar", "-C", to, "-xf", "-"], input=source, check=True)


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ValueError(f"{len(found)} files are called {pattern}")
    return found[0]


def unpack_deb(path, to):
    subprocess.run(["dpkg-deb", "-R", path, to], check=True)
    # Beside the tree, not in it.
    shutil.move(to / "DEBIAN", to.with_suffix(".control"))
    return output("dpkg-deb", "--field", path, "Architecture").decode().strip()


def unpack_rpm(path, to):
    untar(output("sh", "-c", 'rpm2archive -n - <"$1"', "unpack", path), to)
    return output("rpm", "-qp", "--queryformat", "%{ARCH}", path).decode()


def unpack_tar(path, to):
    untar(gzip.decompress(path.read_bytes()), to)
    return path.name.split("-")[2]


def unpack_oci(path, to):
    layout = to.with_suffix(".layout")
    untar(path.read_bytes(), layout)
    blob = lambda descriptor: layout / "blobs" / descriptor["digest"].replace(":", "/")
    entry = json.loads((layout / "index.json").read_text())["manifests"][0]
    manifest = json.loads(blob(entry).read_text())
    config = json.loads(blob(manifest["config"]).read_text())
    for descriptor in (entry, manifest["config"], *manifest["layers"]):
        data = blob(descriptor).read_bytes()
        if (len(data), "sha256:" + hashlib.sha256(data).hexdigest()) != (descriptor["size"], descriptor["digest"]):
            raise ValueError(f"{descriptor['digest']} has other bytes")
    untar(gzip.decompress(blob(manifest["layers"][1]).read_bytes()), to)
    # Its C library has to be of the same processor.
    with tarfile.open(blob(manifest["layers"][0])) as tar:
        library = next(member for member in tar if member.name.endswith("/libc.so.6"))
        (to.parent / "libc.so.6").write_bytes(tar.extractfile(library).read())
    if entry["platform"]["architecture"] != config["architecture"]:
        raise ValueError(f"the index says {entry['platform']}, the image {config['architecture']}")
    return config["architecture"]


def machine_of(path):
    header = path.read_bytes()[:20]
    return int.from_bytes(header[18:20], "little") if header.startswith(LITTLE_ENDIAN_64) else None


def files_of(folder):
    """Hashes of files by their paths, with Debian's folder for zsh."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    hashes = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return {ZSH[1] if path == ZSH[0] else path: digest for path, digest in hashes.items()}


def unpack(packages, folder, architecture):
    """Unpacks each package into a folder, and returns what its fields say."""
    machine, number, oci = PROCESSORS[architecture]
    formats = {
        "deb": (f"ngmi_*_{architecture}.deb", unpack_deb, architecture),
        "rpm": (f"ngmi-*.{machine}.rpm", unpack_rpm, machine),
        "tar": (f"ngmi-*-{machine}-linux.tar.gz", unpack_tar, machine),
        "oci": (f"ngmi-*-{machine}.oci.tar", unpack_oci, oci),
    }
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, (pattern, how, expected) in formats.items():
        said = how(only(packages, pattern), folder / name)
        yield f"{name}: architecture", None if said == expected else f"{said}, not {expected}"
        program = only(folder / name, "ngmi-*/ngmi" if name == "tar" else "usr/bin/ngmi")
        found = machine_of(program)
        yield f"{name}: the program's processor", None if found == number else f"ELF machine {found}, not {number}"
    found = machine_of(folder / "libc.so.6")
    yield "oci: the C library's processor", None if found == number else f"ELF machine {found}, not {number}"


def difference(one, other):
    """Paths that only one has, or that differ."""
    return ", ".join(sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))) or None


def compare(folder):
    deb = files_of(folder / "deb")
    yield "deb and rpm: the same files", difference(deb, files_of(folder / "rpm"))
    yield "deb and image: the same files", difference(deb, files_of(folder / "oci"))
    # Its folders are others: by name and contents.
    flat = lambda files: {(pathlib.PurePath(path).name, digest) for path, digest in files.items()}
    kept = {path: digest for path, digest in deb.items() if pathlib.PurePath(path).name not in NOT_IN_TAR}
    odd = flat(kept) ^ flat(files_of(folder / "tar"))
    yield "deb and tarball: the same files", ", ".join(sorted(name for name, _ in odd)) or None


def compare_processors(folder, other):
    both = [files_of(each / "deb") for each in (folder, other)]
    programs = [files.pop("usr/bin/ngmi", None) for files in both]
    yield "the same files for both processors, except the program", difference(*both) or (None if programs[0] != programs[1] else "the same program")


def main(packages, folder, architecture, other=None):
    packages, folder = pathlib.Path(packages), pathlib.Path(folder)
    try:
        results = [*unpack(packages, folder, architecture), *compare(folder)]
        if other:
            results += compare_processors(folder, pathlib.Path(other))
    except ValueError as error:
        results = [("packages can be unpacked", str(error))]
    for name, why in results:
        print(f"fail: {architecture}: {name}: {why}" if why else f"pass: {architecture}: {name}")
    return any(why for _, why in results)


if not 4 <= len(sys.argv) <= 5:
    sys.exit(__doc__)
sys.exit(main(*sys.argv[1:]))
