#!/usr/bin/env python3
"""Exports a voxel detector's checkpoint: the sparse encoder as an scn ONNX file
and, with --dense, the 2D network behind it as a standard ONNX file.

    export_sparse.py model.pth encoder.scn.onnx --grid 41 1440 1440 \\
        --point-channels "x y z intensity time_lag" --dense dense.onnx

Read are checkpoints of OpenPCDet (VoxelResBackBone8x, VoxelBackBone8x), det3d
(SpMiddleResNetFHD of CenterPoint) and mmdetection3d (SparseEncoder,
BEVFusionSparseEncoder). The family and all sizes follow from the names and shapes
in the checkpoint, which is loaded with `weights_only`: nothing in it is executed.
Batch normalization is folded in f64.

Needs torch; --dense needs the package onnx as well. What a checkpoint does not
say has a default that all published configurations share, and an option: the
padding of the strided convolutions, the epsilon of batch normalization, the
strides of the 2D network.
"""

import argparse
import re
import struct
import sys
from dataclasses import dataclass

import torch

from export_dense import ExportError, export_dense

# Where checkpoints keep the encoder: prefix, and the pattern of its stages.
FAMILIES = {
    "openpcdet": ("backbone_3d.", r"conv(\d+)\."),
    "mmdet3d": ("pts_middle_encoder.", r"encoder_layers\.encoder_layer(\d+)\."),
    "mmdet3d-single": ("middle_encoder.", r"encoder_layers\.encoder_layer(\d+)\."),
    "det3d": ("backbone.", r"conv(\d+)\."),
}
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
    weight = state[f"{name}.weight"].double().permute(LAYOUTS[layout])
    norm = normalization_of(name)
    gamma, beta, mean, var = (
        state[f"{norm}.{part}"].double()
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    bias = state.get(f"{name}.bias", torch.zeros(len(gamma))).double()
    scale = gamma / torch.sqrt(var + eps)
    return Conv(name, weight * scale[:, None, None, None, None], (bias - mean) * scale + beta)


def read_encoder(state, options):
    """The steps of the encoder, each one convolution or the two of a residual
    block, and whether the axes are x y z."""
    family, state = find_family(state)
    stage_pattern = FAMILIES[family][1]
    convs = [n.removesuffix(".weight") for n, t in state.items() if t.dim() == 5]
    unnormalized = [c for c in convs if f"{normalization_of(c)}.running_var" not in state]
    if unnormalized:
        raise ExportError(f"no batch normalization behind {unnormalized[0]}")
    layout = options.layout or find_layout(state, convs)
    for conv in convs:
        shape = tuple(state[f"{conv}.weight"].shape)
        if not layout_fits(layout, shape, len(state[f"{normalization_of(conv)}.weight"])):
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
            steps[-1] = (*steps[-1], conv)
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
    check_channels(steps)
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


def check_channels(steps):
    """Refuses steps that do not follow one another."""
    channels = steps[0][0].weight.shape[4]
    for step in steps:
        for conv in step:
            if conv.weight.shape[4] != channels:
                raise ExportError(
                    f"{conv.name} takes {conv.weight.shape[4]} channels where {channels} come"
                )
            channels = conv.weight.shape[0]


# ------------------------------------------------------------------ the ONNX file


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, value):
    """A field of a message: an integer, bytes or text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    if isinstance(value, str):
        body = field(4, value) + field(20, 3)
    elif isinstance(value, int):
        body = field(3, value) + field(20, 2)
    else:
        body = b"".join(field(8, int(v)) for v in value) + field(20, 7)
    return field(5, field(1, name) + body)


def node(op, name, inputs, output, **attributes):
    body = b"".join(field(1, i) for i in inputs) + field(2, output) + field(3, name) + field(4, op)
    return field(1, body + b"".join(attribute(k, v) for k, v in attributes.items()))


def initializer(name, tensor, half):
    values = tensor.half() if half else tensor.float()
    num = int((~torch.isfinite(values)).sum())
    if num > 0:
        largest, kind = float(tensor.abs().max()), "f16" if half else "f32"
        raise ExportError(
            f"{name}: {num} of {values.numel()} values, of up to {largest:g}, are not finite as {kind}"
        )
    dims = b"".join(field(1, d) for d in tensor.shape)
    flat = values.contiguous().flatten().tolist()
    raw = struct.pack(f"<{len(flat)}{'e' if half else 'f'}", *flat)
    return field(5, dims + field(2, 10 if half else 1) + field(8, name) + field(9, raw))


def value_info(name, shape, half):
    dims = b"".join(
        field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape
    )
    tensor = field(1, 10 if half else 1) + field(2, dims)
    return field(1, name) + field(2, field(1, tensor))


class Writer:
    """The graph of an scn file: tensors are numbered as they are written."""

    def __init__(self, grid, channels, half):
        self.grid, self.channels, self.half = list(grid), channels, half
        self.body, self.num_tensors, self.keys = b"", 1, 0

    def emit(self, op, name, inputs, **attributes):
        output = str(self.num_tensors)
        self.num_tensors += 1
        self.body += node(op, name, inputs, output, **attributes)
        return output

    def conv(self, conv, x, relu):
        num_out, *kernel, num_in = conv.weight.shape
        grid, subm = self.grid, not conv.strided
        if conv.strided:
            sizes = zip(grid, kernel, conv.stride, conv.padding)
            self.grid = [(n + 2 * p - k) // s + 1 for n, k, s, p in sizes]
            if min(self.grid) < 1:
                raise ExportError(f"{conv.name}: nothing is left of a grid of {grid}")
            self.keys += 1
        key = f"subm{self.keys}" if subm else f"spconv{self.keys}"
        names = [f"{conv.name}.weight", f"{conv.name}.bias"]
        for name, tensor in zip(names, (conv.weight, conv.bias)):
            self.body += initializer(name, tensor, self.half)
        self.channels = num_out
        return self.emit(
            "SparseConvolution", conv.name, [x, *names],
            ndim=3, input_spatial_shape=grid, output_spatial_shape=self.grid,
            in_channels=num_in, out_channels=num_out, kernel_size=kernel,
            stride=conv.stride, padding=conv.padding, dilation=[1, 1, 1],
            output_padding=[0, 0, 0], transposed=0, inverse=0, subm=int(subm), groups=1,
            rulebook=key, activation="ReLU" if relu else "None", output_bound=200000,
            input_shape=[1, num_in], output_shape=[1, num_out],
        )  # fmt: skip

    def to_map(self, x, is_xyz):
        shape = [1, self.channels, *self.grid]
        x = self.emit(
            "ScatterDense", "to_dense", [x],
            input_spatial_shape=self.grid, format="xyz" if is_xyz else "zyx", output_shape=shape,
        )  # fmt: skip
        depth, rows, columns = self.grid
        if is_xyz:
            x = self.emit("Transpose", "depth_first", [x], dims=[0, 1, 4, 2, 3])
            rows, columns, depth = self.grid
        dims = [1, self.channels * depth, rows, columns]
        return self.emit("Reshape", "to_map", [x], dims=dims), dims


def write_scn(steps, is_xyz, grid, point_channels, half):
    """The bytes of an scn file and the shape of its map. `grid` is z y x."""
    num_in = steps[0][0].weight.shape[4]
    names = re.split(r"[\s,]+", (point_channels or "").strip(" \t\r\n,"))
    if point_channels and len(names) != num_in:
        raise ExportError(f"{len(names)} point channels are named, the encoder takes {num_in}")
    writer = Writer(reversed(grid) if is_xyz else grid, num_in, half)
    x = "0"
    for step in steps:
        if len(step) == 1:
            x = writer.conv(step[0], x, relu=True)
            continue
        first, second = step
        y = writer.conv(first, x, relu=True)
        y = writer.conv(second, y, relu=False)
        y = writer.emit("Add", f"{second.name}.add", [y, x])
        x = writer.emit("Relu", f"{second.name}.relu", [y])
    x, dims = writer.to_map(x, is_xyz)
    graph = writer.body + field(2, "scn") + field(11, value_info("0", ["voxels", num_in], half))
    graph += field(12, value_info(x, dims, half))
    model = field(1, 8) + field(2, "det_post") + field(7, graph)
    model += field(8, field(1, "ai.onnx") + field(2, 11))
    if point_channels:
        model += field(14, field(1, "point_channels") + field(2, " ".join(names)))
    return model, dims


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
    add("--bn-eps", type=float, default=1e-3, help="epsilon of batch normalization (%(default)s)")
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
