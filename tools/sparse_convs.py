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


def convolutions_of(state):
    """The names of the convolutions in space, in the order of the checkpoint."""
    tensors = [name for name, tensor in state.items() if tensor.dim() == 5]
    return [name.removesuffix(".weight") for name in tensors if name.endswith(".weight")]


def layout_fits(layout, shape, num_outputs):
    out, *kernel, _ = LAYOUTS[layout]
    return shape[out] == num_outputs and all(shape[axis] in (1, 3, 5) for axis in kernel)


def vector(state, name, num):
    """The tensor of a name in f64, a finite number for each of so many outputs."""
    if name not in state:
        raise ExportError(f"{name} is not in the checkpoint")
    if tuple(state[name].shape) != (num,):
        raise ExportError(f"{name} is {tuple(state[name].shape)}; ({num},) is expected")
    values = state[name].double()
    if not torch.isfinite(values).all():
        raise ExportError(f"{name} has values that are not finite")
    return values


def num_outputs_of(state, conv):
    """How many outputs the batch normalization behind a convolution has."""
    name = f"{normalization_of(conv)}.weight"
    if name not in state or state[name].dim() != 1:
        found = tuple(state[name].shape) if name in state else "not in the checkpoint"
        raise ExportError(f"{name} is {found}; a value for each output of {conv} is expected")
    return len(state[name])


def refuse_unread(state, convs, plain_convs=()):
    """Refuses tensors that belong neither to a convolution nor to the normalization behind it: a
    network without one of its layers is another network."""
    read = {*convs, *plain_convs, *map(normalization_of, convs)}
    for name in state:
        if name.rpartition(".")[0] not in read:
            raise ExportError(f"{name} belongs to no convolution that is read")


def join_block(steps, conv):
    """Adds the second convolution of a residual block."""
    first = f"{conv.name.removesuffix('2')}1"
    if not steps or [of.name for of in steps[-1]] != [first]:
        raise ExportError(f"{conv.name} does not follow {first}")
    steps[-1] = (*steps[-1], conv)


def find_layout(state, convs):
    """The order of the dimensions of all weights: the one that fits every shape.

    Batch normalization tells the number of outputs. Where inputs and outputs are
    as many, two orders look alike; another convolution of the same checkpoint
    has to tell them apart.
    """
    candidates = list(LAYOUTS)
    for conv in convs:
        shape = tuple(state[f"{conv}.weight"].shape)
        num_outputs = num_outputs_of(state, conv)
        candidates = [c for c in candidates if layout_fits(c, shape, num_outputs)]
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise ExportError("no layout of weights fits all shapes")
    raise ExportError(f"layouts {' and '.join(candidates)} both fit all shapes: give --layout")


def fold(state, name, layout, eps):
    """A convolution with the batch normalization behind it."""
    weight = weights_of(state[f"{name}.weight"], layout)
    num, norm = weight.shape[0], normalization_of(name)
    gamma, beta, mean, var = (
        vector(state, f"{norm}.{part}", num)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    bias = bias_of(state, name, num)
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
    return Conv(name, weight, bias_of(state, name, weight.shape[0]))


def bias_of(state, name, num):
    """The biases of a convolution; zeros where it has none."""
    is_there = f"{name}.bias" in state
    return vector(state, f"{name}.bias", num) if is_there else torch.zeros(num).double()
