#!/usr/bin/env python3
"""Exports a voxel detector's checkpoint: the sparse encoder as an scn ONNX file
and, with --dense, the 2D network behind it as a standard ONNX file.

    export_sparse.py model.pth encoder.scn.onnx --grid 41 1440 1440 \\
        --point-channels "x y z intensity time_lag" --dense dense.onnx

Read are checkpoints of OpenPCDet (VoxelResBackBone8x, VoxelBackBone8x), det3d
(SpMiddleResNetFHD of CenterPoint) and mmdetection3d (SparseEncoder,
BEVFusionSparseEncoder), and of OpenPCDet's VoxelNeXt, whose file holds the whole
network. The family and all sizes follow from the names and shapes
in the checkpoint, which is loaded with `weights_only`: nothing in it is executed.
Batch normalization is folded in f64.

Needs torch; --dense needs the package onnx as well. What a checkpoint does not
say has a default that all published configurations share, and an option: the
padding of the strided convolutions, the epsilon of batch normalization, the
strides of the 2D network.
"""

import argparse
import re
import sys

import torch

from export_dense import ExportError, export_dense
from export_voxelnext import is_voxelnext, write_voxelnext
from scn_file import Writer, write_model
from sparse_convs import (
    LAYOUTS,
    convolutions_of,
    find_layout,
    fold,
    join_block,
    layout_fits,
    normalization_of,
    num_outputs_of,
)

# Where checkpoints keep the encoder: prefix, and the pattern of its stages.
FAMILIES = {
    "openpcdet": ("backbone_3d.", r"conv(\d+)\."),
    "mmdet3d": ("pts_middle_encoder.", r"encoder_layers\.encoder_layer(\d+)\."),
    "mmdet3d-single": ("middle_encoder.", r"encoder_layers\.encoder_layer(\d+)\."),
    "det3d": ("backbone.", r"conv(\d+)\."),
}


# ---------------------------------------------------------------- the checkpoint


def load_state(path):
    """The tensors of a checkpoint by name, without the prefixes of wrappers."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ExportError(
            f"{path} cannot be loaded with weights_only ({str(error).splitlines()[0]}). Save its "
            "state dict only: torch.save({'state_dict': model.state_dict()}, path)"
        ) from error
    for key in ("model_state", "state_dict", "model"):
        if isinstance(checkpoint, dict) and isinstance(checkpoint.get(key), dict):
            checkpoint = checkpoint[key]
            break
    if not isinstance(checkpoint, dict):
        raise ExportError(f"{path} holds a {type(checkpoint).__name__}, not a state dict")
    tensors = {k: v for k, v in checkpoint.items() if isinstance(v, torch.Tensor)}
    return {key.removeprefix("module."): value for key, value in tensors.items()}


def find_family(state):
    """The family of the encoder and its tensors without the prefix."""
    for family, (prefix, _) in FAMILIES.items():
        names = [name for name in state if name.startswith(prefix)]
        if f"{prefix}conv_input.0.weight" in names:
            return family, {name[len(prefix) :]: state[name] for name in names}
    known = ", ".join(f"{prefix}conv_input.0.weight" for prefix, _ in FAMILIES.values())
    raise ExportError(f"no encoder: none of {known} is in the checkpoint")


def read_encoder(state, options):
    """The steps of the encoder, each one convolution or the two of a residual
    block, and whether the axes are x y z."""
    family, state = find_family(state)
    stage_pattern = FAMILIES[family][1]
    convs = convolutions_of(state)
    unnormalized = [c for c in convs if f"{normalization_of(c)}.running_var" not in state]
    if unnormalized:
        raise ExportError(f"no batch normalization behind {unnormalized[0]}")
    layout = options.layout or find_layout(state, convs)
    for conv in convs:
        shape = tuple(state[f"{conv}.weight"].shape)
        if not layout_fits(layout, shape, num_outputs_of(state, conv)):
            raise ExportError(f"{conv}.weight is {shape}: --layout {layout} does not fit")
    known = re.compile(rf"(conv_input\.0|conv_out\.0|extra_conv\.0|{stage_pattern}.*)$")
    for conv in convs:
        if not known.match(conv):
            raise ExportError(f"{conv} is of no family that is known")
    print(f"family {family}, weights laid out as in {layout}, {len(convs)} convolutions")

    steps, downs = [], []
    residual_stages = {
        re.match(stage_pattern, conv).group(1)
        for conv in convs
        if conv.endswith(".conv1") and re.match(stage_pattern, conv)
    }
    seen_stages = set()
    for name in convs:
        conv = fold(state, name, layout, options.bn_eps)
        stage = re.match(stage_pattern, name)
        if name.endswith(".conv2"):
            join_block(steps, conv)
            continue
        if name in ("conv_out.0", "extra_conv.0"):
            conv.strided = True
            downs.append(conv)
        elif stage and not name.endswith(".conv1"):
            # mmdetection3d's residual stages end with the strided convolution;
            # all others begin with it, but for the first stage.
            is_mmdet = family.startswith("mmdet3d")
            is_first = stage.group(1) not in seen_stages and stage.group(1) != "1"
            conv.strided = stage.group(1) in residual_stages if is_mmdet else is_first
            if is_mmdet and not residual_stages:
                conv.strided = is_first
            if conv.strided:
                downs.append(conv)
        if stage:
            seen_stages.add(stage.group(1))
        steps.append((conv,))
    is_xyz = set_geometry(downs, options)
    return steps, is_xyz


def set_geometry(downs, options):
    """Strides and paddings of the strided convolutions: 2 and 1 everywhere; the
    last 3x3x3 one has no padding along z, and the last one works along z only."""
    *stages, out = downs
    along_z = {(3, 1, 1): 0, (1, 1, 3): 2}.get(out.kernel)
    if along_z is None:
        raise ExportError(f"{out.name}: kernel {out.kernel}; (3, 1, 1) or (1, 1, 3) is expected")
    z_first = [[1, 1, 1] for _ in stages]
    if z_first:
        z_first[-1][0] = 0
    if options.down_padding:
        z_first = [list(map(int, text.split(","))) for text in options.down_padding]
        if len(z_first) != len(stages) or any(len(p) != 3 for p in z_first):
            raise ExportError(f"--down-padding: {len(stages)} times Z,Y,X are expected")
    is_xyz = along_z == 2
    for conv, padding in zip(stages, z_first):
        if conv.kernel != (3, 3, 3):
            raise ExportError(f"{conv.name}: kernel {conv.kernel}; (3, 3, 3) is expected")
        conv.stride = (2, 2, 2)
        conv.padding = tuple(reversed(padding) if is_xyz else padding)
    axis = [int(i == along_z) for i in range(3)]
    out.stride = tuple(1 + a for a in axis)
    out.padding = tuple(options.last_padding * a for a in axis)
    return is_xyz


def write_scn(steps, is_xyz, grid, point_channels, half):
    """The bytes of an scn file and the shape of its map. `grid` is z y x."""
    num_in = steps[0][0].weight.shape[4]
    writer = Writer(reversed(grid) if is_xyz else grid, num_in, half)
    x = writer.steps(steps, "0")
    x, dims = writer.to_map(x, is_xyz)
    return write_model(writer, num_in, [(x, dims)], point_channels), dims


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("checkpoint", help="a .pth file")
    add("encoder", help="the scn ONNX file to write")
    add("--grid", nargs=3, type=int, required=True, metavar=("Z", "Y", "X"),
        help="cells of the encoder's grid; Z is one more than the range holds, such as 41")
    add("--point-channels", metavar="NAMES",
        help="channels of a point in the order of training, such as 'x y z intensity time_lag'")
    add("--half", action="store_true",
        help="write f16, which NVIDIA's runtime needs; f32 otherwise")
    add("--layout", choices=LAYOUTS, help="order of the weights, where shapes do not tell it")
    add("--bn-eps", type=float, default=1e-3, help="epsilon of batch normalization (%(default)s); 1e-5 in the head of VoxelNeXt")
    add("--down-padding", nargs="+", metavar="Z,Y,X",
        help="padding of each 3x3x3 strided convolution (1,1,1 but for the last, 0,1,1)")
    add("--last-padding", type=int, default=0,
        help="padding along z of the last convolution, OpenPCDet's last_pad (%(default)s)")
    add("--dense", metavar="FILE", help="write the 2D network behind the map as well")
    add("--dense-strides", nargs="+", type=int, metavar="N",
        help="stride of each block of the 2D network (1 2 2 ...)")
    return parser.parse_args()  # fmt: skip


def main():
    options = arguments()
    try:
        state = load_state(options.checkpoint)
        if is_voxelnext(state):
            if options.dense or options.down_padding or options.last_padding:
                raise ExportError("VoxelNeXt has no --dense, --down-padding and --last-padding")
            model, outputs = write_voxelnext(state, options)
            with open(options.encoder, "wb") as file:
                file.write(model)
            print(f"{options.encoder}: {len(model)} bytes, outputs {' '.join(outputs)}")
            return
        steps, is_xyz = read_encoder(state, options)
        model, dims = write_scn(
            steps, is_xyz, options.grid, options.point_channels, options.half
        )
        # The dense network first: where it is refused, no encoder stands beside an older one.
        if options.dense:
            names = export_dense(state, dims, options.dense, options.dense_strides)
            print(f"{options.dense}: outputs {' '.join(names)}")
        with open(options.encoder, "wb") as file:
            file.write(model)
        print(f"{options.encoder}: {len(model)} bytes, map {dims}")
    except (ExportError, OSError) as error:
        sys.exit(f"export_sparse: {error}")


if __name__ == "__main__":
    main()
