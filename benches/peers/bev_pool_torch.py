#!/usr/bin/env python3
"""The case of `det_post bench bev_pool` beside the published formula in PyTorch, on one GPU in one run.

    python3 benches/peers/bev_pool_torch.py [--program PROGRAM] [--modes graph compiled]

Six maps of 88x32, 118 depths, 80 channels to 360x360 cells: microseconds from depth and features in place to the
map on the GPU, medians of the wall time. PyTorch multiplies depth and feature of every point, keeps the points in
cells, adds them to their cells (`index_add`, channels last) and transposes the map; which points are in which
cells is known before, as in det_post. Without --program, `cargo build --release` makes det_post. Modes as
`frame_of` in torch_frames.py has them. Needs PyTorch and a GPU, and is skipped without. Exit status 1 when the ratio
is below 3.
"""

import argparse
import sys
from pathlib import Path

from masks_torch import median_us
from views_torch import build, det_post_us

NUM, DEPTHS, CHANNELS = 6, 118, 80
IMAGE, MAP = (704, 256), (88, 32)
SIDE, CELL, RANGE = 360, 0.3, 54.0
RATIO = 3.0


def cells(torch):
    """The points in cells and their cells, of cameras 60 degrees apart and 70 wide, as det_post's case has them."""
    kind = {"dtype": torch.float64}
    yaw = torch.arange(NUM, **kind) * (torch.pi / 3)
    focal = 0.5 * IMAGE[0] / torch.tan(torch.tensor(35.0, **kind) * torch.pi / 180)
    depth = (1 + 0.5 * torch.arange(DEPTHS, **kind))[None, :, None, None]
    u, v = (torch.linspace(0, size - 1, num, **kind) for size, num in zip(IMAGE, MAP))
    right = ((u - 0.5 * IMAGE[0]) / focal)[None, None, None] * depth
    down = ((v - 0.5 * IMAGE[1]) / focal)[None, None, :, None] * depth
    sin, cos = (value[:, None, None, None] for value in (yaw.sin(), yaw.cos()))
    x = sin * right + cos * depth + 0.8 * cos
    y = -cos * right + sin * depth + 0.8 * sin
    shape = (NUM, DEPTHS, MAP[1], MAP[0])
    at = [((value + RANGE) / CELL).trunc().expand(shape).reshape(-1).long() for value in (x, y)]
    level = ((1.5 - down + 10) / 20).trunc().expand(shape).reshape(-1).long()
    inside = (at[0] >= 0) & (at[0] < SIDE) & (at[1] >= 0) & (at[1] < SIDE) & (level == 0)
    kept = inside.nonzero()[:, 0]
    return kept, at[0][kept] * SIDE + at[1][kept]


def pool(torch, depth, features, kept, of_points):
    """The map [1, C, 360, 360]."""
    products = (depth[..., None] * features[:, None]).view(-1, CHANNELS)[kept]
    found = torch.zeros(SIDE * SIDE, CHANNELS, device=depth.device, dtype=depth.dtype)
    found.index_add_(0, of_points, products)
    return found.view(1, SIDE, SIDE, CHANNELS).permute(0, 3, 1, 2).contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path)
    modes = ["eager", "graph", "compiled"]
    parser.add_argument("--modes", nargs="+", choices=modes, default=["graph", "compiled"])
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: needs PyTorch")
        return 0
    if not torch.cuda.is_available():
        print("skipped: needs a GPU")
        return 0
    ours = det_post_us(args.program or build(), "bev_pool")
    ours, holds = {case.split()[-1]: us for case, us in ours.items()}, True
    kept, of_points = (value.cuda() for value in cells(torch))
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}; {len(kept)} points in cells; us, medians")
    print(f"{'':<24}{'det_post':>10}{''.join(f'{mode:>10}' for mode in args.modes)}{'ratio':>8}")
    generator = torch.Generator().manual_seed(19)
    for element, kind in [("f32", torch.float32), ("f16", torch.float16)]:
        depth = torch.rand(NUM, DEPTHS, MAP[1], MAP[0], generator=generator) * 0.02
        features = torch.rand(NUM, MAP[1], MAP[0], CHANNELS, generator=generator) * 2 - 1
        depth, features = depth.to(kind).cuda(), features.to(kind).cuda()
        call = lambda: pool(torch, depth, features, kept, of_points)
        peers = [median_us(torch, call, mode, False) for mode in args.modes]
        ratio = min(peers) / ours[element]
        print(f"{f'bev_pool {element}':<24}{ours[element]:>10.1f}{''.join(f'{peer:>10.1f}' for peer in peers)}{ratio:>8.2f}")
        holds &= ratio >= RATIO
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
