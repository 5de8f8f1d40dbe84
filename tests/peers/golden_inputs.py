"""Writes the network inputs that a 2D reference was made from, as RGB images.

    golden_inputs.py REFERENCE.json DATA OUT

OUT/N.rgb is the image N of the reference, letterboxed by OpenCV to the network's
size. Fails unless the tensor made of it has the hash that the reference names.
"""

import hashlib
import json
import sys
from pathlib import Path

import cv2
import numpy as np

GRAY = 114


def letterboxed(image, side, is_centered):
    """The image in a square, BGR, by 8-bit bilinear resizing."""
    height, width = image.shape[:2]
    ratio = min(side / height, side / width)
    if is_centered:
        new_width, new_height = round(width * ratio), round(height * ratio)
        left, top = ((side - extent) // 2 for extent in (new_width, new_height))
    else:
        new_width, new_height = int(width * ratio), int(height * ratio)
        left, top = 0, 0
    resized = cv2.resize(image, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    square = np.full((side, side, 3), GRAY, np.uint8)
    square[top : top + new_height, left : left + new_width] = resized
    return square


def tensor(square, is_yolox):
    """What the reference's program gave the network."""
    if is_yolox:
        return np.ascontiguousarray(square.transpose(2, 0, 1)[None].astype(np.float32))
    planes = square[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32)
    return np.ascontiguousarray(planes / 255)


def main():
    reference, data, out = map(Path, sys.argv[1:])
    reference = json.loads(reference.read_text())
    is_yolox = reference["family"] == "yolox"
    for number, image in enumerate(reference["images"]):
        path = data / image["image"]
        square = letterboxed(cv2.imread(str(path)), reference["input_size"], not is_yolox)
        digest = hashlib.sha256(tensor(square, is_yolox).tobytes()).hexdigest()
        if digest != image["input_sha256"]:
            sys.exit(f"{image['image']}: the input's hash is {digest}")
        (out / f"{number}.rgb").write_bytes(square[:, :, ::-1].tobytes())


if __name__ == "__main__":
    main()
