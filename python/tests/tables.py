"""Tables of other projects' tests: the folder of DET_POST_SHARED_DATA, else ../shared/data."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(
    os.environ.get("DET_POST_SHARED_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)


def read(path: str) -> Any:
    """The tables of a file; skips the test where there is no such folder."""
    if not FOLDER.is_dir():
        pytest.skip(f"no data: {FOLDER}")
    return json.loads((FOLDER / "tables" / path).read_text())


def tables() -> Any:
    return read("tables.json")


def literals() -> Any:
    return read("mmdet3d_mmcv_autoware_literals.json")
