"""Sparse convolution with the modules and names of ``spconv.pytorch``, for inference: change only the import.

``import spconv.pytorch as spconv`` becomes ``from det_post import spconv``. Modules are modules of torch
and load checkpoints of spconv 1.2 and 2; without torch they hold arrays of numpy. Features are
arrays of numpy, torch or cupy, on the CPU or a GPU. What differs from spconv:

| matter | spconv | here |
|---|---|---|
| gradients | computed | refused: ``.eval()`` or ``torch.no_grad()`` |
| axes | 1 to 4 | 1 to 3 |
| rows after a strided or transposed layer, or a pooling | in an order of the algorithm | ascending by scene and cell |
| indices that repeat a cell, or are outside | undefined | refused |
| precision | of the features, with TF32 where torch allows it | of the features: float32, float16, bfloat16 |
| weights | ``[Cout, *kernel, Cin]`` | the same; ``[*kernel, Cin, Cout]`` of spconv 1.2 is turned when it is loaded |
| ``groups``, ``act_type`` | 1; fused | 1; refused |
| ``algo``, ``fp32_accum``, ``benchmark`` and other choices of a kernel | | accepted, not read |
| average and global pooling, quantized modules, tables | there | do not exist |
"""

from . import conv, core, modules, pool
from .conv import (
    SparseConv1d,
    SparseConv2d,
    SparseConv3d,
    SparseConvolution,
    SparseConvTranspose1d,
    SparseConvTranspose2d,
    SparseConvTranspose3d,
    SparseInverseConv1d,
    SparseInverseConv2d,
    SparseInverseConv3d,
    SubMConv1d,
    SubMConv2d,
    SubMConv3d,
)
from .core import SparseConvTensor, scatter_nd
from .modules import (
    RemoveGrid,
    SparseModule,
    SparseSequential,
    ToDense,
    is_sparse_conv,
    is_spconv_module,
)
from .pool import SparseMaxPool, SparseMaxPool1d, SparseMaxPool2d, SparseMaxPool3d

__all__ = [
    "RemoveGrid",
    "SparseConv1d",
    "SparseConv2d",
    "SparseConv3d",
    "SparseConvTensor",
    "SparseConvTranspose1d",
    "SparseConvTranspose2d",
    "SparseConvTranspose3d",
    "SparseConvolution",
    "SparseInverseConv1d",
    "SparseInverseConv2d",
    "SparseInverseConv3d",
    "SparseMaxPool",
    "SparseMaxPool1d",
    "SparseMaxPool2d",
    "SparseMaxPool3d",
    "SparseModule",
    "SparseSequential",
    "SubMConv1d",
    "SubMConv2d",
    "SubMConv3d",
    "ToDense",
    "conv",
    "core",
    "is_sparse_conv",
    "is_spconv_module",
    "modules",
    "pool",
    "scatter_nd",
]
