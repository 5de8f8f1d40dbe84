"""Operations on arrays: numpy, torch and any other library that speaks DLPack.

| operation | boxes |
|---|---|
| :func:`nms`, :func:`batched_nms`, :func:`fast_nms`, :func:`soft_nms` | ``[N, 4]``, left, top, right, bottom |
| :func:`nms_rotated` | ``[N, 5]``, centre, width, height, angle |
| :func:`nms_bev`, :func:`nms_3d` | ``[N, 7]``, centre, length, width, height, yaw |
| :func:`circle_nms` | ``[N, 2]``, centres |
| :func:`box_overlaps` | ``[N, 4]``, ``[N, 5]`` or ``[N, 7]``: IoU, IoF or intersection |
| :func:`points_in_boxes` | ``[N, 7]`` |

| operation | |
|---|---|
| :func:`letterbox`, :func:`warp_affine` | images to a network's input: placed, or by any affine |
| :func:`voxelize`, :func:`pillar_features` | points to voxels and features |
| :func:`decode_yolo` | outputs of camera networks to boxes |
| :func:`decode_center`, :func:`decode_anchor` | maps of LiDAR networks to boxes |
| :func:`decode_query`, :func:`decode_streampetr` | queries of surround networks to boxes |
| :func:`voxel_mean` | points to voxels and the means of their points |
| :class:`Sites`, :class:`Rulebook`, :class:`SparseWeights`, :func:`sparse_conv` | sparse convolution |
| :func:`sparse_max_pool`, :func:`indice_pairs` | sparse pooling; the pairs of a rulebook by tap |
| :class:`BevPool`, :func:`bev_pool` | depths and features of cameras to a map seen from above |
| :func:`to_map`, :func:`scatter` | features at sites, or at cells, to a dense map |

Inputs are contiguous arrays, float32 unless said otherwise. They are read where they are and not
converted: an array that does not fit is refused with how to convert it. Results are arrays of the
library of the first argument. The interpreter's lock is free while an operation works; do not write
to its inputs meanwhile.

All functions also take arrays of torch and cupy on a CUDA GPU. They read them after the work that
the library has queued on its current stream, and until the call returns.

Survivors are sorted by score, equal scores by class and position, so that the same input gives the
same output everywhere.
"""

from typing import Any

from . import _arrays as arrays
from ._ops import (
    BevPool,
    Rulebook,
    Sites,
    SparseWeights,
    batched_nms,
    bev_pool,
    box_overlaps,
    circle_nms,
    decode_anchor,
    decode_center,
    decode_query,
    decode_streampetr,
    decode_yolo,
    fast_nms,
    letterbox,
    nms,
    nms_3d,
    nms_bev,
    nms_rotated,
    pillar_features,
    points_in_boxes,
    scatter,
    soft_nms,
    sparse_conv,
    sparse_max_pool,
    to_map,
    voxel_mean,
    voxelize,
    warp_affine,
)

__all__ = [
    "BevPool",
    "Rulebook",
    "Sites",
    "SparseWeights",
    "batched_nms",
    "bev_pool",
    "box_overlaps",
    "circle_nms",
    "decode_anchor",
    "decode_center",
    "decode_query",
    "decode_streampetr",
    "decode_yolo",
    "fast_nms",
    "indice_pairs",
    "letterbox",
    "nms",
    "nms_3d",
    "nms_bev",
    "nms_rotated",
    "pillar_features",
    "points_in_boxes",
    "scatter",
    "soft_nms",
    "sparse_conv",
    "sparse_max_pool",
    "to_map",
    "voxel_mean",
    "voxelize",
    "warp_affine",
]


def indice_pairs(rulebook: Rulebook) -> tuple[Any, Any]:
    """The pairs of a rulebook by tap, as spconv's ``indice_pairs`` and ``indice_num``.

    Returns ``[2, taps, P]``, int32: rows of the input and of the output that a tap joins, rows of
    the output ascending, -1 past the last pair; and ``[taps]``, int32: the numbers of pairs, of
    which P is the largest.
    """
    table = rulebook.table
    is_pair = table >= 0
    numbers = is_pair.sum(1)
    taps, rows = arrays.nonzero(is_pair)
    width = int(numbers.max())
    pairs = arrays.full((2, table.shape[0], width), -1, table)
    slots = arrays.arange(len(taps), table) - (numbers.cumsum(0) - numbers)[taps]
    pairs[0, taps, slots] = table[taps, rows]
    pairs[1, taps, slots] = arrays.contiguous(rows, "int32")
    return pairs, arrays.contiguous(numbers, "int32")
