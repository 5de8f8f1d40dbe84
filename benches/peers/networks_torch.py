#!/usr/bin/env python3
"""Networks of `det_post bench network` beside the same networks in PyTorch and ONNX Runtime, on one GPU in one run.

    python3 benches/peers/networks_torch.py [PART] [--program PROGRAM] [--folder FOLDER] [--modes graph compiled]

YOLOv8s for one image of 640x640, and the backbone ResNet-50 for six of 704x256, with random weights: microseconds
of one run from the images in place to the outputs in place, medians of the wall time. The ONNX files are made from
the modules here, with f32 inputs and outputs, the maps of ResNet-50 with channels last; in PyTorch everything is
f16 with channels last, with each BatchNormalization in its convolution and the fastest algorithms of cuDNN.
Modes: `graph`, the launches as one CUDA graph; `compiled`, what torch.compile makes, as one CUDA graph. ONNX Runtime
runs where ORT_DYLIB_PATH names a library with its CUDA provider. The ratio is that of the fastest peer. Without
--program, `cargo build --release` makes det_post. Needs PyTorch and onnx, and is skipped without; without a
GPU it makes the files for `--folder`, and no figures. Exit status 1 when a ratio is below 2.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from views_torch import build, det_post_us

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(print("skipped: needs PyTorch"))

RATIO = 2.0
NUM_RUNS = 300


class Conv(nn.Sequential):
    """A convolution without bias, BatchNormalization, an activation or none."""

    def __init__(self, inputs, outputs, kernel=1, stride=1, activation=nn.SiLU):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        layers = [conv, nn.BatchNorm2d(outputs)]
        super().__init__(*layers, *([activation()] if activation else []))

    def fold(self):
        """BatchNormalization into the convolution, as every runtime does."""
        self[0] = torch.nn.utils.fuse_conv_bn_eval(self[0], self[1])
        self[1] = nn.Identity()


class Bottleneck(nn.Module):
    def __init__(self, channels, shortcut):
        super().__init__()
        self.convs = nn.Sequential(Conv(channels, channels, 3), Conv(channels, channels, 3))
        self.shortcut = shortcut

    def forward(self, x):
        return x + self.convs(x) if self.shortcut else self.convs(x)


class C2f(nn.Module):
    def __init__(self, inputs, outputs, num=1, shortcut=False):
        super().__init__()
        self.half = outputs // 2
        self.first = Conv(inputs, outputs)
        self.last = Conv((2 + num) * self.half, outputs)
        self.blocks = nn.ModuleList(Bottleneck(self.half, shortcut) for _ in range(num))

    def forward(self, x):
        parts = list(self.first(x).split(self.half, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """SPPF."""

    def __init__(self, channels):
        super().__init__()
        self.first = Conv(channels, channels // 2)
        self.last = Conv(2 * channels, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class YoloV8s(nn.Module):
    """Ultralytics' YOLOv8 of width 0.5 and depth 0.33 for 80 classes, with its decoded output [1, 84, 8400]."""

    SHAPE = (1, 3, 640, 640)
    STRIDES, BINS, CLASSES = (8, 16, 32), 16, 80

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(Conv(3, 32, 3, 2), Conv(32, 64, 3, 2), C2f(64, 64, 1, True))
        self.to_8 = nn.Sequential(Conv(64, 128, 3, 2), C2f(128, 128, 2, True))
        self.to_16 = nn.Sequential(Conv(128, 256, 3, 2), C2f(256, 256, 2, True))
        self.to_32 = nn.Sequential(Conv(256, 512, 3, 2), C2f(512, 512, 1, True), Pyramid(512))
        self.up = nn.Upsample(scale_factor=2)
        self.up_16, self.up_8 = C2f(768, 256), C2f(384, 128)
        self.down_8, self.down_16 = Conv(128, 128, 3, 2), Conv(256, 256, 3, 2)
        self.out_16, self.out_32 = C2f(384, 256), C2f(768, 512)
        head = lambda inputs, width, outputs: nn.Sequential(
            Conv(inputs, width, 3), Conv(width, width, 3), nn.Conv2d(width, outputs, 1)
        )
        self.boxes = nn.ModuleList(head(c, 64, 4 * self.BINS) for c in (128, 256, 512))
        self.classes = nn.ModuleList(head(c, 128, self.CLASSES) for c in (128, 256, 512))
        self.mean = nn.Conv2d(self.BINS, 1, 1, bias=False)
        self.mean.weight.data = torch.arange(self.BINS).float().view(1, self.BINS, 1, 1)
        centers, strides = [], []
        for stride in self.STRIDES:
            rows, columns = (torch.arange(side // stride) + 0.5 for side in self.SHAPE[2:])
            y, x = torch.meshgrid(rows, columns, indexing="ij")
            centers.append(torch.stack([x, y]).flatten(1))
            strides.append(torch.full((1, centers[-1].shape[1]), float(stride)))
        self.register_buffer("centers", torch.cat(centers, 1))
        self.register_buffer("strides", torch.cat(strides, 1))

    def forward(self, images):
        map_8 = self.to_8(self.stem(images))
        map_16 = self.to_16(map_8)
        map_32 = self.to_32(map_16)
        fine_16 = self.up_16(torch.cat([self.up(map_32), map_16], 1))
        out_8 = self.up_8(torch.cat([self.up(fine_16), map_8], 1))
        out_16 = self.out_16(torch.cat([self.down_8(out_8), fine_16], 1))
        out_32 = self.out_32(torch.cat([self.down_16(out_16), map_32], 1))
        maps = [out_8, out_16, out_32]
        rows = [torch.cat([b(x), c(x)], 1).flatten(2) for b, c, x in zip(self.boxes, self.classes, maps)]
        boxes, classes = torch.cat(rows, 2).split([4 * self.BINS, self.CLASSES], 1)
        shares = boxes.view(boxes.shape[0], 4, self.BINS, -1).transpose(1, 2).softmax(1)
        low, high = self.mean(shares).squeeze(1).chunk(2, 1)
        low, high = self.centers - low, self.centers + high
        boxes = torch.cat([(low + high) / 2, high - low], 1) * self.strides
        return torch.cat([boxes, classes.sigmoid()], 1)


class Residual(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.convs = nn.Sequential(
            Conv(inputs, width, activation=nn.ReLU),
            Conv(width, width, 3, stride, nn.ReLU),
            Conv(width, 4 * width, activation=None),
        )
        is_same = stride == 1 and inputs == 4 * width
        self.shortcut = nn.Identity() if is_same else Conv(inputs, 4 * width, 1, stride, None)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.convs(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """The stages of ResNet-50 (stride in the 3x3, as torchvision): maps of strides 8, 16, 32, channels last."""

    SHAPE = (6, 3, 256, 704)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(Conv(3, 64, 7, 2, nn.ReLU), nn.MaxPool2d(3, 2, 1))
        stages, inputs = [], 64
        for width, num, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
            blocks = [Residual(inputs if i == 0 else 4 * width, width, stride if i == 0 else 1) for i in range(num)]
            stages.append(nn.Sequential(*blocks))
            inputs = 4 * width
        self.stages = nn.ModuleList(stages)

    def forward(self, images):
        x = self.stages[0](self.stem(images))
        maps = []
        for stage in self.stages[1:]:
            x = stage(x)
            maps.append(x.permute(0, 2, 3, 1))
        return tuple(maps)


NETWORKS = {"yolov8s 640x640": YoloV8s, "resnet50 six 704x256": ResNet50}


def network_of(kind):
    """A network with random weights whose layers keep their values in range."""
    torch.manual_seed(40)
    network = kind().train()
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        network(torch.rand(1, *kind.SHAPE[1:]))
        network.eval()
        for module in network.modules():
            if isinstance(module, Conv):
                module.fold()
    return network


def export(network, path):
    images = torch.zeros(network.SHAPE)
    torch.onnx.export(network, (images,), str(path), opset_version=17, dynamo=False, input_names=["images"])


def median_us(network, mode):
    """The median wall time of a run in PyTorch."""
    torch.backends.cudnn.benchmark = True
    torch.compiler.reset()
    network = network.half().cuda().to(memory_format=torch.channels_last)
    images = torch.rand(network.SHAPE, device="cuda").half().contiguous(memory_format=torch.channels_last)
    run = torch.compile(network, fullgraph=True, dynamic=False) if mode == "compiled" else network
    with torch.inference_mode():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                run(images)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = run(images)
        times = []
        for _ in range(NUM_RUNS):
            start = time.perf_counter()
            graph.replay()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        assert all(output.isfinite().all() for output in outputs)
    return 1e6 * statistics.median(times[NUM_RUNS // 3 :])


def shown(us):
    return f"{'–' if us is None else f'{us:.1f}':>14}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--program", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--modes", nargs="+", choices=["graph", "compiled"], default=["graph", "compiled"])
    args = parser.parse_args()
    temporary = tempfile.TemporaryDirectory()
    folder, holds = args.folder or Path(temporary.name), True
    networks = {name: kind for name, kind in NETWORKS.items() if args.part in name}
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in networks.items():
        export(network_of(kind), folder / f"{name}.onnx")
    if not torch.cuda.is_available():
        print("skipped: needs a GPU")
        return 0
    os.environ["DET_POST_BENCH_NETWORKS"] = str(folder)
    ours = det_post_us(args.program or build(), "network")
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}; us, medians of the wall time")
    columns = ["cuda f16", "cuda f32", *args.modes, "onnxruntime"]
    print(f"{'':<24}{''.join(f'{column:>14}' for column in columns)}{'ratio':>8}", flush=True)
    for name, kind in networks.items():
        own, exact = (ours.get(f"{name} cuda {element}") for element in ("f16", "f32"))
        torch_us = [median_us(network_of(kind), mode) for mode in args.modes]
        runtime = [ours[case] for case in ours if case.startswith(f"{name} onnxruntime")]
        ort_us = min(runtime, default=None)
        ratio = min([*torch_us, *runtime]) / own if own else float("nan")
        times = "".join(shown(us) for us in [own, exact, *torch_us, ort_us])
        print(f"{name:<24}{times}{ratio:>8.2f}", flush=True)
        holds &= ratio >= RATIO
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
