"""Operations on arrays: numpy, torch and any other library that speaks DLPack.

| operation | boxes |
|---|---|
| :func:`nms`, :func:`batched_nms`, :func:`fast_nms`, :func:`soft_nms` | ``[N, 4]``, left, top, right, bottom |
| :func:`nms_rotated` | ``[N, 5]``, centre, width, height, angle |
| :func:`nms_bev`, :func:`nms_3d` | ``[N, 7]``, centre, length, width, height, yaw |
| :func:`circle_nms` | ``[N, 2]``, centres |

| operation | |
|---|---|
| :func:`letterbox` | an image to a network's input |
| :func:`voxelize`, :func:`pillar_features` | points to voxels and features |
| :func:`decode_yolo` | outputs of camera networks to boxes |
| :func:`decode_center`, :func:`decode_anchor` | maps of LiDAR networks to boxes |
| :func:`decode_query`, :func:`decode_streampetr` | queries of surround networks to boxes |
| :class:`Sites`, :class:`Rulebook`, :class:`SparseWeights`, :func:`sparse_conv` | sparse convolution |

Inputs are contiguous arrays, float32 unless said otherwise. They are read where they are and not
converted: an array that does not fit is refused with how to convert it. Results are arrays of the
library of the first argument. The interpreter's lock is free while an operation works; do not write
to its inputs meanwhile.

All functions also take arrays of torch and cupy on a CUDA GPU. They read them after the work that
the library has queued on its current stream, and until the call returns.

Survivors are sorted by score, equal scores by class and position, so that the same input gives the
same output everywhere.
"""

from ._ops import (
    Rulebook,
    Sites,
    SparseWeights,
    batched_nms,
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
    soft_nms,
    sparse_conv,
    voxelize,
)

__all__ = [
    "Rulebook",
    "Sites",
    "SparseWeights",
    "batched_nms",
    "circle_nms",
    "decode_anchor",
    "decode_center",
    "decode_query",
    "decode_streampetr",
    "decode_yolo",
    "fast_nms",
    "letterbox",
    "nms",
    "nms_3d",
    "nms_bev",
    "nms_rotated",
    "pillar_features",
    "soft_nms",
    "sparse_conv",
    "voxelize",
]
