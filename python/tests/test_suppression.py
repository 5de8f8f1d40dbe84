"""Suppression against references written here, torchvision, and tables of other projects."""

from __future__ import annotations

import ctypes
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tables

from det_post import mmcv, ops


def scene(num: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Boxes that overlap a lot, distinct scores, classes."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 60, (num, 2))
    boxes = np.hstack([corners, corners + rng.uniform(1, 30, (num, 2))]).astype(np.float32)
    scores = rng.permutation(num).astype(np.float32) / max(num, 1)
    return boxes, scores, rng.integers(0, 3, num)


def iou(a: Any, b: Any, offset: float = 0.0) -> Any:
    """IoU of one box and several, in f32 and the documented order."""
    one = np.float32(offset)
    low = np.maximum(a[:2], b[:, :2])
    high = np.minimum(a[2:], b[:, 2:])
    width, height = np.maximum(high - low + one, 0).T
    shared = width * height
    area = (a[2] - a[0] + one) * (a[3] - a[1] + one)
    areas = (b[:, 2] - b[:, 0] + one) * (b[:, 3] - b[:, 1] + one)
    return shared / ((area + areas) - shared)


def greedy(boxes: Any, scores: Any, classes: Any, threshold: float, offset: float = 0.0) -> Any:
    """The sequential answer."""
    alive = np.ones(len(boxes), bool)
    keep = []
    for index in np.argsort(-scores, kind="stable"):
        if alive[index]:
            keep.append(index)
            overlaps = iou(boxes[index], boxes, offset) > np.float32(threshold)
            alive &= ~(overlaps & (classes == classes[index]))
    return np.array(keep, np.int64)


@pytest.mark.parametrize("num", [0, 1, 2, 30, 400])
@pytest.mark.parametrize("offset", [0, 1])
def test_nms_is_the_sequential_answer(num: int, offset: int) -> None:
    boxes, scores, classes = scene(num)
    same = np.zeros(num, np.int64)
    keep = ops.nms(boxes, scores, 0.4, offset=offset)
    assert keep.dtype == np.int64
    np.testing.assert_array_equal(keep, greedy(boxes, scores, same, 0.4, offset))
    for dtype in (np.int64, np.int32):
        keep = ops.batched_nms(boxes, scores, classes.astype(dtype), 0.4, offset=offset)
        np.testing.assert_array_equal(keep, greedy(boxes, scores, classes, 0.4, offset))


def test_nms_keeps_at_most_max_num_above_the_score_threshold() -> None:
    boxes, scores, _ = scene(100)
    everything = ops.nms(boxes, scores, 0.4)
    np.testing.assert_array_equal(ops.nms(boxes, scores, 0.4, max_num=5), everything[:5])
    above = ops.nms(boxes, scores, 0.4, score_threshold=0.5)
    np.testing.assert_array_equal(above, [i for i in everything if scores[i] > 0.5])


def test_fast_nms_suppresses_by_suppressed_boxes() -> None:
    boxes = np.array([[0, 0, 10, 10], [4, 0, 14, 10], [8, 0, 18, 10]], np.float32)
    scores = np.array([0.9, 0.8, 0.7], np.float32)
    np.testing.assert_array_equal(ops.nms(boxes, scores, 0.4), [0, 2])
    np.testing.assert_array_equal(ops.fast_nms(boxes, scores, 0.4), [0])
    classes = np.array([0, 1, 0])
    np.testing.assert_array_equal(ops.fast_nms(boxes, scores, 0.4, classes=classes), [0, 1, 2])


def soft(boxes: Any, scores: Any, weight: Any, min_score: float) -> tuple[list[int], list[float]]:
    """The sequential answer of soft suppression."""
    scores = scores.astype(np.float32).copy()
    left = list(range(len(boxes)))
    keep: list[int] = []
    lowered: list[float] = []
    while left:
        best = max(left, key=lambda i: (scores[i], -i))
        if scores[best] < min_score and keep:
            break
        keep.append(best)
        lowered.append(float(scores[best]))
        left.remove(best)
        if left:
            scores[left] *= weight(iou(boxes[best], boxes[left])).astype(np.float32)
    return keep, lowered


def test_soft_nms_is_the_sequential_answer() -> None:
    boxes, scores, _ = scene(80)
    threshold = np.float32(0.3)
    keep, lowered = ops.soft_nms(boxes, scores, iou_threshold=0.3)
    expected = soft(boxes, scores, lambda i: np.where(i >= threshold, 1 - i, np.float32(1)), 1e-3)
    np.testing.assert_array_equal(keep, expected[0])
    np.testing.assert_array_equal(lowered, np.array(expected[1], np.float32))
    keep, lowered = ops.soft_nms(boxes, scores, method="gaussian", sigma=0.5)
    expected = soft(boxes, scores, lambda i: np.exp(-(i * i) / np.float32(0.5)), 1e-3)
    np.testing.assert_array_equal(keep, expected[0])
    np.testing.assert_allclose(lowered, expected[1], rtol=1e-6)


def test_rotated_boxes_at_right_angles_are_aligned_boxes() -> None:
    boxes, scores, classes = scene(200)
    size = boxes[:, 2:] - boxes[:, :2]
    turned = np.stack(
        [
            (boxes[:, 0] + boxes[:, 2]) / 2,
            (boxes[:, 1] + boxes[:, 3]) / 2,
            size[:, 1],
            size[:, 0],
            np.full(200, np.pi / 2),
        ],
        axis=1,
    ).astype(np.float32)
    expected = ops.batched_nms(boxes, scores, classes, 0.37)
    np.testing.assert_array_equal(ops.nms_rotated(turned, scores, 0.37, classes=classes), expected)
    in_space = np.zeros((200, 7), np.float32)
    in_space[:, [0, 1, 3, 4, 6]] = turned
    in_space[:, 5] = 1.0
    for nms in (ops.nms_bev, ops.nms_3d):
        np.testing.assert_array_equal(nms(in_space, scores, 0.37, classes=classes), expected)
        per_class = nms(in_space, scores, [0.37] * 3, classes=classes)
        np.testing.assert_array_equal(per_class, expected)
    in_space[:, 2] = 10.0 * np.arange(200)
    assert len(ops.nms_3d(in_space, scores, 0.37)) == 200


def test_bev_has_a_search_distance_and_one_pass() -> None:
    boxes = np.zeros((3, 7), np.float32)
    boxes[:, 0] = [0, 2, 4]
    boxes[:, 3:6] = [4, 2, 1.5]
    scores = np.array([0.9, 0.8, 0.7], np.float32)
    np.testing.assert_array_equal(ops.nms_bev(boxes, scores, 0.3), [0, 2])
    np.testing.assert_array_equal(ops.nms_bev(boxes, scores, 0.3, one_pass=True), [0])
    np.testing.assert_array_equal(ops.nms_bev(boxes, scores, 0.3, search_distance=1), [0, 1, 2])


def test_circle_nms_has_two_readings() -> None:
    centers = np.array([[0, 0], [2, 0]], np.float32)
    scores = np.array([0.9, 0.8], np.float32)
    np.testing.assert_array_equal(ops.circle_nms(centers, scores, 2.0), [0, 1])
    np.testing.assert_array_equal(ops.circle_nms(centers, scores, 2.1), [0])
    np.testing.assert_array_equal(ops.circle_nms(centers, scores, 4.0, squared=True), [0])
    np.testing.assert_array_equal(ops.circle_nms(centers, scores, 3.9, squared=True), [0, 1])


def test_ties_are_decided_by_class_and_position_and_nan_is_not_kept() -> None:
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (4, 1))
    scores = np.array([0.5, np.nan, 0.5, 0.5], np.float32)
    np.testing.assert_array_equal(ops.nms(boxes, scores, 0.5), [0])
    classes = np.array([7, 0, 2, 2])
    np.testing.assert_array_equal(ops.batched_nms(boxes, scores, classes, 0.5), [2, 0])
    boxes[0, 3] = np.nan
    np.testing.assert_array_equal(ops.nms(boxes, scores, 0.5), [2])


def test_inputs_that_do_not_fit_are_refused_with_the_way_out() -> None:
    boxes, scores, classes = scene(4)
    cases: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
        (TypeError, r'boxes is float64 \[4, 4\].*float32.*astype', (boxes.astype(float), scores)),
        (TypeError, "scores is int64", (boxes, classes)),
        (ValueError, "not contiguous.*ascontiguousarray", (boxes[:, ::-1], scores)),
        (ValueError, r"scores is float32 \[3\]: \[4\] is required", (boxes, scores[:3])),
        (ValueError, r"boxes is float32 \[4\]: \[N, 4\]", (scores, scores)),
        (TypeError, "boxes is a list; an array with __dlpack__", (boxes.tolist(), scores)),
    ]
    for kind, words, (wrong_boxes, wrong_scores) in cases:
        with pytest.raises(kind, match=words):
            ops.nms(wrong_boxes, wrong_scores, 0.5)
    with pytest.raises(ValueError, match="class -1"):
        ops.batched_nms(boxes, scores, np.full(4, -1), 0.5)
    with pytest.raises(ValueError, match="iou_threshold"):
        ops.nms(boxes, scores, 1.5)
    with pytest.raises(ValueError, match="threshold"):
        ops.nms_bev(np.zeros((4, 7), np.float32), scores, [0.5, 0.5], classes=np.arange(4))
    with pytest.raises(ValueError, match="linear"):
        ops.soft_nms(boxes, scores, method="hard")  # type: ignore[arg-type]


def test_boxes_that_begin_at_infinity_are_kept_without_suppression() -> None:
    boxes, scores, classes = scene(3)
    boxes[1, :2] = np.inf
    _, keep = mmcv.batched_nms(boxes, scores, classes, None)
    np.testing.assert_array_equal(np.sort(keep), [0, 1, 2])


# torch's tensor and torchvision's, which is of another package.
DERIVED_TYPE = """
import sys, types
import numpy as np
from det_post import _arrays, ops

class Tensor(np.ndarray):
    __module__ = "torch"

class BoundingBoxes(Tensor):
    __module__ = "torchvision.tv_tensors"

torch = types.ModuleType("torch")
torch.from_dlpack = lambda array: np.from_dlpack(array).view(Tensor)
sys.modules["torch"] = torch
boxes = np.eye(4, dtype=np.float32).view(BoundingBoxes)
assert type(ops.nms(boxes, np.ones(4, np.float32), 0.5)) is Tensor
assert _arrays.is_torch(boxes)
"""


def test_results_are_of_the_library_that_a_type_derives_from() -> None:
    # In a process of its own: a library is looked up once.
    subprocess.run([sys.executable, "-c", DERIVED_TYPE], check=True)


class PageLocked:
    """An array that its library says is in page-locked memory, as torch's ``pin_memory``."""

    CUDA_HOST = 3

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.CUDA_HOST, 0

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self.array.__dlpack__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # A tensor begins with a pointer and the device's type.
        address = pointer_of(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)
        ctypes.c_int32.from_address(address).value = self.CUDA_HOST
        return capsule


def test_page_locked_arrays_are_on_the_cpu() -> None:
    boxes, scores, _ = scene(20)
    found = ops.nms(PageLocked(boxes), PageLocked(scores), 0.5)
    np.testing.assert_array_equal(found, ops.nms(boxes, scores, 0.5))


class Older:
    """An array whose library knows no ``max_version``, as torch before 2.5."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.calls = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream: int | None = None) -> Any:
        assert stream is None
        self.calls += 1
        return self.array.__dlpack__()


def test_arrays_of_libraries_before_max_version_are_taken() -> None:
    boxes, scores, _ = scene(20)
    older = Older(boxes)
    found = ops.nms(older, Older(scores), 0.5)
    np.testing.assert_array_equal(found, ops.nms(boxes, scores, 0.5))
    assert older.calls == 1


class Broken(Older):
    """An array whose export fails for another reason."""

    def __dlpack__(self, stream: int | None = None) -> Any:
        raise TypeError("no float8 in DLPack")


def test_the_error_of_a_library_is_kept() -> None:
    boxes, scores, _ = scene(20)
    with pytest.raises(TypeError):
        ops.nms(Broken(boxes), scores, 0.5)


def test_read_only_arrays_are_taken_and_inputs_are_not_changed() -> None:
    boxes, scores, _ = scene(50)
    boxes.flags.writeable = scores.flags.writeable = False
    before = boxes.copy(), scores.copy()
    keep = ops.nms(boxes, scores, 0.4)
    keep[0] = 7
    np.testing.assert_array_equal(boxes, before[0])
    np.testing.assert_array_equal(scores, before[1])


def test_results_own_their_memory() -> None:
    keeps = [ops.nms(*scene(100, seed)[:2], 0.4) for seed in range(50)]
    gc.collect()
    for seed, keep in enumerate(keeps):
        np.testing.assert_array_equal(keep, ops.nms(*scene(100, seed)[:2], 0.4))


def test_a_thousand_calls_do_not_grow() -> None:
    boxes, scores, classes = scene(500)

    def calls() -> int:
        for _ in range(1000):
            ops.batched_nms(boxes, scores, classes, 0.4)
            ops.soft_nms(boxes[:50], scores[:50])
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    calls()
    before = calls()
    assert calls() - before < 512  # KiB


def test_a_call_costs_a_few_calls_of_numpy() -> None:
    boxes, scores, _ = scene(1)

    def seconds(call: Callable[[], object]) -> float:
        started = time.thread_time()
        for _ in range(1000):
            call()
        return time.thread_time() - started

    # A release build takes five times numpy's time here, a development build six to ten times.
    # Both are timed in turn, since the pace of a shared core changes.
    times = [
        (
            seconds(lambda: ops.nms(boxes, scores, 0.5)),
            seconds(lambda: np.argsort(scores, kind="stable")),
        )
        for _ in range(50)
    ]
    ours, numpy = (min(column) for column in zip(*times, strict=True))
    assert ours < 15 * numpy, f"{ours * 1e3:.2f} and {numpy * 1e3:.2f} us a call"


def test_torch_tensors_give_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    boxes, scores, classes = (torch.from_numpy(a) for a in scene(200))
    keep = ops.batched_nms(boxes, scores, classes, 0.4)
    assert keep.dtype == torch.int64 and keep.device.type == "cpu"
    expected = ops.batched_nms(boxes.numpy(), scores.numpy(), classes.numpy(), 0.4)
    np.testing.assert_array_equal(keep.numpy(), expected)
    with pytest.raises(TypeError, match=r"float64 \[200, 4\]"):
        ops.nms(boxes.double(), scores, 0.4)
    keep = ops.nms(boxes, scores.clone().requires_grad_(), 0.4)
    assert not keep.requires_grad


@pytest.mark.parametrize("num", [0, 1, 10, 1000])
def test_torchvision_gives_the_same(num: int) -> None:
    torchvision = pytest.importorskip("torchvision")
    torch = pytest.importorskip("torch")
    boxes, scores, classes = (torch.from_numpy(a) for a in scene(num, seed=num))
    # Thresholds that f32 holds: torchvision compares with the f64 number.
    for threshold in (0.125, 0.5, 0.875):
        expected = torchvision.ops.nms(boxes, scores, threshold)
        assert torch.equal(ops.nms(boxes, scores, threshold), expected)
        # torchvision moves the classes apart, which rounds coordinates: whole ones stay exact.
        whole = boxes.round()
        expected = torchvision.ops.batched_nms(whole, scores, classes, threshold)
        assert torch.equal(ops.batched_nms(whole, scores, classes, threshold), expected)


def f32(values: Any) -> Any:
    return np.array(values, np.float32)


def test_mmcv_batched_nms_of_its_table() -> None:
    table = tables.tables()["mmcv_batched_nms_iou_0p7"]
    boxes, scores, classes = f32(table["boxes"]), f32(table["scores"]), np.array(table["idxs"])
    dets, keep = mmcv.batched_nms(boxes, scores, classes, {"type": "nms", "iou_threshold": 0.7})
    np.testing.assert_array_equal(keep, table["keep"])
    np.testing.assert_array_equal(dets, np.hstack([boxes[keep], scores[keep, None]]))
    cfg = {"type": "nms", "iou_threshold": 0.7, "max_num": 100, "split_thr": 10}
    np.testing.assert_array_equal(mmcv.batched_nms(boxes, scores, classes, cfg)[1], table["keep"][:100])
    agnostic = mmcv.batched_nms(boxes, scores, classes, {"iou_threshold": 0.7}, class_agnostic=True)
    np.testing.assert_array_equal(agnostic[1], mmcv.nms(boxes, scores, 0.7)[1])
    everything = mmcv.batched_nms(boxes, scores, classes, None)[1]
    np.testing.assert_array_equal(everything, np.argsort(-scores, kind="stable"))
    with pytest.raises(TypeError, match="thr"):
        mmcv.batched_nms(boxes, scores, classes, {"iou_threshold": 0.7, "thr": 1})


def test_mmcv_nms3d_of_its_tables() -> None:
    literals = tables.literals()
    table = literals["mmcv_nms3d_5"]
    keep = mmcv.nms3d(f32(table["boxes"]), f32(table["scores"]), table["iou_threshold"])
    np.testing.assert_array_equal(keep, table["keep_in_order"])
    table = literals["mmcv_nms3d_555"]
    keep = mmcv.nms3d(f32(table["boxes"]), f32(table["scores"]), table["iou_threshold"])
    assert len(keep) == table["kept_count_rotated_exact_polygons"]


def test_mmdet3d_circle_and_aligned_nms_of_their_tables() -> None:
    table = tables.tables()["mmdet3d_circle_nms_0p175"]
    dets = f32(table["dets_x_y_score"])
    centers, scores = np.ascontiguousarray(dets[:, :2]), np.ascontiguousarray(dets[:, 2])
    keep = ops.circle_nms(centers, scores, 0.175, squared=True)
    np.testing.assert_array_equal(np.sort(keep), table["keep_sorted"])
    table = tables.literals()["mmdet3d_aligned_3d_nms"]
    corners = f32(table["boxes"])
    boxes = np.zeros((len(corners), 7), np.float32)
    boxes[:, :3] = 0.5 * (corners[:, :3] + corners[:, 3:])
    boxes[:, 3:6] = corners[:, 3:] - corners[:, :3]
    keep = ops.nms_3d(
        boxes, f32(table["scores"]), table["iou_threshold"], classes=np.array(table["classes"])
    )
    np.testing.assert_array_equal(keep, table["keep_in_order"])


def test_mmcv_functions_return_boxes_with_scores() -> None:
    boxes, scores, labels = scene(40)
    dets, inds = mmcv.nms(boxes, scores, 0.4, score_threshold=0.3, max_num=7)
    assert dets.shape == (7, 5) and (dets[:, 4] > 0.3).all()
    np.testing.assert_array_equal(dets, np.hstack([boxes, scores[:, None]])[inds])
    dets, inds = mmcv.soft_nms(boxes.astype(float), scores, method="gaussian")
    np.testing.assert_array_equal(dets[:, 4].astype(np.float32), ops.soft_nms(boxes, scores, method="gaussian")[1])
    rotated = np.hstack([boxes, np.full((40, 1), 0.3, np.float32)])
    dets, inds = mmcv.nms_rotated(rotated, scores, 0.2, labels=labels)
    assert dets.shape == (len(inds), 6)
    np.testing.assert_array_equal(inds, ops.nms_rotated(rotated, scores, 0.2, classes=labels))
    mirrored = rotated * f32([1, 1, 1, 1, -1])
    counter = mmcv.nms_rotated(mirrored, scores, 0.2, labels, clockwise=False)
    np.testing.assert_array_equal(counter[1], inds)
    assert mmcv.nms_rotated(rotated[:0], scores[:0], 0.2)[1] is None
    bev = boxes.copy()
    keep = mmcv.nms_bev(np.hstack([bev, np.zeros((40, 1), np.float32)]), scores, 0.4)
    np.testing.assert_array_equal(keep, ops.nms(bev, scores, 0.4))
    corners = np.hstack([bev, np.zeros((40, 1), np.float32)])
    first = np.argsort(-scores, kind="stable")[:20]
    keep = mmcv.nms_bev(corners, scores, 0.4, pre_max_size=20, post_max_size=3)
    expected = first[ops.nms(np.ascontiguousarray(bev[first]), scores[first], 0.4)][:3]
    np.testing.assert_array_equal(keep, expected)


def test_mmcv_functions_take_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    arrays = scene(40)
    boxes, scores, labels = (torch.from_numpy(a) for a in arrays)
    for function in (mmcv.nms, mmcv.soft_nms):
        dets, inds = function(boxes, scores, 0.4)
        expected = function(*arrays[:2], 0.4)
        assert torch.is_tensor(dets) and torch.is_tensor(inds)
        np.testing.assert_array_equal(dets.numpy(), expected[0])
        np.testing.assert_array_equal(inds.numpy(), expected[1])
    dets, inds = mmcv.batched_nms(boxes, scores, labels, {"type": "nms", "iou_threshold": 0.4})
    assert torch.equal(dets[:, 4], scores[inds])


def test_mmcv_takes_what_configurations_of_mmdetection_have() -> None:
    boxes, scores, labels = scene(40)
    expected = mmcv.nms(boxes, scores, 0.4)[1]
    np.testing.assert_array_equal(mmcv.nms(boxes, scores, iou_thr=0.4)[1], expected)  # type: ignore[call-arg]
    by_label = mmcv.batched_nms(boxes, scores, labels, {"type": "nms", "iou_threshold": 0.4})
    earlier = mmcv.batched_nms(boxes, scores, labels, {"type": "nms", "iou_thr": 0.4})
    np.testing.assert_array_equal(earlier[1], by_label[1])
    soft = mmcv.soft_nms(boxes, scores, iou_thr=0.4)  # type: ignore[call-arg]
    np.testing.assert_array_equal(soft[0], mmcv.soft_nms(boxes, scores, 0.4)[0])
    with pytest.raises(TypeError, match="give one of them"):
        mmcv.nms(boxes, scores, iou_threshold=0.4, iou_thr=0.4)  # type: ignore[call-arg]
    everything = mmcv.batched_nms(boxes, scores, None, None)
    np.testing.assert_array_equal(everything[1], mmcv.batched_nms(boxes, scores, labels, None)[1])


def test_mmcv_batched_nms_rotated_turns_as_told() -> None:
    boxes, scores, labels = scene(40)
    rotated = np.hstack([boxes, np.full((40, 1), 0.3, np.float32)])
    cfg = {"type": "nms_rotated", "iou_threshold": 0.2}
    mirrored = rotated * f32([1, 1, 1, 1, -1])
    expected = mmcv.batched_nms(rotated, scores, labels, cfg)
    turned = mmcv.batched_nms(mirrored, scores, labels, {**cfg, "clockwise": False})
    np.testing.assert_array_equal(turned[1], expected[1])
    np.testing.assert_array_equal(turned[0][:, :5], mirrored[turned[1]])
