"""Positions that OpenCV's undistortion reads, for crates/ops/tests/reference/cameras.rs.

    undistortion.py CASES OUT

CASES is JSON: a list of `{model, size, k, d, r, p, pixels}`, matrices row by row. OUT becomes
a list with a list of positions (x, y) for each case, in the order of its pixels: those of the
whole maps of `cv2.initUndistortRectifyMap`, of `cv2.fisheye` where the model is equidistant.
"""

import json
import sys
from pathlib import Path

import cv2
import numpy as np


def positions(case):
    k, r = (np.array(case[name], dtype=np.float64).reshape(3, 3) for name in "kr")
    p = np.array(case["p"], dtype=np.float64).reshape(3, 4)[:, :3]
    d = np.array(case["d"], dtype=np.float64)
    is_fisheye = case["model"] == "equidistant"
    make = cv2.fisheye.initUndistortRectifyMap if is_fisheye else cv2.initUndistortRectifyMap
    maps = make(k, d, r, p, tuple(case["size"]), cv2.CV_32FC1)
    return [[float(axis[y, x]) for axis in maps] for x, y in case["pixels"]]


def main():
    cases, out = map(Path, sys.argv[1:])
    out.write_text(json.dumps([positions(case) for case in json.loads(cases.read_text())]))


if __name__ == "__main__":
    main()
