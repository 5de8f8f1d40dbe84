"""Sparse maps, overlaps, batches and affines on a GPU against the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from det_post import mmcv, ops

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from test_batches import images, raw_outputs, v8  # noqa: E402
from test_bev_pool import inputs, pool_of  # noqa: E402
from test_gpu import GRID, coordinates_of, equal, on_gpu, scene  # noqa: E402

KINDS = ["torch", "cupy"]


def placed(kind: str) -> Callable[[Any], Any]:
    """Arrays of a library on the GPU."""
    if kind == "torch":
        return lambda array: torch.from_numpy(np.ascontiguousarray(array)).cuda()
    return pytest.importorskip("cupy").asarray


def bits(array: Any) -> Any:
    """A tensor of bfloat16 as numbers."""
    return array.cpu().view(torch.int16).numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num", [0, 1, 300, 6000])
def test_pooling_and_maps_are_those_of_the_cpu(kind: str, num: int) -> None:
    shape = (9, 33, 40)
    cells = coordinates_of(num, num, shape)
    values = np.random.default_rng(num).normal(0, 1, (num, 5)).astype(np.float32)

    def run(array: Callable[[Any], Any], element: Any) -> Any:
        sites = ops.Sites(array(cells), shape, batch_size=2)
        features = array(values.astype(element))
        down = ops.Rulebook(sites, 3, mode="strided", stride=2, padding=1)
        rows = features[sites.rows]
        numbers = (sites.num_duplicates, sites.num_outside, sites.num_dropped)
        return numbers, (
            ops.sparse_max_pool(rows, down),
            ops.to_map(rows, sites),
            ops.to_map(rows, sites, axes=(2, 0, 1)),
            ops.scatter(features, array(cells), shape, batch_size=2),
            *ops.indice_pairs(down),
        )

    for element in (np.float32, np.float16):
        found = run(placed(kind), element)
        expected = run(lambda array: array, element)
        assert found[0] == expected[0]
        equal(found[1], expected[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(40,), (33, 40)])
def test_levels_of_fewer_axes_are_those_of_the_cpu(kind: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    cells = np.stack([rng.integers(-1, size + 1, 400) for size in (2, *shape)], 1).astype(np.int32)
    weight = rng.normal(0, 1, (8, *(3,) * len(shape), 5)).astype(np.float32)
    values = rng.normal(0, 1, (400, 5)).astype(np.float32)

    def run(array: Callable[[Any], Any]) -> Any:
        sites = ops.Sites(array(cells), shape, batch_size=2)
        down = ops.Rulebook(sites, 3, mode="strided", stride=2, padding=1)
        features = array(values)[sites.rows]
        weights = ops.SparseWeights(array(weight))
        return (
            sites.coordinates, sites.rows, down.sites.coordinates,
            ops.sparse_conv(features, down, weights), ops.to_map(features, sites),
        )

    equal(run(placed(kind)), run(lambda array: array))
    with pytest.raises(TypeError, match="int32 is required"):
        ops.Sites(placed(kind)(cells.astype(np.int64)), shape)
    with pytest.raises(ValueError, match="is required"):
        ops.Sites(placed(kind)(cells[:, :1]), shape)


def test_features_of_16_bits_are_those_of_the_cpu() -> None:
    cells = coordinates_of(5, 700)
    rng = np.random.default_rng(5)
    values = rng.normal(0, 1, (700, 8))
    weight = rng.normal(0, 1, (16, 3, 3, 3, 8))
    added = rng.normal(0, 1, (700, 16))

    def run(device: str, element: Any, precision: Any) -> Any:
        sites = ops.Sites(torch.from_numpy(cells).to(device), (9, 33, 40), batch_size=2)
        tensors = [torch.from_numpy(one).to(device, element) for one in (values, weight, added)]
        features, weights, residual = tensors
        return ops.sparse_conv(
            features[: len(sites)], ops.Rulebook(sites, 3),
            ops.SparseWeights(weights, precision=precision),
            residual=residual[: len(sites)], relu=True,
        )

    for element in (torch.float16, torch.bfloat16):
        found, expected = run("cuda", element, "float32"), run("cpu", element, "float32")
        assert found.is_cuda and found.dtype == expected.dtype == element
        np.testing.assert_array_equal(bits(found), bits(expected))
    for element, precision in [(torch.float16, "float16"), (torch.bfloat16, "bfloat16")]:
        found, expected = run("cuda", element, precision), run("cpu", element, precision)
        far = (found.cpu().float() - expected.float()).abs().max() / expected.float().abs().max()
        assert far <= 1e-2, float(far)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num", [0, 1, 1000, 30000])
@pytest.mark.parametrize("limits", [{}, {"max_points_per_voxel": 5}, {"max_voxels": 300}])
def test_means_of_voxels_are_those_of_the_cpu(kind: str, num: int, limits: Any) -> None:
    points = np.random.default_rng(num).normal(0, 9, (num, 5)).astype(np.float32)
    found = ops.voxel_mean(placed(kind)(points), **GRID, **limits)
    equal(found, ops.voxel_mean(points, **GRID, **limits))
    near = (points * np.float32(0.01)).astype(np.float32)
    equal(ops.voxel_mean(placed(kind)(near), **GRID, **limits), ops.voxel_mean(near, **GRID, **limits))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num", [0, 1, 37, 400])
def test_overlaps_are_those_of_the_cpu(kind: str, num: int) -> None:
    first, second = scene(num), scene(61, seed=1)
    array = placed(kind)
    measures: list[Any] = ["iou", "iof", "intersection"]
    for name in ("boxes", "rotated", "space"):
        for measure in measures:
            found = ops.box_overlaps(array(first[name]), array(second[name]), measure=measure)
            equal(found, ops.box_overlaps(first[name], second[name], measure=measure))
            rows = [one[name][: min(num, 61)] for one in (first, second)]
            found = ops.box_overlaps(*map(array, rows), measure=measure, aligned=True)
            equal(found, ops.box_overlaps(*rows, measure=measure, aligned=True))
    boxes = [one["boxes"] for one in (first, second)]
    equal(ops.box_overlaps(*map(array, boxes), offset=1), ops.box_overlaps(*boxes, offset=1))
    points = np.random.default_rng(num).uniform(-20, 20, (500, 3)).astype(np.float32)
    for is_first in (False, True):
        found = ops.points_in_boxes(array(points), array(first["space"]), first=is_first)
        equal(found, ops.points_in_boxes(points, first["space"], first=is_first))


def test_functions_of_mmcv_are_those_of_the_cpu() -> None:
    arrays = scene(200)
    gpu = on_gpu(arrays)
    dets = np.hstack([arrays["boxes"], arrays["scores"][:, None]])
    found = mmcv.nms_match(torch.from_numpy(dets).cuda(), 0.3)
    for one, other in zip(found, mmcv.nms_match(dets, 0.3), strict=True):
        equal(one, other)
    for call in (
        lambda a: mmcv.nms3d_normal(a["space"], a["scores"], 0.1),
        lambda a: mmcv.nms_normal_bev(a["rotated"], a["scores"], 0.1),
        lambda a: mmcv.boxes_iou3d(a["space"], a["space"]),
        lambda a: mmcv.boxes_overlap_bev(a["space"], a["space"]),
        lambda a: mmcv.bbox_overlaps(a["boxes"], a["boxes"], mode="iof"),
        lambda a: mmcv.box_iou_rotated(a["rotated"], a["rotated"], clockwise=False),
        lambda a: mmcv.points_in_boxes_part(a["space"][None, :, :3], a["space"][None]),
        lambda a: mmcv.points_in_boxes_all(a["space"][None, :, :3], a["space"][None]),
    ):
        equal(call(gpu), call(arrays))


@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_affines_are_those_of_the_cpu(kind: str) -> None:
    array = placed(kind)
    batch = images(3, 48, 64)
    for dtype in ("float32", "float16"):
        options: Any = {"dtype": dtype}
        found, affines = ops.letterbox(array(batch), (32, 32), **options)
        expected, of_cpu = ops.letterbox(batch, (32, 32), **options)
        equal(found, expected)
        assert affines == of_cpu
        # Parts that begin between multiples of 16 bytes.
        odd = images(3, 31, 21)
        equal(
            ops.letterbox(array(odd), (33, 35), **options)[0],
            ops.letterbox(odd, (33, 35), **options)[0],
        )
        found, affines = ops.letterbox([array(batch[0]), array(batch[1, :32])], (32, 32), **options)
        expected, of_cpu = ops.letterbox([batch[0], batch[1, :32]], (32, 32), **options)
        equal(found, expected)
        assert affines == of_cpu
        for antialias in (False, True):
            options["antialias"] = antialias
            turn = [[0.4, 0.1, 3], [-0.1, 0.5, 2]]
            matrices: Any = [turn, [0.5, 0.5, 1, 0], [[0, 1, 0], [-1, 0, 40]]]
            found = ops.warp_affine(array(batch), matrices, (32, 48), **options)
            equal(found, ops.warp_affine(batch, matrices, (32, 48), **options))
    outputs = v8(3)
    options = {"num_classes": 3, "score_threshold": 0.5, "batch": True}
    affine: Any = [(0.5, 0.25, 3.0, -4.0), [[0, 2, 0], [-2, 0, 100]], (1.0, 1.0, 0.0, 0.0)]
    for mapping in (None, affine):
        found = ops.decode_yolo(array(outputs), "v8", affine=mapping, **options)
        for one, other in zip(found, ops.decode_yolo(outputs, "v8", affine=mapping, **options), strict=True):
            for name, column in other.items():
                equal(one[name], column)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_flat", [False, True])
def test_raw_outputs_of_yolov5_are_those_of_the_cpu(kind: str, is_flat: bool) -> None:
    levels, anchors, strides = raw_outputs(np.random.default_rng(6), 2, 4)
    if is_flat:
        levels = [
            np.ascontiguousarray(level.transpose(0, 1, 4, 2, 3).reshape(2, -1, *level.shape[2:4]))
            for level in levels
        ]
    options: Any = {
        "num_classes": 4, "score_threshold": 0.3, "size": (48, 64), "anchors": anchors,
        "strides": strides,
    }
    for frame in range(2):
        one = [np.ascontiguousarray(level[frame : frame + 1]) for level in levels]
        found = ops.decode_yolo([placed(kind)(level) for level in one], "v5_raw", **options)
        expected = ops.decode_yolo(one, "v5_raw", **options)
        assert len(expected["scores"]) > 5
        equal(found["classes"], expected["classes"])
        equal(found["rows"], expected["rows"])
        for name in ("boxes", "scores"):
            column = found[name].cpu().numpy() if kind == "torch" else found[name].get()
            np.testing.assert_allclose(column, expected[name], rtol=1e-5, atol=1e-4)


def test_results_are_complete_on_any_stream() -> None:
    cells = torch.from_numpy(coordinates_of(4, 3000)).cuda()
    sites = ops.Sites(cells, (9, 33, 40), batch_size=2)
    features = torch.ones((len(sites), 8), device="cuda", dtype=torch.float16)
    side = torch.cuda.Stream()
    for _ in range(5):
        map_ = ops.to_map(features.bfloat16(), sites)
        with torch.cuda.stream(side):
            total = float(map_.sum(dtype=torch.float64))
        assert total == len(sites) * 8


@pytest.mark.parametrize("kind", KINDS)
def test_maps_of_cameras_are_those_of_the_cpu(kind: str) -> None:
    pool, here = pool_of(), pool_of()
    for element in (np.float32, np.float16):
        depth, features = (array.astype(element) for array in inputs())
        for present in (None, [False, True, True], None):
            # Fewer channels, then more: the memory of a pool grows.
            for channels in (3, 7):
                rows = np.ascontiguousarray(features[..., :channels])
                found = ops.bev_pool(placed(kind)(depth), placed(kind)(rows), pool, present=present)
                equal(found, ops.bev_pool(depth, rows, here, present=present))
    mixed = placed(kind)(depth), placed(kind)(rows.astype(np.float32))
    with pytest.raises(ValueError, match="float16 is required"):
        ops.bev_pool(*mixed, pool)


def test_maps_of_bfloat16_are_those_of_the_cpu() -> None:
    tensors = [torch.from_numpy(array).bfloat16() for array in inputs()]
    expected = ops.bev_pool(*tensors, pool_of())
    found = ops.bev_pool(*(tensor.cuda() for tensor in tensors), pool_of())
    assert found.is_cuda and found.dtype == torch.bfloat16
    np.testing.assert_array_equal(bits(found), bits(expected))
