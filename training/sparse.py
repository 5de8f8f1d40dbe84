"""Sparse 3D convolutions in plain torch.

Features are rows [N, C], one for each active cell (site) of a grid [z, y, x],
in ascending linear index, batch first. A rulebook names for each output site and
tap the row of its input; absent inputs are a row of zeros. So a convolution is
one gather and one matrix product, and its gradient the same with the rulebook's
transpose: no atomic addition, and the same bits run to run.
"""

import itertools
import math
from dataclasses import dataclass

import torch
from torch import nn

# Rows of a piece of a tall product.
PIECE = 4096


@dataclass
class Sites:
    """The active cells of one level."""

    coordinates: torch.Tensor  # [N, 4] int64: batch, z, y, x
    grid: tuple[int, int, int]
    batch: int

    def __len__(self):
        return len(self.coordinates)

    def ranks(self) -> torch.Tensor:
        """The row of each cell of the grid with a margin of one cell; N where
        no site is. [batch, z + 2, y + 2, x + 2], flat."""
        shape = [n + 2 for n in self.grid]
        ranks = torch.full(
            (self.batch * math.prod(shape),), len(self), dtype=torch.int32,
            device=self.coordinates.device,
        )  # fmt: skip
        b, *cell = self.coordinates.unbind(1)
        ranks[linear(b, [c + 1 for c in cell], shape)] = torch.arange(
            len(self), dtype=torch.int32, device=ranks.device
        )
        return ranks


def linear(batch, cell, shape):
    """Linear index of cells z, y, x of a grid of `shape`."""
    z, y, x = cell
    return ((batch * shape[0] + z) * shape[1] + y) * shape[2] + x


def sorted_sites(coordinates: torch.Tensor, grid, batch: int):
    """Sites [batch, z, y, x] in ascending order, and the order of the rows."""
    b, *cell = coordinates.unbind(1)
    order = linear(b, cell, grid).argsort()
    return Sites(coordinates[order], tuple(grid), batch), order


@dataclass
class Rulebook:
    """Which row goes to which: [outputs, taps], and [inputs, taps] for the
    gradient. The number of rows of the other side stands for none."""

    inputs_of: torch.Tensor
    outputs_of: torch.Tensor


def look_up(sites: Sites, cells: list[torch.Tensor]) -> torch.Tensor:
    """Rows [M, taps] of cells given axis by axis, [M, taps of the axis]; a cell
    may be outside of the grid by one."""
    shape = [n + 2 for n in sites.grid]
    b, (z, y, x) = cells[0], [cell + 1 for cell in cells[1:]]
    column = (b[:, None] * shape[0] + z) * shape[1]
    plane = (column[:, :, None] + y[:, None, :]) * shape[2]
    index = plane[:, :, :, None] + x[:, None, None, :]
    return sites.ranks()[index.flatten(1)]


def submanifold_rulebook(sites: Sites, kernel) -> Rulebook:
    """Outputs are the sites themselves."""
    b, *cell = sites.coordinates.unbind(1)
    cells = [c[:, None] + taps(k, c) - k // 2 for c, k in zip(cell, kernel)]
    inputs_of = look_up(sites, [b, *cells])
    return Rulebook(inputs_of, inputs_of.flip(1))


def strided_rulebook(sites: Sites, kernel, stride, padding) -> tuple[Sites, Rulebook]:
    """Outputs are all cells with a site under the kernel. Tap k of output o is
    the input o * stride - padding + k."""
    outputs = strided_sites(sites, kernel, stride, padding)
    b, *cell = outputs.coordinates.unbind(1)
    axes = list(zip(cell, kernel, stride, padding))
    cells = [c[:, None] * s - p + taps(k, c) for c, k, s, p in axes]
    inputs_of = look_up(sites, [b, *cells])

    b, *cell = sites.coordinates.unbind(1)
    cells = []
    for c, k, s, p, size in zip(cell, kernel, stride, padding, outputs.grid):
        place = c[:, None] + p - taps(k, c)
        fits = (place % s == 0) & (place >= 0) & (place < size * s)
        # The margin of the grid has no site.
        cells.append(torch.where(fits, place // s, -1))
    return outputs, Rulebook(inputs_of, look_up(outputs, [b, *cells]))


def strided_sites(sites: Sites, kernel, stride, padding) -> Sites:
    grid = tuple(
        (n + 2 * p - k) // s + 1 for n, k, s, p in zip(sites.grid, kernel, stride, padding)
    )
    b, *cell = sites.coordinates.unbind(1)
    num_cells = sites.batch * math.prod(grid)
    # One more, for what has no output.
    is_active = torch.zeros(num_cells + 1, dtype=torch.bool, device=b.device)
    last = [(c + p) // s for c, s, p in zip(cell, stride, padding)]
    reach = [math.ceil(k / s) for k, s in zip(kernel, stride)]
    for back in itertools.product(*map(range, reach)):
        output = [o - d for o, d in zip(last, back)]
        fits = torch.ones_like(b, dtype=torch.bool)
        for o, c, k, s, p, size in zip(output, cell, kernel, stride, padding, grid):
            fits &= (o >= 0) & (o < size) & (o * s - p + k > c)
        is_active[torch.where(fits, linear(b, output, grid), num_cells)] = True
    index = is_active[:-1].nonzero().squeeze(1)
    depth, height, width = grid
    coordinates = [
        index // (depth * height * width),
        index // (height * width) % depth,
        index // width % height,
        index % width,
    ]
    return Sites(torch.stack(coordinates, dim=1), grid, sites.batch)


def taps(kernel: int, like: torch.Tensor) -> torch.Tensor:
    return torch.arange(kernel, device=like.device)


def gather(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """[M, taps * C] of rows [N, C]; row N is zero."""
    dtype = rows.dtype
    rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
    # GPUs move 16 bytes as fast as one value.
    if rows.shape[1] * rows.element_size() % 16 == 0:
        rows = rows.view(torch.complex128)
    elif rows.shape[1] * rows.element_size() % 8 == 0:
        rows = rows.view(torch.int64)
    return rows.index_select(0, index.flatten()).view(dtype).view(len(index), -1)


def tall_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a^T b of matrices with many rows, in pieces: one product of so small a
    result would leave most of a GPU idle."""
    num = len(a) // PIECE
    pieces = [m[: num * PIECE].view(num, PIECE, m.shape[1]) for m in (a, b)]
    product = torch.bmm(pieces[0].transpose(1, 2), pieces[1])
    wide = torch.promote_types(a.dtype, torch.float32)
    rest = a[num * PIECE :].T @ b[num * PIECE :]
    return (product.sum(0, dtype=wide) + rest).to(a.dtype)


class Convolve(torch.autograd.Function):
    """Rows [N, Cin] to [M, Cout], weight [Cout, taps, Cin]."""

    @staticmethod
    def forward(ctx, rows, weight, inputs_of, outputs_of):
        gathered = gather(rows, inputs_of)
        ctx.save_for_backward(gathered, weight, outputs_of)
        return gathered @ weight.flatten(1).T

    @staticmethod
    def backward(ctx, gradient):
        gathered, weight, outputs_of = ctx.saved_tensors
        gradient = gradient.contiguous()
        to_weight = tall_product(gradient, gathered).view_as(weight)
        to_rows = None
        if ctx.needs_input_grad[0]:
            to_rows = gather(gradient, outputs_of) @ weight.permute(1, 0, 2).flatten(0, 1)
        return to_rows, to_weight, None, None


class SparseConv(nn.Module):
    """A convolution without bias. The weight is stored as spconv 2 stores it,
    [Cout, kz, ky, kx, Cin]; it is used in the type of the features."""

    def __init__(self, num_in, num_out, kernel):
        super().__init__()
        fan_in = num_in * math.prod(kernel)
        weight = torch.randn(num_out, *kernel, num_in) * (2 / fan_in) ** 0.5
        self.weight = nn.Parameter(weight)

    def forward(self, rows, rulebook: Rulebook):
        weight = self.weight.flatten(1, 3).to(rows.dtype)
        return Convolve.apply(rows, weight, rulebook.inputs_of, rulebook.outputs_of)
