"""Suppression, overlaps and voxelization with the signatures and return values of ``mmcv.ops``: change only the import.

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
| ``bbox_overlaps``, ``box_iou_rotated`` of empty boxes | a division by 0 | 0 |
| ``boxes_iou3d``, ``boxes_overlap_bev``, ``nms3d_normal``, ``points_in_boxes_part`` | CUDA only | any device |
| gradients | of ``box_iou_rotated`` and others | none |
| ``nms`` in a model that is exported to ONNX | a node of the file | not traced: export the model without it |
| ``nms_quadri``, ``box_iou_quadri`` | | do not exist: no detector of this package finds quadrilaterals |
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from . import _arrays as arrays
from . import ops

__all__ = [
    "batched_nms",
    "bbox_overlaps",
    "box_iou_rotated",
    "boxes_iou3d",
    "boxes_iou_bev",
    "boxes_overlap_bev",
    "nms",
    "nms3d",
    "nms3d_normal",
    "nms_bev",
    "nms_match",
    "nms_normal_bev",
    "nms_rotated",
    "points_in_boxes_all",
    "points_in_boxes_cpu",
    "points_in_boxes_part",
    "soft_nms",
    "voxelization",
]


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
        arrays.float32(boxes),
        arrays.float32(scores),
        iou_threshold,
        offset=1 if offset else 0,
        score_threshold=eligible,
        max_num=max_num if max_num > 0 else None,
    )
    return arrays.with_scores(boxes[keep], scores[keep]), keep


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
        arrays.float32(boxes),
        arrays.float32(scores),
        iou_threshold=iou_threshold,
        sigma=sigma,
        min_score=min_score,
        method="linear" if method == "linear" else "gaussian",
        offset=1 if offset else 0,
    )
    return arrays.with_scores(boxes[keep], lowered), keep


def nms_rotated(
    dets: Any, scores: Any, iou_threshold: float, labels: Any = None, clockwise: bool = True
) -> tuple[Any, Any]:
    """``mmcv.ops.nms_rotated``: boxes with scores ``[K, 6]``, and their positions."""
    if dets.shape[0] == 0:
        return dets, None
    boxes = _clockwise(arrays.float32(dets), clockwise)
    classes = None if labels is None else arrays.int64(labels)
    keep = ops.nms_rotated(boxes, arrays.float32(scores), iou_threshold, classes=classes)
    return arrays.with_scores(dets[keep], scores[keep]), keep


def _clockwise(boxes: Any, clockwise: bool) -> Any:
    """Rotated boxes by angles that turn clockwise."""
    if clockwise:
        return boxes
    return arrays.stack([boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3], -boxes[:, 4]])


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
    boxes = arrays.float32(boxes)
    rotated = arrays.stack(
        [
            (boxes[:, 0] + boxes[:, 2]) / 2,
            (boxes[:, 1] + boxes[:, 3]) / 2,
            boxes[:, 2] - boxes[:, 0],
            boxes[:, 3] - boxes[:, 1],
            boxes[:, 4],
        ]
    )
    scores = arrays.float32(scores)
    if pre_max_size is None or pre_max_size >= scores.shape[0]:
        return ops.nms_rotated(rotated, scores, thresh)[:post_max_size]
    # Without suppression (an IoU is at most 1) the survivors are the order itself.
    order = ops.nms_rotated(rotated, scores, 1.0)[:pre_max_size]
    keep = ops.nms_rotated(rotated[order], scores[order], thresh)
    return order[keep][:post_max_size]


def nms3d(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """``mmcv.ops.nms3d``: positions of the survivors by IoU of footprints of ``[N, 7]`` boxes."""
    return ops.nms_bev(arrays.float32(boxes), arrays.float32(scores), iou_threshold)


def nms3d_normal(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """``mmcv.ops.nms3d_normal``: as :func:`nms3d`, with all yaws 0."""
    if boxes.shape[1] != 7:
        raise ValueError(f"boxes are {tuple(boxes.shape)}; [N, 7] is required")
    boxes = arrays.float32(boxes)
    columns = [boxes[:, column] for column in range(6)]
    upright = arrays.stack([*columns, arrays.full(tuple(boxes.shape[:1]), 0, boxes)])
    return ops.nms_bev(upright, arrays.float32(scores), iou_threshold)


def nms_normal_bev(boxes: Any, scores: Any, thresh: float) -> Any:
    """``mmcv.ops.nms_normal_bev``: positions of the survivors of boxes x1, y1, x2, y2, yaw, which is
    not read."""
    if boxes.shape[1] != 5:
        raise ValueError(f"boxes are {tuple(boxes.shape)}; [N, 5] is required")
    return ops.nms(arrays.float32(boxes[:, :4]), arrays.float32(scores), thresh)


def nms_match(dets: Any, iou_threshold: float) -> list[Any]:
    """``mmcv.ops.nms_match``: the position of each survivor and of the boxes it suppresses.

    dets: ``[N, 5]``, boxes and scores. An IoU of exactly the threshold suppresses, as in mmcv.
    """
    boxes, scores = arrays.float32(dets[:, :4]), arrays.float32(dets[:, 4])
    # Without suppression (an IoU is at most 1) the survivors are the order itself.
    rest = ops.nms(boxes, scores, 1.0)
    groups = []
    while len(rest) > 0:
        overlaps = ops.box_overlaps(boxes[rest[:1]], boxes[rest])[0]
        is_matched = overlaps >= iou_threshold
        is_matched[0] = True
        groups.append(rest[is_matched])
        rest = rest[~is_matched]
    return groups


def bbox_overlaps(
    bboxes1: Any, bboxes2: Any, mode: str = "iou", aligned: bool = False, offset: int = 0
) -> Any:
    """``mmcv.ops.bbox_overlaps``: IoU or, with ``mode="iof"``, the share of the first box."""
    return ops.box_overlaps(
        arrays.float32(bboxes1),
        arrays.float32(bboxes2),
        measure=_measure(mode),
        aligned=aligned,
        offset=1 if offset else 0,
    )


def box_iou_rotated(
    bboxes1: Any, bboxes2: Any, mode: str = "iou", aligned: bool = False, clockwise: bool = True
) -> Any:
    """``mmcv.ops.box_iou_rotated`` of boxes ``[N, 5]``."""
    first, second = (_clockwise(arrays.float32(one), clockwise) for one in (bboxes1, bboxes2))
    return ops.box_overlaps(first, second, measure=_measure(mode), aligned=aligned)


def _measure(mode: str) -> Any:
    if mode not in ("iou", "iof"):
        raise ValueError(f"mode must be iou or iof, found {mode!r}")
    return mode


def _footprints(boxes: Any) -> Any:
    """Boxes ``[N, 5]`` in the plane of boxes ``[N, 7]``."""
    if boxes.shape[1] != 7:
        raise ValueError(f"boxes are {tuple(boxes.shape)}; [N, 7] is required")
    boxes = arrays.float32(boxes)
    return arrays.stack([boxes[:, column] for column in (0, 1, 3, 4, 6)])


def boxes_overlap_bev(boxes_a: Any, boxes_b: Any) -> Any:
    """``mmcv.ops.boxes_overlap_bev``: areas that footprints of boxes ``[N, 7]`` share."""
    first, second = _footprints(boxes_a), _footprints(boxes_b)
    return ops.box_overlaps(first, second, measure="intersection")


def boxes_iou_bev(boxes_a: Any, boxes_b: Any) -> Any:
    """``mmcv.ops.boxes_iou_bev`` of mmcv 1, of boxes ``[N, 7]``."""
    return ops.box_overlaps(_footprints(boxes_a), _footprints(boxes_b))


def boxes_iou3d(boxes_a: Any, boxes_b: Any) -> Any:
    """``mmcv.ops.boxes_iou3d``: IoU of the volumes of boxes ``[N, 7]``, centres in the middle."""
    for boxes in (boxes_a, boxes_b):
        if boxes.shape[1] != 7:
            raise ValueError(f"boxes are {tuple(boxes.shape)}; [N, 7] is required")
    return ops.box_overlaps(arrays.float32(boxes_a), arrays.float32(boxes_b))


def points_in_boxes_part(points: Any, boxes: Any) -> Any:
    """``mmcv.ops.points_in_boxes_part``: the first box of each point, ``[B, M]``, -1 for none.

    points: ``[B, M, 3]``; boxes: ``[B, T, 7]``, the centre of the bottom first.
    """
    return _points_in_boxes(points, boxes, first=True)


def points_in_boxes_all(points: Any, boxes: Any) -> Any:
    """``mmcv.ops.points_in_boxes_all``: 1 where a point is in a box, ``[B, M, T]``; else 0."""
    return _points_in_boxes(points, boxes, first=False)


points_in_boxes_cpu = points_in_boxes_all


def _points_in_boxes(points: Any, boxes: Any, first: bool) -> Any:
    if len(points.shape) != 3 or len(boxes.shape) != 3 or len(points) != len(boxes):
        shapes = tuple(points.shape), tuple(boxes.shape)
        raise ValueError(f"points and boxes are {shapes}; [B, M, 3] and [B, T, 7] are required")
    found = []
    for rows, of in zip(arrays.float32(points), arrays.float32(boxes)):
        columns = [of[:, column] for column in range(of.shape[1])]
        columns[2] = columns[2] + columns[5] / 2
        found.append(ops.points_in_boxes(arrays.contiguous(rows), arrays.stack(columns), first=first))
    return arrays.joined(found)


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
    idxs = None if agnostic or nms_cfg is None else arrays.int64(idxs)
    rows, values = arrays.float32(boxes), arrays.float32(scores)
    if nms_cfg is None:
        keep = ops.circle_nms(arrays.full((rows.shape[0], 2), 0, rows), values, 0.0)
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
        return arrays.with_scores(boxes[keep], values)[:limit], keep[:limit]
    elif kind == "nms_rotated":
        iou = float(cfg.pop("iou_threshold"))
        turned = _clockwise(rows, cfg.pop("clockwise", True))
        _refuse(kind, cfg)
        keep = ops.nms_rotated(turned, values, iou, classes=idxs)[:limit]
    else:
        raise ValueError(f"type must be nms, soft_nms or nms_rotated, found {kind!r}")
    return arrays.with_scores(boxes[keep], scores[keep]), keep


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
    points = arrays.float32(points)
    size = [float(value) for value in voxel_size]
    limits = [float(value) for value in coors_range]
    if max_points == -1 or max_voxels == -1:
        cells, numbers, indices = ops.voxelize(points, size, limits)
        coors = arrays.full((points.shape[0], 3), -1, cells)
        coors[indices] = arrays.repeat(arrays.flip(cells), numbers)
        return coors
    cells, numbers, indices = ops.voxelize(
        points, size, limits, max_points_per_voxel=max_points, max_voxels=max_voxels
    )
    voxels = arrays.full((cells.shape[0], max_points, points.shape[1]), 0, points)
    voxels[arrays.arange(max_points, numbers)[None, :] < numbers[:, None]] = points[indices]
    return voxels, arrays.flip(cells), numbers


def _refuse(kind: str, rest: dict[str, Any]) -> None:
    if rest:
        raise TypeError(f"{kind} has no {', '.join(sorted(rest))}")
