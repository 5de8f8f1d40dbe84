"""Images and points to the inputs of networks, against references written here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from det_post import mmcv, ops


def resized(image: Any, height: int, width: int) -> Any:
    """Bilinear resizing with the centres of pixels aligned, as f32."""

    def taps(source: int, target: int) -> tuple[Any, Any, Any]:
        position = (np.arange(target) + 0.5) * source / target - 0.5
        position = position.clip(0, source - 1)
        first = np.floor(position).astype(int)
        return first, np.minimum(first + 1, source - 1), (position - first).astype(np.float32)

    image = image.astype(np.float32)
    top, bottom, weight = taps(image.shape[0], height)
    rows = image[top] + (image[bottom] - image[top]) * weight[:, None, None]
    left, right, weight = taps(image.shape[1], width)
    return rows[:, left] + (rows[:, right] - rows[:, left]) * weight[None, :, None]


@pytest.fixture
def image() -> Any:
    return np.random.default_rng(7).integers(0, 256, (36, 64, 3), np.uint8)


def test_an_image_of_the_inputs_size_is_only_normalised(image: Any) -> None:
    tensor, affine = ops.letterbox(image, (36, 64))
    assert tensor.shape == (1, 3, 36, 64) and tensor.dtype == np.float32
    assert affine == (1, 1, 0, 0)
    expected = image.transpose(2, 0, 1)[None].astype(np.float32) * np.float32(1 / np.float32(255))
    np.testing.assert_array_equal(tensor, expected)


@pytest.mark.parametrize("placement", ["center", "top_left", "stretch"])
def test_letterbox_resizes_and_places(image: Any, placement: Any) -> None:
    mean, std = [10.0, 20.0, 30.0], [50.0, 60.0, 70.0]
    tensor, affine = ops.letterbox(
        image, (96, 96), placement=placement, channel_order="bgr", mean=mean, std=std
    )
    height = 96 if placement == "stretch" else 54
    top = {"center": 21, "top_left": 0, "stretch": 0}[placement]
    expected = np.full((96, 96, 3), 114, np.float32)
    expected[top : top + height] = resized(image, height, 96)[:, :, ::-1]
    expected = (expected - np.float32(mean)) / np.float32(std)
    np.testing.assert_allclose(tensor[0].transpose(1, 2, 0), expected, atol=1e-4)
    assert affine == (1.5, np.float32(height / 36), 0, top)


def test_encodings_and_types_of_the_input(image: Any) -> None:
    rgb, _ = ops.letterbox(image, (18, 32))
    bgr = np.ascontiguousarray(image[:, :, ::-1])
    np.testing.assert_array_equal(ops.letterbox(bgr, (18, 32), encoding="bgr8")[0], rgb)
    rgba = np.dstack([image, image[:, :, :1]])
    np.testing.assert_array_equal(ops.letterbox(rgba, (18, 32), encoding="rgba8")[0], rgb)
    half, _ = ops.letterbox(image, (18, 32), dtype="float16")
    np.testing.assert_array_equal(half, rgb.astype(np.float16))
    mono = np.ascontiguousarray(image[:, :, 0])
    planes, _ = ops.letterbox(mono, (18, 32), encoding="mono8")
    np.testing.assert_array_equal(planes[0, 1], rgb[0, 0])
    wide = mono.astype(np.uint16) * 257
    np.testing.assert_array_equal(ops.letterbox(wide, (18, 32), encoding="mono16")[0], planes)
    nv12 = np.full((54, 64), 128, np.uint8)
    grey, _ = ops.letterbox(nv12, (36, 64), encoding="nv12")
    assert np.ptp(grey) == 0


def test_images_that_do_not_fit_are_refused(image: Any) -> None:
    cases = [
        (ValueError, r"uint8 \[H, W, 4\] is required for rgba8", image, {"encoding": "rgba8"}),
        (ValueError, r"uint8 \[36, 64, 3\]: uint16 \[H, W\]", image, {"encoding": "mono16"}),
        (ValueError, "float64", image / 255, {}),
        (ValueError, "not contiguous", image[:, ::2], {}),
        (ValueError, 'placement must be one of center, top_left.* found "left"', image, {"placement": "left"}),
        (ValueError, "encoding", image, {"encoding": "jpeg"}),
        (ValueError, r"\[7, 4\]: uint8 \[H \* 3 / 2, W\]", np.zeros((7, 4), np.uint8), {"encoding": "nv12"}),
        (ValueError, r"\[5, 4\]: uint8 \[H \* 3 / 2, W\]", np.zeros((5, 4), np.uint8), {"encoding": "nv21"}),
    ]
    for kind, words, wrong, options in cases:
        with pytest.raises(kind, match=words):
            ops.letterbox(wrong, (32, 32), **options)


def test_sizes_without_memory_are_refused(image: Any, points: Any) -> None:
    for size in [(65536, 65536), (32769, 1), (0, 32)]:
        with pytest.raises(ValueError, match="sides of 1 to 32768"):
            ops.letterbox(image, size)
    with pytest.raises(MemoryError, match="[0-9]+ values of 4 bytes exceed the memory"):
        ops.pillar_features(points, **GRID, max_points_per_voxel=2**50)


GRID: Any = {"voxel_size": (0.5, 0.5, 4.0), "point_range": (-4.0, -4.0, -2.0, 4.0, 4.0, 2.0)}


@pytest.fixture
def points() -> Any:
    rng = np.random.default_rng(3)
    points = rng.normal(0, 2, (3000, 4)).astype(np.float32)
    points[17, 1] = np.nan
    return points


def voxels_of(points: Any, max_points: int, max_voxels: int) -> dict[tuple[int, ...], list[int]]:
    """Cells in the order of their first points, and their points."""
    low, size = np.float32(GRID["point_range"][:3]), np.float32(GRID["voxel_size"])
    cells: dict[tuple[int, ...], list[int]] = {}
    for index, point in enumerate(points):
        cell = np.floor((point[:3] - low) / size)
        if not ((cell >= 0) & (cell < (16, 16, 1))).all():
            continue
        key = tuple(int(c) for c in cell)
        if key not in cells and len(cells) == max_voxels:
            continue
        members = cells.setdefault(key, [])
        if len(members) < max_points:
            members.append(index)
    return cells


@pytest.mark.parametrize(("max_points", "max_voxels"), [(None, None), (5, None), (5, 40), (1, 1)])
def test_voxels_are_in_the_order_of_their_first_points(
    points: Any, max_points: int | None, max_voxels: int | None
) -> None:
    cells, numbers, indices = ops.voxelize(
        points, **GRID, max_points_per_voxel=max_points, max_voxels=max_voxels
    )
    expected = voxels_of(points, max_points or 10**9, max_voxels or 10**9)
    assert [tuple(cell) for cell in cells] == list(expected)
    assert list(numbers) == [len(members) for members in expected.values()]
    assert list(indices) == [index for members in expected.values() for index in members]
    assert cells.dtype == numbers.dtype == np.int32 and indices.dtype == np.int64


def test_no_points_and_wrong_points() -> None:
    cells, numbers, indices = ops.voxelize(np.zeros((0, 4), np.float32), **GRID)
    assert cells.shape == (0, 3) and numbers.shape == (0,) and indices.shape == (0,)
    with pytest.raises(ValueError, match="x, y, z first"):
        ops.voxelize(np.zeros((5, 2), np.float32), **GRID)
    with pytest.raises(ValueError, match="axis x"):
        ops.voxelize(np.zeros((5, 3), np.float32), (0, 1, 1), GRID["point_range"])


@pytest.mark.parametrize("center_offset_z", [False, True])
def test_pillar_features_are_offsets_from_mean_and_centre(
    points: Any, center_offset_z: bool
) -> None:
    features, cells, numbers = ops.pillar_features(
        points, **GRID, max_points_per_voxel=6, max_voxels=50, center_offset_z=center_offset_z
    )
    expected = voxels_of(points, 6, 50)
    assert features.shape == (len(expected), 6, 10 if center_offset_z else 9)
    low, size = np.float32(GRID["point_range"][:3]), np.float32(GRID["voxel_size"])
    for row, (cell, members) in enumerate(expected.items()):
        rows = points[members]
        center = (np.float32(cell) + np.float32(0.5)) * size + low
        offsets = rows[:, :3] - center
        wanted = [rows, rows[:, :3] - rows[:, :3].mean(0), offsets[:, : 3 if center_offset_z else 2]]
        np.testing.assert_allclose(features[row, : len(members)], np.hstack(wanted), atol=1e-5)
        assert not features[row, len(members) :].any()
    np.testing.assert_array_equal(numbers, [len(members) for members in expected.values()])


def test_mmcv_voxelization(points: Any) -> None:
    expected = voxels_of(points, 5, 40)
    voxels, coors, numbers = mmcv.voxelization(points, *GRID.values(), max_points=5, max_voxels=40)
    assert voxels.shape == (40, 5, 4)
    assert [tuple(coor[::-1]) for coor in coors] == list(expected)
    for voxel, number, members in zip(voxels, numbers, expected.values()):
        np.testing.assert_array_equal(voxel[:number], points[members])
        assert not voxel[number:].any()
    dynamic = mmcv.voxelization(points, *GRID.values(), max_points=-1, max_voxels=-1)
    everything = voxels_of(points, 10**9, 10**9)
    wanted = np.full((3000, 3), -1)
    for cell, members in everything.items():
        wanted[members] = cell[::-1]
    np.testing.assert_array_equal(dynamic, wanted)


def test_torch_tensors_give_torch_tensors(points: Any, image: Any) -> None:
    torch = pytest.importorskip("torch")
    for ours, theirs in zip(
        mmcv.voxelization(torch.from_numpy(points), *GRID.values(), 5, 40),
        mmcv.voxelization(points, *GRID.values(), 5, 40),
    ):
        assert torch.is_tensor(ours)
        np.testing.assert_array_equal(ours.numpy(), theirs)
    tensor, _ = ops.letterbox(torch.from_numpy(image), (32, 32), dtype="float16")
    assert tensor.dtype == torch.float16
    np.testing.assert_array_equal(tensor.numpy(), ops.letterbox(image, (32, 32), dtype="float16")[0])
