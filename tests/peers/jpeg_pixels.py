"""JPEG files and their pixels by OpenCV, which has libjpeg-turbo, for crates/ops/tests/reference/jpeg_pixels.rs.

    jpeg_pixels.py FOLDER

Writes FOLDER/NAME.jpg and FOLDER/NAME.raw: rows of RGB, or of grey, without padding.
"""

import sys
from pathlib import Path

import cv2
import numpy as np

SAMPLINGS = {
    "444": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "422": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "420": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "440": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "411": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}
SIZES = [(640, 360), (197, 131), (33, 17), (1, 1)]


def image(width, height):
    """Waves and noise."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 90 * np.sin(y * y / 900 + x / (17 + 5 * c) + c) for c in range(3)]
    noise = np.random.default_rng(width).integers(0, 30, (height, width, 3))
    return np.clip(np.stack(waves, axis=2) + noise, 0, 255).astype(np.uint8)


def write(folder, name, pixels, parameters):
    encoded = cv2.imencode(".jpg", pixels, parameters)[1]
    decoded = cv2.imdecode(encoded, cv2.IMREAD_UNCHANGED)
    if decoded.ndim == 3:
        decoded = decoded[:, :, ::-1]
    (folder / f"{name}.jpg").write_bytes(encoded.tobytes())
    (folder / f"{name}.raw").write_bytes(np.ascontiguousarray(decoded).tobytes())


def main():
    folder = Path(sys.argv[1])
    for width, height in SIZES:
        pixels = image(width, height)
        for progressive in (0, 1):
            for restart in (0, 2):
                options = [cv2.IMWRITE_JPEG_QUALITY, 85, cv2.IMWRITE_JPEG_PROGRESSIVE, progressive,
                           cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
                suffix = f"{width}x{height}_{progressive}_{restart}"
                for name, sampling in SAMPLINGS.items():
                    more = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]
                    write(folder, f"{name}_{suffix}", pixels, options + more)
                write(folder, f"grey_{suffix}", pixels[:, :, 0].copy(), options)


if __name__ == "__main__":
    main()
