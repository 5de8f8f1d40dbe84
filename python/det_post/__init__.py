"""det_post: images and point clouds in, detection arrays out.

| to ... | use |
|---|---|
| replay a recording | :func:`replay`, which returns a :class:`Result` |
| read its detections | :meth:`Result.detections`, ``to_arrow``, ``to_pandas``, ``to_polars`` |
| compare detections with truth | :func:`evaluate` |
| simulate a drive with truth | :func:`simulate` |
"""

from ._commands import Evaluation, evaluate, replay, simulate
from ._errors import DamagedError, Error, InterruptedRunError, UsageError
from ._result import Detection, Frame, Result

__all__ = [
    "DamagedError",
    "Detection",
    "Error",
    "Evaluation",
    "Frame",
    "InterruptedRunError",
    "Result",
    "UsageError",
    "evaluate",
    "replay",
    "simulate",
]
