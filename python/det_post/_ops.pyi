from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeVar

from typing_extensions import Self

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
def letterbox(
    image: A,
    size: tuple[int, int],
    *,
    encoding: str = "rgb8",
    placement: Literal["center", "top_left", "stretch", "crop_top"] = "center",
    channel_order: Literal["rgb", "bgr"] = "rgb",
    mean: Sequence[float] = ...,
    std: Sequence[float] = ...,
    pad_value: float = 114.0,
    dtype: Literal["float32", "float16"] = "float32",
) -> tuple[A, tuple[float, float, float, float]]: ...
def voxelize(
    points: A,
    voxel_size: Sequence[float],
    point_range: Sequence[float],
    *,
    max_points_per_voxel: int | None = None,
    max_voxels: int | None = None,
) -> tuple[A, A, A]: ...
def pillar_features(
    points: A,
    voxel_size: Sequence[float],
    point_range: Sequence[float],
    *,
    max_points_per_voxel: int,
    max_voxels: int | None = None,
    center_offset_z: bool = False,
) -> tuple[A, A, A]: ...

class Camera:
    def __new__(
        cls,
        config: Sequence[str | PathLike[str]],
        overrides: Sequence[str],
        channel: str | None,
        device: str,
    ) -> Self: ...
    @property
    def class_names(self) -> list[str]: ...
    def process(self, image: A, *, encoding: str = "rgb8") -> dict[str, A]: ...

class Lidar:
    def __new__(
        cls,
        config: Sequence[str | PathLike[str]],
        overrides: Sequence[str],
        channel: str | None,
        device: str,
    ) -> Self: ...
    @property
    def class_names(self) -> list[str]: ...
    def process(
        self,
        points: A,
        fields: Sequence[str] = ...,
        *,
        stamp: float = 0.0,
        transform: Sequence[Sequence[float]] | None = None,
    ) -> dict[str, A]: ...
    def reset(self) -> None: ...
