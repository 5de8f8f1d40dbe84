"""Channels of a configuration on arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _ops, _program
from ._commands import PathLike, overrides, paths

__all__ = ["Camera", "Lidar", "Surround", "ViewDecoder"]


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


class ViewDecoder(_ops.ViewDecoder):
    """The decoder of a surround channel (DETR3D, Sparse4D, StreamPETR) behind a backbone of yours:
    feature maps and camera matrices to the boxes and logits of all queries.

    Arguments and errors as :class:`Camera`. The channel's ``model_path`` is not read, unless a head of
    kind ``streampetr`` states no ``cameras`` or no ``input_size``.

    A decoder keeps the memory of its last frame. ``memory()`` copies it, ``set_memory()`` replaces
    it, so that one decoder serves several vehicles.
    """

    def __new__(
        cls,
        config: PathLike | Sequence[PathLike],
        *,
        channel: str | None = None,
        params: Mapping[str, Any] | None = None,
        device: str = "auto",
    ) -> ViewDecoder:
        return super().__new__(cls, paths(config), overrides(params), channel, device, _installed_onnxruntime())

    def set_cameras(
        self, image_from_base: Any, *, intrinsics: Any = None, present: Sequence[bool] | None = None
    ) -> None:
        """Sets the cameras of the next frames.

        ``image_from_base``: an array of any library or nested lists, ``[N, 4, 4]`` or ``[N, 3, 4]``, from
        points of the base frame in metres to ``(u * z, v * z, z)`` in pixels of the network's image
        (``lidar2img``). ``intrinsics``: ``[N, 3, 3]`` or ``[N, 4, 4]``, for heads of kind ``streampetr``.
        ``present``: false for a camera without maps; its maps are not read.
        """
        super().set_cameras(_lists(image_from_base), intrinsics=_lists(intrinsics), present=present)

    def run(
        self, maps: Sequence[Any], *, interval: float | None = None, current_from_past: Any = None
    ) -> dict[str, Any]:
        """Decodes a frame: a dict of ``boxes``, ``logits`` and, where the network has it, ``quality`` of all
        queries, before any threshold; arrays of the library and on the device of the first map.

        ``maps``: the outputs of the backbone in the head's ``feature_layout``, float32, float16 or, with
        ``decoder.map_scales``, int8.
        ``interval``: seconds since the frame before; ``current_from_past``: 4 by 4, from its base frame to
        the current one. Without both the memory of past frames is forgotten.
        """
        return super().run(maps, interval=interval, current_from_past=_lists(current_from_past))


def _lists(array: Any) -> Any:
    """An array as nested lists."""
    return array.tolist() if hasattr(array, "tolist") else array


def _installed_onnxruntime() -> Path | None:
    """The library of an installed ONNX Runtime, unless the environment names one."""
    return None if os.environ.get(_program.LIBRARY_VARIABLE) else _program.onnxruntime_library()
