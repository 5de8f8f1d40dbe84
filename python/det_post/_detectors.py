"""Channels of a configuration on arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _ops, _program
from ._commands import PathLike, overrides, paths

__all__ = ["Camera", "Lidar", "Surround"]


class Camera(_ops.Camera):
    """A camera channel: images to detections.

    - ``config``: ROS 2 parameter files; later ones win.
    - ``channel``: its name, where the configuration has several.
    - ``params``: overrides, such as ``{"camera.score_threshold": 0.4}``.
    - ``device``: ``auto``, ``cpu`` or ``cuda:N``.

    Networks run on the library that the configuration names, else ``ORT_DYLIB_PATH``, else that
    of an installed ``onnxruntime``, else on the built-in engine. Raises ``ValueError`` for a wrong
    configuration and ``RuntimeError`` for a network or a device that cannot be used.
    """

    def __new__(
        cls,
        config: PathLike | Sequence[PathLike],
        *,
        channel: str | None = None,
        params: Mapping[str, Any] | None = None,
        device: str = "auto",
    ) -> Camera:
        return super().__new__(cls, paths(config), overrides(params), channel, device, _installed_onnxruntime())


class Lidar(_ops.Lidar):
    """A LiDAR channel: points to detections. Arguments and errors as :class:`Camera`."""

    def __new__(
        cls,
        config: PathLike | Sequence[PathLike],
        *,
        channel: str | None = None,
        params: Mapping[str, Any] | None = None,
        device: str = "auto",
    ) -> Lidar:
        return super().__new__(cls, paths(config), overrides(params), channel, device, _installed_onnxruntime())


class Surround(_ops.Surround):
    """A surround channel: images of several cameras to detections. Arguments and errors as :class:`Camera`."""

    def __new__(
        cls,
        config: PathLike | Sequence[PathLike],
        *,
        channel: str | None = None,
        params: Mapping[str, Any] | None = None,
        device: str = "auto",
    ) -> Surround:
        return super().__new__(cls, paths(config), overrides(params), channel, device, _installed_onnxruntime())


def _installed_onnxruntime() -> Path | None:
    """The library of an installed ONNX Runtime, unless the environment names one."""
    return None if os.environ.get(_program.LIBRARY_VARIABLE) else _program.onnxruntime_library()
