"""The examples run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def test_recording_to_image(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    script = EXAMPLES / "recording_to_image.py"
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "boxes are 2 m or more from a better one" in ended.stdout
    images = sorted((tmp_path / "out" / "images").iterdir())
    assert {image.name.split("_")[0] for image in images} == {"camera", "lidar"}
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in images)
    assert all(str(image) in ended.stdout for image in images)
