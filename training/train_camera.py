"""Trains the camera network of the demo, or with --masks the one that also gives masks, and writes
it as ONNX.

    python train_camera.py --data DIR --out ../models
    python train_camera.py --data DIR --out ../models --masks --minutes 7
"""

import argparse
import copy
import hashlib
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import arrays
import camera_network as net
import mask_network
from export import export, halve
from loop import Progress, average, learning_rate

# Truth that is hidden further than this, or smaller, is neither right nor wrong.
MIN_VISIBILITY = 0.4
MIN_HEIGHT_PX = 5.0
SECONDS_BETWEEN_CHECKPOINTS = 60.0
SECONDS_BETWEEN_REPORTS = 15.0


class Frames:
    """All images and boxes on the device, and with `masks` the objects that their pixels show."""

    def __init__(self, folder: Path, device, max_seeds, masks: bool):
        names = ["images", "boxes_2d", "camera_frames"] + ["instances"] * masks
        self.device = device
        # One array after the other: the images of all frames are large.
        load = lambda name: torch.from_numpy(arrays.load(folder, [name], max_seeds)[name]).to(device)
        data = {name: load(name) for name in names}
        self.images, self.boxes = data["images"], data["boxes_2d"]
        self.num_boxes = data["camera_frames"].long()
        self.first_box = arrays.starts(self.num_boxes)[:-1]
        self.objects = data.get("instances")

    def __len__(self):
        return len(self.images)

    def batch(self, frames: torch.Tensor, generator: torch.Generator):
        """Images [B, 3, H, W] in 0 to 1, truth padded to the longest, and how images were distorted."""
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
        images, boxes, theta = distort(images, boxes, generator)
        size = boxes[..., 2:] - boxes[..., :2]
        is_truth &= (size > 1).all(dim=-1)
        ignored = (visibility < MIN_VISIBILITY) | (size[..., 1] < MIN_HEIGHT_PX)
        images = images.contiguous(memory_format=torch.channels_last)
        return images, (boxes, klass, is_truth, ignored), theta


def distort(images, boxes, generator):
    """Mirrors, zooms and shifts, and changes the light; one draw an image. Also returns the positions
    in the source, from -1 to 1, of positions in the target [B, 2, 3]."""
    num, device = len(images), images.device
    draw = lambda low, high: torch.rand(num, generator=generator).to(device) * (high - low) + low
    mirror = torch.where(draw(0, 1) < 0.5, -1.0, 1.0)
    # Zoom in more than out: objects near the least height are plenty.
    zoom = torch.where(draw(0, 1) < 0.5, torch.ones_like(mirror), draw(0.85, 1.6))
    room = (zoom - 1).clamp(min=0)
    shift_x, shift_y = draw(-1, 1) * room, draw(-1, 1) * room
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
    return images.clamp(0, 1), boxes, theta


class Masks:
    """The loss of masks, where they are learned."""

    def __init__(self, frames: Frames, device):
        self.frames = frames
        self.generator = torch.Generator(device).manual_seed(0)

    def loss(self, outputs, learners, boxes, chosen, theta):
        boxes = boxes.gather(1, learners.rows[..., None].expand(-1, -1, 4))
        points = mask_network.points_in(boxes, self.generator)
        seen = mask_network.seen_objects(self.frames.objects[chosen], theta, points)
        return mask_network.mask_loss(*outputs, learners, points, seen)


def save(network: torch.nn.Module, path: Path) -> None:
    partial = path.with_suffix(".partial")
    torch.save(network.state_dict(), partial)
    partial.replace(path)


def write(network: torch.nn.Module, folder: Path, masks: bool) -> None:
    """Writes the network as ONNX; with masks its weights as f16, so that the file is small."""
    path = folder / ("camera_seg.onnx" if masks else "camera.onnx")
    example = torch.zeros(1, 3, net.HEIGHT, net.WIDTH)
    exported = (mask_network if masks else net).Exported(copy.deepcopy(network).cpu().eval())
    names = ["output0", "output1"] if masks else ["output0"]
    export(exported, example, path, "images", names, dynamic_batch=True)
    if masks:
        halve(path)
    print(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest(), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--masks", action="store_true", help="train the network with masks")
    parser.add_argument("--epochs", type=int, default=45)
    parser.add_argument("--minutes", type=float, default=math.inf,
                        help="end after this time, data included; the learning rate falls by then")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--max-seeds", type=int)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    write(train(args), args.out, args.masks)


def train(args) -> torch.nn.Module:
    start = time.monotonic()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    generator = torch.Generator().manual_seed(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device(args.device)
    frames = Frames(args.data, device, args.max_seeds, args.masks)
    masks = Masks(frames, device) if args.masks else None
    print(f"{len(frames)} images, {len(frames.boxes)} boxes, "
          f"read in {time.monotonic() - start:.0f} s", flush=True)

    network = mask_network.MaskNetwork() if args.masks else net.CameraNetwork()
    network = network.to(device).to(memory_format=torch.channels_last)
    averaged = copy.deepcopy(network)
    parameters = list(network.parameters())
    print(f"{sum(p.numel() for p in parameters)} parameters", flush=True)
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.02, fused=device.type == "cuda")
    steps = max(1, len(frames) // args.batch)
    progress = Progress(steps * args.epochs, 60 * args.minutes - (time.monotonic() - start))
    share, saved, reported, epoch = 0.0, 0.0, 0.0, 0
    while share < 1:
        order = torch.from_numpy(rng.permutation(len(frames))).to(device)
        sums, done = torch.zeros(4, device=device), 0
        for step in range(steps):
            for option in optimizer.param_groups:
                option["lr"] = learning_rate(share, args.rate, rise=0.1)
            chosen = order[step * args.batch : (step + 1) * args.batch]
            images, truth, theta = frames.batch(chosen, generator)
            with torch.autocast(device.type, torch.bfloat16):
                edges, classes, *of_masks = network(images)
            parts, learners = net.losses(edges, classes, network, *truth)
            parts = [*parts, torch.zeros_like(parts[0])]
            if masks:
                parts[3] = masks.loss(of_masks, learners, truth[0], chosen, theta)
            loss = 0.5 * parts[0] + 7.5 * parts[1] + 1.5 * parts[2] + 4.0 * parts[3]
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 10.0)
            optimizer.step()
            progress.step += 1
            share = progress.share()
            average(averaged, network, min(0.999, (1 + progress.step) / (10 + progress.step)))
            sums += torch.stack([part.detach() for part in parts])
            done += 1
            if progress.elapsed() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                saved = progress.elapsed()
                save(averaged, args.out / "camera.pth")
            if share >= 1:
                break
        epoch += 1
        if progress.elapsed() - reported > SECONDS_BETWEEN_REPORTS or share >= 1:
            reported = progress.elapsed()
            means = " ".join(f"{value:.4f}" for value in (sums / done).tolist())
            print(f"epoch {epoch}: class, box, edges, mask {means}, step {progress.step}, "
                  f"{progress.elapsed():.0f} s, {100 * share:.0f} %", flush=True)  # fmt: skip
    save(averaged, args.out / "camera.pth")
    return averaged


if __name__ == "__main__":
    main()
