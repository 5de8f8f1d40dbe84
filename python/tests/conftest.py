"""What several tests share: one simulated drive and its replay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import det_post

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def _in_the_repository() -> None:
    """Parameter files name networks relative to the folder of the process."""
    os.chdir(ROOT)


@pytest.fixture(scope="session")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated drive of half a second with truth: a camera and a LiDAR."""
    return det_post.simulate(
        tmp_path_factory.mktemp("drives") / "drive", seed=9102, seconds=0.4, points=20_000
    )


@pytest.fixture(scope="session")
def config() -> Path:
    """The configuration of the networks in models/."""
    return ROOT / "config" / "demo.param.yaml"


@pytest.fixture(scope="session")
def result(drive: Path, config: Path, tmp_path_factory: pytest.TempPathFactory) -> det_post.Result:
    """The replay of the drive on the networks in models/, with rten."""
    out = tmp_path_factory.mktemp("results") / "out"
    return det_post.replay(drive, config, out=out, device="cpu", onnxruntime=False)
