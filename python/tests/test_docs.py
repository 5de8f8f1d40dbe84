"""The Python of docs/python.md runs as written; `try_wheel.py` runs the commands of all pages."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from det_post import _program

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("try_wheel", ROOT / "python" / "try_wheel.py")
assert spec and spec.loader
try_wheel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(try_wheel)


def test_python_of_the_page_runs(tmp_path: Path) -> None:
    texts = [text for language, text in try_wheel.blocks("docs/python.md") if language == "python"]
    assert texts
    for part in try_wheel.PARTS:
        (tmp_path / part).symlink_to(ROOT / part)
    ended = subprocess.run(
        [sys.executable, "-c", "".join(texts)],
        cwd=tmp_path,
        env={**os.environ, "DET_POST_PROGRAM": str(_program.path())},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert "AP" in ended.stdout
