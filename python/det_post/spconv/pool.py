"""Sparse pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .. import ops
from ._module import refuse_training
from .conv import per_axis, rulebook_of
from .core import SparseConvTensor
from .modules import SparseModule

_PerAxis: TypeAlias = int | Sequence[int]


class SparseMaxPool(SparseModule):
    """The largest features under a kernel; ``stride`` is the kernel's size unless it is given.

    A cell without a site counts as 0, as in spconv.
    """

    def __init__(
        self,
        ndim: int,
        kernel_size: _PerAxis = 3,
        stride: _PerAxis | None = None,
        padding: _PerAxis = 0,
        dilation: _PerAxis = 1,
        indice_key: str | None = None,
        subm: bool = False,
        algo: Any = None,
        record_voxel_count: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.ndim = ndim
        self.kernel_size = per_axis(kernel_size, ndim)
        self.stride = self.kernel_size if stride is None else per_axis(stride, ndim)
        self.padding = per_axis(padding, ndim)
        self.dilation = per_axis(dilation, ndim)
        self.indice_key = indice_key
        self.subm = subm

    def forward(self, input: SparseConvTensor) -> SparseConvTensor:
        """The pooled features, at their sites."""
        refuse_training(self)
        geometry = {
            "ksize": self.kernel_size,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
        }
        mode: Any = "submanifold" if self.subm else "strided"
        data, keys = rulebook_of(input, self.indice_key, mode, geometry)
        target = input.rows if self.subm else data.target
        out = ops.sparse_max_pool(input.rows.sorted(input.features), data.rulebook)
        return input.moved(target.restored(out), target, keys)


class SparseMaxPool1d(SparseMaxPool):
    """:class:`SparseMaxPool` over one axis."""

    def __init__(self, kernel_size: _PerAxis, *arguments: Any, **options: Any) -> None:
        super().__init__(1, kernel_size, *arguments, **options)


class SparseMaxPool2d(SparseMaxPool):
    """:class:`SparseMaxPool` over two axes."""

    def __init__(self, kernel_size: _PerAxis, *arguments: Any, **options: Any) -> None:
        super().__init__(2, kernel_size, *arguments, **options)


class SparseMaxPool3d(SparseMaxPool):
    """:class:`SparseMaxPool` over three axes."""

    def __init__(self, kernel_size: _PerAxis, *arguments: Any, **options: Any) -> None:
        super().__init__(3, kernel_size, *arguments, **options)
