"""Sparse convolution against dense sums in f64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from det_post import ops


def scene(seed: int, num: int = 60, shape: Any = (5, 7, 6), batch: int = 2) -> Any:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, num) for size in (batch, *shape)]
    return np.stack(columns, 1).astype(np.int32)


def dense_of(sites: Any, features: Any) -> Any:
    grid = np.zeros((sites.batch_size, *sites.shape, features.shape[1]))
    grid[tuple(sites.coordinates.T)] = features
    return grid


def taps(kernel: Any) -> Any:
    return enumerate(product(*(range(k) for k in kernel)))


def expected_of(mode: str, geometry: Any, grid: Any, coordinates: Any, weight: Any) -> Any:
    """The output at each site: a loop over taps."""
    kernel, stride, padding, dilation = geometry
    out = np.zeros((len(coordinates), weight.shape[0]))
    for row, (scene_index, *cell) in enumerate(coordinates):
        for _, tap in taps(kernel):
            source = []
            for axis in range(3):
                if mode == "submanifold":
                    at = cell[axis] + (tap[axis] - kernel[axis] // 2) * dilation[axis]
                elif mode == "strided":
                    at = cell[axis] * stride[axis] - padding[axis] + tap[axis] * dilation[axis]
                else:
                    at, rest = divmod(
                        cell[axis] + padding[axis] - tap[axis] * dilation[axis], stride[axis]
                    )
                    at = at if rest == 0 else -1
                source.append(at)
            if all(0 <= s < size for s, size in zip(source, grid.shape[1:4])):
                out[row] += weight[:, tap[0], tap[1], tap[2]] @ grid[(scene_index, *source)]
    return out


CASES = [
    ("submanifold", ((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1))),
    ("submanifold", ((1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 2, 1))),
    ("strided", ((3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1))),
    ("strided", ((2, 3, 1), (2, 1, 2), (0, 1, 0), (1, 1, 1))),
    ("transposed", ((2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1))),
]


@pytest.mark.parametrize(("mode", "geometry"), CASES)
def test_convolutions_are_dense_ones_at_the_sites(mode: Any, geometry: Any) -> None:
    rng = np.random.default_rng(5)
    coordinates = scene(1)
    sites = ops.Sites(coordinates, (5, 7, 6), batch_size=2)
    features = rng.normal(0, 1, (len(coordinates), 4)).astype(np.float32)[sites.rows]
    np.testing.assert_array_equal(coordinates[sites.rows], sites.coordinates)
    kernel, stride, padding, dilation = geometry
    rulebook = ops.Rulebook(
        sites, kernel, mode=mode, stride=stride, padding=padding, dilation=dilation
    )
    weight = rng.normal(0, 1, (3, *kernel, 4)).astype(np.float32)
    bias = rng.normal(0, 1, 3).astype(np.float32)
    found = ops.sparse_conv(features, rulebook, weight, bias=bias)
    out = rulebook.sites
    expected = expected_of(mode, geometry, dense_of(sites, features), out.coordinates, weight)
    assert found.shape == (len(out), 3) and len(out) > 0
    np.testing.assert_allclose(found, expected + bias, atol=2e-5)
    residual = rng.normal(0, 1, found.shape).astype(np.float32)
    with_relu = ops.sparse_conv(features, rulebook, weight, bias=bias, residual=residual, relu=True)
    np.testing.assert_allclose(with_relu, np.maximum(expected + bias + residual, 0), atol=2e-5)
    table = rulebook.table
    assert table.shape == (np.prod(kernel), len(out)) and table.dtype == np.int32
    gathered = np.where(table[:, :, None] >= 0, features[table], 0).astype(np.float64)
    by_tap = weight.reshape(3, -1, 4).transpose(1, 2, 0).astype(np.float64)
    np.testing.assert_allclose(found, np.einsum("tmi,tio->mo", gathered, by_tap) + bias, atol=2e-5)


def test_inverse_returns_to_the_sites_of_the_strided_one() -> None:
    rng = np.random.default_rng(8)
    sites = ops.Sites(scene(2, batch=1), (5, 7, 6))
    down = ops.Rulebook(sites, 3, mode="strided", stride=2, padding=1)
    up = ops.Rulebook(down.sites, 3, mode="inverse", stride=2, padding=1, output=sites)
    assert len(up.sites) == len(sites)
    weight = rng.normal(0, 1, (2, 3, 3, 3, 5)).astype(np.float32)
    features = rng.normal(0, 1, (len(down.sites), 5)).astype(np.float32)
    found = ops.sparse_conv(features, up, weight)
    expected = np.zeros((len(sites), 2))
    for tap, (i, j, k) in taps((3, 3, 3)):
        for coarse, fine in enumerate(down.table[tap]):
            if fine >= 0:
                expected[fine] += weight[:, i, j, k] @ features[coarse]
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_weights_are_packed_once_for_all_calls() -> None:
    sites = ops.Sites(scene(6), (5, 7, 6), batch_size=2)
    rulebook = ops.Rulebook(sites, 3, mode="strided", stride=2, padding=1)
    rng = np.random.default_rng(9)
    features = rng.normal(0, 1, (len(sites), 5)).astype(np.float32)
    weight = rng.normal(0, 1, (7, 3, 3, 3, 5)).astype(np.float32)
    bias = rng.normal(0, 1, 7).astype(np.float32)
    residual = rng.normal(0, 1, (len(rulebook.sites), 7)).astype(np.float32)
    precisions: list[Any] = ["float32", "tf32", "float16", "bfloat16"]
    for precision in precisions:
        expected = ops.sparse_conv(
            features, rulebook, weight, bias=bias, residual=residual, precision=precision
        )
        packed = ops.SparseWeights(weight.copy(), bias=bias, precision=precision)
        for _ in range(2):
            found = ops.sparse_conv(features, rulebook, packed, residual=residual)
            np.testing.assert_array_equal(found, expected)
    plain = ops.sparse_conv(features, rulebook, ops.SparseWeights(weight))
    np.testing.assert_array_equal(plain, ops.sparse_conv(features, rulebook, weight))


def test_results_of_16_bits_are_stored_so() -> None:
    sites = ops.Sites(scene(7), (5, 7, 6), batch_size=2)
    rulebook = ops.Rulebook(sites, 1)
    features = np.zeros((len(sites), 3), np.float32)
    weight = np.zeros((1, 1, 1, 1, 3), np.float32)
    residual = np.full((len(sites), 1), 1 + 2**-12, np.float32)
    for precision, expected in [("float32", 1 + 2**-12), ("tf32", 1 + 2**-12), ("float16", 1), ("bfloat16", 1)]:
        found = ops.sparse_conv(features, rulebook, weight, residual=residual, precision=precision)  # type: ignore[arg-type]
        assert (found == np.float32(expected)).all(), precision
        bias = np.array([1 + 2**-12], np.float32)
        found = ops.sparse_conv(features, rulebook, weight, bias=bias, precision=precision)  # type: ignore[arg-type]
        assert (found == np.float32(expected)).all(), precision


def test_precisions_round_products() -> None:
    sites = ops.Sites(scene(3), (5, 7, 6), batch_size=2)
    rulebook = ops.Rulebook(sites, 3)
    rng = np.random.default_rng(4)
    features = rng.normal(0, 1, (len(sites), 8)).astype(np.float32)
    weight = rng.normal(0, 1, (4, 3, 3, 3, 8)).astype(np.float32)
    exact = ops.sparse_conv(features, rulebook, weight)
    for precision, least, most in [("float16", 1e-6, 2e-3), ("bfloat16", 1e-4, 2e-2)]:
        found = ops.sparse_conv(features, rulebook, weight, precision=precision)  # type: ignore[arg-type]
        error = np.abs(found - exact).max() / np.abs(exact).max()
        assert least < error < most, (precision, error)


def test_limits_and_what_is_refused() -> None:
    coordinates = np.array([[0, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1], [0, 9, 0, 0]], np.int32)
    sites = ops.Sites(coordinates, (2, 2, 2))
    assert sites.rows.tolist() == [1, 0] and sites.num_dropped == 0
    few = ops.Sites(coordinates, (2, 2, 2), max_sites=1)
    assert few.coordinates.tolist() == [[0, 0, 0, 0]] and few.num_dropped == 1
    assert len(ops.Sites(np.zeros((0, 4), np.int32), (2, 2, 2))) == 0
    rulebook = ops.Rulebook(sites, 3)
    features, weight = np.ones((2, 4), np.float32), np.ones((1, 3, 3, 3, 4), np.float32)
    cases: list[tuple[str, Any]] = [
        (r"\[2, 4\] is required", lambda: ops.sparse_conv(features[:1], rulebook, weight)),
        ("Cout, 3, 3, 3, Cin", lambda: ops.sparse_conv(features, rulebook, weight[:, :1])),
        ("Cout, 3, 3, 3, Cin", lambda: ops.sparse_conv(
            features, rulebook, ops.SparseWeights(weight[:, :1].copy()))),
        ("Cout, k0, k1, k2, Cin", lambda: ops.SparseWeights(weight[0, 0, 0])),
        ("holds bias and precision", lambda: ops.sparse_conv(
            features, rulebook, ops.SparseWeights(weight), precision="tf32")),
        ("holds bias and precision", lambda: ops.sparse_conv(
            features, rulebook, ops.SparseWeights(weight), bias=features[0, :1])),
        (r"\[2, 1\] is required", lambda: ops.sparse_conv(
            features, rulebook, weight, residual=features)),
        ("NaN or infinite", lambda: ops.SparseWeights(weight * np.float32(np.nan))),
        ("bias of 2", lambda: ops.SparseWeights(weight, bias=features[0, :2])),
        ("odd kernel", lambda: ops.Rulebook(sites, 2)),
        ("inverse needs the sites", lambda: ops.Rulebook(sites, 3, mode="inverse")),
        ("cells", lambda: ops.Sites(coordinates, (0, 2, 2))),
        (r"\[N, 4\] is required", lambda: ops.Sites(coordinates[:, :3].copy(), (2, 2, 2))),
    ]
    for words, call in cases:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="int32 is required"):
        ops.Sites(coordinates.astype(np.int64), (2, 2, 2))
