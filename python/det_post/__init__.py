"""det_post: images and point clouds in, detection arrays out.

| to ... | use |
|---|---|
| replay a recording | :func:`replay`, which returns a :class:`Result` |
| read its detections | :meth:`Result.detections`, ``to_arrow``, ``to_pandas``, ``to_polars`` |
| compare detections with truth | :func:`evaluate` |
| simulate a drive with truth | :func:`simulate` |
| detect in images or a sweep in memory | :class:`Camera`, :class:`Lidar`, :class:`Surround` |
| decode feature maps of cameras | :class:`ViewDecoder` |
| run one operation on arrays | :mod:`det_post.ops`, :mod:`det_post.mmcv`, :mod:`det_post.spconv` |
"""

from typing import TYPE_CHECKING, Any

from ._commands import Evaluation, evaluate, replay, simulate
from ._errors import DamagedError, Error, InterruptedRunError, UsageError
from ._result import Detection, Frame, Result

if TYPE_CHECKING:
    from ._detectors import Camera, Lidar, Surround, ViewDecoder

__all__ = [
    "Camera",
    "DamagedError",
    "Detection",
    "Error",
    "Evaluation",
    "Frame",
    "InterruptedRunError",
    "Lidar",
    "Result",
    "Surround",
    "UsageError",
    "ViewDecoder",
    "evaluate",
    "replay",
    "simulate",
]


def __getattr__(name: str) -> Any:
    # The extension module is loaded when it is needed: a fleet's driver never does.
    if name in ("Camera", "Lidar", "Surround", "ViewDecoder"):
        from . import _detectors

        return getattr(_detectors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
