#!/usr/bin/env python3
"""JPEG images of 1280x720: det_post beside OpenCV, which has libjpeg-turbo with its assembler.

Run from the root of the repository, with numpy and opencv-python-headless:

    python3 benches/peers/jpeg_opencv.py [--rounds 3]

Both sides use one thread and alternate; a round is criterion's median of `jpeg/NAME` and the
median of `cv2.imdecode`. The table has the medians of the rounds. Exit status 1 when
det_post takes more than `--bar` times as long for a baseline file; progressive files, which
cameras do not send, have no bar.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

import cv2
import numpy as np

from both_sides import bench_binary, criterion_ms, median_ms

SIZE = (1280, 720)
QUALITY = 90
PROGRESSIVE = "_progressive"
SAMPLINGS = {
    "420": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "422": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "444": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
}


def image():
    """Areas, edges and noise: files of 100 to 200 kB."""
    width, height = SIZE
    y, x = np.mgrid[0:height, 0:width]
    area = (x // 37 * 7 + y // 23 * 13) % 97
    noise = np.random.default_rng(1).integers(0, 5, (height, width))
    channels = [2 * area + noise, area + x // 20 + noise, 60 + y // 10 + noise]
    return np.stack(channels, axis=2).astype(np.uint8)


def write_files(folder):
    pixels = image()
    for name, sampling in SAMPLINGS.items():
        for progressive in (0, 1):
            options = [cv2.IMWRITE_JPEG_QUALITY, QUALITY, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling,
                       cv2.IMWRITE_JPEG_PROGRESSIVE, progressive]
            suffix = PROGRESSIVE if progressive else ""
            cv2.imwrite(str(folder / f"{name}{suffix}.jpg"), pixels, options)


def opencv_ms(path):
    data = np.fromfile(path, np.uint8)
    return median_ms(lambda: cv2.imdecode(data, cv2.IMREAD_COLOR_RGB), seconds=0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bar", type=float, default=1.3)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    binary = bench_binary("camera")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_files(folder)
        rounds = []
        for _ in range(arguments.rounds):
            ours = criterion_ms(binary, "jpeg/", 0.3, DET_POST_BENCH_JPEG=str(folder))
            rounds.append({name: (time, opencv_ms(folder / f"{name}.jpg"))
                           for name, time in ours.items()})
    print(f"{'file':>16} {'det_post ms':>12} {'opencv ms':>12} {'ratio':>7}   (OpenCV {cv2.__version__})")
    worst = 0.0
    for name in sorted(rounds[0]):
        ours, theirs = (statistics.median(column) for column in zip(*(row[name] for row in rounds)))
        if not name.endswith(PROGRESSIVE):
            worst = max(worst, ours / theirs)
        print(f"{name:>16} {ours:>12.3f} {theirs:>12.3f} {ours / theirs:>7.2f}")
    sys.exit(worst > arguments.bar)


if __name__ == "__main__":
    main()
