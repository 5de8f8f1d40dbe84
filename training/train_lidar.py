"""Trains the lidar networks of the demo and writes them as ONNX.

    python train_lidar.py --data DIR --out ../models
"""

import argparse
import hashlib
import time
from pathlib import Path

import numpy as np
import torch

import arrays
import center_head
import lidar_network as net
from export import export


class Frames:
    """All frames on the device."""

    def __init__(self, folder: Path, device, max_seeds, num_sweeps):
        names = ["points", "pillars", "boxes_3d", "lidar_frames"]
        data = {k: torch.from_numpy(v) for k, v in arrays.load(folder, names, max_seeds).items()}
        per_frame = data["lidar_frames"].long()
        self.device = device
        self.points = data["points"].to(device)
        self.voxels = data["pillars"].to(device)  # x, y, number of points
        self.boxes = arrays.Boxes(data["boxes_3d"].to(device), per_frame[:, 1].to(device))
        self.num_voxels = per_frame[:, 0].to(device)
        self.first_voxel = arrays.starts(self.num_voxels)[:-1]
        self.first_point = arrays.starts(self.voxels[:, 2])[:-1]
        self.one_sweep = num_sweeps == 1
        self.check_features(folder)

    def check_features(self, folder):
        """The first pillars are for the encoder what they are when served."""
        served = torch.from_numpy(arrays.load(folder, ["features"], 1)["features"])
        voxels = self.voxels[: len(served)].cpu()
        voxel = torch.repeat_interleave(torch.arange(len(voxels)), voxels[:, 2].long())
        points = self.points[: len(voxel)].cpu()
        ours = net.features_of(points, voxel, voxels[:, :2].long())
        difference = (ours - served).abs().max().item()
        if not difference < 1e-4:
            raise SystemExit(f"features differ from what is served by {difference}")

    def __len__(self):
        return len(self.num_voxels)

    def batch(self, frames: torch.Tensor, turn: tuple[bool, bool, bool]):
        """Points, voxels and boxes of frames, all mirrored alike."""
        num_voxels = self.num_voxels[frames]
        rows = arrays.ranges(self.first_voxel[frames], num_voxels)
        voxels = self.voxels[rows]
        owner = torch.repeat_interleave(torch.arange(len(frames), device=self.device), num_voxels)
        points = self.points[arrays.ranges(self.first_point[rows], voxels[:, 2])].float()
        voxel = torch.repeat_interleave(
            torch.arange(len(rows), device=self.device), voxels[:, 2].long()
        )
        cells = voxels[:, :2].long()
        if self.one_sweep:
            # The points of the current sweep come first in every pillar, so
            # this is what one sweep gives.
            now = points[:, 4] == 0
            kept, voxel = torch.unique(voxel[now], return_inverse=True)
            points, cells, owner = points[now], cells[kept], owner[kept]

        boxes, box_owner = self.boxes.of(frames, turn)
        arrays.mirror(points, turn, [0])
        cells = arrays.mirror_cells(cells, turn, net.NUM_CELLS)
        return points, voxel, cells, owner, boxes, box_owner


def canvas(encoder, batch, num_frames):
    """The pillars of a batch on their maps, channels last in memory."""
    points, voxel, cells, owner, _, _ = batch
    pillars = encoder(net.features_of(points, voxel, cells))
    size = net.NUM_CELLS
    rows = pillars.new_zeros(num_frames * size * size, net.NUM_CHANNELS)
    rows[(owner * size + cells[:, 1]) * size + cells[:, 0]] = pillars
    return rows.view(num_frames, size, size, -1).permute(0, 3, 1, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="lidar")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--sweeps", type=int, default=3, choices=[1, 3])
    parser.add_argument("--max-seeds", type=int)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    device = torch.device(args.device)
    start = time.monotonic()
    frames = Frames(args.data, device, args.max_seeds, args.sweeps)
    print(f"{len(frames)} frames, {len(frames.points)} points, {len(frames.boxes)} boxes, "
          f"read in {time.monotonic() - start:.0f} s", flush=True)

    encoder = net.PillarEncoder().to(device)
    network = net.CenterNetwork().to(device).to(memory_format=torch.channels_last)
    parameters = [*encoder.parameters(), *network.parameters()]
    print(f"{sum(p.numel() for p in parameters)} parameters")
    steps = len(frames) // args.batch
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 3e-3, total_steps=max(1, steps * args.epochs), pct_start=0.2
    )
    start = time.monotonic()
    for epoch in range(args.epochs):
        order = torch.from_numpy(rng.permutation(len(frames))).to(device)
        sums = torch.zeros(2, device=device)
        for step in range(steps):
            chosen = order[step * args.batch : (step + 1) * args.batch]
            batch = frames.batch(chosen, tuple(bool(b) for b in rng.integers(0, 2, 3)))
            goal = center_head.targets(batch[4], batch[5], args.batch, min_points=3)
            map = canvas(encoder, batch, args.batch)
            with torch.autocast(device.type, torch.bfloat16):
                heat, box = network(map)
            heat_loss, box_loss = center_head.losses(heat, box, *goal)
            optimizer.zero_grad(set_to_none=True)
            (heat_loss + 0.5 * box_loss).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 10.0)
            optimizer.step()
            schedule.step()
            sums += torch.stack([heat_loss.detach(), box_loss.detach()])
        heat_mean, box_mean = (sums / max(1, steps)).tolist()
        print(f"epoch {epoch + 1}/{args.epochs}: heat {heat_mean:.4f} box {box_mean:.4f}, "
              f"{time.monotonic() - start:.0f} s", flush=True)

    args.out.mkdir(parents=True, exist_ok=True)
    encoder, network = encoder.cpu().eval(), network.cpu().eval()
    features = torch.zeros(100, net.NUM_POINTS, net.NUM_FEATURES)
    export(encoder, features, args.out / f"{args.name}_encoder.onnx",
           "input_features", ["pillar_features"], dynamic_rows=True)
    map = torch.zeros(1, net.NUM_CHANNELS, net.NUM_CELLS, net.NUM_CELLS)
    export(net.Exported(network), map, args.out / f"{args.name}_head.onnx",
           "spatial_features", ["heatmap", *center_head.REGRESSIONS])
    for part in ("encoder", "head"):
        path = args.out / f"{args.name}_{part}.onnx"
        print(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
