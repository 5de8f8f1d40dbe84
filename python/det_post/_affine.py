"""Affines from images to the inputs of networks, undone for boxes."""

from __future__ import annotations

import math
from typing import Any

import numpy

from . import _arrays as arrays


def rows_of(affine: Any, name: str = "affine") -> list[list[float]]:
    """The two rows of an affine: of scale_x, scale_y, offset_x, offset_y, or of a matrix ``[2, 3]``."""
    values = affine.tolist() if hasattr(affine, "tolist") else affine
    try:
        if len(values) == 4:
            scale_x, scale_y, offset_x, offset_y = (float(value) for value in values)
            return [[scale_x, 0.0, offset_x], [0.0, scale_y, offset_y]]
        rows = [[float(value) for value in row] for row in values]
    except TypeError:
        rows = []
    if [len(row) for row in rows] != [3, 3]:
        raise ValueError(
            f"{name} is {affine!r}: scale_x, scale_y, offset_x, offset_y or a matrix [2, 3] is required"
        )
    return rows


def of_images(affine: Any, num_images: int, name: str = "affine") -> list[list[list[float]]]:
    """The affine of each image: one for all, or one per image."""
    try:
        return [rows_of(affine, name)] * num_images
    except ValueError as error:
        try:
            rows = [rows_of(one, name) for one in affine]
        except (TypeError, ValueError):
            raise error from None
    if len(rows) != num_images:
        raise ValueError(f"{name} is of {len(rows)} images, there are {num_images}")
    return rows


def map_back(found: dict[str, Any], affine: list[list[float]]) -> None:
    """Maps boxes in pixels of an input to pixels of the image that the affine leads from.

    Aligned boxes of an affine that turns become the bounds of the turned boxes.
    """
    boxes = found["boxes"]
    (a, b, tx), (c, d, ty) = affine
    if b == 0 and c == 0:
        found["boxes"] = _scaled(boxes, (a, d), (tx, ty))
    else:
        inverse = _inverse(affine)
        turned = _rotated if boxes.shape[1] == 5 else _bounds
        found["boxes"] = turned(boxes, inverse)
    arrays.finish(found["boxes"])


def _inverse(affine: list[list[float]]) -> list[list[float]]:
    (a, b, tx), (c, d, ty) = affine
    determinant = a * d - b * c
    if determinant == 0 or not math.isfinite(determinant):
        raise ValueError(f"affine {affine} has no inverse")
    inverse = [[d, -b, b * ty - d * tx], [-c, a, c * tx - a * ty]]
    return [[value / determinant for value in row] for row in inverse]


def _scaled(boxes: Any, scale: tuple[float, float], offset: tuple[float, float]) -> Any:
    """The arithmetic of the node, in float32: `Affine2` of the library."""
    if 0 in scale:
        raise ValueError(f"affine has scales of {scale}: none may be 0")
    one = numpy.float32(1)
    inverse = [float(one / numpy.float32(value)) for value in scale]
    shift = [
        float(-numpy.float32(at) / numpy.float32(value)) for at, value in zip(offset, scale)
    ]
    columns = [boxes[:, axis] * inverse[axis] + shift[axis] for axis in range(2)]
    if boxes.shape[1] == 5:
        mean = float(numpy.sqrt(numpy.float32(inverse[0]) * numpy.float32(inverse[1])))
        columns += [boxes[:, 2] * mean, boxes[:, 3] * mean, boxes[:, 4]]
    else:
        columns += [boxes[:, 2 + axis] * inverse[axis] + shift[axis] for axis in range(2)]
    return arrays.stack(columns)


def _bounds(boxes: Any, inverse: list[list[float]]) -> Any:
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    width, height = (boxes[:, 2] - boxes[:, 0]) / 2, (boxes[:, 3] - boxes[:, 1]) / 2
    centers = [x * a + y * b + t for a, b, t in inverse]
    halves = [width * abs(a) + height * abs(b) for a, b, _ in inverse]
    return arrays.stack(
        [centers[0] - halves[0], centers[1] - halves[1], centers[0] + halves[0], centers[1] + halves[1]]
    )


def _rotated(boxes: Any, inverse: list[list[float]]) -> Any:
    (a, b, tx), (c, d, ty) = inverse
    scale = math.hypot(a, c)
    if not (math.isclose(a, d, abs_tol=1e-5 * scale) and math.isclose(b, -c, abs_tol=1e-5 * scale)):
        raise ValueError(
            f"the inverse {inverse} shears or stretches rotated boxes: one factor for both axes and "
            "a turn is required"
        )
    x, y = boxes[:, 0], boxes[:, 1]
    columns = [x * a + y * b + tx, x * c + y * d + ty, boxes[:, 2] * scale, boxes[:, 3] * scale]
    return arrays.stack([*columns, boxes[:, 4] + math.atan2(c, a)])
