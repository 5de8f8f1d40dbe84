#!/usr/bin/env python3
"""Sparse encoders beside spconv: the same network, the same voxels, one thread.

    python3 benches/peers/encoder_spconv.py [--voxels 105000] [--points FILE] [--gpu]

Needs numpy, torch, spconv (the CPU package), onnx and cargo. The networks are
OpenPCDet's VoxelResBackBone8x (res) and VoxelBackBone8x (plain) with random
weights, on voxels of 0.075 0.075 0.2 m. spconv runs them as modules; det_post
reads the same weights, batch normalization folded, from an scn file. FILE holds
points of five f16 values (x y z intensity time_lag); without it, rings of a
spinning sensor. Times include the rulebooks and the dense map. Both wall and CPU
time are printed; on a busy machine the second is the fairer one. Exit status 1
when a map differs by more than 1e-4 of its largest value.

spconv's CPU path gives wrong rows at times with more than one thread
(OMP_NUM_THREADS=1 here), and accepts no bias: the residual blocks have none.

With --gpu, only spconv runs on the GPU, in f16 and f32, and wall times of a frame
are printed; det_post's are those of `DET_POST_BENCH_SCAN=FILE det_post bench sparse`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import spconv.pytorch as spconv  # noqa: E402
import torch  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from spconv import __version__ as spconv_version  # noqa: E402
from spconv import constants  # noqa: E402
from spconv.core import ConvAlgo  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)

ROOT = Path(__file__).resolve().parents[2]
LOW = np.array([-54.0, -54.0, -5.0], np.float32)
SIZE = np.array([0.075, 0.075, 0.2], np.float32)
CELLS = np.array([1440, 1440, 40])
SHAPE = [41, 1440, 1440]
WIDTHS = {"res": [16, 32, 64, 128], "plain": [16, 32, 64, 64]}
ROUNDS = 3
GPU_ROUNDS = 40


def rings(num_voxels, rng):
    """Points of a spinning sensor in about that many voxels, over ten revolutions."""
    num = 5 * num_voxels // 2
    ring, azimuth = rng.random(num), 2 * np.pi * rng.random(num)
    wall = 0.7 + 0.3 * np.sin(7 * azimuth + 20 * np.round(32 * ring) / 32)
    reach = 2.5 + 70 * ring**2 * wall + 0.1 * rng.random(num)
    z = -1.8 + 2.5 * rng.random(num) ** 4 * ring
    values = [reach * np.cos(azimuth), reach * np.sin(azimuth), z, 255 * rng.random(num)]
    return np.stack([*values, 0.05 * rng.integers(0, 10, num)], axis=1).astype(np.float32)


def voxels(points):
    """Coordinates (0 z y x) in order of the first point, and means of all points."""
    cell = np.floor((points[:, :3] - LOW) / SIZE)
    inside = ((cell >= 0) & (cell < CELLS)).all(axis=1)
    points, cell = points[inside], cell[inside].astype(np.int64)
    linear = (cell[:, 2] * 1440 + cell[:, 1]) * 1440 + cell[:, 0]
    keys, first, inverse, counts = np.unique(
        linear, return_index=True, return_inverse=True, return_counts=True
    )
    sums = np.zeros((len(keys), 5))
    np.add.at(sums, inverse.reshape(-1), points)
    order = np.argsort(first)
    keys = keys[order]
    coordinates = [0 * keys, keys // 1440**2, keys // 1440 % 1440, keys % 1440]
    features = (sums / counts[:, None])[order].astype(np.float32)
    # Values of about one, as trained networks bring them about.
    features /= np.array([50, 50, 2, 255, 0.5], np.float32)
    return np.stack(coordinates, axis=1).astype(np.int32), features


def layers(family):
    """(key, channels, geometry or None for submanifold, whether the block's input is added)"""
    width, rows = 16, [("subm1", 5, 16, None, False)]
    for stage, next_width in enumerate(WIDTHS[family], 1):
        if stage > 1:
            padding = (0, 1, 1) if stage == 4 else (1, 1, 1)
            rows.append((f"down{stage}", width, next_width, ((3,) * 3, (2,) * 3, padding), False))
            width = next_width
        for _ in range(1 if family == "plain" and stage == 1 else 2):
            adds = [False] if family == "plain" else [False, True]
            rows += [(f"subm{stage}", width, width, None, add) for add in adds]
    rows.append(("out", width, 128, ((3, 1, 1), (2, 1, 1), (0, 0, 0)), False))
    return rows


class Encoder(nn.Module):
    """The network as spconv's users have it."""

    def __init__(self, family, algorithm=ConvAlgo.Native):
        super().__init__()
        self.rows = layers(family)
        self.convolutions, self.norms = nn.ModuleList(), nn.ModuleList()
        for key, num_inputs, num_outputs, geometry, _ in self.rows:
            same = {"bias": False, "indice_key": key, "algo": algorithm}
            if geometry is None:
                layer = spconv.SubMConv3d(num_inputs, num_outputs, 3, padding=1, **same)
            else:
                kernel, stride, padding = geometry
                layer = spconv.SparseConv3d(num_inputs, num_outputs, kernel, stride, padding, **same)
            norm = nn.BatchNorm1d(num_outputs, eps=1e-3)
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias, -0.25, 0.25)
            nn.init.normal_(layer.weight, std=(2 / (8 * num_inputs)) ** 0.5)
            self.convolutions.append(layer)
            self.norms.append(norm)

    def forward(self, coordinates, features):
        x = spconv.SparseConvTensor(features, coordinates, SHAPE, 1)
        before = x
        for (*_, adds), layer, norm in zip(self.rows, self.convolutions, self.norms):
            y = layer(x)
            values = norm(y.features)
            if adds:
                values = values + before.features
            before, x = x, y.replace_feature(torch.relu(values))
        dense = x.dense()
        return dense.reshape(1, -1, *dense.shape[3:])

    def file(self, path):
        """Writes the network in the dialect of NVIDIA's scn files."""
        nodes, constants, shape, tensor, before = [], [], SHAPE, "0", "0"
        for i, (row, layer, norm) in enumerate(zip(self.rows, self.convolutions, self.norms)):
            key, num_inputs, num_outputs, geometry, adds = row
            kernel, stride, padding = geometry or ((3,) * 3, (1,) * 3, (1,) * 3)
            weight = layer.weight.detach().double()
            factor = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
            bias = norm.bias.double() - norm.running_mean.double() * factor
            weight = weight * factor.reshape(-1, 1, 1, 1, 1)
            for name, values in ((f"w{i}", weight), (f"b{i}", bias)):
                values = values.detach().float().numpy()
                constants.append(numpy_helper.from_array(values, name))
            after = shape
            if geometry:
                sizes = zip(shape, kernel, stride, padding)
                after = [(size + 2 * p - k) // s + 1 for size, k, s, p in sizes]
            attributes = {
                "ndim": 3, "groups": 1, "subm": int(geometry is None), "rulebook": key,
                "inverse": 0, "transposed": 0, "in_channels": num_inputs,
                "out_channels": num_outputs, "kernel_size": kernel, "stride": stride,
                "padding": padding, "dilation": (1, 1, 1), "output_padding": (0, 0, 0),
                "input_spatial_shape": shape, "output_spatial_shape": after,
                "input_shape": (1, num_inputs), "output_shape": (1, num_outputs),
                "output_bound": 200000, "activation": "None" if adds else "ReLU",
            }  # fmt: skip
            inputs, output = [tensor, f"w{i}", f"b{i}"], f"c{i}"
            nodes.append(helper.make_node("SparseConvolution", inputs, [output], f"conv{i}", **attributes))
            if adds:
                nodes.append(helper.make_node("Add", [output, before], [f"a{i}"], f"add{i}"))
                nodes.append(helper.make_node("Relu", [f"a{i}"], [f"r{i}"], f"relu{i}"))
                output = f"r{i}"
            before, tensor, shape = tensor, output, after
        depth, height, width = shape
        attributes = {"format": "zyx", "input_spatial_shape": shape, "output_shape": [1, 128, *shape]}
        nodes.append(helper.make_node("ScatterDense", [tensor], ["dense"], "scatter", **attributes))
        dims = [1, 128 * depth, height, width]
        nodes.append(helper.make_node("Reshape", ["dense"], ["map"], "reshape", dims=dims))
        voxels_info = helper.make_tensor_value_info("0", TensorProto.FLOAT, ["voxels", 5])
        map_info = helper.make_tensor_value_info("map", TensorProto.FLOAT, dims)
        graph = helper.make_graph(nodes, "scn", [voxels_info], [map_info], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]), path)


def calibrate(encoder, coordinates, features):
    """Running means and variances as a training would leave them."""
    encoder.train()
    for norm in encoder.norms:
        norm.momentum = 1.0
    encoder(coordinates, features)
    encoder.eval()


def ours(folder, coordinates, features):
    """The map and (wall, CPU) seconds of each of det_post's runs."""
    coordinates.tofile(folder / "coordinates.i32")
    features.tofile(folder / "features.f32")
    names = ["network.onnx", "coordinates.i32", "features.f32", "map.f32"]
    files = [str(folder / name) for name in names]
    command = ["cargo", "bench", "--quiet", "--bench", "sparse", "--", "--peer", *files]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    times = [tuple(map(float, line.split())) for line in run.stdout.splitlines()]
    return np.fromfile(files[3], np.float32), times


def on_gpu(coordinates, features):
    """Prints wall times of spconv on the GPU, each frame with a wait for it."""
    constants.SPCONV_ALLOW_TF32 = False
    coordinates = coordinates.cuda()
    print(f"spconv {spconv_version} on {torch.cuda.get_device_name()}, {len(coordinates)} voxels, wall ms")
    print(f"{'encoder':<16}{'median':>10}{'least':>10}")
    for family in ("res", "plain"):
        for dtype in (torch.float16, torch.float32):
            encoder = Encoder(family, algorithm=None).cuda().to(dtype).eval()
            values, times = features.cuda().to(dtype), []
            for _ in range(GPU_ROUNDS):
                start = time.perf_counter()
                encoder(coordinates, values)
                torch.cuda.synchronize()
                times.append(1e3 * (time.perf_counter() - start))
            times = times[GPU_ROUNDS // 5 :]
            name = f"{family} {str(dtype).removeprefix('torch.')}"
            print(f"{name:<16}{statistics.median(times):>10.2f}{min(times):>10.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--voxels", type=int, default=105_000)
    parser.add_argument("--points", type=Path)
    parser.add_argument("--gpu", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    if args.points:
        points = np.fromfile(args.points, np.float16).reshape(-1, 5).astype(np.float32)
    else:
        points = rings(args.voxels, np.random.default_rng(1))
    coordinates, features = voxels(points)
    tensors = torch.from_numpy(coordinates), torch.from_numpy(features)
    if args.gpu:
        with torch.no_grad():
            on_gpu(*tensors)
        return 0
    same = True
    print(f"sparse encoders of {len(coordinates)} voxels, f32, one thread, median s (wall / CPU)")
    print(f"{'encoder':<8}{'spconv':>16}{'det_post':>16}{'ratio':>14}  largest difference")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for family in ("res", "plain"):
            encoder = Encoder(family)
            calibrate(encoder, *tensors)
            encoder.file(Path(folder) / "network.onnx")
            peer, mine, difference = [], [], 0.0
            for _ in range(ROUNDS):
                wall, cpu = time.perf_counter(), time.process_time()
                expected = encoder(*tensors).numpy().reshape(-1)
                peer.append((time.perf_counter() - wall, time.process_time() - cpu))
                found, times = ours(Path(folder), coordinates, features)
                mine += times
                error = np.abs(found - expected).max() / np.abs(expected).max()
                difference = max(difference, float(error))
            a, b = ([statistics.median(t) for t in zip(*times)] for times in (peer, mine))
            shown = "".join(f"{f'{wall:.3f} / {cpu:.3f}':>16}" for wall, cpu in (a, b))
            ratio = f"{a[0] / b[0]:.2f} / {a[1] / b[1]:.2f}"
            print(f"{family:<8}{shown}{ratio:>14}  {difference:.1e}")
            same &= difference <= 1e-4
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
