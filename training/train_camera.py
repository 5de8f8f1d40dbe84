"""Trains the camera network of the demo and writes it as ONNX.

    python train_camera.py --data DIR --out ../models
"""

import argparse
import copy
import hashlib
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import arrays
import camera_network as net
from export import export

# Truth that is hidden further than this, or smaller, is neither right nor wrong.
MIN_VISIBILITY = 0.4
MIN_HEIGHT_PX = 5.0


class Frames:
    """All images and boxes on the device."""

    def __init__(self, folder: Path, device, max_seeds):
        names = ["images", "boxes_2d", "camera_frames"]
        data = {k: torch.from_numpy(v) for k, v in arrays.load(folder, names, max_seeds).items()}
        self.device = device
        self.images = data["images"].to(device)
        self.boxes = data["boxes_2d"].to(device)
        self.num_boxes = data["camera_frames"].long().to(device)
        self.first_box = arrays.starts(self.num_boxes)[:-1]

    def __len__(self):
        return len(self.images)

    def batch(self, frames: torch.Tensor, generator: torch.Generator):
        """Images [B, 3, H, W] in 0 to 1, and truth padded to the longest."""
        num = self.num_boxes[frames]
        rows = self.boxes[arrays.ranges(self.first_box[frames], num)]
        owner = torch.repeat_interleave(torch.arange(len(frames), device=self.device), num)
        place = torch.arange(len(rows), device=self.device) - arrays.starts(num)[owner]
        padded = rows.new_zeros(len(frames), max(1, int(num.max())), 6)
        padded[owner, place] = rows
        is_truth = torch.zeros(padded.shape[:2], dtype=torch.bool, device=self.device)
        is_truth[owner, place] = True
        boxes, klass, visibility = padded[..., 1:5], padded[..., 0].long(), padded[..., 5]
        images = self.images[frames].float() / 255
        images, boxes = distort(images, boxes, generator)
        size = boxes[..., 2:] - boxes[..., :2]
        is_truth &= (size > 1).all(dim=-1)
        ignored = (visibility < MIN_VISIBILITY) | (size[..., 1] < MIN_HEIGHT_PX)
        return images.contiguous(memory_format=torch.channels_last), boxes, klass, is_truth, ignored


def distort(images, boxes, generator):
    """Mirrors, zooms and shifts, and changes the light; one draw an image."""
    num, device = len(images), images.device
    draw = lambda low, high: torch.rand(num, generator=generator).to(device) * (high - low) + low
    mirror = torch.where(draw(0, 1) < 0.5, -1.0, 1.0)
    # Zoom in more than out: objects near the least height are plenty.
    zoom = torch.where(draw(0, 1) < 0.5, torch.ones_like(mirror), draw(0.85, 1.6))
    room = (zoom - 1).clamp(min=0)
    shift_x, shift_y = draw(-1, 1) * room, draw(-1, 1) * room
    # Source position in [-1, 1] of a target position.
    theta = torch.zeros(num, 2, 3, device=device)
    theta[:, 0, 0], theta[:, 0, 2] = mirror / zoom, shift_x / zoom
    theta[:, 1, 1], theta[:, 1, 2] = 1 / zoom, shift_y / zoom
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    images = F.grid_sample(images - 0.447, grid, align_corners=False) + 0.447

    half = boxes.new_tensor([net.WIDTH / 2, net.HEIGHT / 2])
    corners = boxes.view(num, -1, 2, 2) / half - 1
    offset = torch.stack([shift_x / zoom, shift_y / zoom], dim=-1)[:, None, None]
    factor = torch.stack([mirror / zoom, 1 / zoom], dim=-1)[:, None, None]
    corners = ((corners - offset) / factor).clamp(-1, 1)
    low, high = corners.amin(dim=2), corners.amax(dim=2)
    boxes = torch.cat([(low + 1) * half, (high + 1) * half], dim=-1)

    column = lambda low, high: draw(low, high)[:, None, None, None]
    tint = torch.rand(num, 3, 1, 1, generator=generator).to(device) * 0.16 + 0.92
    images = ((images - 0.5) * column(0.8, 1.2) + 0.5) * column(0.75, 1.25) * tint
    return images.clamp(0, 1), boxes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=45)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-seeds", type=int)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    generator = torch.Generator().manual_seed(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device(args.device)
    start = time.monotonic()
    frames = Frames(args.data, device, args.max_seeds)
    print(f"{len(frames)} images, {len(frames.boxes)} boxes, "
          f"read in {time.monotonic() - start:.0f} s", flush=True)

    network = net.CameraNetwork().to(device).to(memory_format=torch.channels_last)
    averaged = copy.deepcopy(network)
    print(f"{sum(p.numel() for p in network.parameters())} parameters")
    steps = len(frames) // args.batch
    total = max(1, steps * args.epochs)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=total, pct_start=0.1)
    start = time.monotonic()
    done = 0
    for epoch in range(args.epochs):
        order = torch.from_numpy(rng.permutation(len(frames))).to(device)
        sums = torch.zeros(3, device=device)
        for step in range(steps):
            chosen = order[step * args.batch : (step + 1) * args.batch]
            images, boxes, klass, is_truth, ignored = frames.batch(chosen, generator)
            with torch.autocast(device.type, torch.bfloat16):
                edges, classes = network(images)
            parts = net.losses(edges, classes, network, boxes, klass, is_truth, ignored)
            class_loss, box_loss, edge_loss = parts
            optimizer.zero_grad(set_to_none=True)
            (0.5 * class_loss + 7.5 * box_loss + 1.5 * edge_loss).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
            optimizer.step()
            schedule.step()
            done += 1
            keep = min(0.999, (1 + done) / (10 + done))
            with torch.no_grad():
                for mean, now in zip(averaged.state_dict().values(), network.state_dict().values()):
                    if mean.is_floating_point():
                        mean.lerp_(now, 1 - keep)
            sums += torch.stack([part.detach() for part in parts])
        class_mean, box_mean, edge_mean = (sums / max(1, steps)).tolist()
        print(f"epoch {epoch + 1}/{args.epochs}: class {class_mean:.4f} box {box_mean:.4f} "
              f"edges {edge_mean:.4f}, {time.monotonic() - start:.0f} s", flush=True)

    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "camera.onnx"
    example = torch.zeros(1, 3, net.HEIGHT, net.WIDTH)
    exported = net.Exported(averaged.cpu().eval())
    export(exported, example, path, "images", ["output0"], dynamic_batch=True)
    print(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
