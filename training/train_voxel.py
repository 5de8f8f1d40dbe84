"""Trains the voxel network of the demo and saves a checkpoint with the names of
OpenPCDet, which tools/export_sparse.py turns into ONNX.

    python train_voxel.py --data DIR --out voxel.pth
    torchrun --nproc-per-node 2 train_voxel.py …    # two GPUs
"""

import argparse
import copy
import math
import time
from pathlib import Path

import numpy as np
import torch

import arrays
import center_head
import sparse
import voxel_network as net
from loop import Group, Progress, average, learning_rate

SECONDS_BETWEEN_CHECKPOINTS = 60.0


class Frames:
    """All frames on the device."""

    def __init__(self, folder: Path, device, max_seeds, part=(0, 1)):
        names = ["voxel_cells", "voxel_means", "boxes_3d", "lidar_frames"]
        data = arrays.load(folder, names, max_seeds, part)
        data = {name: torch.from_numpy(values) for name, values in data.items()}
        per_frame = data["lidar_frames"].long()
        self.device = device
        self.cells = data["voxel_cells"].to(device)  # x, y, z
        self.means = data["voxel_means"].to(device)
        self.boxes = arrays.Boxes(data["boxes_3d"].to(device), per_frame[:, 1].to(device))
        self.num_voxels = per_frame[:, 2].to(device)
        self.first_voxel = arrays.starts(self.num_voxels)[:-1]

    def __len__(self):
        return len(self.num_voxels)

    def batch(self, frames: torch.Tensor, turn: arrays.Turn):
        """Sites, features and boxes of frames, all mirrored alike."""
        num_voxels = self.num_voxels[frames]
        rows = arrays.ranges(self.first_voxel[frames], num_voxels)
        owner = torch.repeat_interleave(torch.arange(len(frames), device=self.device), num_voxels)
        cells = arrays.mirror_cells(self.cells[rows].long(), turn, net.NUM_CELLS)
        means = self.means[rows]
        arrays.mirror(means, turn, [0])
        coordinates = torch.cat([owner[None], cells.T.flip(0)])
        sites, order = sparse.sorted_sites(coordinates, net.GRID, len(frames))
        return sites, means[order], *self.boxes.of(frames, turn)


def save(network: net.VoxelNetwork, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(network.checkpoint(), partial)
    partial.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=math.inf,
                        help="end after this time, data included; the learning rate falls by then")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--max-seeds", type=int)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()  # fmt: skip
    train(args, Group())


def train(args, group: Group):
    start = time.monotonic()
    torch.manual_seed(0)
    rng = np.random.default_rng(group.rank)
    torch.backends.cudnn.benchmark = True
    # Sums over half a million sites.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    device = torch.device(args.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    report = print if group.rank == 0 else lambda *_, **__: None
    frames = Frames(args.data, device, args.max_seeds, (group.rank, group.size))
    report(f"{group.size} times {len(frames)} frames, {len(frames.cells)} voxels, "
           f"{len(frames.boxes)} boxes, read in {time.monotonic() - start:.0f} s", flush=True)

    network = net.VoxelNetwork().to(device)
    network.backbone_2d.to(memory_format=torch.channels_last)
    network.dense_head.to(memory_format=torch.channels_last)
    averaged = copy.deepcopy(network).eval()
    parameters = list(network.parameters())
    report(f"{sum(p.numel() for p in parameters)} parameters", flush=True)
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.01, fused=device.type == "cuda")
    steps = max(1, len(frames) // args.batch)
    progress = Progress(steps * args.epochs, 60 * args.minutes - (time.monotonic() - start))
    share, saved, epoch = 0.0, 0.0, 0
    while share < 1:
        order = torch.from_numpy(rng.permutation(len(frames))).to(device)
        sums, done = torch.zeros(2, device=device), 0
        for chosen in order.split(args.batch)[:steps]:
            for option in optimizer.param_groups:
                option["lr"] = learning_rate(share, args.rate)
            turn = tuple(bool(b) for b in rng.integers(0, 2, 3))
            sites, features, boxes, owner = frames.batch(chosen, turn)
            goal = center_head.targets(boxes, owner, len(chosen), min_points=3)
            heat, box = network(sites, features, dtype)
            heat_loss, box_loss = center_head.losses(heat, box, *goal)
            optimizer.zero_grad(set_to_none=True)
            (heat_loss + box_loss).backward()
            progress.step += 1
            share = group.average(parameters, progress.share())
            torch.nn.utils.clip_grad_norm_(parameters, 10.0)
            optimizer.step()
            average(averaged, network, min(0.999, (1 + progress.step) / (10 + progress.step)))
            sums += torch.stack([heat_loss.detach(), box_loss.detach()])
            done += 1
            if group.rank == 0 and progress.elapsed() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                saved = progress.elapsed()
                save(averaged, args.out)
            if share >= 1:
                break
        epoch += 1
        heat_mean, box_mean = (sums / done).tolist()
        report(f"epoch {epoch}: heat {heat_mean:.4f} box {box_mean:.4f}, step {progress.step}, "
               f"{progress.elapsed():.0f} s, {100 * share:.0f} %", flush=True)  # fmt: skip
    if group.rank == 0:
        save(averaged, args.out)
    group.close()


if __name__ == "__main__":
    main()
