"""Features pooled to maps against the published formula: every point, then a scattered sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from det_post import ops

IMAGE, FEATURES = (128, 64), (16, 6)
DBOUND = (1.0, 20.0, 0.5)
BOUNDS = {"xbound": (-12.0, 12.0, 0.5), "ybound": (-9.0, 9.0, 0.75), "zbound": (-4.0, 4.0, 8.0)}
CHANNELS = 7


def calibration(num: int = 3) -> dict[str, Any]:
    """Cameras in a ring, with images that are resized, cut and one of them mirrored."""
    rng = np.random.default_rng(2)
    intrinsics = np.tile(np.eye(3), (num, 1, 1))
    intrinsics[:, 0, 0] = intrinsics[:, 1, 1] = rng.uniform(150, 180, num)
    intrinsics[:, 0, 2], intrinsics[:, 1, 2] = rng.uniform(150, 170, num), rng.uniform(80, 90, num)
    camera = np.tile(np.eye(4), (num, 1, 1))
    for index, yaw in enumerate(2 * np.pi * np.arange(num) / num):
        sin, cos, place = np.sin(yaw), np.cos(yaw), rng.uniform(-1, 1, 3)
        camera[index, :3, 0], camera[index, :3, 1] = (sin, -cos, 0.0), (0.0, 0.0, -1.0)
        camera[index, :3, 2], camera[index, :3, 3] = (cos, sin, 0.0), place
    augmentation = np.tile(np.diag([0.4, 0.4, 1.0, 1.0]), (num, 1, 1))
    augmentation[:, :2, 3] = rng.uniform(-6, 0, (num, 2))
    augmentation[-1, 0, 0], augmentation[-1, 0, 3] = -0.4, 127.0
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(0.1), -np.sin(0.1)], [np.sin(0.1), np.cos(0.1)]]
    turn[:3, 3] = (0.3, -0.2, 0.1)
    return {
        "intrinsics": intrinsics,
        "lidar_from_camera": camera,
        "image_augmentation": augmentation,
        "lidar_augmentation": turn,
    }


def pool_of(rows: Any = "x", **changes: Any) -> ops.BevPool:
    options = {**calibration(), **BOUNDS, **changes}
    return ops.BevPool(
        **options, image_size=IMAGE, feature_size=FEATURES, dbound=DBOUND, rows=rows
    )


def points(of: dict[str, Any]) -> Any:
    """Positions [N, D, H, W, 3], in the published steps."""
    (width, height), (columns, rows) = IMAGE, FEATURES
    depth, v, u = np.meshgrid(
        np.arange(*DBOUND), np.linspace(0, height - 1, rows), np.linspace(0, width - 1, columns),
        indexing="ij",
    )
    frustum = np.stack([u, v, depth], -1)
    found = []
    for k, m, a in zip(of["intrinsics"], of["lidar_from_camera"], of["image_augmentation"]):
        at = (frustum - a[:3, 3]) @ np.linalg.inv(a[:3, :3]).T
        at = np.concatenate([at[..., :2] * at[..., 2:], at[..., 2:]], -1)
        at = at @ (m[:3, :3] @ np.linalg.inv(k)).T + m[:3, 3]
        turn = of["lidar_augmentation"]
        found.append(at @ turn[:3, :3].T + turn[:3, 3])
    return np.stack(found)


def scattered(depth: Any, features: Any, present: Any, of: dict[str, Any]) -> tuple[Any, int]:
    """The map [1, levels * C, nx, ny], in float64, and the number of points in it."""
    bounds = np.array([of[name] for name in ("xbound", "ybound", "zbound")])
    cells = np.trunc((points(of) - bounds[:, 0]) / bounds[:, 2]).astype(int)
    nx, ny, nz = np.round((bounds[:, 1] - bounds[:, 0]) / bounds[:, 2]).astype(int)
    kept = ((cells >= 0) & (cells < (nx, ny, nz))).all(-1)
    num = int(kept.sum())
    kept &= np.asarray(present)[:, None, None, None]
    products = depth[..., None].astype(float) * features[:, None].astype(float)
    found = np.zeros((nz, nx, ny, features.shape[-1]))
    x, y, z = cells[kept].T
    np.add.at(found, (z, x, y), products[kept])
    return found.transpose(0, 3, 1, 2).reshape(1, -1, nx, ny), num


def inputs(num: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    columns, rows = FEATURES
    depth = rng.uniform(0, 1, (num, 38, rows, columns)).astype(np.float32)
    return depth, rng.normal(0, 1, (num, rows, columns, CHANNELS)).astype(np.float32)


@pytest.mark.parametrize("zbound", [(-4.0, 4.0, 8.0), (-2.0, 4.0, 2.0)])
def test_maps_are_the_published_sums(zbound: tuple[float, float, float]) -> None:
    of = {**calibration(), **BOUNDS, "zbound": zbound}
    pool, (depth, features) = pool_of(zbound=zbound), inputs()
    for present in (None, [True, False, True]):
        expected, num = scattered(depth, features, present or [True] * 3, of)
        found = ops.bev_pool(depth, features, pool, present=present)
        assert isinstance(found, np.ndarray) and found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())
        assert (pool.num_points, pool.num_outside) == (num, depth.size - num)
    assert pool.shape == (round((zbound[1] - zbound[0]) / zbound[2]), 48, 24)
    assert 1000 < pool.num_points < depth.size


def test_rows_along_y_are_the_transposed_map() -> None:
    depth, features = inputs()
    turned = ops.bev_pool(depth, features, pool_of("y"))
    expected = ops.bev_pool(depth, features, pool_of())
    np.testing.assert_array_equal(turned, expected.transpose(0, 1, 3, 2))


def test_matrices_have_two_forms() -> None:
    depth, features = inputs()
    short = calibration()["image_augmentation"][:, :2][:, :, [0, 1, 3]]
    tall = np.tile(np.eye(4), (3, 1, 1))
    tall[:, :3, :3] = calibration()["intrinsics"]
    expected = ops.bev_pool(depth, features, pool_of())
    for changes in ({"image_augmentation": short}, {"intrinsics": tall.tolist()}):
        np.testing.assert_array_equal(ops.bev_pool(depth, features, pool_of(**changes)), expected)


def test_float16_is_rounded_once() -> None:
    depth, features = (array.astype(np.float16) for array in inputs())
    pool = pool_of()
    found = ops.bev_pool(depth, features, pool)
    wide = ops.bev_pool(depth.astype(np.float32), features.astype(np.float32), pool)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, wide.astype(np.float16))


def test_what_does_not_fit_is_refused() -> None:
    (depth, features), pool = inputs(), pool_of()
    for arrays, message in [
        ((depth[:2], features), "depth is"),
        ((depth, features[:, :, :, 0].copy()), r"\[N, H, W, C\] is required"),
        ((depth, features.astype(np.float16)), "float32 is required, as depth is"),
        ((depth, features[:, ::2].copy()), "features are"),
    ]:
        with pytest.raises(ValueError, match=message):
            ops.bev_pool(*arrays, pool)
    with pytest.raises(ValueError, match="one for each of 3 cameras"):
        ops.bev_pool(depth, features, pool, present=[True])
    mixed = calibration()["image_augmentation"]
    mixed[0, 2, 2] = 2.0
    for changes, message in [
        ({"xbound": (-12.0, 12.0, 0.7)}, "a whole number"),
        ({"intrinsics": np.zeros((3, 3, 3))}, "no inverse"),
        ({"intrinsics": np.tile(np.eye(3), (2, 1, 1))}, "as many are required"),
        ({"intrinsics": np.tile(np.eye(2), (3, 1, 1))}, "3 by 3 are required"),
        ({"image_augmentation": mixed}, "changes depth"),
        ({"image_augmentation": mixed[:, :3, :]}, "neither"),
        ({"rows": "z"}, "rows must be one of x, y"),
    ]:
        with pytest.raises(ValueError, match=message):
            pool_of(**changes)
