"""Files of sparse networks: ONNX with NVIDIA's scn nodes."""

import re
import struct

import torch

from export_dense import ExportError


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
        self.channels_of = {"0": channels}

    def emit(self, op, name, inputs, output=None, **attributes):
        output = output or str(self.num_tensors)
        self.num_tensors += 1
        self.channels_of[output] = self.channels
        self.body += node(op, name, inputs, output, **attributes)
        return output

    def conv(self, conv, x, relu, output=None):
        num_out, *kernel, num_in = conv.weight.shape
        if num_in != self.channels_of[x]:
            found = f"takes {num_in} channels where {self.channels_of[x]} come"
            raise ExportError(f"{conv.name} {found}")
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
            "SparseConvolution", conv.name, [x, *names], output,
            ndim=3, input_spatial_shape=grid, output_spatial_shape=self.grid,
            in_channels=num_in, out_channels=num_out, kernel_size=kernel,
            stride=conv.stride, padding=conv.padding, dilation=[1, 1, 1],
            output_padding=[0, 0, 0], transposed=0, inverse=0, subm=int(subm), groups=1,
            rulebook=key, activation="ReLU" if relu else "None", output_bound=200000,
            input_shape=[1, num_in], output_shape=[1, num_out],
        )  # fmt: skip

    def steps(self, steps, x):
        """Convolutions and residual blocks of two, one after the other."""
        for step in steps:
            if len(step) == 1:
                x = self.conv(step[0], x, relu=True)
                continue
            first, second = step
            y = self.conv(first, x, relu=True)
            y = self.conv(second, y, relu=False)
            if self.channels != self.channels_of[x]:
                found = f"gives {self.channels} channels, added to {self.channels_of[x]}"
                raise ExportError(f"{second.name} {found}")
            y = self.emit("Add", f"{second.name}.add", [y, x])
            x = self.emit("Relu", f"{second.name}.relu", [y])
        return x

    def merge(self, inputs, scales):
        """The sums of features of several levels on a plane of the first one's rows and columns."""
        channels = [self.channels_of[x] for x in inputs]
        if len(set(channels)) > 1:
            raise ExportError(f"levels of {channels} channels are added; they must be as many")
        return self.emit(
            "MergeSites", "merge", inputs, scales=scales, output_spatial_shape=self.grid
        )

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


def write_model(writer, num_in, outputs, point_channels):
    """The bytes of a file with the graph of a writer, whose outputs have names and shapes."""
    names = re.split(r"[\s,]+", (point_channels or "").strip(" \t\r\n,"))
    if point_channels and len(names) != num_in:
        raise ExportError(f"{len(names)} point channels are named, the encoder takes {num_in}")
    half = writer.half
    graph = writer.body + field(2, "scn") + field(11, value_info("0", ["voxels", num_in], half))
    graph += b"".join(field(12, value_info(name, dims, half)) for name, dims in outputs)
    model = field(1, 8) + field(2, "det_post") + field(7, graph)
    model += field(8, field(1, "ai.onnx") + field(2, 11))
    if point_channels:
        model += field(14, field(1, "point_channels") + field(2, " ".join(names)))
    return model
