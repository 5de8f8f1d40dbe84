#!/usr/bin/env python3
"""Runs the documentation's commands in a fresh virtual environment with a wheel.

python3 python/try_wheel.py WHEEL [--python PYTHON] [PAGE ...]

Each page has a folder of its own, with links to the parts of the repository that its commands
name and the wheel in `target/wheels/`, and an environment with the wheel. All marked blocks of the
page run as written in their order, `pip install` included; Python blocks that follow each other
are one script. Needs PyPI.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "docs/python.md", "docs/fleet.md"]
# What a clone has and the commands name.
PARTS = ["config", "examples", "models"]
# Variables that would put another program, library or package before those of the environment.
OTHERS = ("DET_POST_PROGRAM", "ORT_DYLIB_PATH", "PYTHONPATH")
BLOCK = re.compile(r"<!-- runs(?: from the wheel)? -->\n```(sh|python)\n(.*?)```", re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """The marked blocks of a page: language and text."""
    return BLOCK.findall((ROOT / page).read_text())


def script(marked: list[tuple[str, str]]) -> str:
    """Blocks as one script of bash."""
    parts = []
    for language, group in groupby(marked, key=lambda block: block[0]):
        text = "".join(block[1] for block in group)
        parts.append(text if language == "sh" else f"python - <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n")
    return "".join(parts)


def lay_out(folder: Path, wheel: Path) -> None:
    """What the commands find of a clone."""
    for part in PARTS:
        (folder / part).symlink_to(ROOT / part)
    wheels = folder / "target" / "wheels"
    wheels.mkdir(parents=True)
    (wheels / wheel.name).symlink_to(wheel)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    parser.add_argument("pages", nargs="*", default=PAGES)
    arguments = parser.parse_intermixed_args()
    wheel = arguments.wheel.resolve(strict=True)
    with tempfile.TemporaryDirectory(prefix="det_post-") as temporary:
        for page in arguments.pages:
            folder = Path(temporary, re.sub(r"\W", "_", page))
            folder.mkdir()
            lay_out(folder, wheel)
            environment = folder / "venv"
            subprocess.run([arguments.python, "-m", "venv", environment], check=True)
            subprocess.run([environment / "bin" / "pip", "install", "--quiet", wheel], check=True)
            variables = {k: v for k, v in os.environ.items() if k not in OTHERS}
            variables["PATH"] = f"{environment / 'bin'}:{os.environ['PATH']}"
            if not (text := script(blocks(page))):
                sys.exit(f"{page} marks no commands")
            start = time.monotonic()
            print(f"== {page}", flush=True)
            ended = subprocess.run(["bash", "-exc", text], cwd=folder, env=variables)
            if ended.returncode != 0:
                sys.exit(f"{page} failed: exit code {ended.returncode}")
            print(f"== {page}: passed, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
