"""Channels of a configuration on arrays."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _ops, _program
from ._commands import PathLike, overrides, paths

__all__ = ["Camera", "Lidar"]


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
        with _installed_onnxruntime():
            return super().__new__(cls, paths(config), overrides(params), channel, device)


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
        with _installed_onnxruntime():
            return super().__new__(cls, paths(config), overrides(params), channel, device)


@contextlib.contextmanager
def _installed_onnxruntime() -> Iterator[None]:
    """Names the library of an installed ONNX Runtime while networks are loaded."""
    library = _program.onnxruntime_library()
    if library is None or os.environ.get(_program.LIBRARY_VARIABLE):
        yield
        return
    os.environ[_program.LIBRARY_VARIABLE] = str(library)
    try:
        yield
    finally:
        del os.environ[_program.LIBRARY_VARIABLE]
