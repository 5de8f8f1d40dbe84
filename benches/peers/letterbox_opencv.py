#!/usr/bin/env python3
"""Letterbox of a 1080p bgr8 image to 640x640 planar f32: det_post beside OpenCV.

Run from the root of the repository, with numpy and opencv-python-headless:

    python3 benches/peers/letterbox_opencv.py [--rounds 5]

Both sides use one thread and alternate; a round is the median of OpenCV's
resize + copyMakeBorder + blobFromImage and criterion's median of
`letterbox_1080p_to_640/bgr8_f32`. The table has the median of the rounds.
Exit status 1 when det_post is not `--bar` times as fast.
"""

import argparse
import statistics
import sys

import cv2
import numpy as np

from both_sides import bench_binary, criterion_ms, median_ms

BENCH = "letterbox_1080p_to_640/bgr8_f32"
SOURCE = (1920, 1080)
CONTENT = (640, 360)
PADDING = 140


def det_post_ms(binary):
    (median,) = criterion_ms(binary, BENCH, 0.5, RAYON_NUM_THREADS="1").values()
    return median


def opencv(image):
    resized = cv2.resize(image, CONTENT, interpolation=cv2.INTER_LINEAR)
    padded = cv2.copyMakeBorder(resized, PADDING, PADDING, 0, 0, cv2.BORDER_CONSTANT,
                                value=(114, 114, 114))
    return cv2.dnn.blobFromImage(padded, 1 / 255, swapRB=True)


def opencv_ms(image):
    for _ in range(5):
        opencv(image)
    return median_ms(lambda: opencv(image), seconds=1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bar", type=float, default=1.5)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    width, height = SOURCE
    image = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    binary = bench_binary("camera")
    rounds = [(det_post_ms(binary), opencv_ms(image)) for _ in range(arguments.rounds)]
    print(f"{'round':>6} {'det_post ms':>12} {'opencv ms':>12} {'ratio':>7}")
    for number, (ours, theirs) in enumerate(rounds, 1):
        print(f"{number:>6} {ours:>12.3f} {theirs:>12.3f} {theirs / ours:>7.2f}")
    ours, theirs = (statistics.median(column) for column in zip(*rounds))
    ratio = theirs / ours
    print(f"{'median':>6} {ours:>12.3f} {theirs:>12.3f} {ratio:>7.2f}   (OpenCV {cv2.__version__})")
    sys.exit(ratio < arguments.bar)


if __name__ == "__main__":
    main()
