"""Sparse convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from .. import _arrays as arrays
from .. import ops
from ._module import HAS_TORCH, Parameter, refuse_training, version_of
from .core import IndiceData, Rows, SparseConvTensor
from .modules import SparseModule

_PerAxis: TypeAlias = int | Sequence[int]
_PRECISIONS = {"float16": "float16", "bfloat16": "bfloat16"}


def per_axis(value: Any, ndim: int) -> list[int]:
    """A number per axis."""
    values = [int(value)] * ndim if isinstance(value, int) else [int(one) for one in value]
    if len(values) != ndim:
        raise ValueError(f"{values} has {len(values)} numbers: one for each of {ndim} axes")
    return values


def rulebook_of(
    input: SparseConvTensor,
    key: Any,
    mode: Literal["submanifold", "strided", "transposed"],
    geometry: dict[str, list[int]],
) -> tuple[IndiceData, dict[Any, IndiceData]]:
    """The pairs of a layer, and the keys after it: pairs of submanifold layers of one key are shared."""
    found = input.find_indice_pair(key)
    is_subm = mode == "submanifold"
    if found is not None:
        same = found.is_subm and found.ksize == geometry["ksize"]
        if not (is_subm and same and found.dilation == geometry["dilation"]):
            raise ValueError(
                f"indice_key {key!r} is there already: submanifold layers of one kernel_size and "
                "dilation share a key, other layers need different ones"
            )
        if not found.source.is_same(input.rows):
            raise ValueError(f"indice_key {key!r} is of other indices than this input")
        return found, input.indice_dict
    options: Any = {} if is_subm else {key: geometry[key] for key in ("stride", "padding")}
    if mode == "transposed":
        options["output_padding"] = geometry["output_padding"]
    rulebook = ops.Rulebook(
        input.rows.sites, geometry["ksize"], mode=mode, dilation=geometry["dilation"], **options
    )
    data = IndiceData(
        rulebook,
        source=input.rows,
        target=input.rows if is_subm else Rows.of_sites(rulebook.sites),
        is_subm=is_subm,
        is_transposed=mode == "transposed",
        ksize=geometry["ksize"],
        stride=geometry["stride"],
        padding=geometry["padding"],
        dilation=geometry["dilation"],
    )
    return data, input.indice_dict if key is None else {**input.indice_dict, key: data}


class SparseConvolution(SparseModule):
    """The base of all convolutions, with spconv's arguments.

    The precision of a call is float16 or bfloat16 for features of these types, else float32.
    ``algo``, ``fp32_accum`` and ``large_kernel_fast_algo`` choose among spconv's kernels and have
    no meaning here.
    """

    weight: Any
    bias: Any

    def __init__(
        self,
        ndim: int,
        in_channels: int,
        out_channels: int,
        kernel_size: _PerAxis = 3,
        stride: _PerAxis = 1,
        padding: _PerAxis = 0,
        dilation: _PerAxis = 1,
        groups: int = 1,
        bias: bool = True,
        subm: bool = False,
        output_padding: _PerAxis = 0,
        transposed: bool = False,
        inverse: bool = False,
        indice_key: str | None = None,
        algo: Any = None,
        fp32_accum: bool | None = None,
        record_voxel_count: bool = False,
        act_type: Any = None,
        act_alpha: float = 0,
        act_beta: float = 0,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if groups != 1:
            raise ValueError(f"groups is {groups}: 1 is required, as in spconv")
        if act_type is not None and getattr(act_type, "name", act_type) != "None_":
            raise ValueError(f"act_type is {act_type}: put the activation behind the layer")
        self.ndim = ndim
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_axis(kernel_size, ndim)
        self.stride = per_axis(stride, ndim)
        self.padding = per_axis(padding, ndim)
        self.dilation = per_axis(dilation, ndim)
        self.output_padding = per_axis(output_padding, ndim)
        self.groups = groups
        self.subm = subm
        self.transposed = transposed
        self.inverse = inverse
        self.indice_key = indice_key
        if subm and self.stride != [1] * ndim:
            raise ValueError(f"stride is {self.stride}: 1 is required of a submanifold layer")
        shape = (out_channels, *self.kernel_size, in_channels)
        self.register_parameter("weight", Parameter(*shape))
        self.register_parameter("bias", Parameter(out_channels) if bias else None)
        self.reset_parameters()
        self._packed: tuple[Any, ops.SparseWeights] | None = None

    def reset_parameters(self) -> None:
        """Uniform weights, as torch begins with; zeros without torch."""
        if not HAS_TORCH:
            return
        import torch

        bound = 1 / math.sqrt(self.in_channels * math.prod(self.kernel_size))
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                torch.nn.init.uniform_(parameter, -bound, bound)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Weights of spconv 1.2, ``[*kernel, Cin, Cout]``, become weights of spconv 2,
        ``[Cout, *kernel, Cin]``. Where a shape is both, they are of spconv 2."""
        weight = state_dict.get(prefix + "weight")
        if weight is not None and tuple(weight.shape) != tuple(self.weight.shape):
            shape = (*self.kernel_size, self.in_channels, self.out_channels)
            if tuple(weight.shape) == shape:
                axes = (len(shape) - 1, *range(len(shape) - 1))
                by = weight.permute if arrays.is_torch(weight) else weight.transpose
                state_dict[prefix + "weight"] = by(axes)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def train(self, mode: bool = True) -> Any:
        """As of any module; weights are packed again by the next call."""
        self._packed = None
        return super().train(mode)

    def _weights(self, features: Any) -> ops.SparseWeights:
        """The weights, packed by the first call and again when they have changed.

        A change through ``.data`` is not seen: :meth:`train` and ``eval`` make the next call pack.
        """
        kind = str(features.dtype).rpartition(".")[2]
        precision: Any = _PRECISIONS.get(kind, "float32")
        bias = self.bias
        key = (precision, version_of(self.weight), None if bias is None else version_of(bias))
        if self._packed is None or self._packed[0] != key:
            weights = ops.SparseWeights(
                arrays.contiguous(self.weight),
                bias=None if bias is None else arrays.contiguous(bias),
                precision=precision,
            )
            self._packed = key, weights
        return self._packed[1]

    def forward(self, input: SparseConvTensor) -> SparseConvTensor:
        """The features after the convolution, at its sites."""
        refuse_training(self)
        if self.inverse:
            data = self._source(input)
            rulebook, source, target = data.inverse, data.target, data.source
            keys = input.indice_dict
        else:
            mode: Any = "submanifold" if self.subm else "strided"
            geometry = {
                "ksize": self.kernel_size,
                "stride": self.stride,
                "padding": self.padding,
                "dilation": self.dilation,
                "output_padding": self.output_padding,
            }
            mode = "transposed" if self.transposed else mode
            data, keys = rulebook_of(input, self.indice_key, mode, geometry)
            rulebook, source, target = data.rulebook, input.rows, data.target
            target = input.rows if self.subm else target
        rows = source.sorted(input.features)
        out = ops.sparse_conv(rows, rulebook, self._weights(rows))
        return input.moved(target.restored(out), target, keys)

    def _source(self, input: SparseConvTensor) -> IndiceData:
        """The pairs that an inverse convolution goes back by."""
        data = input.find_indice_pair(self.indice_key)
        if data is None:
            keys = ", ".join(repr(key) for key in input.indice_dict)
            raise ValueError(f"indice_key {self.indice_key!r} is not there; there are: {keys}")
        if data.is_subm or data.is_transposed or data.ksize != self.kernel_size:
            kind = "submanifold" if data.is_subm else "transposed" if data.is_transposed else "strided"
            raise ValueError(
                f"indice_key {self.indice_key!r} is of a {kind} layer of kernel_size {data.ksize}: "
                f"an inverse convolution needs a strided one of kernel_size {self.kernel_size}"
            )
        if not data.target.is_same(input.rows):
            raise ValueError(f"the input has other indices than indice_key {self.indice_key!r} led to")
        return data

    def extra_repr(self) -> str:
        """The arguments."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"bias={self.bias is not None}"
        )


class _Layer(SparseConvolution):
    """A layer with spconv's order of arguments."""

    _NDIM = 0
    _SUBM = False
    _TRANSPOSED = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _PerAxis,
        stride: _PerAxis = 1,
        padding: _PerAxis = 0,
        dilation: _PerAxis = 1,
        groups: int = 1,
        bias: bool = True,
        indice_key: str | None = None,
        algo: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            self._NDIM,
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            subm=self._SUBM,
            transposed=self._TRANSPOSED,
            indice_key=indice_key,
            **options,
        )


class _Inverse(SparseConvolution):
    """The way back from the strided convolution of ``indice_key``."""

    _NDIM = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _PerAxis,
        indice_key: str | None = None,
        bias: bool = True,
        algo: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            self._NDIM,
            in_channels,
            out_channels,
            kernel_size,
            bias=bias,
            inverse=True,
            indice_key=indice_key,
            **options,
        )


class SparseConv1d(_Layer):
    """A strided convolution over one axis."""

    _NDIM = 1


class SparseConv2d(_Layer):
    """A strided convolution over two axes."""

    _NDIM = 2


class SparseConv3d(_Layer):
    """A strided convolution over three axes."""

    _NDIM = 3


class SubMConv1d(_Layer):
    """A submanifold convolution over one axis: padding is not read, as in spconv."""

    _NDIM = 1
    _SUBM = True


class SubMConv2d(_Layer):
    """A submanifold convolution over two axes: padding is not read, as in spconv."""

    _NDIM = 2
    _SUBM = True


class SubMConv3d(_Layer):
    """A submanifold convolution over three axes: padding is not read, as in spconv."""

    _NDIM = 3
    _SUBM = True


class SparseConvTranspose1d(_Layer):
    """A transposed convolution over one axis."""

    _NDIM = 1
    _TRANSPOSED = True


class SparseConvTranspose2d(_Layer):
    """A transposed convolution over two axes."""

    _NDIM = 2
    _TRANSPOSED = True


class SparseConvTranspose3d(_Layer):
    """A transposed convolution over three axes."""

    _NDIM = 3
    _TRANSPOSED = True


class SparseInverseConv1d(_Inverse):
    """The way back over one axis from the strided convolution of ``indice_key``."""

    _NDIM = 1


class SparseInverseConv2d(_Inverse):
    """The way back over two axes from the strided convolution of ``indice_key``."""

    _NDIM = 2


class SparseInverseConv3d(_Inverse):
    """The way back over three axes from the strided convolution of ``indice_key``."""

    _NDIM = 3
