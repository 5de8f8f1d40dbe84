from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

class _Array(Protocol):
    """An array that speaks DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

A = TypeVar("A", bound=_Array)

def nms(
    boxes: A,
    scores: A,
    iou_threshold: float,
    *,
    offset: Literal[0, 1] = 0,
    score_threshold: float | None = None,
    max_num: int | None = None,
) -> A: ...
def batched_nms(
    boxes: A,
    scores: A,
    idxs: A,
    iou_threshold: float,
    *,
    offset: Literal[0, 1] = 0,
    score_threshold: float | None = None,
    max_num: int | None = None,
) -> A: ...
def fast_nms(boxes: A, scores: A, iou_threshold: float, *, classes: A | None = None) -> A: ...
def soft_nms(
    boxes: A,
    scores: A,
    *,
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 1e-3,
    method: Literal["linear", "gaussian"] = "linear",
    offset: Literal[0, 1] = 0,
    classes: A | None = None,
) -> tuple[A, A]: ...
def nms_rotated(boxes: A, scores: A, iou_threshold: float, *, classes: A | None = None) -> A: ...
def nms_bev(
    boxes: A,
    scores: A,
    iou_threshold: float | Sequence[float],
    *,
    classes: A | None = None,
    search_distance: float = ...,
    one_pass: bool = False,
) -> A: ...
def nms_3d(
    boxes: A,
    scores: A,
    iou_threshold: float | Sequence[float],
    *,
    classes: A | None = None,
) -> A: ...
def circle_nms(
    centers: A,
    scores: A,
    threshold: float | Sequence[float],
    *,
    classes: A | None = None,
    squared: bool = False,
) -> A: ...
