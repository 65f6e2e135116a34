#!/usr/bin/env python3
"""Lets programs without Python load the shared object, as a driver of ADBC: weaken.py FROM TO

A module of Python refers to the interpreter's functions and objects, which it does not bring. Where there is no
interpreter, the loader refuses it, although the driver uses none of them. Here these references become weak: what
is not there is null. In an interpreter, nothing changes. FROM may be a wheel, whose shared object is changed.
"""

import base64
import hashlib
import pathlib
import struct
import sys
import zipfile

SHT_DYNSYM = 11
STB_GLOBAL, STB_WEAK = 1, 2
SYMBOL_BYTES = 24


def sections(elf):
    """Type, offset, size and link of each section of a 64-bit ELF file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        sys.exit("error: no 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    for index in range(count):
        header = struct.unpack_from("<IIQQQQIIQQ", elf, offset + index * size)
        yield header[1], header[4], header[5], header[6]


def weakened(elf):
    """The object, with weak references to all that is Python's, and how many they are."""
    elf, found = bytearray(elf), list(sections(elf))
    [(_, offset, size, names)] = [section for section in found if section[0] == SHT_DYNSYM]
    names_offset, count = found[names][1], 0
    for symbol in range(offset, offset + size, SYMBOL_BYTES):
        name, info, _, section = struct.unpack_from("<IBBH", elf, symbol)
        begin = names_offset + name
        text = elf[begin : elf.index(0, begin)]
        is_undefined, binding = section == 0, info >> 4
        if is_undefined and binding == STB_GLOBAL and text.startswith((b"Py", b"_Py")):
            elf[symbol + 4] = STB_WEAK << 4 | info & 0xF
            count += 1
    return bytes(elf), count


def recorded(record, name, content):
    """The list of a wheel's files, with the new sum of one."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    lines = record.decode().splitlines()
    new = f"{name},sha256={digest},{len(content)}"
    return "".join(f"{new if line.startswith(f'{name},') else line}\n" for line in lines).encode()


def weaken_wheel(source, target):
    with zipfile.ZipFile(source) as old:
        [object_name] = [name for name in old.namelist() if name.endswith(".so")]
        content, count = weakened(old.read(object_name))
        with zipfile.ZipFile(target, "w") as new:
            for entry in old.infolist():
                data = content if entry.filename == object_name else old.read(entry)
                if entry.filename.endswith(".dist-info/RECORD"):
                    data = recorded(data, object_name, content)
                new.writestr(entry, data, entry.compress_type)
    return count


def main(source, target):
    if source.suffix == ".whl":
        count = weaken_wheel(source, target)
    else:
        content, count = weakened(source.read_bytes())
        target.write_bytes(content)
    print(f"{target}: {count} references to the interpreter are weak")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*map(pathlib.Path, sys.argv[1:]))
