"""Trains the surround network of the demo and saves a checkpoint with the backbone,
and the decoder under Sparse4D's names.

    python train_view.py --data DIR --out view.pth --held HELD_OUT_DIR
    torchrun --nproc-per-node 2 train_view.py …    # two GPUs
"""

import argparse
import copy
import math
import time
from pathlib import Path

import numpy as np
import torch

import arrays
import view_losses
import view_network as net
from center_distance import DISTANCES_M, average_precision
from loop import Group, Progress, average, learning_rate

CLIP_FRAMES = 4
EVALUATED_WITHIN_M = 50.0


class Frames:
    """All frames on the device; consecutive ones are clips."""

    def __init__(self, folder: Path, device, max_seeds, part=(0, 1)):
        names = ["rig_boxes", "rig_frames", "rig_poses", "rig_matrices"]
        data = {k: torch.from_numpy(v) for k, v in arrays.load(folder, names, max_seeds, part).items()}
        self.device = device
        self.matrices = data["rig_matrices"][: net.NUM_CAMERAS].to(device)
        self.boxes = data["rig_boxes"].to(device)
        self.poses = data["rig_poses"].to(device)
        self.num_boxes = data["rig_frames"][:, 0].long().to(device)
        self.first_box = arrays.starts(self.num_boxes)[:-1]
        self.clips = torch.nonzero(data["rig_frames"][:, 1] == 0).flatten().to(device)
        shape = (len(self.num_boxes), net.NUM_CAMERAS, net.HEIGHT, net.WIDTH, 3)
        self.images = torch.empty(shape, dtype=torch.uint8, device=device)
        begin = 0
        for seed in arrays.seeds(folder, max_seeds, part):
            images = torch.from_numpy(np.load(seed / "rig_images.npy"))
            self.images[begin : begin + len(images)] = images.to(device)
            begin += len(images)

    def __len__(self):
        return len(self.num_boxes)

    def batch(self, frames: torch.Tensor, change: "Change"):
        """Images [B * 6, 3, H, W], matrices [B, 6, 3, 4] and truth."""
        images = self.images[frames[:, None], change.cameras()]
        images = torch.where(change.mirrored[:, None, None, None, None], images.flip(3), images)
        images = (images.float() - 127.5) * change.contrast + 127.5 + change.brightness
        images = (images.clamp(0, 255) - 127.5) / 64
        images = images.flatten(0, 1).permute(0, 3, 1, 2)
        num = self.num_boxes[frames]
        rows = self.boxes[arrays.ranges(self.first_box[frames], num)]
        owner = torch.repeat_interleave(torch.arange(len(frames), device=self.device), num)
        truth = view_losses.Truth.of(change.of_boxes(rows, owner), owner, len(frames))
        return images, self.matrices.expand(len(frames), -1, -1, -1), truth

    def motion(self, frames: torch.Tensor, change: "Change"):
        """The transform [B, 3, 3] of the plane from the frame before to each, and the
        seconds between them."""
        now, before = self.poses[frames], self.poses[frames - 1]
        current_from_past = plane(now).inverse() @ plane(before)
        step = change.matrix @ current_from_past @ change.matrix.inverse()
        return step, now[:, 3] - before[:, 3]


def plane(pose: torch.Tensor) -> torch.Tensor:
    """Transforms [B, 3, 3] of poses x, y, yaw."""
    x, y, yaw = pose[:, :3].unbind(1)
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    rows = [yaw.cos(), -yaw.sin(), x, yaw.sin(), yaw.cos(), y, zero, zero, one]
    return torch.stack(rows, dim=1).view(-1, 3, 3)


class Change:
    """Augmentation of frames. The rig stays the same when it is mirrored, and when it is
    turned about its middle by the angle between two cameras."""

    def __init__(self, num: int, generator: torch.Generator, device):
        draw = lambda: torch.rand(num, generator=generator, device=device)
        self.mirrored = draw() < 0.5
        turns = (draw() * net.NUM_CAMERAS).long()
        self.turns = torch.where(draw() < 0.5, turns, 0)
        column = lambda x: x[:, None, None, None, None]
        self.contrast = column(draw() * 0.4 + 0.8) * (
            torch.rand(num, 1, 1, 1, 3, generator=generator, device=device) * 0.16 + 0.92
        )
        self.brightness = column(draw() * 50 - 25)
        flip = torch.where(self.mirrored, -1.0, 1.0)
        angle = self.turns * (2 * math.pi / net.NUM_CAMERAS)
        cos, sin = angle.cos(), angle.sin()
        zero, one = torch.zeros_like(cos), torch.ones_like(cos)
        turn = torch.stack([cos, -sin * flip, zero, sin, cos * flip, zero, zero, zero, one], 1)
        turn = turn.view(-1, 3, 3)
        center = turn.new_tensor(net.RIG_CENTER_M)
        turn[:, :2, 2] = center - turn[:, :2, :2] @ center
        self.matrix = turn

    @classmethod
    def none(cls, num: int, device) -> "Change":
        change = cls(num, torch.Generator(device).manual_seed(0), device)
        change.mirrored[:], change.turns[:], change.contrast, change.brightness = False, 0, 1, 0
        change.matrix = torch.eye(3, device=device).expand(num, 3, 3)
        return change

    def cameras(self) -> torch.Tensor:
        """The camera whose image each one gets, [B, 6]."""
        new = torch.arange(net.NUM_CAMERAS, device=self.turns.device) - self.turns[:, None]
        return torch.where(self.mirrored[:, None], -new, new) % net.NUM_CAMERAS

    def of_boxes(self, rows: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
        matrix = self.matrix[owner]
        turned = lambda x: (matrix[:, :2, :2] @ x[..., None])[..., 0]
        rows = rows.clone()
        rows[:, 1:3] = turned(rows[:, 1:3]) + matrix[:, :2, 2]
        heading = turned(torch.stack([rows[:, 7].cos(), rows[:, 7].sin()], dim=1))
        rows[:, 7] = torch.atan2(heading[:, 1], heading[:, 0])
        rows[:, 8:10] = turned(rows[:, 8:10])
        return rows


def anchors(frames: Frames, generator: torch.Generator, rounds: int = 25) -> torch.Tensor:
    """k-means of the positions that the truth has after augmentation, with the mean
    extents of each cluster, without yaw and velocity."""
    everything = torch.arange(len(frames), device=frames.device).repeat(2)
    change = Change(len(everything), generator, frames.device)
    num = frames.num_boxes[everything]
    rows = frames.boxes[arrays.ranges(frames.first_box[everything], num)]
    owner = torch.repeat_interleave(everything.new_tensor(range(len(everything))), num)
    truth = view_losses.Truth.of(change.of_boxes(rows, owner), owner, len(everything))
    boxes = truth.box[truth.counts]
    chosen = torch.randperm(len(boxes), generator=generator, device=boxes.device)
    boxes = boxes[chosen[:100_000]]
    repeats = -(-net.NUM_ANCHORS // len(boxes))
    centers = boxes.repeat(repeats, 1)[: net.NUM_ANCHORS, :6].clone()
    for _ in range(rounds):
        nearest = torch.cdist(boxes[:, :3], centers[:, :3]).argmin(dim=1)
        count = torch.bincount(nearest, minlength=len(centers)).to(boxes.dtype)[:, None]
        sums = torch.zeros_like(centers).index_add_(0, nearest, boxes[:, :6])
        centers = torch.where(count > 0, sums / count.clamp(min=1), centers)
    heading = centers.new_tensor([0.0, 1.0, 0.0, 0.0, 0.0]).expand(len(centers), -1)
    return torch.cat([centers, heading], dim=1)


class Head(torch.nn.Module):
    """The decoder with tensors as arguments and results."""

    def __init__(self, head: net.Decoder):
        super().__init__()
        self.head = head

    def forward(self, *inputs):
        num_levels = len(net.STRIDES)
        maps, (matrices, noisy_box, mask, *memory) = inputs[:num_levels], inputs[num_levels:]
        memory = net.Memory(*memory) if memory else None
        outputs, memory = self.head(maps, matrices, memory, net.Denoising(noisy_box, mask))
        flat = [x for output in outputs for x in output]
        return *flat, memory.box, memory.feature, memory.confidence


class Losses:
    """A step's losses, by name."""

    NAMES = ("class", "box", "noisy class", "noisy box", "heat", "values")

    def __init__(self, network, generator, dtype):
        self.backbone, self.head = network.backbone, Head(network.head)
        self.generator, self.dtype = generator, dtype
        self.graphs = {}

    def record(self, frames: Frames, batch: int) -> None:
        """Records the decoder for batches of this size, with and without a memory, as CUDA
        graphs: it has thousands of small kernels, whose launches would take longer than
        they do."""
        for has_memory in (False, True):
            chosen = frames.clips[torch.arange(batch, device=frames.device) % len(frames.clips)]
            inputs = self.head_inputs(frames, chosen, Change.none(batch, frames.device))[0]
            if has_memory:
                with torch.no_grad():
                    *_, box, feature, confidence = self.head(*inputs)
                inputs += (box, feature, confidence, torch.full_like(confidence[:, 0], 0.1))
            inputs = tuple(x.detach().clone().requires_grad_(i < len(net.STRIDES)) for i, x in enumerate(inputs))
            graph = torch.cuda.make_graphed_callables(Head(self.head.head), inputs, allow_unused_input=True)
            self.check(graph, inputs)
            self.graphs[has_memory] = graph
        parts, _ = self.of(frames, chosen, Change.none(batch, frames.device), None)
        parts.sum().backward()

    def check(self, graph, inputs) -> None:
        """Refuses a graph that computes something else than the decoder."""
        wanted = [*self.head.parameters(), inputs[0]]
        results = []
        for head in (self.head, graph):
            loss = sum(x.square().mean() for x in head(*inputs)[: 2 * net.NUM_BLOCKS])
            gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
            flat = torch.cat([x.float().flatten() for x in gradients if x is not None])
            results.append((loss.detach().clone(), flat.clone()))
        for plain, recorded in zip(*results):
            difference = float((plain - recorded).norm() / plain.norm())
            if not difference < 0.05:
                raise RuntimeError(f"the recorded decoder is off by {difference:.3f}")

    def head_inputs(self, frames: Frames, chosen, change):
        """The arguments of the decoder, the outputs of the dense head, and the truth."""
        images, matrices, truth = frames.batch(chosen, change)
        with torch.autocast(images.device.type, self.dtype, enabled=self.dtype != torch.float32):
            maps, dense = self.backbone(images)
        noisy = view_losses.denoising(truth, self.generator)
        return (*maps, matrices, noisy.box, noisy.mask), dense, truth

    def of(self, frames: Frames, chosen, change, memory):
        """The losses and the memory for the next frame."""
        inputs, dense, truth = self.head_inputs(frames, chosen, change)
        matrices = inputs[len(net.STRIDES)]
        head = self.graphs.get(memory is not None, self.head)
        if memory is not None:
            inputs += (memory.box, memory.feature, memory.confidence, memory.interval_s)
        *outputs, box, feature, confidence = head(*inputs)
        memory = net.Memory(box.detach(), feature.detach(), confidence.detach())
        outputs = list(zip(outputs[::2], outputs[1::2]))
        num = net.NUM_ANCHORS
        logits = torch.stack([logits[:, :num] for logits, _ in outputs])
        boxes = torch.stack([box[:, :num] for _, box in outputs])
        dense = view_losses.dense_losses(*dense, truth, matrices)
        matched = view_losses.match(logits, boxes, truth)
        parts = torch.zeros(len(self.NAMES), device=matrices.device)
        for block, (of_block, box) in enumerate(outputs):
            found = view_losses.detection_losses(logits[block], boxes[block], truth, matched[block])
            noise = view_losses.denoising_losses(of_block[:, num:], box[:, num:], truth)
            parts = parts + torch.stack([*found, *noise, *[parts.new_zeros(())] * 2])
        return torch.cat([parts[:4], torch.stack(dense)]), memory


@torch.no_grad()
def evaluate(network, frames: Frames, dtype, batch: int = 10) -> str:
    """AP of held-out clips, with the memory."""
    network.eval()
    measured = []
    for clips in frames.clips.split(batch):
        memory, change = None, Change.none(len(clips), frames.device)
        for place in range(CLIP_FRAMES):
            chosen = clips + place
            images, matrices, _ = frames.batch(chosen, change)
            if place > 0:
                memory = memory.moved(*frames.motion(chosen, change))
            with torch.autocast(images.device.type, dtype, enabled=dtype != torch.float32):
                maps, _ = network.backbone(images)
            outputs, memory = network.head(maps, matrices, memory)
            logits, box = outputs[-1]
            for frame, scores, boxes in zip(chosen.tolist(), logits.sigmoid().cpu(), box.cpu()):
                measured.append(compared(frames, frame, scores.numpy(), boxes.numpy()))
    network.train()
    lines, total = [], []
    for klass, name in enumerate(net.CLASSES):
        ap = [average_precision(measured, klass, distance) for distance in DISTANCES_M]
        total.append(np.mean(ap))
        lines.append(f"{name} " + " ".join(f"{value:.3f}" for value in ap))
    return f"mAP {np.nanmean(total):.4f} ({'; '.join(lines)})"


def compared(frames: Frames, frame: int, scores, boxes):
    begin = int(frames.first_box[frame])
    rows = frames.boxes[begin : begin + int(frames.num_boxes[frame])].cpu().numpy()
    counts = (rows[:, 10] >= view_losses.MIN_PIXELS) & (rows[:, 11] >= view_losses.MIN_VISIBILITY)
    counts &= np.hypot(rows[:, 1], rows[:, 2]) < EVALUATED_WITHIN_M
    truth = np.column_stack([rows[:, :3], counts])
    query, klass = np.nonzero(scores > 0.02)
    found = np.column_stack([klass, boxes[query, :2], scores[query, klass]])
    return truth, found[np.hypot(found[:, 1], found[:, 2]) < EVALUATED_WITHIN_M]


def save(network: net.ViewNetwork, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save({"state_dict": network.state_dict()}, partial)
    partial.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--held", type=Path, help="seeds that are measured while training")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=float, default=30)
    parser.add_argument("--minutes", type=float, default=math.inf,
                        help="end after this time, data included; the learning rate falls by then")
    parser.add_argument("--batch", type=int, default=16, help="frames of a step, on each GPU")
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate of the backbone")
    parser.add_argument("--head-rate", type=float, default=6e-4, help="that of the decoder")
    parser.add_argument("--single", type=float, default=0.55, help="share of the time without memory")
    parser.add_argument("--checkpoint-seconds", type=float, default=75.0)
    parser.add_argument("--report-steps", type=int, default=100)
    parser.add_argument("--max-seeds", type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--graphs", action="store_true", help="run the decoder as CUDA graphs, which needs --held")
    args = parser.parse_args()  # fmt: skip
    train(args, Group())


def train(args, group: Group):
    start = time.monotonic()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    device = torch.device(args.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    generator = torch.Generator(device).manual_seed(group.rank)
    report = (lambda text: print(text, flush=True)) if group.rank == 0 else (lambda _: None)
    held = Frames(args.held, device, None) if args.held else None
    network = net.ViewNetwork(torch.zeros(net.NUM_ANCHORS, net.NUM_COLUMNS)).to(device)
    network.backbone.to(memory_format=torch.channels_last)
    losses = Losses(network, generator, dtype)
    if args.graphs:
        # Before the processes communicate, which a recording does not permit.
        losses.record(held, args.batch)
        report(f"the decoder is recorded, {time.monotonic() - start:.0f} s")
    group.share_state(network)
    frames = Frames(args.data, device, args.max_seeds, (group.rank, group.size))
    report(f"{group.size} times {len(frames)} frames, read after {time.monotonic() - start:.0f} s")
    network.head.instance_bank.anchor.copy_(anchors(frames, generator))
    group.share_state(network.head.instance_bank)
    averaged = copy.deepcopy(network)
    of_head = list(network.head.parameters())
    of_rest = list(network.backbone.parameters())
    parameters = of_head + of_rest
    report(f"{sum(p.numel() for p in of_rest)} and {sum(p.numel() for p in of_head)} parameters")
    optimizer = torch.optim.AdamW(
        [{"params": of_head, "rate": args.head_rate}, {"params": of_rest, "rate": args.rate}],
        weight_decay=0.01, fused=device.type == "cuda",
    )  # fmt: skip
    num_steps = max(1, int(len(frames) // args.batch * args.epochs))
    progress = Progress(num_steps, 60 * args.minutes - (time.monotonic() - start))
    share, saved, sums, done = 0.0, 0.0, torch.zeros(len(Losses.NAMES), device=device), 0

    def step(chosen, change, memory):
        nonlocal share, sums, done, saved
        for option in optimizer.param_groups:
            option["lr"] = learning_rate(share, option["rate"], 0.06)
        parts, memory = losses.of(frames, chosen, change, memory)
        optimizer.zero_grad(set_to_none=True)
        parts.sum().backward()
        progress.step += 1
        share = group.average(parameters, progress.share())
        torch.nn.utils.clip_grad_norm_(parameters, 25.0)
        optimizer.step()
        average(averaged, network, min(0.998, (1 + progress.step) / (10 + progress.step)))
        sums += parts.detach()
        done += 1
        if progress.step % args.report_steps == 0:
            means = ", ".join(f"{n} {v:.3f}" for n, v in zip(Losses.NAMES, (sums / done).tolist()))
            report(f"step {progress.step}, {progress.elapsed():.0f} s, {100 * share:.0f} %: {means}")
            sums, done = torch.zeros_like(sums), 0
        if group.rank == 0 and progress.elapsed() - saved > args.checkpoint_seconds and share < 0.97:
            saved = progress.elapsed()
            save(averaged, args.out)
            if held is not None:
                report(f"{progress.elapsed():.0f} s: {evaluate(averaged, held, dtype)}")
        return memory

    while share < args.single:
        order = torch.randperm(len(frames), generator=generator, device=device)
        for chosen in order.split(args.batch):
            if len(chosen) == args.batch and share < args.single:
                step(chosen, Change(len(chosen), generator, device), None)
    report(f"with memory from step {progress.step} on")
    while share < 1:
        order = torch.randperm(len(frames.clips), generator=generator, device=device)
        for clips in frames.clips[order].split(args.batch):
            memory, change = None, Change(len(clips), generator, device)
            for place in range(CLIP_FRAMES if len(clips) == args.batch else 0):
                if share >= 1:
                    break
                chosen = clips + place
                if place > 0:
                    memory = memory.moved(*frames.motion(chosen, change))
                memory = step(chosen, change, memory)
    report(f"{progress.step} steps, {progress.step * args.batch * group.size} frames, "
           f"{progress.elapsed():.0f} s")  # fmt: skip
    if group.rank == 0:
        save(averaged, args.out)
        if held is not None:
            report(f"at the end: {evaluate(averaged, held, dtype)}")
    group.close()


if __name__ == "__main__":
    main()
