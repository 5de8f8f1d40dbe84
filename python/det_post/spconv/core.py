"""Features at sites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .. import _arrays as arrays
from .. import ops

__all__ = ["IndiceData", "SparseConvTensor", "scatter_nd"]


class Rows:
    """The rows of features: their sites in the order of the caller, and in the order of ``ops.Sites``."""

    def __init__(self, indices: Any, shape: Sequence[int], batch_size: int) -> None:
        self.indices = indices
        self.shape = [int(size) for size in shape]
        self.batch_size = int(batch_size)

    @classmethod
    def of_sites(cls, sites: ops.Sites) -> Rows:
        """Rows in the order of sites."""
        rows = cls(sites.coordinates, sites.shape, sites.batch_size)
        rows.sites = sites
        rows.order = None
        return rows

    @cached_property
    def sites(self) -> ops.Sites:
        """The sites."""
        indices = arrays.contiguous(self.indices, "int32")
        sites = ops.Sites(indices, self.shape, batch_size=self.batch_size)
        if sites.num_duplicates or sites.num_outside:
            raise ValueError(
                f"of {len(indices)} indices {sites.num_duplicates} are at a cell that an earlier "
                f"one has, {sites.num_outside} are outside of spatial_shape {self.shape} with "
                f"batch_size {self.batch_size}: a cell may be there once"
            )
        return sites

    @cached_property
    def order(self) -> Any:
        """The row of each site, ``None`` where both orders are the same."""
        rows = self.sites.rows
        return None if bool((rows == arrays.arange(len(rows), rows)).all()) else rows

    def sorted(self, features: Any) -> Any:
        """Rows in the order of the sites."""
        if len(features) != len(self.sites):
            raise ValueError(f"{len(features)} rows of features for {len(self.sites)} indices")
        features = arrays.contiguous(features)
        return features if self.order is None else features[self.order]

    def restored(self, features: Any) -> Any:
        """Rows in the order of the caller, of rows in the order of the sites."""
        if self.order is None:
            return features
        rows = arrays.full(tuple(features.shape), 0, features)
        rows[self.order] = features
        return rows

    def is_same(self, other: Rows) -> bool:
        """Whether both are of the same sites."""
        if self is other:
            return True
        if (self.shape, self.batch_size, len(self.sites)) != (
            other.shape,
            other.batch_size,
            len(other.sites),
        ):
            return False
        return bool((self.sites.coordinates == other.sites.coordinates).all())


@dataclass
class IndiceData:
    """The pairs that an ``indice_key`` names."""

    rulebook: ops.Rulebook
    source: Rows
    target: Rows
    is_subm: bool
    is_transposed: bool
    ksize: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]

    @property
    def indices(self) -> Any:
        """Cells of the input."""
        return self.source.indices

    @property
    def out_indices(self) -> Any:
        """Cells of the output."""
        return self.target.indices

    @property
    def spatial_shape(self) -> list[int]:
        """Cells of the input along the axes."""
        return self.source.shape

    @property
    def out_spatial_shape(self) -> list[int]:
        """Cells of the output along the axes."""
        return self.target.shape

    @property
    def indice_pairs(self) -> Any:
        """Rows of the input and of the output by tap, ``[2, taps, P]``, -1 past the last pair."""
        pairs, _ = ops.indice_pairs(self.rulebook)
        for side, rows in zip(pairs, (self.source, self.target)):
            if rows.order is not None and len(rows.order) > 0:
                is_pair = side >= 0
                side[is_pair] = arrays.contiguous(rows.order, "int32")[
                    arrays.contiguous(side[is_pair], "int64")
                ]
        return pairs

    @property
    def indice_pair_num(self) -> Any:
        """Pairs by tap, ``[taps]``."""
        return ops.indice_pairs(self.rulebook)[1]

    @cached_property
    def inverse(self) -> ops.Rulebook:
        """The way back, from the output to the input."""
        return ops.Rulebook(
            self.target.sites,
            self.ksize,
            mode="inverse",
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            output=self.source.sites,
        )


class SparseConvTensor:
    """Features ``[N, C]`` at cells: ``indices`` ``[N, 1 + axes]``, int32, rows of scene and cell.

    ``spatial_shape``: cells along one, two or three axes. The order of the rows stays until a
    strided or transposed convolution or a pooling, whose rows ascend by scene and cell.
    """

    grid: Any
    voxel_num: Any

    def __init__(
        self,
        features: Any,
        indices: Any,
        spatial_shape: Iterable[int],
        batch_size: int,
        grid: Any = None,
        voxel_num: Any = None,
        indice_dict: dict[Any, IndiceData] | None = None,
        benchmark: bool = False,
        permanent_thrust_allocator: bool = False,
        enable_timer: bool = False,
        force_algo: Any = None,
    ) -> None:
        self._init(features, Rows(indices, list(spatial_shape), batch_size), indice_dict or {})
        self.grid = grid
        self.voxel_num = voxel_num

    def _init(self, features: Any, rows: Rows, indice_dict: dict[Any, IndiceData]) -> None:
        self.features = features
        self.rows = rows
        self.indice_dict = indice_dict
        self.grid = None
        self.voxel_num = None

    def moved(
        self, features: Any, rows: Rows, indice_dict: dict[Any, IndiceData]
    ) -> SparseConvTensor:
        """Other features at the sites of other rows."""
        tensor = SparseConvTensor.__new__(SparseConvTensor)
        tensor._init(features, rows, indice_dict)
        tensor.grid, tensor.voxel_num = self.grid, self.voxel_num
        return tensor

    @property
    def indices(self) -> Any:
        """Cells of the rows."""
        return self.rows.indices

    @property
    def spatial_shape(self) -> list[int]:
        """Cells along the axes."""
        return self.rows.shape

    @property
    def batch_size(self) -> int:
        """Scenes."""
        return self.rows.batch_size

    @property
    def spatial_size(self) -> int:
        """Cells of a scene."""
        size = 1
        for cells in self.spatial_shape:
            size *= cells
        return size

    @property
    def sparity(self) -> float:
        """The share of cells that are sites, under spconv's name."""
        return len(self.indices) / (self.spatial_size * self.batch_size)

    def replace_feature(self, feature: Any) -> SparseConvTensor:
        """Other features at the same sites."""
        return self.moved(feature, self.rows, self.indice_dict)

    def shadow_copy(self) -> SparseConvTensor:
        """The same features at the same sites."""
        return self.replace_feature(self.features)

    def find_indice_pair(self, key: Any) -> IndiceData | None:
        """The pairs of an ``indice_key``."""
        return None if key is None else self.indice_dict.get(key)

    def dense(self, channels_first: bool = True) -> Any:
        """``[B, C, *spatial_shape]``, or channels last; 0 at cells without a site."""
        map_ = ops.to_map(self.rows.sorted(self.features), self.rows.sites)
        shape = (self.batch_size, self.features.shape[1], *self.spatial_shape)
        dense = map_.reshape(shape)
        if channels_first:
            return dense
        axes = (0, *range(2, len(shape)), 1)
        if arrays.is_torch(dense):
            return dense.permute(axes).contiguous()
        return arrays.contiguous(dense.transpose(axes))

    def __add__(self, other: Any) -> SparseConvTensor:
        return self.replace_feature(self.features + self._added(other))

    def _added(self, other: Any) -> Any:
        if not isinstance(other, SparseConvTensor):
            return other
        if not self.rows.is_same(other.rows):
            raise ValueError("only features at the same sites can be added")
        if other.rows is self.rows:
            return other.features
        return self.rows.restored(other.rows.sorted(other.features))


def scatter_nd(indices: Any, updates: Any, shape: Sequence[int]) -> Any:
    """A dense array of zeros with rows of ``updates`` at ``indices``, as spconv's."""
    dense = arrays.full(tuple(shape), 0, updates)
    columns = arrays.contiguous(indices, "int64")
    dense[tuple(columns[:, axis] for axis in range(columns.shape[1]))] = updates
    return dense
