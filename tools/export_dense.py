"""The 2D network of a voxel detector as a standard ONNX file: called by
export_sparse.py --dense.

Rebuilt from the names and shapes of a checkpoint are the backbone and neck that
OpenPCDet (BaseBEVBackbone), det3d (RPN) and mmdetection3d (SECOND, SECONDFPN)
share, with CenterPoint's head (`reg_0 height_0 dim_0 rot_0 vel_0 hm_0` …, as
NVIDIA names them) or an anchor head (`cls_score bbox_pred dir_cls_pred`, as
mmdeploy does). Batch normalization is folded in f64.
"""

import math
import re

import torch
from torch import nn

# Epsilon of batch normalization: backbones and necks set 1e-3, heads leave torch's.
TRUNK_EPS, HEAD_EPS = 1e-3, 1e-5
# Backbone blocks, neck, shared convolution, tasks and branches of each family.
TRUNKS = (
    ("backbone_2d.blocks", "backbone_2d.deblocks"),
    ("neck.blocks", "neck.deblocks"),
    ("pts_backbone.blocks", "pts_neck.deblocks"),
    ("backbone.blocks", "neck.deblocks"),
)
HEADS = (
    ("dense_head.shared_conv", "dense_head.heads_list"),
    ("bbox_head.shared_conv", "bbox_head.tasks"),
    ("pts_bbox_head.shared_conv", "pts_bbox_head.task_heads"),
)
ANCHOR_HEADS = ("dense_head", "bbox_head", "pts_bbox_head")
# Output names by the names that checkpoints use; in the order of the outputs.
BRANCHES = {
    "reg": ("reg", "center"), "height": ("height", "center_z"), "dim": ("dim",), "rot": ("rot",),
    "vel": ("vel",), "hm": ("hm", "heatmap"),
}  # fmt: skip
ANCHOR_OUTPUTS = {
    "cls_score": ("conv_cls",), "bbox_pred": ("conv_box", "conv_reg"),
    "dir_cls_pred": ("conv_dir_cls",),
}  # fmt: skip


class ExportError(Exception):
    """What is wrong with a checkpoint or an option."""


def export_dense(state, map_shape, path, strides):
    """Writes the network that takes a map of `map_shape`; the names of its outputs."""
    network = DenseNetwork(state, map_shape[1], strides).eval()
    total = math.prod(network.strides)
    if any(cells % total for cells in map_shape[2:]):
        raise ExportError(f"a map of {map_shape[2:]} cells is not divided by strides of {total}")
    names = network.output_names
    example = torch.zeros(map_shape)
    with torch.no_grad():
        outputs = network(example)
    for name, output in zip(names, outputs):
        print(f"  {name} {list(output.shape)}")
    options = {"input_names": ["input"], "output_names": names, "opset_version": 17}
    try:
        torch.onnx.export(network, (example,), path, dynamo=False, **options)
    except TypeError:  # before torch 2.5, which has no other exporter
        torch.onnx.export(network, (example,), path, **options)
    return names


def convs_under(state, prefix):
    """Names of the convolutions of a module, in the order of their execution."""
    found = [
        name.removesuffix(".weight")
        for name, tensor in state.items()
        if name.startswith(f"{prefix}.") and name.endswith(".weight") and tensor.dim() == 4
    ]
    return sorted(found, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])


def normalization_of(state, conv):
    """Name of the batch normalization behind a convolution, if there is one."""
    head, last = conv.rsplit(".", 1)
    norm = f"{head}.{int(last) + 1}" if last.isdigit() else f"{head}.bn"
    return norm if f"{norm}.running_var" in state else None


def fold(state, conv, eps, out_axis):
    """Weight and bias with batch normalization folded in; whether there is any."""
    weight = state[f"{conv}.weight"].double()
    num_out = weight.shape[out_axis]
    bias = state.get(f"{conv}.bias", torch.zeros(num_out)).double()
    norm = normalization_of(state, conv)
    if norm is None:
        return weight, bias, False
    gamma, beta, mean, var = (
        state[f"{norm}.{part}"].double()
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    if len(gamma) != num_out:
        raise ExportError(f"{conv}.weight is {list(weight.shape)} before {len(gamma)} channels")
    scale = gamma / torch.sqrt(var + eps)
    shape = [1, 1, 1, 1]
    shape[out_axis] = num_out
    return weight * scale.reshape(shape), (bias - mean) * scale + beta, True


def layer(weight, bias, stride=1, transposed=False):
    kernel = weight.shape[2]
    if transposed:
        conv = nn.ConvTranspose2d(weight.shape[0], weight.shape[1], kernel, stride)
    else:
        conv = nn.Conv2d(weight.shape[1], weight.shape[0], kernel, stride, (kernel - 1) // 2)
    conv.weight.data, conv.bias.data = weight.float(), bias.float()
    return conv


def sequence(state, convs, eps, stride=1):
    """Convolutions with ReLU behind those that have batch normalization."""
    layers = []
    for at, conv in enumerate(convs):
        weight, bias, is_normalized = fold(state, conv, eps, 0)
        layers.append(layer(weight, bias, stride if at == 0 else 1))
        layers += [nn.ReLU()] if is_normalized else []
    return nn.Sequential(*layers)


def check_trunk(state, convs):
    """Refuses convolutions whose layers are others than those of the known backbones and necks."""
    bare = [conv for conv in convs if normalization_of(state, conv) is None]
    if bare:
        raise ExportError(
            f"{len(bare)} of {len(convs)} convolutions of backbone and neck have no batch "
            f"normalization behind them: {', '.join(bare[:4])}"
        )


def upsampling(state, conv, channels):
    """One step of the neck: a transposed convolution, or one of a single tap."""
    shape = state[f"{conv}.weight"].shape
    num_out = len(state[f"{normalization_of(state, conv)}.weight"])
    stride = shape[2]
    is_plain = tuple(shape[:2]) == (num_out, channels)
    is_transposed = tuple(shape[:2]) == (channels, num_out)
    if stride > 1:
        is_plain = False
    if is_plain == is_transposed:
        raise ExportError(
            f"{conv}.weight is {list(shape)} from {channels} to {num_out} channels: it may be a "
            "convolution or a transposed one"
        )
    weight, bias, _ = fold(state, conv, TRUNK_EPS, 1 if is_transposed else 0)
    return nn.Sequential(layer(weight, bias, stride, is_transposed), nn.ReLU())


class DenseNetwork(nn.Module):
    """The network between the map and the raw outputs of the head."""

    def __init__(self, state, map_channels, strides):
        super().__init__()
        trunk = [t for t in TRUNKS if convs_under(state, f"{t[0]}.0")]
        if not trunk:
            raise ExportError("no 2D backbone: none of the known names is in the checkpoint")
        blocks, neck = trunk[0]
        num_blocks = 0
        while convs_under(state, f"{blocks}.{num_blocks}"):
            num_blocks += 1
        check_trunk(state, convs_under(state, blocks) + convs_under(state, neck))
        strides = strides or [1] + [2] * (num_blocks - 1)
        if len(strides) != num_blocks:
            raise ExportError(f"--dense-strides: {num_blocks} numbers are expected")
        self.strides = strides
        self.blocks, self.neck = nn.ModuleList(), nn.ModuleList()
        channels, read = map_channels, []
        for at, stride in enumerate(strides):
            convs = convs_under(state, f"{blocks}.{at}")
            found = state[f"{convs[0]}.weight"].shape[1]
            if found != channels:
                raise ExportError(f"{convs[0]} takes {found} channels where {channels} come")
            self.blocks.append(sequence(state, convs, TRUNK_EPS, stride))
            channels = state[f"{convs[-1]}.weight"].shape[0]
            ups = convs_under(state, f"{neck}.{at}")
            if len(ups) != 1:
                raise ExportError(f"{neck}.{at} has {len(ups)} convolutions; one is expected")
            self.neck.append(upsampling(state, ups[0], channels))
            read += convs + ups
        rest = [c for part in (blocks, neck) for c in convs_under(state, part) if c not in read]
        if rest:
            raise ExportError(
                f"{len(rest)} convolutions follow {num_blocks} blocks with an upsampling each, "
                f"which is not known: {', '.join(rest[:4])}"
            )
        self.output_names = []
        self.branches = nn.ModuleList()
        self.shared = nn.Identity()
        for shared, tasks in HEADS:
            if convs_under(state, shared):
                self.shared = sequence(state, convs_under(state, shared), HEAD_EPS)
                self.add_tasks(state, tasks)
                return
        self.add_anchor_outputs(state)

    def add_tasks(self, state, tasks):
        task = 0
        while any(name.startswith(f"{tasks}.{task}.") for name in state):
            for output, spellings in BRANCHES.items():
                found = [convs_under(state, f"{tasks}.{task}.{s}") for s in spellings]
                for convs in filter(None, found):
                    self.branches.append(sequence(state, convs, HEAD_EPS))
                    self.output_names.append(f"{output}_{task}")
            task += 1
        if not self.output_names:
            raise ExportError(f"no branches below {tasks}")

    def add_anchor_outputs(self, state):
        for head in ANCHOR_HEADS:
            for output, spellings in ANCHOR_OUTPUTS.items():
                for conv in (f"{head}.{s}" for s in spellings):
                    if f"{conv}.weight" in state:
                        self.branches.append(layer(*fold(state, conv, HEAD_EPS, 0)[:2]))
                        self.output_names.append(output)
            if self.output_names:
                return
        raise ExportError("no head: neither CenterPoint's nor an anchor head's names are there")

    def forward(self, x):
        levels = []
        for block, up in zip(self.blocks, self.neck):
            x = block(x)
            levels.append(up(x))
        x = self.shared(torch.cat(levels, 1))
        return tuple(branch(x) for branch in self.branches)
