"""Exports OpenPCDet's VoxelNeXt: sparse convolutions from voxels to the outputs of the
head, which are on the sites of a map."""

import re

from export_dense import ExportError
from scn_file import Writer, write_model
from sparse_convs import (
    convolutions_of,
    find_layout,
    fold,
    join_block,
    layout_fits,
    num_outputs_of,
    plain,
    refuse_unread,
)

BACKBONE = "backbone_3d."
HEAD = "dense_head.heads_list."
# Outputs of a task, and their channels; a heat map has one for each class.
BRANCHES = {
    "hm": None, "center": 2, "center_z": 1, "dim": 3, "rot": 2, "vel": 2, "iou": 1,
}  # fmt: skip
# The last stages and their scales on the map of the first of them.
MERGED = {"4": 1, "5": 2, "6": 4}
# torch's default, which the shared convolution and the head have.
HEAD_EPS = 1e-5


def is_voxelnext(state):
    """Whether a checkpoint is of VoxelNeXt with voxels."""
    return f"{BACKBONE}conv_input.0.weight" in state and f"{BACKBONE}shared_conv.0.weight" in state


def write_voxelnext(state, options):
    """The bytes of a file, and the names of its outputs."""
    body = {n.removeprefix(BACKBONE): t for n, t in state.items() if n.startswith(BACKBONE)}
    convs = convolutions_of(body)
    layout = options.layout or find_layout(body, convs)
    for name in convs:
        shape = tuple(body[f"{name}.weight"].shape)
        if not layout_fits(layout, shape, num_outputs_of(body, name)):
            raise ExportError(f"{name}.weight is {shape}: --layout {layout} does not fit")
    refuse_unread(body, [*convs, "conv_out.0", "shared_conv.0"])
    print(f"family VoxelNeXt, weights laid out as in {layout}, {len(convs)} convolutions of voxels")
    stages = read_stages(body, convs, layout, options.bn_eps)

    num_in = stages["input"][0][0].weight.shape[4]
    writer = Writer(options.grid, num_in, options.half)
    x, ends, plane = "0", {}, None
    for stage, steps in stages.items():
        x = writer.steps(steps, x)
        if stage in MERGED:
            ends[stage] = x
            plane = plane or [1, *writer.grid[1:]]
    writer.grid = plane
    x = writer.merge([ends[stage] for stage in MERGED], list(MERGED.values()))
    out = fold(body, "conv_out.0", layout, options.bn_eps)
    out.strided, out.padding = True, (0, *(k // 2 for k in out.kernel[1:]))
    x = writer.conv(out, x, relu=True)
    x = writer.conv(fold(body, "shared_conv.0", layout, HEAD_EPS), x, relu=True)
    outputs = write_head(state, layout, writer, x)
    dims = [(name, ["sites", channels]) for name, channels in outputs]
    model = write_model(writer, num_in, dims, options.point_channels)
    return model, [name for name, _ in outputs]


def read_stages(body, convs, layout, eps):
    """The steps of each stage: one convolution, or the two of a residual block."""
    stages = {}
    for name in convs:
        stage = re.match(r"conv(?:_(input)\.0$|([1-6])\.\d+\.)", name)
        if not stage:
            raise ExportError(f"{name} is of no stage that is known")
        conv = fold(body, name, layout, eps)
        steps = stages.setdefault(stage.group(1) or stage.group(2), [])
        if name.endswith(".conv2"):
            join_block(steps, conv)
            continue
        if not steps and stage.group(2) not in (None, "1"):
            conv.strided, conv.stride = True, (2, 2, 2)
            conv.padding = tuple(k // 2 for k in conv.kernel)
        steps.append((conv,))
    expected = ["input", "1", "2", "3", "4", "5", "6"]
    if list(stages) != expected:
        raise ExportError(f"stages {' '.join(stages)} are there; {' '.join(expected)} are expected")
    return stages


def write_head(state, layout, writer, x):
    """Writes the branches of all tasks. Names and channels of the outputs."""
    pattern = re.compile(re.escape(HEAD) + r"(\d+)\.(\w+)\.(\d+)\.(?:0\.)?weight$")
    found = {}
    for name, tensor in state.items():
        match = pattern.match(name)
        if match and tensor.dim() == 4:
            task, branch, _ = match.groups()
            found.setdefault((int(task), branch), []).append(name.removesuffix(".weight"))
    if not found:
        raise ExportError(f"no head: nothing begins with {HEAD}0")
    normed, last = (sum(parts, []) for parts in zip(*((c[:-1], c[-1:]) for c in found.values())))
    refuse_unread({n: t for n, t in state.items() if n.startswith(HEAD)}, normed, last)
    outputs = []
    for (task, branch), convs in sorted(found.items()):
        if branch not in BRANCHES:
            raise ExportError(f"{HEAD}{task}.{branch} is no branch that is known")
        y = x
        for name in convs[:-1]:
            y = writer.conv(fold(state, name, layout, HEAD_EPS), y, relu=True)
        last = plain(state, convs[-1], layout)
        channels = last.weight.shape[0]
        if BRANCHES[branch] not in (None, channels):
            raise ExportError(f"{convs[-1]} has {channels} outputs; {BRANCHES[branch]} are expected")
        y = writer.conv(last, y, relu=False, output=f"{branch}_{task}")
        outputs.append((y, channels))
    return outputs
