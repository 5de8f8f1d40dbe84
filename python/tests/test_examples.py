"""The examples run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def test_recording_to_picture(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    script = EXAMPLES / "recording_to_picture.py"
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "boxes are 2 m or more from a better one" in ended.stdout
    pictures = sorted((tmp_path / "out" / "pictures").iterdir())
    assert {picture.name.split("_")[0] for picture in pictures} == {"camera", "lidar"}
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    assert all(str(picture) in ended.stdout for picture in pictures)
