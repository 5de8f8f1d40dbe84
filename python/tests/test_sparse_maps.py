"""Pooling, dense maps, scatter, means of voxels, pairs by tap, axes and types of sparse arrays."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import tables
from test_sparse import dense_of, scene

from det_post import ops


def golden() -> Any:
    """Operations that spconv computed."""
    tables.read("tables.json")
    return np.load(tables.FOLDER / "sparse" / "ops.npz")


def geometry_of(meta: Any) -> dict[str, Any]:
    kernel, stride, padding, dilation = (tuple(map(int, meta[at : at + 3])) for at in (6, 9, 12, 15))
    mode: Any = "submanifold" if meta[19] else "transposed" if meta[20] else "strided"
    options: dict[str, Any] = {"kernel_size": kernel, "dilation": dilation, "mode": mode}
    return options if meta[19] else {**options, "stride": stride, "padding": padding}


def padding_of(meta: Any, options: dict[str, Any]) -> Any:
    """What a transposed output has beyond its smallest shape."""
    least = [
        (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
        for size, stride, padding, dilation, kernel in zip(
            meta[:3],
            *(options[name] for name in ("stride", "padding", "dilation", "kernel_size")),
        )
    ]
    return tuple(int(size - one) for size, one in zip(meta[3:6], least))


def test_operations_are_those_of_spconv() -> None:
    file = golden()
    cases = sorted({name.split("/")[0] for name in file.files} - {"inverse"})
    assert len(cases) == 18
    for case in cases:
        meta = file[f"{case}/meta"]
        sites = ops.Sites(file[f"{case}/in_coords"], meta[:3].tolist(), batch_size=int(meta[18]))
        options = geometry_of(meta)
        if options["mode"] == "transposed":
            options["output_padding"] = padding_of(meta, options)
        rulebook = ops.Rulebook(sites, **options)
        np.testing.assert_array_equal(rulebook.sites.coordinates, file[f"{case}/out_coords"])
        features = file[f"{case}/in_features"][sites.rows]
        expected = file[f"{case}/out_features"]
        if f"{case}/weight" in file.files:
            bias = file[f"{case}/bias"] if f"{case}/bias" in file.files else None
            found = ops.sparse_conv(features, rulebook, file[f"{case}/weight"], bias=bias)
            np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
        else:
            np.testing.assert_array_equal(ops.sparse_max_pool(features, rulebook), expected)
        pairs, numbers = ops.indice_pairs(rulebook)
        np.testing.assert_array_equal(numbers, file[f"{case}/pairs"])
        assert pairs.dtype == numbers.dtype == np.int32
        table = file[f"{case}/table"]
        for tap, num in enumerate(numbers):
            rows = np.flatnonzero(table[tap] >= 0)
            np.testing.assert_array_equal(pairs[1, tap, :num], rows)
            np.testing.assert_array_equal(sites.rows[pairs[0, tap, :num]], table[tap, rows])
            assert (pairs[:, tap, num:] == -1).all()
        if f"{case}/dense" in file.files:
            dense = file[f"{case}/dense"]
            np.testing.assert_allclose(
                ops.to_map(expected, rulebook.sites).reshape(dense.shape), dense
            )


def test_pooling_takes_the_largest_of_the_sites_and_zero() -> None:
    sites = ops.Sites(scene(3), (5, 7, 6), batch_size=2)
    features = np.random.default_rng(1).normal(0, 1, (len(sites), 3)).astype(np.float32)
    rulebook = ops.Rulebook(sites, 3, mode="strided", stride=2, padding=1)
    found = ops.sparse_max_pool(features, rulebook)
    grid = dense_of(sites, features)
    padded = np.pad(grid, ((0, 0), (1, 1), (1, 1), (1, 1), (0, 0)))
    for row, (batch, *cell) in enumerate(rulebook.sites.coordinates):
        z, y, x = (2 * at for at in cell)
        window = padded[batch, z : z + 3, y : y + 3, x : x + 3]
        np.testing.assert_array_equal(found[row], window.max((0, 1, 2)))
    with pytest.raises(ValueError, match=rf"\[{len(sites)}, 3\] is required"):
        ops.sparse_max_pool(features[:-1], rulebook)


@pytest.mark.parametrize("shape", [(6,), (7, 6), (5, 7, 6)])
def test_levels_have_one_to_three_axes(shape: tuple[int, ...]) -> None:
    """Levels of fewer axes are levels of three whose first axes have one cell."""
    num = len(shape)
    rng = np.random.default_rng(num)
    lifted = np.zeros((25, 4), np.int32)
    lifted[:, 0] = rng.integers(0, 2, 25)
    for axis, size in enumerate(shape):
        lifted[:, 4 - num + axis] = rng.integers(0, size, 25)
    cells = np.ascontiguousarray(lifted[:, [0, *range(4 - num, 4)]])
    sites = ops.Sites(cells, shape, batch_size=2)
    full = ops.Sites(lifted, (1,) * (3 - num) + shape, batch_size=2)
    assert sites.shape == list(shape) and sites.coordinates.shape == (len(full), 1 + num)
    np.testing.assert_array_equal(sites.coordinates, cells[sites.rows])
    features = rng.normal(0, 1, (len(sites), 4)).astype(np.float32)
    weight = rng.normal(0, 1, (3, *(3,) * num, 4)).astype(np.float32)
    wide = weight.reshape(3, *(1,) * (3 - num), *(3,) * num, 4)
    ones, zeros = (1,) * (3 - num), (0,) * (3 - num)
    for mode in ("submanifold", "strided", "transposed"):
        steps: Any = {} if mode == "submanifold" else {"stride": 2, "padding": 1}
        flat = ops.Rulebook(sites, 3, mode=mode, **steps)  # type: ignore[arg-type]
        steps = {} if not steps else {
            "stride": (*ones, *(2,) * num), "padding": (*zeros, *(1,) * num)
        }
        deep = ops.Rulebook(full, (*ones, *(3,) * num), mode=mode, **steps)  # type: ignore[arg-type]
        found = ops.sparse_conv(features, flat, weight)
        np.testing.assert_array_equal(found, ops.sparse_conv(features, deep, wide))
        assert flat.sites.coordinates.shape == (len(flat.sites), 1 + num)
    map_ = ops.to_map(features, sites).reshape(2, 4, *shape)
    np.testing.assert_array_equal(
        map_[(sites.coordinates[:, 0], slice(None), *sites.coordinates[:, 1:].T)], features
    )
    assert np.count_nonzero(map_) == features.size
    with pytest.raises(ValueError, match="Cin\\] is required"):
        ops.sparse_conv(features, ops.Rulebook(sites, 3), np.ascontiguousarray(weight[:, :1]))
    with pytest.raises(ValueError, match="one for each of the"):
        ops.Rulebook(sites, (3,) * (num + 1))


def test_axes_that_are_not_there_are_refused() -> None:
    cells = np.zeros((2, 5), np.int32)
    with pytest.raises(ValueError, match="1 to 3 are required"):
        ops.Sites(cells, (2, 2, 2, 2))
    with pytest.raises(ValueError, match=r"\[N, 3\] is required"):
        ops.Sites(cells, (2, 2))
    with pytest.raises(ValueError, match="axes .* are not 0, 1 and 2"):
        ops.to_map(np.zeros((1, 1), np.float32), ops.Sites(cells[:, :4].copy(), (2, 2, 2)), axes=(0, 0, 1))


def test_rows_that_are_no_sites_are_counted() -> None:
    cells = np.array([[0, 1, 1], [0, 0, 0], [0, 1, 1], [0, 9, 0], [1, 0, 0], [0, 1, 1]], np.int32)
    sites = ops.Sites(cells, (2, 2))
    assert (len(sites), sites.num_duplicates, sites.num_outside, sites.num_dropped) == (2, 2, 2, 0)
    few = ops.Sites(cells, (2, 2), max_sites=1)
    assert (len(few), few.num_duplicates, few.num_outside, few.num_dropped) == (1, 2, 2, 1)


def test_maps_have_the_axes_that_are_asked_for() -> None:
    sites = ops.Sites(scene(4), (5, 7, 6), batch_size=2)
    features = np.random.default_rng(1).normal(0, 1, (len(sites), 3)).astype(np.float32)
    grid = dense_of(sites, features)
    for axes in [(0, 1, 2), (2, 0, 1), (2, 1, 0)]:
        found = ops.to_map(features, sites, axes=axes)
        expected = grid.transpose(0, 4, *(1 + axis for axis in axes))
        batch, channels, depth, rows, columns = expected.shape
        np.testing.assert_array_equal(found, expected.reshape(batch, channels * depth, rows, columns))


def test_rows_are_scattered_to_their_cells() -> None:
    rng = np.random.default_rng(2)
    cells = np.array([[1, 2, 3], [0, 0, 0], [0, 9, 0], [1, 2, 3], [0, 3, 4]], np.int32)
    features = rng.normal(0, 1, (5, 2)).astype(np.float32)
    found = ops.scatter(features, cells, (4, 5), batch_size=2)
    expected = np.zeros((2, 2, 4, 5), np.float32)
    for row in (0, 1, 4):
        batch, y, x = cells[row]
        expected[batch, :, y, x] = features[row]
    np.testing.assert_array_equal(found, expected)
    points = rng.uniform(-3, 3, (200, 4)).astype(np.float32)
    grid: Any = {"voxel_size": (1, 1, 6), "point_range": (-3, -3, -3, 3, 3, 3)}
    means, xyz, _ = ops.voxel_mean(points, **grid)
    rows = np.ascontiguousarray(np.pad(xyz[:, [1, 0]], ((0, 0), (1, 0))))
    map_ = ops.scatter(means, rows, (6, 6))
    np.testing.assert_array_equal(map_[0, :, xyz[:, 1], xyz[:, 0]], means)
    assert ops.scatter(features[:0], cells[:0], (4, 5)).shape == (1, 2, 4, 5)
    with pytest.raises(ValueError, match=r"\[5, 2\] is required"):
        ops.scatter(features[:4], cells, (4, 5))


@pytest.mark.parametrize("limits", [{}, {"max_points_per_voxel": 3}, {"max_voxels": 7}])
def test_means_are_those_of_the_points_of_voxels(limits: Any) -> None:
    points = np.random.default_rng(3).normal(0, 2, (500, 5)).astype(np.float32)
    grid: Any = {"voxel_size": (1, 1, 4), "point_range": (-4, -4, -2, 4, 4, 2)}
    cells, numbers, indices = ops.voxelize(points, **grid, **limits)
    means, mean_cells, mean_numbers = ops.voxel_mean(points, **grid, **limits)
    np.testing.assert_array_equal(mean_cells, cells)
    np.testing.assert_array_equal(mean_numbers, numbers)
    start = 0
    for row, number in enumerate(numbers):
        total = np.zeros(5, np.float32)
        for index in indices[start : start + number]:
            total = total + points[index]
        np.testing.assert_array_equal(means[row], total / np.float32(number))
        start += number
    assert ops.voxel_mean(points[:0], **grid)[0].shape == (0, 5)


def test_arrays_of_16_bits_are_read_as_they_are() -> None:
    rng = np.random.default_rng(5)
    sites = ops.Sites(scene(5), (5, 7, 6), batch_size=2)
    features = rng.normal(0, 1, (len(sites), 4)).astype(np.float16)
    weight = rng.normal(0, 1, (3, 3, 3, 3, 4)).astype(np.float16)
    bias, residual = rng.normal(0, 1, 3).astype(np.float16), rng.normal(0, 1, (len(sites), 3))
    wide = features.astype(np.float32)
    rulebook = ops.Rulebook(sites, 3)
    for precision in ("float32", "float16"):
        options: Any = {"residual": residual.astype(np.float16), "relu": True}
        weights = ops.SparseWeights(weight, bias=bias, precision=precision)  # type: ignore[arg-type]
        found = ops.sparse_conv(features, rulebook, weights, **options)
        assert found.dtype == np.float16
        options["residual"] = options["residual"].astype(np.float32)
        expected = ops.sparse_conv(wide, rulebook, weights, **options)
        assert expected.dtype == np.float32
        np.testing.assert_array_equal(found, expected.astype(np.float16))
    down = ops.Rulebook(sites, 2, mode="strided", stride=2)
    for call in (
        lambda values: ops.sparse_max_pool(values, down),
        lambda values: ops.to_map(values, sites),
        lambda values: ops.scatter(values, sites.coordinates, (5, 7, 6), batch_size=2),
    ):
        assert call(features).dtype == np.float16
        np.testing.assert_array_equal(call(features), call(wide).astype(np.float16))
    with pytest.raises(TypeError, match="float32 is required"):
        ops.to_map(features.astype(np.float64), sites)


def test_weights_are_those_of_spconv_1_and_2() -> None:
    rng = np.random.default_rng(6)
    sites = ops.Sites(scene(6), (5, 7, 6), batch_size=2)
    features = rng.normal(0, 1, (len(sites), 4)).astype(np.float32)
    rulebook = ops.Rulebook(sites, (3, 1, 3))
    second = rng.normal(0, 1, (5, 3, 1, 3, 4)).astype(np.float32)
    first = np.ascontiguousarray(second.transpose(1, 2, 3, 4, 0))
    expected = ops.sparse_conv(features, rulebook, second, layout="spconv2")
    np.testing.assert_array_equal(ops.sparse_conv(features, rulebook, second), expected)
    np.testing.assert_array_equal(
        ops.sparse_conv(features, rulebook, first, layout="spconv1"), expected
    )
    packed = ops.SparseWeights(first, layout="spconv1")
    np.testing.assert_array_equal(ops.sparse_conv(features, rulebook, packed), expected)
    with pytest.raises(ValueError, match="spconv2, spconv1, found"):
        ops.SparseWeights(first, layout="rsck")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\[Cout, 3, 1, 3, Cin\] is required"):
        ops.sparse_conv(features, rulebook, second, layout="spconv1")


def test_pairs_of_no_sites_are_none() -> None:
    sites = ops.Sites(np.zeros((0, 4), np.int32), (2, 2, 2))
    pairs, numbers = ops.indice_pairs(ops.Rulebook(sites, 3))
    assert pairs.shape == (2, 27, 0) and numbers.tolist() == [0] * 27
    assert ops.to_map(np.zeros((0, 3), np.float32), sites).shape == (1, 6, 2, 2)


def test_pairs_join_input_and_output() -> None:
    sites = ops.Sites(scene(7), (5, 7, 6), batch_size=2)
    rulebook = ops.Rulebook(sites, (2, 1, 3), mode="strided", stride=(2, 1, 2))
    pairs, numbers = ops.indice_pairs(rulebook)
    for tap, (i, j, k) in enumerate(product(range(2), range(1), range(3))):
        rows, outputs = pairs[:, tap, : numbers[tap]]
        cells = rulebook.sites.coordinates[outputs] * [1, 2, 1, 2] + [0, i, j, k]
        np.testing.assert_array_equal(sites.coordinates[rows], cells)
