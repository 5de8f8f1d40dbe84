"""Detections in Rerun: what is saved is what the lines say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

rr = pytest.importorskip("rerun", reason="no rerun-sdk")

from det_post.view import view  # noqa: E402

LINES = [
    {
        "channel": "camera",
        "topic": "/det_post/camera/detections",
        "stamp_ns": 1_700_000_000_100_000_000,
        "frame_id": "camera_0",
        "detections_2d": [
            {"class_id": 0, "class_name": "car", "score": 0.75, "box": [10.0, 20.0, 30.0, 50.0]},
            {"class_id": 1, "class_name": "bus", "score": 0.5, "center": [5.0, 6.0], "size": [4.0, 2.0], "theta": 1.5707964},
        ],
    },
    {
        "channel": "lidar",
        "topic": "/det_post/lidar/detections",
        "stamp_ns": 1_700_000_000_200_000_000,
        "frame_id": "lidar_0",
        "detections_3d": [
            {
                "class_id": 2,
                "class_name": "truck",
                "score": 0.25,
                "center": [1.0, 2.0, 3.0],
                "size": [8.0, 2.5, 3.5],
                "yaw": 0.5,
                "velocity": None,
            }
        ],
    },
]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "detections.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    channels = {"camera": {"input": "/camera_0/image"}, "lidar": {"input": "/lidar_0/points, /other"}}
    (folder / "report.json").write_text(json.dumps({"channels": channels}))
    return folder


def test_boxes_are_below_their_input(results: Path, tmp_path: Path) -> None:
    saved = tmp_path / "drive.rrd"
    view(None, results, save=saved)
    data = saved.read_bytes()
    for text in (b"/camera_0/image/detections", b"/lidar_0/points/detections", b"LineStrips2D", b"Boxes3D", b"CoordinateFrame"):
        assert text in data, text


def test_a_recording_that_rerun_cannot_read_is_refused(results: Path, tmp_path: Path) -> None:
    (tmp_path / "drive.db3").touch()
    with pytest.raises(ValueError, match="no MCAP file"):
        view(tmp_path / "drive.db3", results, save=tmp_path / "drive.rrd")
