"""The base of modules: torch's, and without torch one of the same names over arrays of numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy

from .. import _arrays as arrays

__all__ = ["Module", "Parameter", "refuse_training", "version_of"]


class _Module:
    """What modules of this package use of ``torch.nn.Module``."""

    training: bool

    def __init__(self) -> None:
        self.training = True
        self._modules: dict[str, Any] = {}
        self._parameters: dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, _Module):
            self._modules[name] = value
        super().__setattr__(name, value)

    def add_module(self, name: str, module: Any) -> None:
        """A child."""
        self._modules[name] = module

    def register_parameter(self, name: str, value: Any) -> None:
        """A parameter, or ``None`` in its place."""
        self._parameters[name] = value
        setattr(self, name, value)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.forward(*arguments, **options)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """The result of the module."""
        raise NotImplementedError

    def train(self, mode: bool = True) -> Any:
        """Whether the module and its children are trained."""
        self.training = mode
        for child in self._modules.values():
            if isinstance(child, _Module):
                child.train(mode)
        return self

    def eval(self) -> Any:
        """For inference."""
        return self.train(False)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """The module and all below it, by name."""
        yield prefix, self
        for name, child in self._modules.items():
            if isinstance(child, _Module):
                yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def state_dict(self) -> dict[str, Any]:
        """All parameters by name."""
        found = {}
        for name, module in self.named_modules():
            for key, value in module._parameters.items():
                if value is not None:
                    found[f"{name}.{key}" if name else key] = value
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Takes all parameters from arrays by name."""
        rest = dict(state_dict)
        errors: list[str] = []
        for name, module in self.named_modules():
            prefix = f"{name}." if name else ""
            module._load_from_state_dict(rest, prefix, {}, strict, [], [], errors)
            for key, value in module._parameters.items():
                if value is None:
                    continue
                if prefix + key not in rest:
                    errors.append(f"{prefix + key} is missing")
                    continue
                found = numpy.asarray(rest.pop(prefix + key), value.dtype)
                if found.shape != value.shape:
                    errors.append(f"{prefix + key} is {found.shape}, {value.shape} is required")
                    continue
                module.register_parameter(key, found)
        if strict:
            errors += [f"{key} is not a parameter" for key in rest]
        if errors:
            raise RuntimeError("; ".join(errors))

    def _load_from_state_dict(self, *arguments: Any) -> None:
        """Before the parameters are taken."""


def _zeros(*shape: int) -> Any:
    return numpy.zeros(shape, numpy.float32)


if TYPE_CHECKING:
    Module = _Module
    Parameter: Callable[..., Any] = _zeros
    HAS_TORCH = False
else:
    try:
        import torch

        Module = torch.nn.Module
        HAS_TORCH = True

        def Parameter(*shape: int) -> Any:
            """A parameter of zeros."""
            return torch.nn.Parameter(torch.zeros(shape))

    except ImportError:
        Module = _Module
        Parameter = _zeros
        HAS_TORCH = False


def refuse_training(module: Any) -> None:
    """Refuses to compute where a gradient would be lost."""
    if not (HAS_TORCH and module.training):
        return
    import torch

    if torch.is_grad_enabled():
        raise RuntimeError(
            "det_post.spconv computes no gradients: call .eval() on the model, "
            "or compute under torch.no_grad()"
        )


def version_of(parameter: Any) -> tuple[Any, ...]:
    """What changes when a parameter does."""
    if not arrays.is_torch(parameter):
        return (id(parameter),)
    version = None if parameter.is_inference() else parameter._version
    return parameter.data_ptr(), version, parameter.dtype, parameter.device
