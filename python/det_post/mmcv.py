"""Suppression and voxelization with the signatures and return values of ``mmcv.ops``: change only the import.

``from mmcv.ops import nms, soft_nms`` becomes ``from det_post.mmcv import nms, soft_nms``. Arrays
are of numpy, torch or cupy. What differs from mmcv:

| matter | mmcv | here |
|---|---|---|
| ``voxelization`` | in any order without ``deterministic`` | in the order of first points |
| equal scores | in the order of an unstable sort | by class, then position |
| boxes with a NaN | undefined | never kept, suppress nothing |
| inputs that are not float32 | converted or refused by the op | converted by these functions, which mmcv's users expect |
| ``nms_rotated`` of no boxes | ``(dets, None)`` | the same |
| ``nms_rotated`` with labels | boxes of different labels suppress each other on the CPU, not on CUDA | they do not |
| ``nms_bev``, ``nms3d`` | CUDA only | any device |
| ``soft_nms`` with ``method="naive"`` | an IoU of exactly the threshold suppresses | refused: :func:`nms` |
| labels | any integers | 0 and above |
| ``batched_nms`` of ``split_thr`` (10000) boxes or more | by class, also with ``class_agnostic`` | as of fewer |
| ``nms3d_normal``, ``nms_normal_bev``, ``nms_match``, ``nms_quadri`` | | do not exist |
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from . import ops

__all__ = ["batched_nms", "nms", "nms3d", "nms_bev", "nms_rotated", "soft_nms", "voxelization"]


F = TypeVar("F", bound=Callable[..., Any])


def _iou_thr(function: F) -> F:
    """Takes ``iou_thr``, the earlier name of ``iou_threshold``, as mmcv does."""

    @functools.wraps(function)
    def named(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **_renamed(options))

    return cast(F, named)


def _renamed(options: dict[str, Any]) -> dict[str, Any]:
    if "iou_thr" not in options:
        return options
    if "iou_threshold" in options:
        raise TypeError("iou_thr and iou_threshold are the same argument: give one of them")
    return {"iou_threshold" if name == "iou_thr" else name: value for name, value in options.items()}


@_iou_thr
def nms(
    boxes: Any,
    scores: Any,
    iou_threshold: float,
    offset: int = 0,
    score_threshold: float = 0,
    max_num: int = -1,
) -> tuple[Any, Any]:
    """``mmcv.ops.nms``: boxes with scores ``[K, 5]``, and their positions."""
    if score_threshold > 0:
        # mmcv applies the threshold only here: a threshold of 0 keeps scores below it.
        eligible: float | None = score_threshold
    else:
        eligible = None
    keep = ops.nms(
        _float32(boxes),
        _float32(scores),
        iou_threshold,
        offset=1 if offset else 0,
        score_threshold=eligible,
        max_num=max_num if max_num > 0 else None,
    )
    return _with_scores(boxes[keep], scores[keep]), keep


@_iou_thr
def soft_nms(
    boxes: Any,
    scores: Any,
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 1e-3,
    method: str = "linear",
    offset: int = 0,
) -> tuple[Any, Any]:
    """``mmcv.ops.soft_nms``: boxes with lowered scores ``[K, 5]``, and their positions.

    ``method`` is ``linear`` or ``gaussian``; ``naive`` is :func:`nms`.
    """
    if method not in ("linear", "gaussian"):
        raise ValueError(f"method must be linear or gaussian, found {method!r}")
    keep, lowered = ops.soft_nms(
        _float32(boxes),
        _float32(scores),
        iou_threshold=iou_threshold,
        sigma=sigma,
        min_score=min_score,
        method="linear" if method == "linear" else "gaussian",
        offset=1 if offset else 0,
    )
    return _with_scores(boxes[keep], lowered), keep


def nms_rotated(
    dets: Any, scores: Any, iou_threshold: float, labels: Any = None, clockwise: bool = True
) -> tuple[Any, Any]:
    """``mmcv.ops.nms_rotated``: boxes with scores ``[K, 6]``, and their positions."""
    if dets.shape[0] == 0:
        return dets, None
    boxes = _clockwise(_float32(dets), clockwise)
    classes = None if labels is None else _int64(labels)
    keep = ops.nms_rotated(boxes, _float32(scores), iou_threshold, classes=classes)
    return _with_scores(dets[keep], scores[keep]), keep


def _clockwise(boxes: Any, clockwise: bool) -> Any:
    """Rotated boxes by angles that turn clockwise."""
    if clockwise:
        return boxes
    return _stack([boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3], -boxes[:, 4]])


def nms_bev(
    boxes: Any,
    scores: Any,
    thresh: float,
    pre_max_size: int | None = None,
    post_max_size: int | None = None,
) -> Any:
    """``mmcv.ops.nms_bev``: positions of the survivors of boxes x1, y1, x2, y2, yaw."""
    if boxes.shape[1] != 5:
        raise ValueError(f"boxes are {tuple(boxes.shape)}; [N, 5] is required")
    boxes = _float32(boxes)
    rotated = _stack(
        [
            (boxes[:, 0] + boxes[:, 2]) / 2,
            (boxes[:, 1] + boxes[:, 3]) / 2,
            boxes[:, 2] - boxes[:, 0],
            boxes[:, 3] - boxes[:, 1],
            boxes[:, 4],
        ]
    )
    scores = _float32(scores)
    if pre_max_size is None or pre_max_size >= scores.shape[0]:
        return ops.nms_rotated(rotated, scores, thresh)[:post_max_size]
    # Without suppression (an IoU is at most 1) the survivors are the order itself.
    order = ops.nms_rotated(rotated, scores, 1.0)[:pre_max_size]
    keep = ops.nms_rotated(rotated[order], scores[order], thresh)
    return order[keep][:post_max_size]


def nms3d(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """``mmcv.ops.nms3d``: positions of the survivors by IoU of footprints of ``[N, 7]`` boxes."""
    return ops.nms_bev(_float32(boxes), _float32(scores), iou_threshold)


def batched_nms(
    boxes: Any,
    scores: Any,
    idxs: Any,
    nms_cfg: dict[str, Any] | None,
    class_agnostic: bool = False,
) -> tuple[Any, Any]:
    """``mmcv.ops.batched_nms``: boxes with scores, and their positions.

    ``nms_cfg`` has ``type`` (``nms``, ``soft_nms``, ``nms_rotated``) and the arguments of that
    function; ``split_thr`` has no meaning here. ``None`` suppresses nothing.
    """
    cfg = _renamed(nms_cfg or {}).copy()
    cfg.pop("split_thr", None)
    agnostic = bool(cfg.pop("class_agnostic", class_agnostic))
    kind = cfg.pop("type", "nms")
    max_num = int(cfg.pop("max_num", -1))
    limit = max_num if max_num > 0 else None
    idxs = None if agnostic or nms_cfg is None else _int64(idxs)
    rows, values = _float32(boxes), _float32(scores)
    if nms_cfg is None:
        keep = ops.circle_nms(_full((rows.shape[0], 2), 0, rows), values, 0.0)
    elif kind == "nms":
        threshold = float(cfg.pop("score_threshold", 0))
        options: dict[str, Any] = {
            "offset": 1 if cfg.pop("offset", 0) else 0,
            "score_threshold": threshold if threshold > 0 else None,
            "max_num": limit,
        }
        iou = float(cfg.pop("iou_threshold"))
        _refuse(kind, cfg)
        if idxs is None:
            keep = ops.nms(rows, values, iou, **options)
        else:
            keep = ops.batched_nms(rows, values, idxs, iou, **options)
    elif kind == "soft_nms":
        keep, values = ops.soft_nms(rows, values, classes=idxs, **cfg)
        return _with_scores(boxes[keep], values)[:limit], keep[:limit]
    elif kind == "nms_rotated":
        iou = float(cfg.pop("iou_threshold"))
        turned = _clockwise(rows, cfg.pop("clockwise", True))
        _refuse(kind, cfg)
        keep = ops.nms_rotated(turned, values, iou, classes=idxs)[:limit]
    else:
        raise ValueError(f"type must be nms, soft_nms or nms_rotated, found {kind!r}")
    return _with_scores(boxes[keep], scores[keep]), keep


def voxelization(
    points: Any,
    voxel_size: Any,
    coors_range: Any,
    max_points: int = 35,
    max_voxels: int = 20000,
    deterministic: bool = True,
) -> Any:
    """``mmcv.ops.voxelization``: points of voxels, their cells (z, y, x) and numbers of points.

    With ``max_points`` or ``max_voxels`` of -1 the cells of all points, -1 outside of the range.
    The result is always as with ``deterministic``.
    """
    points = _float32(points)
    size = [float(value) for value in voxel_size]
    limits = [float(value) for value in coors_range]
    if max_points == -1 or max_voxels == -1:
        cells, numbers, indices = ops.voxelize(points, size, limits)
        coors = _full((points.shape[0], 3), -1, cells)
        coors[indices] = _repeat(_flip(cells), numbers)
        return coors
    cells, numbers, indices = ops.voxelize(
        points, size, limits, max_points_per_voxel=max_points, max_voxels=max_voxels
    )
    voxels = _full((cells.shape[0], max_points, points.shape[1]), 0, points)
    voxels[_slots(max_points, numbers)[None, :] < numbers[:, None]] = points[indices]
    return voxels, _flip(cells), numbers


def _torch() -> Any:
    import torch

    return torch


def _full(shape: tuple[int, ...], value: int, like: Any) -> Any:
    if _is_torch(like):
        return _torch().full(shape, value, dtype=like.dtype, device=like.device)
    return _namespace(like).full(shape, value, dtype=like.dtype)


def _slots(num: int, like: Any) -> Any:
    if _is_torch(like):
        return _torch().arange(num, device=like.device)
    return _namespace(like).arange(num)


def _flip(cells: Any) -> Any:
    return cells.flip(1) if _is_torch(cells) else _namespace(cells).ascontiguousarray(cells[:, ::-1])


def _repeat(rows: Any, numbers: Any) -> Any:
    if _is_torch(rows):
        return rows.repeat_interleave(numbers.long(), dim=0)
    return _namespace(rows).repeat(rows, numbers, axis=0)


def _refuse(kind: str, rest: dict[str, Any]) -> None:
    if rest:
        raise TypeError(f"{kind} has no {', '.join(sorted(rest))}")


def _is_torch(array: Any) -> bool:
    return _is_of("torch", array)


def _is_of(library: str, array: Any) -> bool:
    """Whether the type of an array, or one that it derives from, is of a library."""
    return any(base.__module__.partition(".")[0] == library for base in type(array).__mro__)


def _float32(array: Any) -> Any:
    if _is_torch(array):
        return array.detach().float().contiguous()
    return _contiguous(array, "float32")


def _int64(array: Any) -> Any:
    if _is_torch(array):
        return array.detach().long().contiguous()
    return _contiguous(array, "int64")


def _contiguous(array: Any, dtype: str) -> Any:
    return _namespace(array).ascontiguousarray(array, dtype=dtype)


def _namespace(array: Any) -> Any:
    if _is_of("cupy", array):
        import cupy

        return cupy
    import numpy

    return numpy


def _stack(columns: list[Any]) -> Any:
    if _is_torch(columns[0]):
        import torch

        return torch.stack(columns, dim=-1)
    namespace = _namespace(columns[0])
    return namespace.ascontiguousarray(namespace.stack(columns, axis=-1))


def _with_scores(boxes: Any, scores: Any) -> Any:
    if _is_torch(boxes):
        import torch

        return torch.cat([boxes, scores[:, None].to(boxes.dtype)], dim=1)
    return _namespace(boxes).concatenate([boxes, scores[:, None]], axis=1)
