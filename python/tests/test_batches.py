"""Batches of images and of outputs, affines, and boxes mapped back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from det_post import ops


def images(num: int, height: int = 40, width: int = 60) -> Any:
    return np.random.default_rng(num).integers(0, 256, (num, height, width, 3)).astype(np.uint8)


def test_a_batch_of_images_is_the_images() -> None:
    batch = images(3)
    options: Any = {"placement": "top_left", "channel_order": "bgr"}
    tensor, affines = ops.letterbox(batch, (32, 48), **options)
    assert tensor.shape == (3, 3, 32, 48) and len(affines) == 3
    for index in range(3):
        one, affine = ops.letterbox(batch[index], (32, 48), **options)
        assert one.shape == (1, 3, 32, 48)
        np.testing.assert_array_equal(tensor[index], one[0])
        assert affines[index] == affine
    sizes = [images(1)[0], images(1, 21, 33)[0]]
    tensor, affines = ops.letterbox(sizes, (32, 48), dtype="float16")
    for index, image in enumerate(sizes):
        one, affine = ops.letterbox(image, (32, 48), dtype="float16")
        np.testing.assert_array_equal(tensor[index], one[0])
        assert affines[index] == affine
    assert len(ops.letterbox(batch[:1], (32, 48))[1]) == 1
    grey = np.ascontiguousarray(batch[..., 0])
    tensor, _ = ops.letterbox(list(grey), (32, 48), encoding="mono8")
    assert tensor.shape == (3, 3, 32, 48)
    with pytest.raises(ValueError, match=r"uint8 \[H, W\] is required"):
        ops.letterbox(grey, (32, 48), encoding="mono8")
    with pytest.raises(ValueError, match="at least one image"):
        ops.letterbox([], (32, 48))
    with pytest.raises(ValueError, match=r"uint8 \[H, W, 3\] is required"):
        ops.letterbox(batch[None], (32, 48))


def test_values_are_normalised_by_factor_and_summand() -> None:
    image = images(1)[0]
    alpha, beta = (0.5, 2.0, 0.25), (1.0, -3.0, 0.0)
    raw, _ = ops.letterbox(image, (32, 48), alpha=(1, 1, 1))
    found, _ = ops.letterbox(image, (32, 48), alpha=alpha, beta=beta)
    factor, summand = (np.array(one, np.float32)[:, None, None] for one in (alpha, beta))
    np.testing.assert_array_equal(found[0], raw[0] * factor + summand)
    scaled, _ = ops.letterbox(image, (32, 48))
    np.testing.assert_array_equal(scaled, raw * (np.float32(1) / np.float32(255)))
    with pytest.raises(ValueError, match="give one pair"):
        ops.letterbox(image, (32, 48), mean=(1, 2, 3), beta=beta)


def test_an_affine_of_a_letterbox_is_the_letterbox() -> None:
    image = images(1, 48, 64)[0]
    tensor, affine = ops.letterbox(image, (32, 32))
    found = ops.warp_affine(image, affine, (32, 32))
    np.testing.assert_allclose(found, tensor, atol=2e-5)
    sx, sy, ox, oy = affine
    matrix = np.array([[sx, 0, ox], [0, sy, oy]])
    np.testing.assert_array_equal(ops.warp_affine(image, matrix, (32, 32)), found)
    centers = matrix.copy()
    centers[:, 2] += 0.5 * (matrix[:, 0] + matrix[:, 1]) - 0.5
    np.testing.assert_allclose(
        ops.warp_affine(image, centers.tolist(), (32, 32), centers=True), found, atol=2e-5
    )


def test_an_affine_turns_and_cuts() -> None:
    image = images(1, 16, 16)[0]
    options: Any = {"alpha": (1, 1, 1), "pad_value": 7.0}
    turned = ops.warp_affine(image, [[0, 1, 0], [-1, 0, 16]], (16, 16), **options)
    np.testing.assert_array_equal(turned[0], np.rot90(image).transpose(2, 0, 1))
    cut = ops.warp_affine(image, [[1, 0, -4], [0, 1, 12]], (16, 16), **options)
    expected = np.full((16, 16, 3), 7, np.uint8)
    expected[12:, :12] = image[:4, 4:]
    np.testing.assert_array_equal(cut[0], expected.transpose(2, 0, 1))
    both = ops.warp_affine(
        [image, image], [[[0, 1, 0], [-1, 0, 16]], [[1, 0, -4], [0, 1, 12]]], (16, 16), **options
    )
    np.testing.assert_array_equal(both, np.concatenate([turned, cut]))
    half = ops.warp_affine(image, [[0, 1, 0], [-1, 0, 16]], (16, 16), dtype="float16", **options)
    np.testing.assert_array_equal(half, turned.astype(np.float16))
    for affine, words in [
        ([[1, 2, 0], [2, 4, 0]], "has no inverse"),
        ([1, 2, 3], r"matrix \[2, 3\] is required"),
        ([[1, 0, 0], [0, 1]], r"matrix \[2, 3\] is required"),
    ]:
        with pytest.raises(ValueError, match=words):
            ops.warp_affine(image, affine, (16, 16))
    with pytest.raises(ValueError, match="is of 3 images, there are 2"):
        ops.warp_affine([image, image], [(1, 1, 0, 0)] * 3, (16, 16))


def raw_outputs(rng: Any, num: int, classes: int) -> tuple[list[Any], Any, Any]:
    """Logits of two levels, of `num` frames."""
    anchors = [[[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]], [[30.0, 61.0], [62.0, 45.0], [59.0, 119.0]]]
    levels = [
        rng.normal(-1, 2, (num, 3, *size, 5 + classes)).astype(np.float32) for size in ((6, 8), (3, 4))
    ]
    return levels, anchors, [8, 16]


def raw_expected(levels: Any, anchors: Any, strides: Any, threshold: float) -> list[Any]:
    """Boxes, scores, classes of one frame in f64, best first."""
    found = []
    for logits, sizes, stride in zip(levels, anchors, strides):
        values = 1 / (1 + np.exp(-logits.astype(np.float64)))
        for (anchor, y, x), row in zip(np.ndindex(values.shape[:3]), values.reshape(-1, values.shape[3])):
            score = row[4] * row[5:].max()
            if score >= threshold:
                cx, cy = ((row[:2] * 2 - 0.5) + (x, y)) * stride
                width, height = (row[2:4] * 2) ** 2 * sizes[anchor]
                box = [cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2]
                found.append((-score, int(row[5:].argmax()), box))
    return sorted(found)


@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("element", [np.float32, np.float16])
def test_raw_outputs_of_yolov5_in_both_shapes(is_flat: bool, element: Any) -> None:
    classes, threshold = 4, 0.3
    levels, anchors, strides = raw_outputs(np.random.default_rng(6), 2, classes)
    levels = [level.astype(element) for level in levels]
    arrays = [
        np.ascontiguousarray(level.transpose(0, 1, 4, 2, 3).reshape(2, -1, *level.shape[2:4]))
        if is_flat else level
        for level in levels
    ]
    options: Any = {
        "num_classes": classes, "score_threshold": threshold, "size": (48, 64),
        "anchors": anchors, "strides": strides,
    }
    frames = ops.decode_yolo(arrays, "v5_raw", batch=True, **options)
    assert len(frames) == 2
    for frame, found in enumerate(frames):
        expected = raw_expected([level[frame] for level in levels], anchors, strides, threshold)
        assert len(expected) > 5
        np.testing.assert_allclose(found["scores"], [-one[0] for one in expected], rtol=1e-5)
        np.testing.assert_array_equal(found["classes"], [one[1] for one in expected])
        np.testing.assert_allclose(found["boxes"], [one[2] for one in expected], rtol=1e-4, atol=1e-3)
        single = ops.decode_yolo([array[frame : frame + 1] for array in arrays], "v5_raw", **options)
        for name, column in single.items():
            np.testing.assert_array_equal(found[name], column)
    with pytest.raises(ValueError, match="of 2 and of 1 frames"):
        ops.decode_yolo([arrays[0], arrays[1][:1]], "v5_raw", batch=True, **options)


def v8(num: int) -> Any:
    rng = np.random.default_rng(num)
    rows = np.concatenate(
        [rng.uniform(10, 40, (num, 4, 50)), rng.uniform(0, 1, (num, 3, 50))], 1
    )
    return rows.astype(np.float32)


def test_boxes_are_mapped_back() -> None:
    outputs = v8(3)
    options: Any = {"num_classes": 3, "score_threshold": 0.5}
    plain = ops.decode_yolo(outputs, "v8", batch=True, **options)
    affines = [(0.5, 0.25, 3.0, -4.0), (2.0, 2.0, 0.0, 1.0), (1.0, 1.0, 0.0, 0.0)]
    found = ops.decode_yolo(outputs, "v8", batch=True, affine=affines, **options)
    for one, mapped, (sx, sy, ox, oy) in zip(plain, found, affines):
        expected = (one["boxes"] - np.array([ox, oy, ox, oy])) / np.array([sx, sy, sx, sy])
        np.testing.assert_allclose(mapped["boxes"], expected, rtol=1e-6)
        assert mapped["boxes"].dtype == np.float32
        np.testing.assert_array_equal(mapped["scores"], one["scores"])
    one = ops.decode_yolo(outputs[:1], "v8", affine=affines[0], **options)
    np.testing.assert_array_equal(one["boxes"], found[0]["boxes"])
    same = ops.decode_yolo(outputs[:1], "v8", affine=[[0.5, 0, 3], [0, 0.25, -4]], **options)
    np.testing.assert_array_equal(same["boxes"], one["boxes"])
    turned = ops.decode_yolo(outputs[:1], "v8", affine=[[0, 2, 0], [-2, 0, 100]], **options)
    x1, y1, x2, y2 = plain[0]["boxes"].T
    expected = np.stack([(100 - y2) / 2, x1 / 2, (100 - y1) / 2, x2 / 2], 1)
    np.testing.assert_allclose(turned["boxes"], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="has no inverse"):
        ops.decode_yolo(outputs[:1], "v8", affine=[[1, 1, 0], [1, 1, 0]], **options)
    with pytest.raises(ValueError, match="none may be 0"):
        ops.decode_yolo(outputs[:1], "v8", affine=(0.0, 1.0, 0.0, 0.0), **options)
    with pytest.raises(ValueError, match="is of 2 images, there are 3"):
        ops.decode_yolo(outputs, "v8", batch=True, affine=affines[:2], **options)


def test_rotated_boxes_are_mapped_back() -> None:
    rng = np.random.default_rng(7)
    rows = np.concatenate(
        [rng.uniform(10, 40, (1, 4, 30)), rng.uniform(0.5, 1, (1, 2, 30)), rng.uniform(-1, 1, (1, 1, 30))],
        1,
    ).astype(np.float32)
    options: Any = {"num_classes": 2, "score_threshold": 0.5}
    plain = ops.decode_yolo(rows, "obb", **options)["boxes"]
    mapped = ops.decode_yolo(rows, "obb", affine=(0.5, 0.5, 4, 8), **options)["boxes"]
    expected = np.hstack([(plain[:, :2] - [4, 8]) * 2, plain[:, 2:4] * 2, plain[:, 4:]])
    np.testing.assert_allclose(mapped, expected, rtol=1e-6)
    cos, sin = math.cos(0.3), math.sin(0.3)
    # From the image to the input: a turn by 0.3 and a factor of 2.
    affine = [[2 * cos, -2 * sin, 1], [2 * sin, 2 * cos, -5]]
    mapped = ops.decode_yolo(rows, "obb", affine=affine, **options)["boxes"]
    centers = (plain[:, :2] - [1, -5]) @ np.array([[cos, -sin], [sin, cos]]) / 2
    expected = np.hstack([centers, plain[:, 2:4] / 2, plain[:, 4:] - 0.3])
    np.testing.assert_allclose(mapped, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="shears or stretches"):
        ops.decode_yolo(rows, "obb", affine=[[1, 0.5, 0], [0, 1, 0]], **options)


def test_an_image_and_its_boxes_go_there_and_back() -> None:
    batch = images(2, 90, 160)
    tensor, affines = ops.letterbox(batch, (64, 64))
    assert tensor.shape == (2, 3, 64, 64)
    outputs = np.zeros((2, 5, 1), np.float32)
    outputs[:, :, 0] = [[32, 32, 40, 20, 0.9], [16, 32, 8, 10, 0.8]]
    found = ops.decode_yolo(outputs, "v8", num_classes=1, affine=affines, batch=True)
    np.testing.assert_allclose(found[0]["boxes"], [[30, 20, 130, 70]], atol=1e-4)
    np.testing.assert_allclose(found[1]["boxes"], [[30, 32.5, 50, 57.5]], atol=1e-4)
