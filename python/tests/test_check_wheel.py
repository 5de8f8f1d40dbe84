"""A wheel that lacks something, or needs more than its tag says, is refused."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "det_post-0.1.0.data/scripts/det_post"
EXTENSION = "det_post/_ops.abi3.so"
NAME = "det_post-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl"
X86_64, AARCH64 = 62, 183


@pytest.fixture(scope="module")
def check_wheel() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "check_wheel.py"
    spec = importlib.util.spec_from_file_location("check_wheel", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def elf(machine: int = X86_64, glibc: str = "2.28") -> bytes:
    header = b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little")
    return header + b"\0GLIBC_2.2.5\0GLIBC_" + glibc.encode() + b"\0"


def written(
    folder: Path, module: ModuleType, name: str = NAME, mode: int = 0o755, **changes: bytes | None
) -> Path:
    """A wheel with all files; `program`, `extension` or `typed` in place of one, or without it."""
    files: dict[str, bytes | None] = {each: b"" for each in module.package_files()}
    files[PROGRAM] = changes.get("program", elf())
    files[EXTENSION] = changes.get("extension", elf())
    files["det_post/py.typed"] = changes.get("typed", b"")
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in files.items():
            if content is not None:
                info = zipfile.ZipInfo(each)
                info.external_attr = mode << 16
                archive.writestr(info, content)
    return path


def test_a_complete_wheel_passes(check_wheel: ModuleType, tmp_path: Path) -> None:
    wheel = written(tmp_path, check_wheel)
    assert check_wheel.faults(wheel, 40.0, 30.0) == []
    assert {"det_post/_ops.pyi", "det_post/py.typed", "det_post/fleet/slurm.sh"} <= set(
        check_wheel.package_files()
    )


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"typed": None}, "det_post/py.typed is missing"),
        ({"program": None}, "0 files are det_post"),
        ({"extension": None}, "0 files are det_post/_ops"),
        ({"mode": 0o644}, "is not executable"),
        ({"program": elf(AARCH64)}, "is for aarch64"),
        ({"extension": b"#!/bin/sh"}, "is for no ELF file"),
        ({"program": elf(glibc="2.34")}, "needs glibc 2.34"),
        ({"name": "det_post-0.1.0-cp311-cp311-linux_x86_64.whl"}, "the tag is not"),
    ],
)
def test_others_are_refused(
    check_wheel: ModuleType, tmp_path: Path, changes: dict[str, bytes | None], fault: str
) -> None:
    found = check_wheel.faults(written(tmp_path, check_wheel, **changes), 40.0, 30.0)
    assert len(found) == 1 and fault in found[0], found


def test_a_wheel_over_the_limit_is_refused(check_wheel: ModuleType, tmp_path: Path) -> None:
    found = check_wheel.faults(written(tmp_path, check_wheel), 0.001, 30.0)
    assert len(found) == 1 and "MB, at most 0.001" in found[0]
    found = check_wheel.faults(written(tmp_path, check_wheel), 40.0, 1e-5)
    assert len(found) == 1 and "scripts/det_post has 0.0 MB" in found[0]


def test_build_wheel_writes_to_a_folder_of_its_caller(tmp_path: Path) -> None:
    repository, caller, tools = (tmp_path / name for name in ("repository", "caller", "tools"))
    for folder in (repository / "python", caller, tools):
        folder.mkdir(parents=True)
    script = shutil.copy(ROOT / "python" / "build_wheel", repository / "python")
    (repository / "python" / "check_wheel.py").touch()
    stubs = {
        "cargo": "mkdir -p target/release && touch target/release/det_post",
        "maturin": 'while [ "$1" != --out ]; do shift; done; mkdir -p "$2" && touch "$2/det_post-0.whl"',
    }
    for name, text in stubs.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k not in ("CARGO_TARGET_DIR", "MATURIN")}
    environment["PATH"] = f"{tools}:{environment['PATH']}"
    for arguments, folder in ((["out"], caller / "out"), ([], repository / "target" / "wheels")):
        subprocess.run([script, *arguments], cwd=caller, env=environment, check=True)
        assert (folder / "det_post-0.whl").is_file()
