#!/usr/bin/env python3
"""Pillar grouping beside numpy: the same points, the same answer, one thread.

    python3 benches/peers/voxelize_numpy.py [--points 200000]

Needs numpy and cargo. Both sides group the points of a cloud into pillars of
0.32 m over +-76.8 m: pillars in the order of their first point, the first 32
points of each, in order of arrival. numpy does it by sorting, in two ways; the
ratio is taken to the faster one. Exit status 1 when the answers differ.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LOW = np.array([-76.8, -76.8, -4.0], np.float32)
SIZE = np.array([0.32, 0.32, 10.0], np.float32)
CELLS = np.array([480, 480, 1])
MAX_POINTS = 32
NONE = np.uint32(2**32 - 1)
ROUNDS = 4


def cloud(num_points, in_order, rng):
    """Rings of a spinning sensor: the density falls with the range."""
    ring = np.arange(num_points) % 64 / 64
    azimuth = np.arange(num_points) * (2 * np.pi / num_points)
    reach = 2.5 + 90 * ring**2 * (0.6 + 0.4 * rng.random(num_points))
    z = -1.8 + 2.5 * rng.random(num_points) * ring
    points = np.stack([reach * np.cos(azimuth), reach * np.sin(azimuth), z], axis=1)
    points = np.ascontiguousarray(points, np.float32)
    return points if in_order else rng.permutation(points)


def cells_of(points):
    """Indices of the points inside, and their linear cells."""
    cell = np.floor((points - LOW) / SIZE)
    inside = np.flatnonzero(((cell >= 0) & (cell < CELLS)).all(axis=1))
    cell = cell[inside].astype(np.int32)
    return inside, cell[:, 1] * CELLS[0].astype(np.int32) + cell[:, 0]


def table(inside, linear, order, starts, counts):
    """Rows of x, y, number and indices, from points sorted by cell."""
    slot = np.arange(len(order)) - np.repeat(starts, counts)
    rank = np.empty(len(starts), np.intp)
    by_first = np.argsort(order[starts])
    rank[by_first] = np.arange(len(starts))
    kept = slot < MAX_POINTS
    rows = np.full((len(starts), 3 + MAX_POINTS), NONE, np.uint32)
    rows[np.repeat(rank, counts)[kept], 3 + slot[kept]] = inside[order[kept]]
    first_cell = linear[order[starts[by_first]]]
    rows[:, 0], rows[:, 1] = first_cell % CELLS[0], first_cell // CELLS[0]
    rows[:, 2] = np.minimum(counts[by_first], MAX_POINTS)
    return rows


def by_argsort(points):
    inside, linear = cells_of(points)
    order = np.argsort(linear, kind="stable")
    ordered = linear[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return table(inside, linear, order, starts, np.diff(starts, append=len(order)))


def by_unique(points):
    inside, linear = cells_of(points)
    _, inverse, counts = np.unique(linear, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    return table(inside, linear, order, np.cumsum(counts) - counts, counts)


def seconds(call, times):
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def ours(points, folder):
    """Rows and seconds of det_post."""
    points.tofile(folder / "points.f32")
    files = [str(folder / "points.f32"), str(folder / "groups.u32")]
    command = ["cargo", "bench", "--quiet", "--bench", "lidar", "--", "--peer", *files]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    rows = np.fromfile(files[1], np.uint32).reshape(-1, 3 + MAX_POINTS)
    return rows, [float(line) for line in run.stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200_000)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    same = True
    print(f"pillar grouping of {args.points} points, numpy {np.__version__}, median ms")
    print(f"{'order':<12}{'pillars':>8}{'argsort':>9}{'unique':>9}{'det_post':>10}{'ratio':>7}  same")
    with tempfile.TemporaryDirectory() as folder:
        for name, in_order in (("as scanned", True), ("shuffled", False)):
            points = cloud(args.points, in_order, rng)
            expected = by_argsort(points)
            taken = {"argsort": [], "unique": [], "det_post": []}
            equal = bool(np.array_equal(by_unique(points), expected))
            for _ in range(ROUNDS):
                taken["argsort"] += seconds(lambda: by_argsort(points), 8)
                taken["unique"] += seconds(lambda: by_unique(points), 8)
                rows, times = ours(points, Path(folder))
                taken["det_post"] += times
                equal &= bool(np.array_equal(rows, expected))
            a, u, d = (statistics.median(times) * 1e3 for times in taken.values())
            ratio = min(a, u) / d
            print(f"{name:<12}{len(expected):>8}{a:>9.2f}{u:>9.2f}{d:>10.2f}{ratio:>7.1f}  {equal}")
            same &= equal
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
