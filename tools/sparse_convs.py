"""Sparse convolutions of a checkpoint: the order of their weights, and batch
normalization folded in."""

from dataclasses import dataclass

import torch

from export_dense import ExportError

LAYOUTS = {
    # Order of (out, kernel, kernel, kernel, in) in the stored dimensions.
    "spconv2": (0, 1, 2, 3, 4),
    "spconv1": (4, 0, 1, 2, 3),
    "spconv2-native": (3, 0, 1, 2, 4),
}


@dataclass
class Conv:
    """A convolution with batch normalization folded in."""

    name: str
    weight: torch.Tensor  # [out, k0, k1, k2, in], f64
    bias: torch.Tensor  # [out], f64
    strided: bool = False
    stride: tuple = (1, 1, 1)
    padding: tuple = (1, 1, 1)

    @property
    def kernel(self):
        return tuple(self.weight.shape[1:4])


def normalization_of(conv):
    """The name of the batch normalization behind a convolution."""
    head, last = conv.rsplit(".", 1)
    if last.isdigit():
        return f"{head}.{int(last) + 1}"
    return f"{head}.bn{last.removeprefix('conv')}"


def layout_fits(layout, shape, num_outputs):
    out, *kernel, _ = LAYOUTS[layout]
    return shape[out] == num_outputs and all(shape[axis] in (1, 3, 5) for axis in kernel)


def find_layout(state, convs):
    """The order of the dimensions of all weights: the one that fits every shape.

    Batch normalization tells the number of outputs. Where inputs and outputs are
    as many, two orders look alike; another convolution of the same checkpoint
    has to tell them apart.
    """
    candidates = list(LAYOUTS)
    for conv in convs:
        shape = tuple(state[f"{conv}.weight"].shape)
        num_outputs = len(state[f"{normalization_of(conv)}.weight"])
        candidates = [c for c in candidates if layout_fits(c, shape, num_outputs)]
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise ExportError("no layout of weights fits all shapes")
    raise ExportError(f"layouts {' and '.join(candidates)} both fit all shapes: give --layout")


def fold(state, name, layout, eps):
    """A convolution with the batch normalization behind it."""
    weight = weights_of(state[f"{name}.weight"], layout)
    norm = normalization_of(name)
    gamma, beta, mean, var = (
        state[f"{norm}.{part}"].double()
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    bias = state.get(f"{name}.bias", torch.zeros(len(gamma))).double()
    scale = gamma / torch.sqrt(var + eps)
    return Conv(name, weight * scale[:, None, None, None, None], (bias - mean) * scale + beta)


def weights_of(tensor, layout):
    """Weights [out, k0, k1, k2, in] in f64. A convolution on a plane becomes one on a grid of one layer.

    spconv 2 multiplies by the weights of a kernel of one cell as if they were stored [in, out],
    whatever their shape says: `SparseConvolution` in spconv/pytorch/conv.py.
    """
    weight = tensor.double()
    if weight.dim() == 4:
        weight = weight.unsqueeze(LAYOUTS[layout][1])
    weight = weight.permute(LAYOUTS[layout])
    num_out, *kernel, num_in = weight.shape
    if kernel == [1, 1, 1] and layout != "spconv1":
        weight = tensor.double().reshape(num_in, num_out).T.reshape(weight.shape)
    return weight


def plain(state, name, layout):
    """A convolution without batch normalization."""
    weight = weights_of(state[f"{name}.weight"], layout)
    bias = state.get(f"{name}.bias", torch.zeros(weight.shape[0])).double()
    return Conv(name, weight, bias)
