"""Decoders against references written here, in f64."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from det_post import ops


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def logit(p: Any) -> Any:
    return np.log(p / (1 - p))


def sorted_rows(scores: Any, classes: Any, rows: Any) -> Any:
    """Score descending, then class, then row."""
    return np.lexsort((rows, classes, -np.asarray(scores)))


def corners(boxes: Any) -> Any:
    half = boxes[:, 2:] / 2
    return np.hstack([boxes[:, :2] - half, boxes[:, :2] + half])


def compare(found: dict[str, Any], boxes: Any, scores: Any, classes: Any, rows: Any) -> None:
    order = sorted_rows(scores.astype(np.float32), classes, rows)
    assert len(order) > 0
    np.testing.assert_array_equal(found["rows"], rows[order])
    np.testing.assert_array_equal(found["classes"], classes[order])
    np.testing.assert_allclose(found["scores"], scores[order], rtol=2e-6)
    np.testing.assert_allclose(found["boxes"], boxes[order], rtol=1e-5, atol=1e-4)
    assert found["boxes"].dtype == found["scores"].dtype == np.float32
    assert found["classes"].dtype == found["rows"].dtype == np.int64


@pytest.fixture
def rng() -> Any:
    return np.random.default_rng(11)


def test_yolo_v8_and_v5(rng: Any) -> None:
    boxes = rng.uniform(5, 300, (200, 4)).astype(np.float32)
    scores = rng.uniform(0, 1, (200, 3)).astype(np.float32)
    rows = np.arange(200)
    best, classes = scores.max(1), scores.argmax(1)
    passes = best >= 0.6
    expected = [a[passes] for a in (corners(boxes), best, classes, rows)]
    tensor = np.ascontiguousarray(np.hstack([boxes, scores]).T[None])
    found = ops.decode_yolo(tensor, "v8", num_classes=3, score_threshold=0.6)
    compare(found, *expected)
    objectness = rng.uniform(0, 1, (200, 1)).astype(np.float32)
    tensor = np.hstack([boxes, objectness, scores])[None]
    product = best * objectness[:, 0]
    passes = product >= 0.4
    expected = [a[passes] for a in (corners(boxes), product, classes, rows)]
    found = ops.decode_yolo([tensor], "v5", num_classes=3, score_threshold=0.4)
    compare(found, *expected)
    best_two = ops.decode_yolo(tensor, "v5", num_classes=3, score_threshold=0.4, max_num=2)
    np.testing.assert_array_equal(best_two["rows"], found["rows"][:2])
    half = ops.decode_yolo(tensor.astype(np.float16), "v5", num_classes=3, score_threshold=0.4)
    assert half["scores"].dtype == np.float32 and len(half["rows"]) > 0


def test_yolox_adds_its_grid(rng: Any) -> None:
    height, width, strides = 32, 64, [8, 16]
    cells, sizes = [], []
    for stride in strides:
        y, x = np.mgrid[: height // stride, : width // stride]
        cells.append(np.stack([x.ravel(), y.ravel()], 1))
        sizes.append(np.full(y.size, stride))
    grid, stride = np.vstack(cells), np.concatenate(sizes)[:, None]
    values = rng.normal(0, 0.5, (len(grid), 4)).astype(np.float32)
    scores = rng.uniform(0.1, 1, (len(grid), 3)).astype(np.float32)
    center = (values[:, :2] + grid) * stride
    boxes = corners(np.hstack([center, np.exp(values[:, 2:].astype(np.float64)) * stride]))
    product = scores[:, 0] * scores[:, 1:].max(1)
    passes = product >= 0.3
    tensor = np.hstack([values, scores])[None]
    options: Any = {"num_classes": 2, "score_threshold": 0.3, "strides": strides}
    found = ops.decode_yolo(tensor, "yolox", size=(height, width), **options)
    classes = scores[:, 1:].argmax(1)
    compare(found, *(a[passes] for a in (boxes, product, classes, np.arange(len(grid)))))
    with pytest.raises(ValueError, match="needs the height and width"):
        ops.decode_yolo(tensor, "yolox", **options)
    with pytest.raises(ValueError, match=r"decode_yolo"):
        ops.decode_yolo(tensor, "yolox", size=(64, 64), **options)


def test_rotated_and_final_boxes(rng: Any) -> None:
    boxes = rng.uniform(10, 100, (50, 4)).astype(np.float32)
    scores = rng.uniform(0, 1, (50, 2)).astype(np.float32)
    angles = rng.uniform(0, np.pi / 2 - 0.01, (50, 1)).astype(np.float32)
    tensor = np.ascontiguousarray(np.hstack([boxes, scores, angles]).T[None])
    found = ops.decode_yolo(tensor, "obb", num_classes=2, score_threshold=0.5)
    best, passes = scores.max(1), scores.max(1) >= 0.5
    expected = (np.hstack([boxes, angles]), best, scores.argmax(1), np.arange(50))
    compare(found, *(a[passes] for a in expected))
    final = np.hstack([corners(boxes), best[:, None], scores.argmax(1)[:, None]])
    found = ops.decode_yolo(final[None].astype(np.float32), "end_to_end", num_classes=2)
    passes = best >= 0.25
    compare(found, *(a[passes] for a in (corners(boxes), *expected[1:])))
    logits = logit(scores.clip(0.01, 0.99).astype(np.float64)).astype(np.float32)
    found = ops.decode_yolo(
        [boxes[None] / np.float32(200), logits[None]], "detr", num_classes=2, size=(200, 200)
    )
    values = sigmoid(logits).max(1)
    passes = values >= 0.25
    compare(found, *(a[passes] for a in (corners(boxes), values, logits.argmax(1), np.arange(50))))
    with pytest.raises(ValueError, match="v5_raw needs both"):
        ops.decode_yolo(tensor, "v5_raw", num_classes=2)
    with pytest.raises(ValueError, match='layout must be one of .* found "v9"'):
        ops.decode_yolo(tensor, "v9", num_classes=2)  # type: ignore[arg-type]


def center_task(rng: Any, num_classes: int, height: int, width: int) -> dict[str, Any]:
    shape = (height, width)
    channels = {"heatmap": num_classes, "offset": 2, "height": 1, "size": 3, "rotation": 2}
    channels["velocity"] = 2
    return {
        name: rng.normal(0, 1, (1, num, *shape)).astype(np.float32)
        for name, num in channels.items()
    }


def test_centers_of_two_tasks(rng: Any) -> None:
    height, width = 6, 9
    tasks = [center_task(rng, num, height, width) for num in (1, 2)]
    found = ops.decode_center(tasks, origin=(-10, -20), cell_size=(0.5, 0.25), score_threshold=0.5)
    boxes, scores, classes, rows, velocities = [], [], [], [], []
    y, x = (a.ravel() for a in np.mgrid[:height, :width])
    for first, task in zip((0, 1), tasks):
        maps = {name: m[0].reshape(m.shape[1], -1).astype(np.float64) for name, m in task.items()}
        center_x = (x + maps["offset"][0]) * 0.5 - 10
        center_y = (y + maps["offset"][1]) * 0.25 - 20
        sine, cosine = maps["rotation"]
        columns = [center_x, center_y, maps["height"][0], *np.exp(maps["size"])]
        boxes.append(np.stack([*columns, np.arctan2(sine, cosine)], 1))
        scores.append(sigmoid(maps["heatmap"].max(0)))
        classes.append(first + maps["heatmap"].argmax(0))
        rows.append(first * height * width + np.arange(height * width))
        velocities.append(maps["velocity"].T)
    score = np.concatenate(scores)
    passes = score >= 0.5
    expected = [np.vstack(boxes), score, np.concatenate(classes), np.concatenate(rows)]
    compare(found, *(a[passes] for a in expected))
    np.testing.assert_allclose(found["velocities"], np.vstack(velocities)[found["rows"]], rtol=1e-6)
    per_class = ops.decode_center(
        tasks, origin=(-10, -20), cell_size=(0.5, 0.25), score_threshold=[2.0, 0.5, 2.0]
    )
    kept = found["classes"] == 1
    np.testing.assert_array_equal(per_class["rows"], found["rows"][kept])


def test_what_a_task_lacks_is_named(rng: Any) -> None:
    task = center_task(rng, 1, 4, 4)
    options: Any = {"origin": (0, 0), "cell_size": (1, 1)}
    with pytest.raises(KeyError, match="no offset"):
        ops.decode_center([{k: v for k, v in task.items() if k != "offset"}], **options)
    with pytest.raises(ValueError, match="size of task 0"):
        ops.decode_center([{**task, "size": task["height"]}], **options)
    with pytest.raises(ValueError, match="must have 1 classes .* found 2 classes"):
        ops.decode_center([task], score_threshold=[0.1, 0.2], **options)
    with pytest.raises(ValueError, match="tasks is empty"):
        ops.decode_center([], **options)
    with pytest.raises(ValueError, match='yaw must be one of .* found "left"'):
        ops.decode_center([task], yaw="left", **options)


def test_anchors_of_a_map(rng: Any) -> None:
    sizes, heights, rotations = [(3.9, 1.6, 1.56), (0.8, 0.6, 1.7)], [-1.0, -0.6], [0.0, np.pi / 2]
    height, width, num = 4, 5, 4
    classes = rng.normal(-1, 1.5, (1, num * 2, height, width)).astype(np.float32)
    boxes = rng.normal(0, 0.3, (1, num * 7, height, width)).astype(np.float32)
    options: Any = {
        "point_range": (0, -10, -3, 20, 10, 1),
        "anchor_sizes": sizes,
        "anchor_heights": heights,
        "rotations": rotations,
        "align_center": True,
    }
    found = ops.decode_anchor(classes, boxes, score_threshold=0.4, **options)
    logits = classes[0].reshape(num, 2, -1).transpose(2, 0, 1).reshape(-1, 2)
    values = boxes[0].reshape(num, 7, -1).transpose(2, 0, 1).reshape(-1, 7).astype(np.float64)
    row, column = (a.ravel() for a in np.mgrid[:height, :width])
    anchors = [(*size, z, yaw) for size, z in zip(sizes, heights) for yaw in rotations]
    length, width_m, height_m, z, yaw = np.tile(anchors, (height * width, 1)).T
    diagonal = np.hypot(length, width_m)
    x = np.repeat((column + 0.5) * 20 / width, num)
    y = np.repeat((row + 0.5) * 20 / height - 10, num)
    turned = (values[:, 6] + yaw + np.pi) % (2 * np.pi) - np.pi
    decoded = np.stack(
        [
            values[:, 0] * diagonal + x,
            values[:, 1] * diagonal + y,
            values[:, 2] * height_m + z,
            np.exp(values[:, 3]) * length,
            np.exp(values[:, 4]) * width_m,
            np.exp(values[:, 5]) * height_m,
            turned,
        ],
        1,
    )
    scores = sigmoid(logits.max(1))
    passes = scores >= 0.4
    expected = (decoded, scores, logits.argmax(1), np.arange(len(logits)))
    compare(found, *(a[passes] for a in expected))
    last = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (classes, boxes)]
    same = ops.decode_anchor(*last, channels_last=True, score_threshold=0.4, **options)
    np.testing.assert_array_equal(same["boxes"], found["boxes"])


def test_queries_of_view_decoders(rng: Any) -> None:
    logits = rng.normal(-1, 1.5, (40, 3)).astype(np.float32)
    boxes = rng.normal(0, 1, (40, 11)).astype(np.float32)
    found = ops.decode_query(logits, boxes, score_threshold=0.3)
    query, of_class = np.nonzero(sigmoid(logits) >= 0.3)
    extents = np.exp(boxes[:, 3:6].astype(np.float64))[:, [1, 0, 2]]
    yaw = np.arctan2(boxes[:, 6], boxes[:, 7])[:, None]
    decoded = np.hstack([boxes[:, :3], extents, yaw])
    compare(found, decoded[query], sigmoid(logits[query, of_class]), of_class, query)
    np.testing.assert_array_equal(found["velocities"], boxes[found["rows"], 8:10])
    quality = rng.normal(0, 1, (40, 2)).astype(np.float32)
    scaled = ops.decode_query(logits, boxes, quality, score_threshold=0.3)
    factor = sigmoid(quality[query, 0])
    compare(scaled, decoded[query], sigmoid(logits[query, of_class]) * factor, of_class, query)
    found = ops.decode_streampetr(logits[None], boxes[None, :, :10].copy(), score_threshold=0.3)
    best = sigmoid(logits).max(1)
    passes = best >= 0.3
    expected = (decoded, best, logits.argmax(1), np.arange(40))
    compare(found, *(a[passes] for a in expected))
    with pytest.raises(ValueError, match=r"\[N, 11\] is required"):
        ops.decode_query(logits, np.ascontiguousarray(boxes[:, :10]))
    for max_num in [2**40, sys.maxsize]:
        everything = ops.decode_query(logits, boxes, score_threshold=0.0, max_num=max_num)
        assert len(everything["rows"]) == 40 * 3
    with pytest.raises(ValueError, match="max_num is 0; at least 1"):
        ops.decode_query(logits, boxes, max_num=0)
