#!/usr/bin/env python3
"""Masks of `det_post bench mask` beside the published formula in PyTorch, on one GPU in one run.

    python3 benches/peers/masks_torch.py [--program PROGRAM] [--modes graph compiled]

100 instances of 200x200 pixels on average in 1920x1080 from 32 prototypes of 160x160: microseconds from
boxes, coefficients and prototypes in place to the masks of all, medians of the wall time. PyTorch computes
`process_mask_native`: the product, the cut to the rows without padding, the bilinear resize to the source, the
crop, the comparison; its masks are a byte a pixel of the whole image, det_post's a bit a pixel of the box.
Without --program, `cargo build --release` makes det_post. Modes are those of `frame_of` in torch_frames.py.
Needs PyTorch and a GPU, and is skipped without. Exit status 1 when PyTorch is faster.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

from views_torch import build, det_post_us

SOURCE = (1080, 1920)
NUM, MAP, PROTOTYPES = 100, 160, 32
COLUMNS = 13


def boxes(torch):
    """Boxes of sides of 120 to 280 source pixels, in the grid of det_post's case."""
    generator = torch.Generator().manual_seed(6)
    index = torch.arange(NUM)
    center = torch.stack([47 + index % COLUMNS * 45.5, 47 + index // COLUMNS * 38.0], dim=1) * 3
    size = torch.rand(NUM, 2, generator=generator) * 160 + 120
    limit = torch.tensor([SOURCE[1], SOURCE[0]] * 2)
    return torch.cat([center - size / 2, center + size / 2], dim=1).clamp(min=0).minimum(limit)


def masks_of(torch, prototypes, coefficients, corners):
    """Bytes [N, 1080, 1920]."""
    logits = (coefficients @ prototypes.flatten(1)).view(-1, MAP, MAP)
    logits = logits[:, 35:125]
    size = {"size": SOURCE, "mode": "bilinear", "align_corners": False}
    logits = torch.nn.functional.interpolate(logits[None], **size)[0]
    x1, y1, x2, y2 = corners[:, :, None, None].unbind(1)
    x = torch.arange(SOURCE[1], device=logits.device)[None, None]
    y = torch.arange(SOURCE[0], device=logits.device)[None, :, None]
    inside = (x >= x1) & (x < x2) & (y >= y1) & (y < y2)
    return (logits > 0) & inside


def median_us(torch, call, mode, read):
    """The median of the wall time of a call, with its result on the host where `read`."""
    call = torch.compile(call) if mode == "compiled" else call
    for _ in range(3):
        result = call()
    torch.cuda.synchronize()
    run = call
    if mode == "graph":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()
        run = lambda: (graph.replay(), result)[1]
    times = []
    for _ in range(60):
        start = time.perf_counter()
        result = run()
        if read:
            result.cpu()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[10:]) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path)
    parser.add_argument("--modes", nargs="+", choices=["eager", "graph", "compiled"], default=["graph", "compiled"])
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: needs PyTorch")
        return 0
    if not torch.cuda.is_available():
        print("skipped: needs a GPU")
        return 0
    ours, holds = det_post_us(args.program or build(), "mask"), True
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}; us over the boxes, medians")
    print(f"{'':<48}{'det_post':>10}{''.join(f'{mode:>10}' for mode in args.modes)}{'ratio':>8}")
    generator = torch.Generator().manual_seed(6)
    corners = boxes(torch).cuda()
    for element, kind in [("f32", torch.float32), ("f16", torch.float16)]:
        prototypes = (torch.rand(PROTOTYPES, MAP, MAP, generator=generator) * 2 - 1).to(kind).cuda()
        coefficients = (torch.rand(NUM, PROTOTYPES, generator=generator) * 2 - 1).to(kind).cuda()
        call = lambda: masks_of(torch, prototypes, coefficients, corners)
        for place, read in [("on the device", False), ("to the host", True)]:
            case = f"native, {NUM} of 200x200 {element}, {place}"
            peers = [median_us(torch, call, mode, read) for mode in args.modes]
            own = ours[f"{case}, over the boxes"]
            ratio = min(peers) / own
            print(f"{case:<48}{own:>10.1f}{''.join(f'{peer:>10.1f}' for peer in peers)}{ratio:>8.2f}")
            holds &= ratio >= 1
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
