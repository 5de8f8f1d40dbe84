"""What numpy, torch and cupy spell differently."""

from __future__ import annotations

from typing import Any


def is_torch(array: Any) -> bool:
    return _is_of("torch", array)


def _is_of(library: str, array: Any) -> bool:
    """Whether the type of an array, or one that it derives from, is of a library."""
    return any(base.__module__.partition(".")[0] == library for base in type(array).__mro__)


def namespace(array: Any) -> Any:
    """numpy, torch or cupy."""
    if is_torch(array):
        import torch

        return torch
    if _is_of("cupy", array):
        import cupy

        return cupy
    import numpy

    return numpy


def contiguous(array: Any, dtype: str | None = None) -> Any:
    """A contiguous array without gradients, of another type if one is given."""
    library = namespace(array)
    if is_torch(array):
        array = array.detach() if dtype is None else array.detach().to(getattr(library, dtype))
        return array.contiguous()
    return library.ascontiguousarray(array, dtype=dtype)


def float32(array: Any) -> Any:
    return contiguous(array, "float32")


def int64(array: Any) -> Any:
    return contiguous(array, "int64")


def full(shape: tuple[int, ...], value: float, like: Any, dtype: str | None = None) -> Any:
    """An array of one value, of the library, the device and the type of another."""
    library = namespace(like)
    kind = like.dtype if dtype is None else getattr(library, dtype)
    if is_torch(like):
        return library.full(shape, value, dtype=kind, device=like.device)
    return library.full(shape, value, dtype=kind)


def arange(num: int, like: Any) -> Any:
    """Numbers from 0, int64, of the library and the device of an array."""
    library = namespace(like)
    if is_torch(like):
        return library.arange(num, device=like.device)
    return library.arange(num)


def flip(cells: Any) -> Any:
    """Rows in the reverse order of their columns."""
    if is_torch(cells):
        return cells.flip(1)
    return namespace(cells).ascontiguousarray(cells[:, ::-1])


def repeat(rows: Any, numbers: Any) -> Any:
    """Each row as many times as its number."""
    if is_torch(rows):
        return rows.repeat_interleave(numbers.long(), dim=0)
    return namespace(rows).repeat(rows, numbers, axis=0)


def nonzero(mask: Any) -> tuple[Any, Any]:
    """Rows and columns where a mask is set, row by row."""
    found = mask.nonzero(as_tuple=True) if is_torch(mask) else mask.nonzero()
    return found[0], found[1]


def stack(columns: list[Any]) -> Any:
    """Columns side by side."""
    library = namespace(columns[0])
    if is_torch(columns[0]):
        return library.stack(columns, dim=-1)
    return library.ascontiguousarray(library.stack(columns, axis=-1))


def with_scores(boxes: Any, scores: Any) -> Any:
    """Rows of boxes with a column of scores behind."""
    library = namespace(boxes)
    if is_torch(boxes):
        return library.cat([boxes, scores[:, None].to(boxes.dtype)], dim=1)
    return library.concatenate([boxes, scores[:, None]], axis=1)


def joined(parts: list[Any]) -> Any:
    """Arrays of one shape along a new first axis."""
    return namespace(parts[0]).stack(parts)


def finish(array: Any) -> None:
    """Waits for the work of an array's library on a GPU."""
    if is_torch(array):
        if array.is_cuda:
            namespace(array).cuda.current_stream(array.device).synchronize()
    elif _is_of("cupy", array):
        with array.device:
            namespace(array).cuda.get_current_stream().synchronize()
