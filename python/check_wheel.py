#!/usr/bin/env python3
"""Checks that a wheel is complete and runs where its tag says.

python3 python/check_wheel.py WHEEL [--max-mb 40] [--max-program-mb 30]

- The program, the extension module for all Pythons from 3.10 on, the stubs, `py.typed` and every
  file of the package are in it.
- Both binaries are for the platform of the tag and need no later glibc than it names.
- The wheel and the program are no larger than the limits.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "det_post"
PROGRAM = r"det_post-[^/]+\.data/scripts/det_post"
EXTENSION = r"det_post/_ops\.abi3\.so"
# Machines of ELF files.
MACHINES = {62: "x86_64", 183: "aarch64"}


def package_files() -> list[str]:
    """What every wheel holds of the folder of the package."""
    found = [
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    ]
    return sorted(found)


def machine(binary: bytes) -> str:
    """The platform of an ELF file."""
    if binary[:4] != b"\x7fELF":
        return "no ELF file"
    number = int.from_bytes(binary[18:20], "little")
    return MACHINES.get(number, f"machine {number}")


def needed_glibc(binary: bytes) -> tuple[int, int]:
    """The latest glibc whose symbols an ELF file names."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", binary)
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def faults(wheel: Path, max_mb: float, max_program_mb: float) -> list[str]:
    """What is wrong with a wheel."""
    found = []
    tag = re.search(r"-cp310-abi3-manylinux_(\d+)_(\d+)_(\w+)\.whl$", wheel.name)
    if tag is None:
        found.append("the tag is not cp310-abi3-manylinux_X_Y_PLATFORM")
    if wheel.stat().st_size > max_mb * 1e6:
        found.append(f"{wheel.stat().st_size / 1e6:.1f} MB, at most {max_mb:g}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        missing = [name for name in package_files() if name not in names]
        found += [f"{name} is missing" for name in missing]
        for pattern in (PROGRAM, EXTENSION):
            matching = [name for name in names if re.fullmatch(pattern, name)]
            if len(matching) != 1:
                found.append(f"{len(matching)} files are {pattern}")
                continue
            (name,) = matching
            binary = archive.read(name)
            if pattern == PROGRAM and not archive.getinfo(name).external_attr >> 16 & 0o100:
                found.append(f"{name} is not executable")
            if pattern == PROGRAM and len(binary) > max_program_mb * 1e6:
                found.append(f"{name} has {len(binary) / 1e6:.1f} MB, at most {max_program_mb:g}")
            if tag and machine(binary) != tag[3]:
                found.append(f"{name} is for {machine(binary)}")
            if tag and needed_glibc(binary) > (int(tag[1]), int(tag[2])):
                found.append(f"{name} needs glibc {'.'.join(map(str, needed_glibc(binary)))}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--max-mb", type=float, default=40.0)
    parser.add_argument("--max-program-mb", type=float, default=30.0)
    arguments = parser.parse_args()
    found = faults(arguments.wheel, arguments.max_mb, arguments.max_program_mb)
    for fault in found:
        print(f"{arguments.wheel.name}: {fault}", file=sys.stderr)
    if found:
        sys.exit(1)
    print(f"{arguments.wheel}: {arguments.wheel.stat().st_size / 1e6:.1f} MB, complete")


if __name__ == "__main__":
    main()
