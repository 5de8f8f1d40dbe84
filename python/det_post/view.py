"""A recording and its detections in Rerun (extra ``view``)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["view"]

TIMELINES = ("message_log_time", "message_publish_time", "ros2_timestamp")
"""The timelines of Rerun's reader of recordings. Boxes are at their stamps on all of them."""


def view(
    recording: str | os.PathLike[str] | None,
    results: str | os.PathLike[str],
    *,
    save: str | os.PathLike[str] | None = None,
) -> None:
    """Shows the detections of a replay over its recording.

    ``recording`` is what was replayed: images, clouds and transforms of its MCAP files are read
    by Rerun itself; ``None`` shows only the detections. ``results`` is the folder that
    ``det_post replay --out`` wrote. ``save`` writes a file ``.rrd`` instead of opening the
    viewer.

    Boxes in an image are below the entity of its topic, in pixels. Boxes in space are below the
    topic of their cloud, in the cloud's frame.
    """
    import rerun as rr

    rr.init("det_post", spawn=save is None)
    if save is not None:
        rr.save(os.fspath(save))
    for path in _files(recording):
        rr.log_file_from_path(path)
    folder = Path(results)
    inputs = _inputs(folder)
    for line in _lines(folder):
        for timeline in TIMELINES:
            rr.set_time(timeline, timestamp=line["stamp_ns"] * 1e-9)
        entity = f"{inputs.get(line['channel'], line['topic'])}/detections"
        # The reader gives an image the frame of its plane, and a cloud its own.
        frame = line["frame_id"]
        if (found := line.get("detections_2d")) is not None:
            rr.log(entity, rr.CoordinateFrame(f"{frame}_image_plane"), _boxes_2d(rr, found))
        if (found := line.get("detections_3d")) is not None:
            rr.log(entity, rr.CoordinateFrame(frame), _boxes_3d(rr, found))
    rr.disconnect()


def _files(recording: str | os.PathLike[str] | None) -> list[Path]:
    """The MCAP files of a recording."""
    if recording is None:
        return []
    path = Path(recording)
    files = sorted(path.glob("*.mcap")) if path.is_dir() else [path]
    if not files or any(file.suffix != ".mcap" for file in files):
        raise ValueError(f"{path} has no MCAP file, which is what Rerun reads; recording=None shows only detections")
    return files


def _inputs(folder: Path) -> dict[str, str]:
    """The topic of the reference input of each channel."""
    report = json.loads((folder / "report.json").read_text())
    return {name: channel["input"].split(", ")[0] for name, channel in report["channels"].items()}


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    with open(folder / "detections.jsonl", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _labels(found: list[dict[str, Any]]) -> list[str]:
    return [f"{box['class_name']} {box['score']:.2f}" for box in found]


def _boxes_2d(rr: Any, found: list[dict[str, Any]]) -> Any:
    """Outlines, of rotated boxes, too."""
    outlines = []
    for box in found:
        if "box" in box:
            x1, y1, x2, y2 = box["box"]
            corners = [(x1, y1), (x2, y1), (x2, y2), (x1, y2)]
        else:
            (cx, cy), (width, height) = box["center"], box["size"]
            cos, sin = math.cos(box["theta"]), math.sin(box["theta"])
            corners = [
                (cx + u * cos - v * sin, cy + u * sin + v * cos)
                for u, v in (
                    (-width / 2, -height / 2),
                    (width / 2, -height / 2),
                    (width / 2, height / 2),
                    (-width / 2, height / 2),
                )
            ]
        outlines.append([*corners, corners[0]])
    return rr.LineStrips2D(outlines, labels=_labels(found), class_ids=[box["class_id"] for box in found])


def _boxes_3d(rr: Any, found: list[dict[str, Any]]) -> Any:
    turns = [(0.0, 0.0, math.sin(box["yaw"] / 2), math.cos(box["yaw"] / 2)) for box in found]
    return rr.Boxes3D(
        centers=[box["center"] for box in found],
        sizes=[box["size"] for box in found],
        quaternions=[rr.Quaternion(xyzw=turn) for turn in turns],
        labels=_labels(found),
        class_ids=[box["class_id"] for box in found],
    )
