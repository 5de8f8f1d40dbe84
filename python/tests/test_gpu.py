"""Arrays on a GPU: the results of the CPU, on any stream, without copies or growth."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from det_post import mmcv, ops

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)


def scene(num: int, seed: int = 0) -> dict[str, Any]:
    """Boxes of all kinds that overlap a lot, scores with ties, classes."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 60, (num, 2))
    in_space = np.hstack(
        [rng.uniform(-20, 20, (num, 3)), rng.uniform(1, 5, (num, 3)), rng.uniform(-4, 4, (num, 1))]
    )
    rotated = np.hstack(
        [corners, rng.uniform(2, 30, (num, 2)), rng.uniform(-2, 2, (num, 1))]
    )
    return {
        "boxes": np.hstack([corners, corners + rng.uniform(1, 30, (num, 2))]).astype(np.float32),
        "rotated": rotated.astype(np.float32),
        "space": in_space.astype(np.float32),
        "centers": in_space[:, :2].astype(np.float32),
        "scores": (rng.integers(0, 4000, num) / 4000).astype(np.float32),
        "classes": rng.integers(0, 3, num),
    }


def on_gpu(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.from_numpy(array).cuda() for name, array in arrays.items()}


CALLS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nms": lambda a: ops.nms(a["boxes"], a["scores"], 0.4),
    "nms_limited": lambda a: ops.nms(
        a["boxes"], a["scores"], 0.4, offset=1, score_threshold=0.2, max_num=7
    ),
    "batched_nms": lambda a: ops.batched_nms(a["boxes"], a["scores"], a["classes"], 0.4),
    "fast_nms": lambda a: ops.fast_nms(a["boxes"], a["scores"], 0.3, classes=a["classes"]),
    "soft_linear": lambda a: ops.soft_nms(a["boxes"], a["scores"], iou_threshold=0.3),
    "soft_gaussian": lambda a: ops.soft_nms(
        a["boxes"], a["scores"], method="gaussian", min_score=0.05, classes=a["classes"]
    ),
    "nms_rotated": lambda a: ops.nms_rotated(a["rotated"], a["scores"], 0.2, classes=a["classes"]),
    "nms_bev": lambda a: ops.nms_bev(a["space"], a["scores"], [0.1, 0.2, 0.3], classes=a["classes"]),
    "nms_bev_one_pass": lambda a: ops.nms_bev(a["space"], a["scores"], 0.1, one_pass=True),
    "nms_3d": lambda a: ops.nms_3d(a["space"], a["scores"], 0.1),
    "circle_nms": lambda a: ops.circle_nms(a["centers"], a["scores"], 2.0, classes=a["classes"]),
    "circle_squared": lambda a: ops.circle_nms(a["centers"], a["scores"], 1.5, squared=True),
}


def equal(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            equal(one, other)
        return
    if isinstance(found, torch.Tensor):
        assert found.is_cuda
        found = found.cpu().numpy()
    else:
        assert type(found).__module__.startswith("cupy")
        found = found.get()
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("num", [0, 1, 2, 300, 1025, 6000])
def test_survivors_are_those_of_the_cpu(name: str, num: int) -> None:
    arrays = scene(num, seed=num)
    equal(CALLS[name](on_gpu(arrays)), CALLS[name](arrays))


def test_classes_of_32_bits_and_slices_of_arrays() -> None:
    arrays = scene(500)
    gpu = on_gpu(arrays)
    found = ops.batched_nms(gpu["boxes"], gpu["scores"], gpu["classes"].int(), 0.4)
    equal(found, CALLS["batched_nms"](arrays))
    part = {name: array[3:301] for name, array in arrays.items()}
    for name in ("nms", "nms_3d", "circle_nms"):
        equal(CALLS[name]({key: array[3:301] for key, array in gpu.items()}), CALLS[name](part))


LAYOUTS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "v8": ((1, 84, 8400), {"num_classes": 80}),
    "v5": ((1, 2000, 9), {"num_classes": 4}),
    "obb": ((1, 4 + 3 + 1, 1500), {"num_classes": 3}),
    "end_to_end": ((1, 300, 6), {"num_classes": 80}),
    "yolox": ((1, 84 * 4, 8), {"num_classes": 3, "size": (128, 128)}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_boxes_of_networks_are_those_of_the_cpu(layout: Any, dtype: Any) -> None:
    shape, options = LAYOUTS[layout]
    tensor = np.random.default_rng(9).uniform(0, 1, shape).astype(dtype)
    if layout == "end_to_end":
        tensor[..., 5] = np.random.default_rng(2).integers(0, 80, shape[:2])
    for score_threshold, max_num in ((0.5, None), (0.9, 20), (2.0, None)):
        limits: Any = {"score_threshold": score_threshold, "max_num": max_num}
        expected = ops.decode_yolo(tensor, layout, **options, **limits)
        for _ in range(2):
            found = ops.decode_yolo(torch.from_numpy(tensor).cuda(), layout, **options, **limits)
            equal(found["rows"], expected["rows"])
            equal(found["classes"], expected["classes"])
            for name in ("boxes", "scores"):
                values = found[name].cpu().numpy()
                np.testing.assert_allclose(values, expected[name], rtol=2e-6, atol=1e-6)
        assert (score_threshold < 1) == (len(expected["rows"]) > 0)
    boxes = torch.from_numpy(tensor).cuda()
    with pytest.raises(ValueError, match="decode_yolo"):
        ops.decode_yolo(boxes[:, :3, :3].contiguous(), layout, **options)


def near(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same boxes in the same order; exponentials may round to the next number."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].is_cuda
        array = found[name].cpu().numpy()
        assert array.dtype == values.dtype and array.shape == values.shape
        if name in ("rows", "classes", "velocities"):
            np.testing.assert_array_equal(array, values)
        else:
            np.testing.assert_allclose(array, values, rtol=3e-7, atol=3e-7)


def maps(seed: int, dtype: Any, **channels: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(0, 1, (1, num, 40, 56)).astype(dtype) for name, num in channels.items()
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("has_variance", [False, True])
def test_boxes_of_centers_are_those_of_the_cpu(dtype: Any, has_variance: bool) -> None:
    copies = 2 if has_variance else 1
    channels = {"offset": 2, "height": 1, "size": 3, "rotation": 2, "velocity": 2}
    channels = {name: copies * num for name, num in channels.items()}
    tasks = [maps(num, dtype, heatmap=num, **channels) for num in (1, 2)]
    options: Any = {"origin": (-20, -30), "cell_size": (0.8, 0.8), "has_variance": has_variance}
    limits: Any
    for limits in (
        {"score_threshold": 0.7},
        {"score_threshold": 0.6, "max_num": 20},
        {"score_threshold": 2.0},
    ):
        expected = ops.decode_center(tasks, **options, **limits)
        for _ in range(2):
            found = ops.decode_center([on_gpu(task) for task in tasks], **options, **limits)
            near(found, expected)
        assert (len(expected["rows"]) > 0) == (limits["score_threshold"] < 1)
    without = [{k: v for k, v in task.items() if k != "velocity"} for task in tasks]
    found = ops.decode_center([on_gpu(task) for task in without], **options)
    near(found, ops.decode_center(without, **options))
    with pytest.raises(ValueError, match="size of task 0"):
        ops.decode_center([on_gpu({**tasks[0], "size": tasks[0]["heatmap"]})], **options)
    with pytest.raises(ValueError, match="offset is on the CPU"):
        ops.decode_center([{**on_gpu(tasks[0]), "offset": tasks[0]["offset"]}], **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_boxes_of_anchors_are_those_of_the_cpu(dtype: Any) -> None:
    arrays = maps(3, dtype, classes=8, boxes=28, directions=8)
    options: Any = {
        "point_range": (0, -10, -3, 20, 10, 1),
        "anchor_sizes": [(3.9, 1.6, 1.56), (0.8, 0.6, 1.7)],
        "anchor_heights": [-1.0, -0.6],
    }
    gpu = on_gpu(arrays)
    decode: Any = ops.decode_anchor
    limits: Any
    for limits in ({"score_threshold": 0.8}, {"max_num": 9}, {"score_threshold": 2.0}):
        for names in (("classes", "boxes"), ("classes", "boxes", "directions")):
            expected = decode(*(arrays[name] for name in names), **options, **limits)
            found = decode(*(gpu[name] for name in names), **options, **limits)
            near(found, expected)
    last = {name: array.transpose(0, 2, 3, 1).copy() for name, array in arrays.items()}
    options["channels_last"] = True
    expected = decode(*last.values(), **options)
    near(decode(*on_gpu(last).values(), **options), expected)
    options["channels_last"] = False
    with pytest.raises(ValueError, match="classes are"):
        ops.decode_anchor(gpu["boxes"], gpu["boxes"], **options)


def test_boxes_of_queries_are_those_of_the_cpu() -> None:
    rng = np.random.default_rng(8)
    arrays = {
        name: rng.normal(0, 1, (900, num)).astype(np.float32)
        for name, num in (("logits", 10), ("boxes", 11), ("quality", 2))
    }
    gpu = on_gpu(arrays)
    limits: Any
    for limits in ({"score_threshold": 0.3}, {"max_num": 17}, {"score_threshold": 2.0}):
        for names in (("logits", "boxes"), ("logits", "boxes", "quality")):
            expected = ops.decode_query(*(arrays[name] for name in names), **limits)
            near(ops.decode_query(*(gpu[name] for name in names), **limits), expected)
    for dtype in (np.float32, np.float16):
        outputs = [arrays[name][None].astype(dtype) for name in ("logits", "boxes")]
        outputs[1] = outputs[1][..., :10].copy()
        for channels_last in (True, False):
            if not channels_last:
                outputs = [array.transpose(0, 2, 1).copy() for array in outputs]
            late = [torch.from_numpy(array).cuda() for array in outputs]
            for limits in ({"score_threshold": 0.8}, {"max_num": 17}, {"score_threshold": 2.0}):
                options: Any = {"channels_last": channels_last, **limits}
                expected = ops.decode_streampetr(*outputs, **options)
                near(ops.decode_streampetr(*late, **options), expected)
    with pytest.raises(ValueError, match="of K queries"):
        ops.decode_streampetr(gpu["logits"][None], gpu["boxes"][None])
    with pytest.raises(ValueError, match=r"\[900, 11\] is required"):
        ops.decode_query(gpu["logits"], gpu["boxes"][:, :10].contiguous())
    with pytest.raises(ValueError, match=r"\[Q, classes\] is required"):
        ops.decode_query(gpu["logits"][0], gpu["boxes"])
    with pytest.raises(ValueError, match="9000 pairs exceed the limit of a GPU, 8192"):
        ops.decode_query(gpu["logits"], gpu["boxes"], max_num=9000)


GRID: Any = {"voxel_size": (0.5, 0.5, 4), "point_range": (-20, -20, -2, 20, 20, 2)}


@pytest.mark.parametrize("num", [0, 1, 1000, 30000, (1 << 21) + 1])
@pytest.mark.parametrize("limits", [{}, {"max_points_per_voxel": 5}, {"max_voxels": 300}])
def test_voxels_are_those_of_the_cpu(num: int, limits: Any) -> None:
    points = np.random.default_rng(num).normal(0, 9, (num, 5)).astype(np.float32)
    gpu = torch.from_numpy(points).cuda()
    equal(ops.voxelize(gpu, **GRID, **limits), ops.voxelize(points, **GRID, **limits))
    rows: Any = {"max_points_per_voxel": 20, **limits}
    for center_offset_z in (False, True):
        rows["center_offset_z"] = center_offset_z
        found = ops.pillar_features(gpu, **GRID, **rows)
        equal(found, ops.pillar_features(points, **GRID, **rows))
    odd = torch.cat([torch.zeros(1, device="cuda"), gpu.flatten()])[1:].view(num, 5)
    equal(ops.voxelize(odd, **GRID, **limits), ops.voxelize(points, **GRID, **limits))


def test_clouds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="x, y, z first"):
        ops.voxelize(torch.zeros((9, 2), device="cuda"), **GRID)
    with pytest.raises(ValueError, match="limits of"):
        ops.voxelize(torch.zeros((9, 3), device="cuda"), **GRID, max_voxels=0)
    with pytest.raises(ValueError, match="voxels of 100000 points"):
        ops.voxelize(torch.zeros((9, 3), device="cuda"), **GRID, max_points_per_voxel=100000)


def coordinates_of(seed: int, num: int, shape: Any = (9, 33, 40), batch: int = 2) -> Any:
    """Cells of which some are outside, some are there twice."""
    rng = np.random.default_rng(seed)
    sizes = zip((batch, *shape), (0, 1, 1, 1))
    columns = [rng.integers(-out, size + out, num) for size, out in sizes]
    return np.stack(columns, 1).astype(np.int32)


MODES: dict[str, dict[str, Any]] = {
    "submanifold 3": {"kernel_size": 3},
    "submanifold dilated": {"kernel_size": (1, 3, 3), "dilation": (1, 2, 1)},
    "strided": {"kernel_size": 3, "mode": "strided", "stride": 2, "padding": 1},
    "strided, cut": {"kernel_size": 2, "mode": "strided", "stride": 2, "max_sites": 50},
    "transposed": {"kernel_size": (2, 3, 1), "mode": "transposed", "stride": (2, 2, 1)},
}
PRECISIONS = {"float32": 0.0, "tf32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3}


def convolved(array: Callable[[Any], Any], mode: str, num: int, sizes: Any, precision: Any) -> Any:
    """Arrays of a level, of a rulebook, and a convolution with all options."""
    num_inputs, num_outputs = sizes
    rng = np.random.default_rng(num)
    sites = ops.Sites(array(coordinates_of(num, num)), (9, 33, 40), batch_size=2, max_sites=4000)
    rulebook = ops.Rulebook(sites, **MODES[mode])
    out = rulebook.sites
    features = array(rng.normal(0, 1, (num, num_inputs)).astype(np.float32))[sites.rows]
    taps = rulebook.table.shape[0]
    kernel = MODES[mode]["kernel_size"]
    kernel = (kernel,) * 3 if isinstance(kernel, int) else kernel
    assert taps == np.prod(kernel)
    weight = rng.normal(0, 0.3, (num_outputs, *kernel, num_inputs)).astype(np.float32)
    bias = rng.normal(0, 1, num_outputs).astype(np.float32)
    residual = rng.normal(0, 1, (len(out), num_outputs)).astype(np.float32)
    weights = ops.SparseWeights(array(weight), bias=array(bias), precision=precision)
    result = ops.sparse_conv(features, rulebook, weights, residual=array(residual), relu=True)
    plain = ops.sparse_conv(
        features, rulebook, ops.SparseWeights(array(weight), precision=precision)
    )
    levels = (sites.coordinates, sites.rows, out.coordinates, rulebook.table)
    counts = (len(sites), sites.num_dropped, len(out), out.num_dropped, out.shape, out.batch_size)
    return levels, counts, (result, plain)


def agree(found: Any, expected: Any, share: float) -> None:
    """Equal integers; floats equal, or apart by a share of the largest."""
    equal(found[0], expected[0])
    assert found[1] == expected[1]
    for one, other in zip(found[2], expected[2], strict=True):
        if share == 0:
            equal(one, other)
            continue
        one = one.cpu().numpy() if isinstance(one, torch.Tensor) else one.get()
        assert one.shape == other.shape and one.dtype == other.dtype
        assert np.abs(one - other).max(initial=0) <= share * np.abs(other).max(initial=0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_sparse_convolutions_are_those_of_the_cpu(mode: str, precision: str) -> None:
    for num in (0, 1, 2, 300, 6000):
        for sizes in [(4, 16), (5, 33), (32, 64), (96, 128)]:
            expected = convolved(lambda array: array, mode, num, sizes, precision)
            found = convolved(lambda a: torch.from_numpy(a).cuda(), mode, num, sizes, precision)
            agree(found, expected, PRECISIONS[precision])


def test_inverse_convolutions_are_those_of_the_cpu() -> None:
    def run(array: Callable[[Any], Any]) -> Any:
        rng = np.random.default_rng(3)
        sites = ops.Sites(array(coordinates_of(3, 900)), (9, 33, 40), batch_size=2)
        down = ops.Rulebook(sites, 3, mode="strided", stride=2, padding=1)
        # The same sites, made again.
        again = ops.Sites(array(coordinates_of(3, 900)), (9, 33, 40), batch_size=2)
        up = ops.Rulebook(down.sites, 3, mode="inverse", stride=2, padding=1, output=again)
        features = array(rng.normal(0, 1, (len(down.sites), 8)).astype(np.float32))
        weight = array(rng.normal(0, 1, (20, 3, 3, 3, 8)).astype(np.float32))
        return ops.sparse_conv(features, up, ops.SparseWeights(weight)), up.table

    equal(run(lambda array: torch.from_numpy(array).cuda()), run(lambda array: array))


def test_sparse_arrays_need_no_alignment() -> None:
    coordinates = coordinates_of(1, 500)
    gpu = torch.from_numpy(coordinates).cuda()
    odd = torch.cat([torch.zeros(1, dtype=torch.int32, device="cuda"), gpu.flatten()])
    sites = ops.Sites(odd[1:].view(500, 4), (9, 33, 40), batch_size=2)
    expected = ops.Sites(coordinates, (9, 33, 40), batch_size=2)
    equal(sites.coordinates, expected.coordinates)
    features = np.random.default_rng(2).normal(0, 1, (len(sites), 3)).astype(np.float32)
    weight = np.random.default_rng(3).normal(0, 1, (8, 3, 3, 3, 3)).astype(np.float32)
    flat = torch.cat([torch.zeros(1), torch.from_numpy(features).flatten()]).cuda()
    found = ops.sparse_conv(
        flat[1:].view(-1, 3), ops.Rulebook(sites, 3),
        ops.SparseWeights(torch.from_numpy(weight).cuda()),
    )
    equal(found, ops.sparse_conv(features, ops.Rulebook(expected, 3), weight))


def test_sparse_arrays_that_do_not_fit_are_refused() -> None:
    host = ops.Sites(coordinates_of(1, 50), (9, 33, 40), batch_size=2)
    cells = torch.from_numpy(coordinates_of(1, 50)).cuda()
    sites = ops.Sites(cells, (9, 33, 40), batch_size=2)
    rulebook, host_rulebook = ops.Rulebook(sites, 3), ops.Rulebook(host, 3)
    weight = torch.ones((8, 3, 3, 3, 4), device="cuda")
    features = torch.ones((len(sites), 4), device="cuda")
    weights, host_weights = ops.SparseWeights(weight), ops.SparseWeights(weight.cpu())
    coarse = ops.Rulebook(sites, 3, mode="strided", stride=2).sites
    conv = ops.sparse_conv
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ValueError, r"\[N, 4\] is required", lambda: ops.Sites(
            cells[:, :3].contiguous(), (9, 33, 40))),
        (TypeError, "int32 is required", lambda: ops.Sites(cells.long(), (9, 33, 40))),
        (ValueError, "SparseWeights", lambda: conv(features, rulebook, weight)),
        (ValueError, "weight is on the CPU, the sites are on cuda:0", lambda: conv(
            features, rulebook, host_weights)),
        (ValueError, "weight is on cuda:0, the sites are on the CPU", lambda: conv(
            features.cpu(), host_rulebook, weights)),
        (ValueError, "features is on the CPU", lambda: conv(features.cpu(), rulebook, weights)),
        (ValueError, "is required", lambda: conv(features[:3], rulebook, weights)),
        (ValueError, "is required", lambda: conv(features, rulebook, weights, residual=features)),
        (ValueError, "Cout, 3, 3, 3, Cin", lambda: conv(
            features, rulebook, ops.SparseWeights(weight[:, :1].contiguous()))),
        (ValueError, "NaN or infinite", lambda: ops.SparseWeights(weight * float("nan"))),
        (TypeError, "float32 is required", lambda: ops.SparseWeights(weight.double())),
        (ValueError, "sites are on cuda:0, output is on the CPU", lambda: ops.Rulebook(
            coarse, 3, mode="inverse", stride=2, output=host)),
        (ValueError, "odd kernel", lambda: ops.Rulebook(sites, 2)),
    ]
    for kind, words, call in cases:
        with pytest.raises(kind, match=words):
            call()
    assert bool((conv(features, rulebook, weights) > 0).all())


def test_sparse_inputs_are_awaited_on_any_stream() -> None:
    def run(cells: Any, features: Any, weights: Any) -> Any:
        sites = ops.Sites(cells, (9, 33, 40), batch_size=2)
        rulebook = ops.Rulebook(sites, 3, mode="strided", stride=2, padding=1)
        return ops.sparse_conv(features[: len(sites)], rulebook, weights), rulebook.sites.coordinates

    rng = np.random.default_rng(4)
    cells = coordinates_of(4, 3000)
    features = rng.normal(0, 1, (3000, 16)).astype(np.float32)
    weight = rng.normal(0, 1, (32, 3, 3, 3, 16)).astype(np.float32)
    expected = run(cells, features, weight)
    weights = ops.SparseWeights(torch.from_numpy(weight).cuda())
    source = on_gpu({"cells": cells, "features": features})
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            for _ in range(5):
                late = {name: torch.zeros_like(array) for name, array in source.items()}
                torch.cuda._sleep(20_000_000)
                for name, array in source.items():
                    late[name].copy_(array)
                found = run(late["cells"], late["features"], weights)
                # The caching allocator gives their memory to the next tensors at once.
                del late
                torch.full((3000, 16), float("nan"), device="cuda")
                equal(found, expected)


def test_sparse_convolutions_of_cupy_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True):
        for mode in MODES:
            expected = convolved(lambda array: array, mode, 700, (5, 33), "float32")
            agree(convolved(cupy.asarray, mode, 700, (5, 33), "float32"), expected, 0.0)


def test_a_thousand_sparse_convolutions_do_not_grow() -> None:
    cells = torch.from_numpy(coordinates_of(5, 3000)).cuda()
    features = torch.ones((3000, 16), device="cuda")
    weight = torch.ones((32, 3, 3, 3, 16), device="cuda")
    weights = ops.SparseWeights(weight)

    def call(num: int) -> None:
        sites = ops.Sites(cells[:num], (9, 33, 40), batch_size=2)
        rulebook = ops.Rulebook(sites, 3, mode="strided", stride=2, padding=1)
        up = ops.Rulebook(rulebook.sites, 3, mode="inverse", stride=2, padding=1, output=sites)
        out = ops.sparse_conv(features[: len(sites)], rulebook, weights)
        assert len(out) == len(rulebook.sites) and len(up.sites.coordinates) == len(sites)

    for num in (3000, 2000):
        call(num)
    gc.collect()
    torch.cuda.synchronize()
    free, held = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
    for index in range(1000):
        call(2000 + index)
    for _ in range(50):
        ops.SparseWeights(weight)
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == held
    assert torch.cuda.mem_get_info()[0] >= free - (2 << 20)


def test_threads_share_levels_and_weights() -> None:
    rng = np.random.default_rng(6)
    cells = coordinates_of(6, 2000)
    weight = rng.normal(0, 1, (16, 3, 3, 3, 8)).astype(np.float32)
    sites = ops.Sites(torch.from_numpy(cells).cuda(), (9, 33, 40), batch_size=2)
    rulebook = ops.Rulebook(sites, 3)
    weights = ops.SparseWeights(torch.from_numpy(weight).cuda())
    host = ops.Rulebook(ops.Sites(cells, (9, 33, 40), batch_size=2), 3)
    wrong: list[str] = []

    def work(seed: int) -> None:
        features = np.random.default_rng(seed).normal(0, 1, (len(sites), 8)).astype(np.float32)
        expected = ops.sparse_conv(features, host, weight)
        gpu = torch.from_numpy(features).cuda()
        for _ in range(50):
            try:
                equal(ops.sparse_conv(gpu, rulebook, weights), expected)
                equal(ops.Rulebook(sites, 3).table, host.table)
            except Exception as error:
                wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


@pytest.mark.parametrize("encoding", ["rgb8", "bgra8", "mono8", "mono16", "nv12", "bayer_rggb8"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_letterbox_is_that_of_the_cpu(encoding: str, dtype: Any) -> None:
    rng = np.random.default_rng(4)
    shape = {"rgb8": (90, 160, 3), "bgra8": (90, 160, 4), "nv12": (135, 160)}.get(
        encoding, (90, 160)
    )
    most, element = (65536, np.uint16) if encoding == "mono16" else (256, np.uint8)
    image = rng.integers(0, most, shape, element)
    options: Any = {"encoding": encoding, "mean": [10, 20, 30], "std": [50, 60, 70], "dtype": dtype}
    expected, affine = ops.letterbox(image, (128, 96), **options)
    found, same = ops.letterbox(torch.from_numpy(image).cuda(), (128, 96), **options)
    assert affine == same
    equal(found, expected)


def test_an_image_at_the_end_of_its_allocation_is_read() -> None:
    image = np.random.default_rng(5).integers(0, 256, (64, 64, 3), np.uint8)
    expected, _ = ops.letterbox(image, (32, 32))
    size = 20 << 20
    block = torch.empty(size, dtype=torch.uint8, device="cuda")
    end = block[size - image.size :].view(64, 64, 3)
    end.copy_(torch.from_numpy(image))
    for _ in range(3):
        equal(ops.letterbox(end, (32, 32))[0], expected)
    shifted = block[size - image.size - 3 : size - 3].view(64, 64, 3)
    with pytest.raises(ValueError, match="not a multiple of 16"):
        ops.letterbox(shifted, (32, 32))


def test_inputs_are_awaited_on_any_stream() -> None:
    arrays = scene(2000)
    expected = CALLS["nms"](arrays)
    source = on_gpu(arrays)
    for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            stream.wait_stream(torch.cuda.default_stream())
            for _ in range(5):
                boxes = torch.full_like(source["boxes"], 7)
                scores = torch.full_like(source["scores"], 0.5)
                torch.cuda._sleep(20_000_000)
                boxes.copy_(source["boxes"])
                scores.copy_(source["scores"])
                found = ops.nms(boxes, scores, 0.4)
                # The caching allocator gives their memory to the next tensors at once.
                del boxes, scores
                torch.full((2000, 4), float("nan"), device="cuda")
                equal(found, expected)


def test_clouds_and_maps_are_awaited_on_any_stream() -> None:
    cloud = np.random.default_rng(6).normal(0, 9, (20000, 4)).astype(np.float32)
    voxels = ops.voxelize(cloud, **GRID)
    channels = {"heatmap": 2, "offset": 2, "height": 1, "size": 3, "rotation": 2}
    task = maps(1, np.float32, **channels)
    options: Any = {"origin": (0, 0), "cell_size": (1, 1), "score_threshold": 0.7}
    boxes = ops.decode_center([task], **options)
    source, ready = on_gpu({**task, "cloud": cloud}), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(ready):
        for _ in range(5):
            late = {name: torch.zeros_like(array) for name, array in source.items()}
            torch.cuda._sleep(20_000_000)
            for name, array in source.items():
                late[name].copy_(array)
            points = late.pop("cloud")
            found = ops.voxelize(points, **GRID)
            del points
            equal(found, voxels)
            near(ops.decode_center([late], **options), boxes)


@pytest.mark.parametrize("name", CALLS)
def test_cupy_arrays_on_a_stream_of_their_own(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    arrays = scene(700)
    expected = CALLS[name](arrays)
    with cupy.cuda.Stream(non_blocking=True):
        equal(CALLS[name]({key: cupy.asarray(array) for key, array in arrays.items()}), expected)
        image = np.random.default_rng(5).integers(0, 256, (64, 64, 3), np.uint8)
        found, _ = ops.letterbox(cupy.asarray(image), (32, 32))
        equal(found, ops.letterbox(image, (32, 32))[0])


def test_survivors_are_those_of_torchvision() -> None:
    torchvision = pytest.importorskip("torchvision")
    for num in (1, 500, 5000):
        arrays = scene(num)
        arrays["scores"] = np.random.default_rng(1).permutation(num).astype(np.float32)
        gpu = on_gpu(arrays)
        theirs = torchvision.ops.nms(gpu["boxes"], gpu["scores"], 0.45)
        assert torch.equal(ops.nms(gpu["boxes"], gpu["scores"], 0.45), theirs)


def test_results_belong_to_the_librarys_allocator() -> None:
    gpu = on_gpu(scene(3000))
    # What other tests have left must not be freed meanwhile.
    gc.collect()
    before = torch.cuda.memory_allocated()
    found = ops.nms(gpu["boxes"], gpu["scores"], 0.4)
    held = torch.cuda.memory_allocated() - before
    assert 0 < held <= -(-8 * len(found) // 512) * 512
    del found
    assert torch.cuda.memory_allocated() == before


def test_a_thousand_calls_do_not_grow() -> None:
    gpu = on_gpu(scene(800))
    image = torch.zeros((270, 480, 3), dtype=torch.uint8, device="cuda")
    points = torch.randn((5000, 4), device="cuda") * 9
    channels = {"heatmap": 2, "offset": 2, "height": 1, "size": 3, "rotation": 2, "velocity": 2}
    task = on_gpu(maps(1, np.float32, **channels))
    anchors: Any = {"anchor_sizes": [(4, 2, 1.5)], "anchor_heights": [-1.0]}
    logits, boxes = task["heatmap"], torch.randn((1, 14, 40, 56), device="cuda")
    queries = torch.randn((300, 10), device="cuda"), torch.randn((300, 11), device="cuda")

    def calls() -> None:
        for call in CALLS.values():
            call(gpu)
        ops.letterbox(image, (128, 128))
        ops.voxelize(points, **GRID)
        ops.pillar_features(points, **GRID, max_points_per_voxel=20)
        ops.decode_center([task], origin=(0, 0), cell_size=(1, 1), score_threshold=0.7)
        ops.decode_anchor(logits, boxes, point_range=(0, 0, -3, 9, 9, 1), **anchors)
        ops.decode_query(*queries)
        ops.decode_streampetr(queries[0][None], queries[1][None, :, :10].contiguous())

    for _ in range(5):
        calls()
    torch.cuda.synchronize()
    free, held = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
    for _ in range(1000 // len(CALLS) + 1):
        calls()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == held
    assert torch.cuda.mem_get_info()[0] >= free - (2 << 20)


def test_threads_share_nothing() -> None:
    scenes = [scene(1500, seed) for seed in range(4)]
    wrong: list[str] = []

    def work(arrays: dict[str, Any]) -> None:
        gpu = on_gpu(arrays)
        for name in ("nms", "nms_bev", "soft_gaussian"):
            expected = CALLS[name](arrays)
            for _ in range(20):
                try:
                    equal(CALLS[name](gpu), expected)
                except Exception as error:
                    wrong.append(f"{name}: {error}")

    threads = [threading.Thread(target=work, args=(arrays,)) for arrays in scenes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


class Foreign:
    """An array of a library that is not known."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()

    def __len__(self) -> int:
        return len(self.tensor)


def test_what_does_not_fit_is_refused() -> None:
    arrays = scene(10)
    gpu = on_gpu(arrays)
    boxes, scores = gpu["boxes"], gpu["scores"]
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ValueError, "scores is on the CPU", lambda: ops.nms(boxes, arrays["scores"], 0.5)),
        (TypeError, "float64", lambda: ops.nms(boxes.double(), scores, 0.5)),
        (ValueError, "contiguous", lambda: ops.nms(boxes.flip(1)[:, ::2], scores, 0.5)),
        (ValueError, "10 boxes, 3 scores", lambda: ops.nms(boxes, scores[:3], 0.5)),
        (ValueError, "class is out of range", lambda: ops.batched_nms(
            boxes, scores, gpu["classes"] - 5, 0.5)),
        (TypeError, "arrays of torch or cupy", lambda: ops.nms(Foreign(boxes), Foreign(scores), 0.5)),
    ]
    for kind, words, call in cases:
        with pytest.raises(kind, match=words):
            call()
    equal(ops.nms(boxes, scores, 0.4), CALLS["nms"](arrays))


def test_mmcv_takes_tensors_of_a_gpu() -> None:
    arrays = scene(400)
    gpu = on_gpu(arrays)
    equal(mmcv.nms(gpu["boxes"], gpu["scores"], 0.4), mmcv.nms(arrays["boxes"], arrays["scores"], 0.4))
    equal(
        mmcv.nms_bev(gpu["space"][:, [0, 1, 3, 4, 6]], gpu["scores"], 0.2),
        mmcv.nms_bev(arrays["space"][:, [0, 1, 3, 4, 6]], arrays["scores"], 0.2),
    )
    points = np.random.default_rng(0).uniform(-25, 25, (3000, 4)).astype(np.float32)
    cloud = torch.from_numpy(points).cuda()
    for limits in ((5, 40), (-1, -1)):
        equal(mmcv.voxelization(cloud, *GRID.values(), *limits), mmcv.voxelization(points, *GRID.values(), *limits))


def test_the_time_of_a_call_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for num in (0, 300, 1000, 6000):
        gpu = on_gpu(scene(num))
        for name in ("nms", "nms_bev"):
            call = CALLS[name]
            for _ in range(20):
                call(gpu)
            times = []
            for _ in range(200):
                started = time.perf_counter()
                call(gpu)
                times.append(time.perf_counter() - started)
            rows.append(f"{name} {num}: {sorted(times)[100] * 1e6:.0f} us")
        torchvision = pytest.importorskip("torchvision")
        theirs = []
        for _ in range(200):
            started = time.perf_counter()
            torchvision.ops.nms(gpu["boxes"], gpu["scores"], 0.4)
            torch.cuda.synchronize()
            theirs.append(time.perf_counter() - started)
        rows.append(f"torchvision {num}: {sorted(theirs)[100] * 1e6:.0f} us")
    with capsys.disabled():
        print("\n" + ", ".join(rows))
    assert all(row.endswith("us") for row in rows)
