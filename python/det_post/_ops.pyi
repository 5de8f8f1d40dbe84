from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

from typing_extensions import Self

class _Array(Protocol):
    """An array that speaks DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

A = TypeVar("A", bound=_Array)
_Scores: TypeAlias = float | Sequence[float] | Sequence[Sequence[float]]
_SizeOrder: TypeAlias = Literal["length_width_height", "width_length_height"]
_Yaw: TypeAlias = Literal["counter_clockwise", "clockwise_from_minus_y"]

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
def box_overlaps(
    first: A,
    second: A,
    *,
    measure: Literal["iou", "iof", "intersection"] = "iou",
    aligned: bool = False,
    offset: Literal[0, 1] = 0,
) -> A: ...
def points_in_boxes(points: A, boxes: A, *, first: bool = False) -> A: ...
_Affine: TypeAlias = Sequence[float] | Sequence[Sequence[float]]
_Placed: TypeAlias = tuple[float, float, float, float]

@overload
def letterbox(
    image: Sequence[A],
    size: tuple[int, int],
    *,
    encoding: str = "rgb8",
    placement: Literal["center", "top_left", "stretch", "crop_top"] = "center",
    channel_order: Literal["rgb", "bgr"] = "rgb",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    alpha: Sequence[float] | None = None,
    beta: Sequence[float] | None = None,
    pad_value: float = 114.0,
    dtype: Literal["float32", "float16"] = "float32",
) -> tuple[A, list[_Placed]]: ...
@overload
def letterbox(
    image: A,
    size: tuple[int, int],
    *,
    encoding: str = "rgb8",
    placement: Literal["center", "top_left", "top_left_rounded", "stretch", "crop_top"] = "center",
    channel_order: Literal["rgb", "bgr"] = "rgb",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    alpha: Sequence[float] | None = None,
    beta: Sequence[float] | None = None,
    pad_value: float = 114.0,
    resize: Literal["bilinear", "antialias", "antialias_8bit"] = "bilinear",
    dtype: Literal["float32", "float16"] = "float32",
) -> tuple[A, Any]: ...
def warp_affine(
    image: A | Sequence[A],
    affine: _Affine | Sequence[_Affine] | _Array,
    size: tuple[int, int],
    *,
    centers: bool = False,
    encoding: str = "rgb8",
    channel_order: Literal["rgb", "bgr"] = "rgb",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    alpha: Sequence[float] | None = None,
    beta: Sequence[float] | None = None,
    pad_value: float = 114.0,
    antialias: bool = False,
    dtype: Literal["float32", "float16"] = "float32",
) -> A: ...
def voxelize(
    points: A,
    voxel_size: Sequence[float],
    point_range: Sequence[float],
    *,
    max_points_per_voxel: int | None = None,
    max_voxels: int | None = None,
) -> tuple[A, A, A]: ...
def voxel_mean(
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

@overload
def decode_yolo(
    outputs: A | Sequence[A],
    layout: Literal["v5", "v5_raw", "v8", "obb", "yolox", "end_to_end", "detr"],
    *,
    num_classes: int,
    score_threshold: float = 0.25,
    size: tuple[int, int] | None = None,
    strides: Sequence[int] = ...,
    anchors: Sequence[Sequence[Sequence[float]]] | None = None,
    detr_boxes: Literal["center_normalized", "corner_pixels"] = "center_normalized",
    logits: bool = True,
    max_num: int | None = None,
    affine: _Affine | _Array | None = None,
    batch: Literal[False] = False,
) -> dict[str, A]: ...
@overload
def decode_yolo(
    outputs: A | Sequence[A],
    layout: Literal["v5", "v5_raw", "v8", "obb", "yolox", "end_to_end", "detr"],
    *,
    num_classes: int,
    score_threshold: float = 0.25,
    size: tuple[int, int] | None = None,
    strides: Sequence[int] = ...,
    anchors: Sequence[Sequence[Sequence[float]]] | None = None,
    detr_boxes: Literal["center_normalized", "corner_pixels"] = "center_normalized",
    logits: bool = True,
    max_num: int | None = None,
    affine: _Affine | Sequence[_Affine] | _Array | None = None,
    batch: Literal[True],
) -> list[dict[str, A]]: ...
def decode_center(
    tasks: Sequence[Mapping[str, A]],
    *,
    origin: Sequence[float],
    cell_size: Sequence[float],
    score_threshold: _Scores = 0.1,
    distance_limits: Sequence[float] = ...,
    classes: Sequence[Sequence[int]] | None = None,
    heatmap_logits: bool = True,
    size_order: _SizeOrder = "length_width_height",
    size_log: bool = True,
    yaw: _Yaw = "counter_clockwise",
    yaw_norm_thresholds: Sequence[float] = ...,
    center_range: Sequence[float] | None = None,
    has_variance: bool = False,
    max_num: int | None = None,
) -> dict[str, A]: ...
def decode_anchor(
    classes: A,
    boxes: A,
    directions: A | None = None,
    *,
    point_range: Sequence[float],
    anchor_sizes: Sequence[Sequence[float]],
    anchor_heights: Sequence[float],
    rotations: Sequence[float] = ...,
    direction_offset: float = 0.0,
    align_center: bool = False,
    channels_last: bool = False,
    score_threshold: _Scores = 0.1,
    distance_limits: Sequence[float] = ...,
    max_num: int | None = None,
) -> dict[str, A]: ...
def decode_query(
    logits: A,
    boxes: A,
    quality: A | None = None,
    *,
    score_threshold: _Scores = 0.1,
    distance_limits: Sequence[float] = ...,
    size_order: _SizeOrder = "width_length_height",
    yaw: _Yaw = "counter_clockwise",
    yaw_norm_thresholds: Sequence[float] = ...,
    center_range: Sequence[float] | None = None,
    max_num: int = 300,
) -> dict[str, A]: ...
def decode_streampetr(
    logits: A,
    boxes: A,
    *,
    channels_last: bool = True,
    score_threshold: _Scores = 0.1,
    distance_limits: Sequence[float] = ...,
    size_order: _SizeOrder = "width_length_height",
    yaw: _Yaw = "counter_clockwise",
    yaw_norm_thresholds: Sequence[float] = ...,
    center_range: Sequence[float] | None = None,
    max_num: int | None = None,
) -> dict[str, A]: ...

class Sites:
    def __new__(
        cls,
        coordinates: A,
        shape: Sequence[int],
        *,
        batch_size: int = 1,
        max_sites: int | None = None,
    ) -> Self: ...
    @property
    def coordinates(self) -> Any: ...
    @property
    def rows(self) -> Any: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def num_dropped(self) -> int: ...
    @property
    def num_duplicates(self) -> int: ...
    @property
    def num_outside(self) -> int: ...
    def __len__(self) -> int: ...

class Rulebook:
    def __new__(
        cls,
        sites: Sites,
        kernel_size: int | Sequence[int],
        *,
        mode: Literal["submanifold", "strided", "transposed", "inverse"] = "submanifold",
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        output_padding: int | Sequence[int] = 0,
        output: Sites | None = None,
        max_sites: int | None = None,
    ) -> Self: ...
    @property
    def sites(self) -> Sites: ...
    @property
    def table(self) -> Any: ...

_Precision: TypeAlias = Literal["float32", "tf32", "float16", "bfloat16"]
_Layout: TypeAlias = Literal["spconv2", "spconv1"]

class SparseWeights:
    def __new__(
        cls,
        weight: A,
        *,
        bias: A | None = None,
        precision: _Precision = "float32",
        layout: _Layout = "spconv2",
    ) -> Self: ...

def sparse_conv(
    features: A,
    rulebook: Rulebook,
    weight: A | SparseWeights,
    *,
    bias: A | None = None,
    residual: A | None = None,
    relu: bool = False,
    precision: _Precision | None = None,
    layout: _Layout | None = None,
) -> A: ...
def sparse_max_pool(features: A, rulebook: Rulebook) -> A: ...
def to_map(features: A, sites: Sites, *, axes: tuple[int, int, int] = (0, 1, 2)) -> A: ...
def scatter(
    features: A, coordinates: A, shape: Sequence[int], *, batch_size: int = 1
) -> A: ...

class BevPool:
    def __new__(
        cls,
        intrinsics: Any,
        lidar_from_camera: Any,
        *,
        image_size: tuple[int, int],
        feature_size: tuple[int, int],
        dbound: Sequence[float],
        xbound: Sequence[float],
        ybound: Sequence[float],
        zbound: Sequence[float],
        image_augmentation: Any = None,
        lidar_augmentation: Any = None,
        rows: Literal["x", "y"] = "x",
    ) -> Self: ...
    @property
    def num_points(self) -> int: ...
    @property
    def num_outside(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int, int]: ...

def bev_pool(
    depth: A, features: A, pool: BevPool, *, present: Sequence[bool] | None = None
) -> A: ...

class Camera:
    def __new__(
        cls,
        config: Sequence[str | PathLike[str]],
        overrides: Sequence[str],
        channel: str | None,
        device: str,
        library: str | PathLike[str] | None,
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
        library: str | PathLike[str] | None,
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

class Surround:
    def __new__(
        cls,
        config: Sequence[str | PathLike[str]],
        overrides: Sequence[str],
        channel: str | None,
        device: str,
        library: str | PathLike[str] | None,
    ) -> Self: ...
    @property
    def class_names(self) -> list[str]: ...
    @property
    def inputs(self) -> list[str]: ...
    def set_camera(
        self,
        input: int,
        *,
        size: tuple[int, int],
        intrinsics: Sequence[float],
        frame_id: str,
        distortion_model: str = "plumb_bob",
        distortion: Sequence[float] = (),
        rectification: Sequence[float] | None = None,
        projection: Sequence[float] | None = None,
    ) -> None: ...
    def set_transform(
        self,
        parent: str,
        child: str,
        matrix: Sequence[Sequence[float]],
        *,
        stamp: float | None = None,
    ) -> None: ...
    def process(
        self,
        images: Sequence[A | None],
        *,
        encoding: str = "rgb8",
        stamp: float = 0.0,
        stamps: Sequence[float] | None = None,
    ) -> dict[str, A]: ...
    def reset(self) -> None: ...

class ViewDecoder:
    def __new__(
        cls,
        config: Sequence[str | PathLike[str]],
        overrides: Sequence[str],
        channel: str | None,
        device: str,
        library: str | PathLike[str] | None,
    ) -> Self: ...
    @property
    def class_names(self) -> list[str]: ...
    @property
    def num_cameras(self) -> int: ...
    @property
    def input_size(self) -> tuple[int, int]: ...
    @property
    def num_maps(self) -> int: ...
    @property
    def num_queries(self) -> int: ...
    @property
    def has_memory(self) -> bool: ...
    def set_cameras(
        self,
        image_from_base: Any,
        *,
        intrinsics: Any = None,
        present: Sequence[bool] | None = None,
    ) -> None: ...
    def run(
        self,
        maps: Sequence[Any],
        *,
        interval: float | None = None,
        current_from_past: Any = None,
    ) -> dict[str, Any]: ...
    def memory(self) -> dict[str, Any]: ...
    def set_memory(self, memory: dict[str, Any]) -> None: ...
    def reset(self) -> None: ...
