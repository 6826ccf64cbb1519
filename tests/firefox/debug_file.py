#!/usr/bin/env python3
"""debug_file.py BINARY FOLDER: writes a debug file for BINARY to FOLDER/buildid/ID/debuginfo, as a debuginfod serves it.

It stands in for a distribution's package of debug symbols: each function that the binary's .eh_frame_hdr lists is named
`named_ADDRESS`. 64-bit little-endian ELF only.
"""

import os
import struct
import sys

SHT_SYMTAB, SHT_STRTAB, SHT_NOTE, SHT_NOBITS = 2, 3, 7, 8
FUNCTION = 2  # STT_FUNC, local


def sections(data):
    """Name -> (type, flags, address, offset, size)."""
    table, entry, count, names = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * entry) for i in range(count)]
    text = headers[names][4]
    return {data[text + h[0] : data.index(b"\0", text + h[0])].decode(): h[1:] for h in headers}


def functions(data, header):
    """The functions' addresses by the sorted table of .eh_frame_hdr, whose values are 32-bit and relative to the section."""
    _, _, address, offset, _ = header
    version, pointer, count_encoding, table_encoding = data[offset : offset + 4]
    if (version, pointer & 0x0F, count_encoding, table_encoding) != (1, 0x0B, 0x03, 0x3B):
        sys.exit("a table of another format")
    count = struct.unpack_from("<I", data, offset + 8)[0]
    entries = struct.iter_unpack("<ii", data[offset + 12 : offset + 12 + 8 * count])
    return [address + start for start, _ in entries]


def build_id(data, note):
    _, _, _, offset, _ = note
    name, size, _ = struct.unpack_from("<III", data, offset)
    return data[offset + 12 + name : offset + 12 + name + size].hex()


def debug_file(data):
    known = sections(data)
    note, text = known[".note.gnu.build-id"], known[".text"]
    begin, end = text[2], text[2] + text[4]
    starts = [start for start in functions(data, known[".eh_frame_hdr"]) if begin <= start < end]
    strings, symbols = bytearray(b"\0"), bytearray(24)
    for start, following in zip(starts, [*starts[1:], end]):
        symbols += struct.pack("<IBBHQQ", len(strings), FUNCTION, 0, 2, start, following - start)
        strings += b"named_%x\0" % start
    programs, entry, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    out = bytearray(data[:64]) + data[programs : programs + entry * count]
    names = bytearray(b"\0")
    headers = [bytes(64)]

    def add(name, kind, flags, address, content, size=None, link=0, info=0, each=0):
        offset = len(out)
        out.extend(content)
        headers.append(
            struct.pack("<IIQQQQIIQQ", len(names), kind, flags, address, offset, size or len(content), link, info, 8, each)
        )
        names.extend(name.encode() + b"\0")

    add(".note.gnu.build-id", SHT_NOTE, note[1], note[2], data[note[3] : note[3] + note[4]])
    add(".text", SHT_NOBITS, text[1], text[2], b"", size=text[4])
    add(".symtab", SHT_SYMTAB, 0, 0, symbols, link=4, info=len(symbols) // 24, each=24)
    add(".strtab", SHT_STRTAB, 0, 0, strings)
    names_of_all = bytes(names) + b".shstrtab\0"
    add(".shstrtab", SHT_STRTAB, 0, 0, names_of_all)
    struct.pack_into("<QQ", out, 32, 64, len(out))  # where program and section headers are
    struct.pack_into("<HHH", out, 58, 64, len(headers), len(headers) - 1)
    return build_id(data, note), bytes(out) + b"".join(headers)


def write(binary, root):
    with open(binary, "rb") as file:
        data = file.read()
    identity, content = debug_file(data)
    folder = os.path.join(root, "buildid", identity)
    os.makedirs(folder)
    with open(os.path.join(folder, "debuginfo"), "wb") as file:
        file.write(content)


if __name__ == "__main__":
    write(*sys.argv[1:])
