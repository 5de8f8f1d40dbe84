"""Sparse 3D convolutions in plain torch.

Features are rows [N, C], one for each active cell (site) of a grid [z, y, x],
in ascending linear index, batch first. A rulebook names for each output site and
tap the row of its input; absent inputs are a row of zeros. So a convolution is
one gather and one matrix product, and its gradient the same with the rulebook's
transpose: no atomic addition, and the same bits run to run.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn

# Rows of a piece of a tall product.
PIECE = 4096


@dataclass
class Sites:
    """The active cells of one level. All indices are int32, the fastest on a GPU:
    a batch may have 2^31 cells, with margins."""

    coordinates: torch.Tensor  # [4, N]: batch, z, y, x
    grid: tuple[int, int, int]
    batch: int

    def __len__(self):
        return self.coordinates.shape[1]

    def ranks(self) -> torch.Tensor:
        """The row of each cell of the grid with a margin of one cell; N where
        no site is. [batch, z + 2, y + 2, x + 2], flat."""
        shape = [n + 2 for n in self.grid]
        device = self.coordinates.device
        num_cells = self.batch * math.prod(shape)
        ranks = torch.full((num_cells,), len(self), dtype=torch.int32, device=device)
        b, z, y, x = self.coordinates
        index = linear(b, [z + 1, y + 1, x + 1], shape)
        rows = torch.arange(len(self), dtype=torch.int32, device=device)
        return ranks.index_copy_(0, index.long(), rows)


def linear(batch, cell, shape):
    """Linear index of cells z, y, x of a grid of `shape`."""
    z, y, x = cell
    return ((batch * shape[0] + z) * shape[1] + y) * shape[2] + x


def sorted_sites(coordinates: torch.Tensor, grid, batch: int):
    """Sites [4, N] (batch, z, y, x) in ascending order, and the order of the rows."""
    coordinates = coordinates.int()
    b, *cell = coordinates
    order = linear(b, cell, grid).argsort()
    return Sites(coordinates[:, order], tuple(grid), batch), order


@dataclass
class Rulebook:
    """Which row goes to which: [outputs, taps], and [inputs, taps] for the
    gradient. The number of rows of the other side stands for none."""

    inputs_of: torch.Tensor
    outputs_of: torch.Tensor


def look_up(sites: Sites, batch: torch.Tensor, cells: list[torch.Tensor]) -> torch.Tensor:
    """Rows [M, taps] of cells given axis by axis, [M, taps of the axis]; a cell
    may be outside of the grid by one."""
    _, height, width = (n + 2 for n in sites.grid)
    z, y, x = (cell + 1 for cell in cells)
    plane = (batch[:, None] * (sites.grid[0] + 2) + z) * height
    row = (plane[:, :, None] + y[:, None, :]) * width
    index = row[:, :, :, None] + x[:, None, None, :]
    return sites.ranks().index_select(0, index.flatten()).view(len(batch), -1)


def taps(kernel: int, like: torch.Tensor) -> torch.Tensor:
    return torch.arange(kernel, dtype=torch.int32, device=like.device)


def submanifold_rulebook(sites: Sites, kernel) -> Rulebook:
    """Outputs are the sites themselves."""
    b, *cell = sites.coordinates
    cells = [c[:, None] + (taps(k, c) - k // 2) for c, k in zip(cell, kernel)]
    inputs_of = look_up(sites, b, cells)
    return Rulebook(inputs_of, inputs_of.flip(1))


def strided_rulebook(sites: Sites, kernel, stride, padding) -> tuple[Sites, Rulebook]:
    """Outputs are all cells with a site under the kernel. Tap k of output o is
    the input o * stride - padding + k."""
    outputs = strided_sites(sites, kernel, stride, padding)
    b, *cell = outputs.coordinates
    axes = list(zip(cell, kernel, stride, padding))
    cells = [(c * s - p)[:, None] + taps(k, c) for c, k, s, p in axes]
    inputs_of = look_up(sites, b, cells)

    b, *cell = sites.coordinates
    cells = []
    for c, k, s, p, size in zip(cell, kernel, stride, padding, outputs.grid):
        place = (c + p)[:, None] - taps(k, c)
        fits = (place % s == 0) & (place >= 0) & (place < size * s)
        # The margin of the grid has no site.
        cells.append(torch.where(fits, place // s, -1))
    return outputs, Rulebook(inputs_of, look_up(outputs, b, cells))


def strided_sites(sites: Sites, kernel, stride, padding) -> Sites:
    axes = list(zip(sites.grid, kernel, stride, padding))
    grid = tuple((n + 2 * p - k) // s + 1 for n, k, s, p in axes)
    b, *cell = sites.coordinates
    # Along each axis, the outputs that have the site under their kernel: [reach, N].
    outputs, fits = [], []
    for c, size, (_, k, s, p) in zip(cell, grid, axes):
        output = (c + p) // s - taps(math.ceil(k / s), c)[:, None]
        outputs.append(output)
        fits.append((output >= 0) & (output < size) & (output * s - p + k > c))
    (z, y, x), (in_z, in_y, in_x) = outputs, fits
    index = linear(b, [z[:, None, None], y[None, :, None], x[None, None]], grid)
    exists = in_z[:, None, None] & in_y[None, :, None] & in_x[None, None]
    num_cells = sites.batch * math.prod(grid)
    # One more, for what has no output.
    is_active = torch.zeros(num_cells + 1, dtype=torch.bool, device=b.device)
    index = torch.where(exists, index, num_cells).flatten()
    is_active.index_fill_(0, index.long(), True)
    index = is_active[:-1].nonzero().squeeze(1).int()
    depth, height, width = grid
    column, plane = index // width, index // (width * height)
    coordinates = [plane // depth, plane % depth, column % height, index % width]
    return Sites(torch.stack(coordinates), grid, sites.batch)


def gather(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """[M, taps * C] of rows [N, C]; row N is zero."""
    dtype, num_bytes = rows.dtype, rows.shape[1] * rows.element_size()
    rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
    if num_bytes % 16:
        return rows.index_select(0, index.flatten()).view(len(index), -1)
    # Words of 16 bytes, each with an index: torch's kernels for whole rows start
    # a block of threads for each row, which for rows so short takes 20 times as long.
    num_words = num_bytes // 16
    words = torch.arange(num_words, device=index.device)
    index = index[:, :, None].long() * num_words + words
    return torch.take(rows.view(torch.complex128), index).flatten(1).view(dtype)


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
