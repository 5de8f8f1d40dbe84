"""The results of a replay: a folder, read when they are asked for."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Detection", "Frame", "Result"]


class Frame(TypedDict, total=False):
    """One processed frame of a channel: a line of ``detections.jsonl``."""

    channel: str
    topic: str
    stamp_ns: int
    frame_id: str
    detections_2d: list[dict[str, Any]]
    detections_3d: list[dict[str, Any]]


class Detection(TypedDict):
    """One detection.

    ``box`` is left, top, right, bottom in pixels of the source image. Boxes that are not
    axis-aligned have ``center``, ``size`` and ``yaw`` instead: rotated boxes in an image
    (pixels, width and height, turn from +x towards +y), boxes in space (metres; length, width,
    height; radians about +z). What a detection does not have is ``None``.
    """

    recording: str
    channel: str
    stamp_ns: int
    frame_id: str
    index: int
    class_id: int
    class_name: str
    score: float
    box: list[float] | None
    center: list[float] | None
    size: list[float] | None
    yaw: float | None
    velocity: list[float] | None


class Result:
    """What a replay wrote: ``detections.jsonl``, ``detections/``, ``report.json``.

    ``Result(folder)`` opens the results of an earlier one.
    """

    folder: Path
    """The folder of the results."""
    log: str
    """What the program wrote to stderr; empty for results that were opened."""

    def __init__(self, folder: str | os.PathLike[str], *, log: str = "") -> None:
        self.folder = Path(folder)
        self.log = log
        # Its own folder, deleted with the last reference to this object.
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if not (self.folder / "report.json").is_file():
            raise FileNotFoundError(f"{self.folder} holds no report.json of det_post replay")

    def __repr__(self) -> str:
        channels = ", ".join(
            f"{name}: {channel['detections']} detections in {channel['frames_out']} frames"
            for name, channel in self.report["channels"].items()
        )
        return f"<det_post.Result {self.folder} ({channels})>"

    @property
    def report(self) -> dict[str, Any]:
        """``report.json``: frames in, out and dropped, limits, times of stages, per channel."""
        report: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return report

    def frames(self, channel: str | None = None) -> Iterator[Frame]:
        """The processed frames in order, also frames without detections; of one channel if it is given."""
        with open(self.folder / "detections.jsonl", encoding="utf-8") as lines:
            for line in lines:
                frame: Frame = json.loads(line)
                if channel is None or frame["channel"] == channel:
                    yield frame

    def detections(self, channel: str | None = None) -> list[Detection]:
        """The detections in order of their frames, best first within one; of one channel if it is given."""
        recording = self.report["recording"]
        return [
            _detection(recording, frame, index, found)
            for frame in self.frames(channel)
            for index, found in enumerate(
                frame.get("detections_2d") or frame.get("detections_3d") or []
            )
        ]

    def to_arrow(self, channel: str | None = None) -> pyarrow.Table:
        """The detections as a table, one row each; needs ``pyarrow``.

        Coordinates and scores are f32, texts are dictionaries. The columns ``box``, ``center``,
        ``size`` and ``velocity`` are lists.
        """
        import pyarrow

        return pyarrow.Table.from_pylist(self.detections(channel), schema=_schema())

    def to_pandas(self, channel: str | None = None) -> pandas.DataFrame:
        """The detections as a ``pandas.DataFrame``, one row each; needs ``pandas``."""
        import pandas

        return pandas.DataFrame(self.detections(channel), columns=list(Detection.__annotations__))

    def to_polars(self, channel: str | None = None) -> polars.DataFrame:
        """The detections as a ``polars.DataFrame``, one row each; needs ``polars``."""
        import polars

        columns = {
            "recording": polars.Categorical(),
            "channel": polars.Categorical(),
            "stamp_ns": polars.Int64(),
            "frame_id": polars.Categorical(),
            "index": polars.UInt32(),
            "class_id": polars.UInt32(),
            "class_name": polars.Categorical(),
            "score": polars.Float32(),
            "box": polars.List(polars.Float32()),
            "center": polars.List(polars.Float32()),
            "size": polars.List(polars.Float32()),
            "yaw": polars.Float32(),
            "velocity": polars.List(polars.Float32()),
        }
        return polars.DataFrame(self.detections(channel), schema=columns)


def _detection(recording: str, frame: Frame, index: int, found: dict[str, Any]) -> Detection:
    return {
        "recording": recording,
        "channel": frame["channel"],
        "stamp_ns": frame["stamp_ns"],
        "frame_id": frame["frame_id"],
        "index": index,
        "class_id": found["class_id"],
        "class_name": found["class_name"],
        "score": found["score"],
        "box": found.get("box"),
        "center": found.get("center"),
        "size": found.get("size"),
        "yaw": found.get("yaw", found.get("theta")),
        "velocity": found.get("velocity"),
    }


def _schema() -> pyarrow.Schema:
    import pyarrow

    text = pyarrow.dictionary(pyarrow.int32(), pyarrow.utf8())
    numbers = pyarrow.list_(pyarrow.float32())
    return pyarrow.schema(
        {
            "recording": text,
            "channel": text,
            "stamp_ns": pyarrow.int64(),
            "frame_id": text,
            "index": pyarrow.uint32(),
            "class_id": pyarrow.uint32(),
            "class_name": text,
            "score": pyarrow.float32(),
            "box": numbers,
            "center": numbers,
            "size": numbers,
            "yaw": pyarrow.float32(),
            "velocity": numbers,
        }
    )
