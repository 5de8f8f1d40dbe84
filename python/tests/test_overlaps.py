"""Overlaps of boxes, points in boxes, and mmcv's functions of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from det_post import mmcv, ops


def aligned(rng: Any, num: int) -> Any:
    corners = rng.uniform(0, 30, (num, 2))
    return np.hstack([corners, corners + rng.uniform(1, 20, (num, 2))]).astype(np.float32)


def in_space(rng: Any, num: int) -> Any:
    columns = [
        rng.uniform(-6, 6, (num, 3)), rng.uniform(1, 5, (num, 3)), rng.uniform(-4, 4, (num, 1))
    ]
    return np.hstack(columns).astype(np.float32)


def polygon(x: float, y: float, width: float, height: float, angle: float) -> Any:
    sin, cos = math.sin(angle), math.cos(angle)
    halves = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [width / 2, height / 2]
    return halves @ np.array([[cos, sin], [-sin, cos]]) + [x, y]


def clipped_area(a: Any, b: Any) -> float:
    """The area that two convex polygons share, by cutting one with the sides of the other."""
    points = list(a)
    for start, end in zip(b, np.roll(b, -1, 0)):
        side = end - start
        kept: list[Any] = []
        for p, q in zip(points, points[1:] + points[:1]):
            of_p, of_q = (side[0] * (at - start)[1] - side[1] * (at - start)[0] for at in (p, q))
            if of_p >= 0:
                kept.append(p)
            if (of_p > 0 > of_q) or (of_p < 0 < of_q):
                kept.append(p + (q - p) * of_p / (of_p - of_q))
        points = kept
    if len(points) < 3:
        return 0.0
    x, y = np.array(points).T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def test_aligned_boxes() -> None:
    rng = np.random.default_rng(1)
    first, second = aligned(rng, 20), aligned(rng, 7)
    for offset in (0, 1):
        low = np.maximum(first[:, None, :2], second[None, :, :2]).astype(np.float64)
        high = np.minimum(first[:, None, 2:], second[None, :, 2:])
        shared = np.clip(high - low + offset, 0, None).prod(2)
        sizes = [(boxes[:, 2:] - boxes[:, :2] + offset).prod(1) for boxes in (first, second)]
        expected = {
            "intersection": shared,
            "iou": shared / (sizes[0][:, None] + sizes[1] - shared),
            "iof": shared / sizes[0][:, None],
        }
        for measure, values in expected.items():
            options: Any = {"measure": measure, "offset": offset}
            found = ops.box_overlaps(first, second, **options)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, values, rtol=1e-5)
            rows = ops.box_overlaps(first[:7], second, aligned=True, **options)
            np.testing.assert_array_equal(rows, found[:7].diagonal())
        np.testing.assert_array_equal(
            mmcv.bbox_overlaps(first.astype(np.float64), second, mode="iof", offset=offset),
            ops.box_overlaps(first, second, measure="iof", offset=offset),
        )


def test_rotated_boxes_and_boxes_in_space() -> None:
    rng = np.random.default_rng(2)
    first, second = in_space(rng, 12), in_space(rng, 9)
    flat = [np.ascontiguousarray(boxes[:, [0, 1, 3, 4, 6]]) for boxes in (first, second)]
    shared = np.array([
        [clipped_area(polygon(*a), polygon(*b)) for b in flat[1].tolist()] for a in flat[0].tolist()
    ])
    assert (shared > 0).sum() > 10
    areas = [boxes[:, 2] * boxes[:, 3] for boxes in flat]
    iou = shared / (areas[0][:, None] + areas[1] - shared)
    np.testing.assert_allclose(ops.box_overlaps(*flat, measure="intersection"), shared, atol=2e-5)
    np.testing.assert_allclose(ops.box_overlaps(*flat), iou, atol=1e-5)
    np.testing.assert_allclose(mmcv.boxes_overlap_bev(first, second), shared, atol=2e-5)
    np.testing.assert_allclose(mmcv.boxes_iou_bev(first, second), iou, atol=1e-5)
    np.testing.assert_allclose(mmcv.box_iou_rotated(*flat), iou, atol=1e-5)
    turned = [boxes * np.float32([1, 1, 1, 1, -1]) for boxes in flat]
    np.testing.assert_array_equal(
        mmcv.box_iou_rotated(*flat, clockwise=False), ops.box_overlaps(*turned)
    )
    iof = mmcv.box_iou_rotated(*flat, mode="iof")
    np.testing.assert_allclose(iof, shared / areas[0][:, None], atol=1e-5)
    low = np.maximum(*((b[:, 2] - b[:, 5] / 2)[axis] for b, axis in (
        (first, np.s_[:, None]), (second, np.s_[None]))))
    high = np.minimum(*((b[:, 2] + b[:, 5] / 2)[axis] for b, axis in (
        (first, np.s_[:, None]), (second, np.s_[None]))))
    shared = shared * np.clip(high - low, 0, None)
    volumes = [boxes[:, 3:6].prod(1) for boxes in (first, second)]
    iou = shared / (volumes[0][:, None] + volumes[1] - shared)
    np.testing.assert_allclose(ops.box_overlaps(first, second), iou, atol=1e-5)
    np.testing.assert_allclose(mmcv.boxes_iou3d(first, second), iou, atol=1e-5)


def test_points_in_boxes() -> None:
    rng = np.random.default_rng(3)
    boxes, points = in_space(rng, 8), rng.uniform(-6, 6, (300, 3)).astype(np.float32)
    offset = points[:, None].astype(np.float64) - boxes[None, :, :3]
    cos, sin = np.cos(boxes[:, 6].astype(np.float64)), np.sin(boxes[:, 6].astype(np.float64))
    along = offset[..., 0] * cos + offset[..., 1] * sin
    across = offset[..., 1] * cos - offset[..., 0] * sin
    local = np.abs(np.stack([along, across, offset[..., 2]], 2))
    margin = np.abs(local - boxes[None, :, 3:6] / 2).min((1, 2)) > 1e-4
    expected = (local < boxes[None, :, 3:6] / 2).all(2)
    found = ops.points_in_boxes(points, boxes)
    assert found.dtype == np.int32 and expected.sum() > 30 and margin.sum() > 250
    np.testing.assert_array_equal(found[margin], expected[margin])
    first = ops.points_in_boxes(points, boxes, first=True)
    np.testing.assert_array_equal(first, np.where(found.any(1), found.argmax(1), -1))
    bottoms = boxes.copy()
    bottoms[:, 2] -= boxes[:, 5] / 2
    batch = np.stack([bottoms, bottoms[::-1]])
    twice = np.stack([points, points])
    all_ = mmcv.points_in_boxes_all(twice, batch)
    np.testing.assert_array_equal(all_[0][margin], expected[margin])
    np.testing.assert_array_equal(all_[1], all_[0][:, ::-1])
    np.testing.assert_array_equal(mmcv.points_in_boxes_cpu(twice, batch), all_)
    part = mmcv.points_in_boxes_part(twice, batch)
    np.testing.assert_array_equal(part, np.where(all_.any(2), all_.argmax(2), -1))
    with pytest.raises(ValueError, match=r"\[B, M, 3\] and \[B, T, 7\]"):
        mmcv.points_in_boxes_part(points, boxes)


def test_no_boxes_give_empty_matrices() -> None:
    boxes, none = np.zeros((3, 5), np.float32), np.zeros((0, 5), np.float32)
    assert ops.box_overlaps(boxes, none).shape == (3, 0)
    assert ops.box_overlaps(none, boxes).shape == (0, 3)
    assert ops.box_overlaps(none, none, aligned=True).shape == (0,)
    assert not ops.box_overlaps(boxes, boxes).any()
    points = np.zeros((4, 3), np.float32)
    assert ops.points_in_boxes(points, np.zeros((0, 7), np.float32)).shape == (4, 0)
    assert ops.points_in_boxes(points, np.zeros((0, 7), np.float32), first=True).tolist() == [-1] * 4


def test_arrays_that_do_not_fit_are_refused() -> None:
    boxes = np.zeros((3, 4), np.float32)
    cases: list[tuple[type[Exception], str, Any]] = [
        (ValueError, r"\[N, 4\], \[N, 5\] or \[N, 7\]", lambda: ops.box_overlaps(boxes[:, :3].copy(), boxes)),
        (ValueError, r"\[M, 4\] is required", lambda: ops.box_overlaps(boxes, np.zeros((3, 5), np.float32))),
        (ValueError, "do not fit Rows", lambda: ops.box_overlaps(boxes, boxes[:2], aligned=True)),
        (ValueError, "offset is 2", lambda: ops.box_overlaps(boxes, boxes, offset=2)),  # type: ignore[arg-type]
        (ValueError, "iou, iof, intersection", lambda: ops.box_overlaps(boxes, boxes, measure="giou")),  # type: ignore[arg-type]
        (TypeError, "float32 is required", lambda: ops.box_overlaps(boxes.astype(float), boxes)),
        (ValueError, r"\[N, 3\] is required", lambda: ops.points_in_boxes(boxes, boxes)),
        (ValueError, "mode must be iou or iof", lambda: mmcv.bbox_overlaps(boxes, boxes, mode="giou")),
        (ValueError, r"\[N, 7\] is required", lambda: mmcv.boxes_iou3d(boxes, boxes)),
        (ValueError, r"\[N, 7\] is required", lambda: mmcv.boxes_overlap_bev(boxes, boxes)),
        (ValueError, r"\[N, 7\] is required", lambda: mmcv.nms3d_normal(boxes, boxes[:, 0], 0.1)),
        (ValueError, r"\[N, 5\] is required", lambda: mmcv.nms_normal_bev(boxes, boxes[:, 0], 0.1)),
    ]
    for kind, words, call in cases:
        with pytest.raises(kind, match=words):
            call()


def test_survivors_without_yaw() -> None:
    rng = np.random.default_rng(4)
    boxes, scores = in_space(rng, 60), rng.uniform(0, 1, 60).astype(np.float32)
    halves = boxes[:, 3:5] / 2
    corners = np.hstack([boxes[:, :2] - halves, boxes[:, :2] + halves])
    expected = ops.nms(corners, scores, 0.2)
    assert 0 < len(expected) < 60
    np.testing.assert_array_equal(mmcv.nms3d_normal(boxes, scores, 0.2), expected)
    with_yaw = np.hstack([corners, boxes[:, 6:]])
    np.testing.assert_array_equal(mmcv.nms_normal_bev(with_yaw, scores, 0.2), expected)


def test_matches_are_survivors_with_what_they_suppress() -> None:
    rng = np.random.default_rng(5)
    boxes = aligned(rng, 80)
    scores = (rng.integers(0, 40, 80) / 40).astype(np.float32)
    dets = np.hstack([boxes, scores[:, None]])
    groups = mmcv.nms_match(dets, 0.4)
    order = sorted(range(80), key=lambda row: (-scores[row], row))
    overlaps = ops.box_overlaps(boxes, boxes)
    expected = []
    while order:
        first, *rest = order
        matched = [row for row in rest if overlaps[first, row] >= np.float32(0.4)]
        expected.append([first, *matched])
        order = [row for row in rest if row not in matched]
    assert [group.tolist() for group in groups] == expected
    assert len(groups) < 80
    half = np.array([[0, 0, 2, 2, 0.9], [0, 0, 2, 4, 0.8], [9, 9, 10, 10, 0.7]], np.float32)
    # An IoU of exactly the threshold matches.
    assert [group.tolist() for group in mmcv.nms_match(half, 0.5)] == [[0, 1], [2]]
    assert mmcv.nms_match(half[:0], 0.5) == []
