"""Modules that are not convolutions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from ._module import Module
from .core import SparseConvTensor

__all__ = [
    "RemoveGrid",
    "SparseModule",
    "SparseSequential",
    "ToDense",
    "is_sparse_conv",
    "is_spconv_module",
]


class SparseModule(Module):
    """A module of a :class:`SparseConvTensor`."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self.name = name


def is_spconv_module(module: Any) -> bool:
    """Whether a module takes a :class:`SparseConvTensor`."""
    return isinstance(module, SparseModule)


def is_sparse_conv(module: Any) -> bool:
    """Whether a module is a convolution of this package."""
    from .conv import SparseConvolution

    return isinstance(module, SparseConvolution)


class SparseSequential(SparseModule):
    """Modules in a row: others than :class:`SparseModule` take only the features."""

    def __init__(self, *modules: Any, **named: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], OrderedDict):
            pairs = list(modules[0].items())
        else:
            pairs = [(str(place), module) for place, module in enumerate(modules)]
        for name, module in [*pairs, *named.items()]:
            self.add(module, name)

    def add(self, module: Any, name: str | None = None) -> None:
        """Another module, by its place if it has no name."""
        name = str(len(self)) if name is None else name
        if name in self._modules:
            raise KeyError(f"{name} is there")
        self.add_module(name, module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, place: int) -> Any:
        return list(self._modules.values())[place]

    def forward(self, input: Any) -> Any:
        """The result of the last module."""
        for module in self:
            if is_spconv_module(module):
                input = module(input)
            elif isinstance(input, SparseConvTensor):
                if len(input.features) > 0:
                    input = input.replace_feature(module(input.features))
            else:
                input = module(input)
        return input


class ToDense(SparseModule):
    """:meth:`SparseConvTensor.dense` as a module."""

    def forward(self, x: SparseConvTensor) -> Any:
        """``[B, C, *spatial_shape]``."""
        return x.dense()


class RemoveGrid(SparseModule):
    """Drops ``grid``, which nothing here reads."""

    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        """The input."""
        x.grid = None
        return x
