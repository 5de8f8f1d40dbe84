"""The program's commands as functions."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from . import _program
from ._errors import DamagedError, of_exit_code
from ._result import Result

__all__ = ["Evaluation", "evaluate", "replay", "simulate"]

PathLike = Union[str, "os.PathLike[str]"]
T = TypeVar("T")


def replay(
    recording: PathLike,
    config: PathLike | Sequence[PathLike] = (),
    *,
    model: PathLike | None = None,
    topic: str | None = None,
    out: PathLike | None = None,
    params: Mapping[str, Any] | None = None,
    like: str | None = None,
    args: Mapping[str, str] | None = None,
    device: str | None = None,
    rate: float | None = None,
    frames_in_flight: int | None = None,
    from_time: float | str | None = None,
    to_time: float | str | None = None,
    warm_up: float | None = None,
    frames: int | None = None,
    images: int | Literal["all"] = 0,
    metrics: PathLike | None = None,
    trace: PathLike | None = None,
    recording_memory_mib: int | None = None,
    onnxruntime: bool | PathLike = True,
    show_log: bool = False,
) -> Result:
    """Replays a recording through the channels of a configuration: ``det_post replay``.

    - ``recording``: a rosbag2 directory, an ``.mcap`` file or a ``.db3`` file.
    - ``config``: ROS 2 parameter files; later ones win.
    - ``model``, ``topic``: a network and its topic in place of a parameter file. The channel is called
      ``camera``, or ``lidar`` for a topic of clouds; without ``topic``, the only topic of images.
    - ``out``: the folder of the results; without it, a temporary one that lives as long as the
      result.
    - ``params``: overrides, such as ``{"camera.score_threshold": 0.4}``.
    - ``like``, ``args``: parameter files of another package, and its launch arguments.
    - ``device``: ``auto``, ``cpu`` or ``cuda:N`` for all channels.
    - ``rate``: a factor of the recorded pace, at which channels drop what they are too slow
      for; without it every message is served.
    - ``frames_in_flight``: frames of a channel in progress at once, up to 8; 2 overlaps the frames of
      a camera on a GPU, with more its network runs several times at once. Without it, what pays.
    - ``from_time``, ``to_time``: the part of the recording with log times in
      [``from_time``, ``to_time``): seconds since the epoch, or ``"+S"`` after the start.
    - ``warm_up``: seconds before ``from_time`` that are processed and not written; without it, as
      many as the results of the part depend on.
    - ``frames``: ends after so many frames of each channel, dropped ones included.
    - ``images``: how many frames of each channel are drawn, or ``"all"``.
    - ``metrics``, ``trace``: files for Prometheus and for Perfetto.
    - ``recording_memory_mib``: memory that reading the recording may take.
    - ``onnxruntime``: whether networks run on an installed ONNX Runtime, or on that library.
    - ``show_log``: passes the log on to stderr.

    Raises :class:`UsageError`, :class:`DamagedError` with the result of what could be read,
    :class:`InterruptedRunError`, or :class:`Error`.
    """
    temporary = None
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="det_post-")
        out = temporary.name
    arguments: list[PathLike] = ["replay", recording, "--out", out, *(f"--param={each}" for each in overrides(params))]
    for file in paths(config):
        arguments += ["--config", file]
    if like is not None:
        arguments += ["--like", like]
    for name, value in (args or {}).items():
        arguments += ["--arg", f"{name}:={value}"]
    if device is not None:
        arguments += ["--device", device]
    arguments += _options(
        model=model,
        topic=topic,
        rate=None if rate is None else float(rate),
        frames_in_flight=frames_in_flight,
        to=to_time,
        warm_up=warm_up,
        frames=frames,
        images=images or None,
        metrics=metrics,
        trace=trace,
        recording_memory_mib=recording_memory_mib,
        **{"from": from_time},
    )
    completed = _program.run(arguments, onnxruntime=onnxruntime, show_log=show_log)
    result = Result(out, log=completed.log)
    result._temporary = temporary
    return _checked(completed, result)


@dataclass(frozen=True)
class Evaluation:
    """Figures of detections against truth."""

    figures: dict[str, Any]
    """Every figure: ``eval.json``."""
    table: str
    """The tables that the program prints."""

    def __str__(self) -> str:
        return self.table


def evaluate(
    detections: Result | PathLike | Sequence[Result | PathLike] = (),
    truth: PathLike | Sequence[PathLike] = (),
    *,
    drives: PathLike | None = None,
    out: PathLike | None = None,
    html: PathLike | None = None,
    coco: PathLike | None = None,
    pairs: Mapping[str, str] | None = None,
    max_range: float | None = None,
    min_points: int | None = None,
    min_pixels: int | None = None,
    min_height: float | None = None,
    min_visibility: float | None = None,
    count_missing: bool = False,
    recording_memory_mib: int | None = None,
    show_log: bool = False,
) -> Evaluation:
    """Compares detections with truth: ``det_post eval``.

    - ``detections``: results of replays, their folders, or recordings of detections; several
      are measured as one drive.
    - ``truth``: recordings with topics of truth, one for each of the detections, in order.
    - ``drives``: in place of both, a list of drives, such as the ``drives.jsonl`` of a fleet.
    - ``out``: a folder for precision-recall curves and calibration plots.
    - ``html``: a page for a browser: tables, curves and the worst frames of every sensor.
    - ``coco``: a folder for boxes, masks and keypoints in images as files of COCO.
    - ``pairs``: topics of detections and the topics of truth that they belong to.
    - ``max_range`` to ``count_missing``: which objects count; without them the defaults of the
      program.
    - ``recording_memory_mib``: memory that reading the recordings may take.

    Raises :class:`UsageError`, :class:`DamagedError` with the figures of what could be read,
    :class:`InterruptedRunError`, or :class:`Error`.
    """
    found = [each.folder if isinstance(each, Result) else each for each in _each(detections)]
    arguments: list[PathLike] = ["eval"]
    for option, values in (("--detections", found), ("--truth", paths(truth))):
        if values:
            arguments += [option, *values]
    for topics in (pairs or {}).items():
        arguments += ["--pair", "=".join(topics)]
    arguments += _options(
        drives=drives,
        out=out,
        html=html,
        coco=coco,
        max_range=max_range,
        min_points=min_points,
        min_pixels=min_pixels,
        min_height=min_height,
        min_visibility=min_visibility,
        recording_memory_mib=recording_memory_mib,
    )
    if count_missing:
        arguments.append("--count-missing")
    with tempfile.TemporaryDirectory(prefix="det_post-") as folder:
        json_file = Path(folder, "eval.json")
        completed = _program.run([*arguments, "--json", json_file], show_log=show_log)
        figures = json.loads(json_file.read_text())
    return _checked(completed, Evaluation(figures, completed.stdout))


def simulate(
    out: PathLike,
    *,
    seed: int = 0,
    seconds: float = 10.0,
    cameras: int | None = None,
    lidars: int | None = None,
    actors: int | None = None,
    points: int | None = None,
    camera_rate: float | None = None,
    image_size: tuple[int, int] | None = None,
    compressed: bool = False,
    moving_scans: bool = False,
    merged_cloud: bool = False,
    masks: bool = False,
    show_log: bool = False,
) -> Path:
    """Simulates a drive with ground truth and writes its recording: ``det_post simulate``.

    The same arguments give the same bytes on every machine. ``image_size`` is width and
    height. ``moving_scans`` writes points where a moving LiDAR measures them; ``merged_cloud``
    writes the clouds of all LiDARs as one, too; ``masks`` the true masks of the cameras. Returns
    ``out``.

    Raises :class:`UsageError` or :class:`Error`.
    """
    arguments: list[PathLike] = ["simulate", "--out", out]
    arguments += _options(
        seed=seed,
        seconds=seconds,
        cameras=cameras,
        lidars=lidars,
        actors=actors,
        points=points,
        camera_rate=camera_rate,
        image_size="x".join(map(str, image_size)) if image_size else None,
    )
    flags = {
        "--compressed": compressed,
        "--moving-scans": moving_scans,
        "--merged-cloud": merged_cloud,
        "--masks": masks,
    }
    arguments += [flag for flag, is_on in flags.items() if is_on]
    _program.run(arguments, show_log=show_log)
    return Path(out)


def _checked(completed: _program.Completed, result: T) -> T:
    if completed.exit_code == 0:
        return result
    error = of_exit_code(completed.exit_code, completed.log)
    assert isinstance(error, DamagedError)
    error.result = result
    raise error


def _each(value: Any) -> list[Any]:
    return [value] if isinstance(value, (str, os.PathLike, Result)) else list(value)


def paths(value: PathLike | Sequence[PathLike]) -> list[PathLike]:
    """One path or several as a list."""
    return _each(value)


def _options(**options: float | PathLike | None) -> list[PathLike]:
    return [
        f"--{name.replace('_', '-')}={_text(value)}"
        for name, value in options.items()
        if value is not None
    ]


def _text(value: float | PathLike) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def overrides(params: Mapping[str, Any] | None) -> list[str]:
    """Parameters as the program takes them: ``KEY:=VALUE``."""
    return [override(key, value) for key, value in (params or {}).items()]


def override(key: str, value: Any) -> str:
    """A parameter as the program takes it; paths, also those in lists, are text."""
    # JSON is YAML, which the values of parameters are, without its escapes of two halves.
    return f"{key}:={json.dumps(value, default=os.fspath, ensure_ascii=False)}"
