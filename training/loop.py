"""What the loops of training share: processes, progress, learning rate, averages."""

import math
import os
import time

import torch
import torch.distributed as dist


class Group:
    """The processes that torchrun started, each with a GPU and seeds of its own;
    without it only this process."""

    def __init__(self):
        self.size, self.rank = (int(os.environ.get(k, d)) for k, d in (("WORLD_SIZE", 1), ("RANK", 0)))
        if self.size > 1:
            uses_gpu = torch.cuda.is_available()
            if uses_gpu:
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl" if uses_gpu else "gloo")

    def share_state(self, module: torch.nn.Module) -> None:
        """Gives all processes the parameters and buffers of the first."""
        if self.size > 1:
            for value in module.state_dict().values():
                dist.broadcast(value, 0)

    def average(self, parameters: list[torch.Tensor], share: float) -> float:
        """Averages the gradients, and how far training is, over the processes."""
        if self.size == 1:
            return share
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in parameters]
        flat = torch.cat([g.flatten() for g in gradients] + [gradients[0].new_tensor([share])])
        dist.all_reduce(flat)
        flat /= self.size
        parts = flat[:-1].split([g.numel() for g in gradients])
        torch._foreach_copy_(gradients, [part.view_as(g) for part, g in zip(parts, gradients)])
        return float(flat[-1])

    def close(self) -> None:
        if self.size > 1:
            dist.destroy_process_group()


class Progress:
    """How far training is: by steps, or by the clock where that ends earlier."""

    def __init__(self, num_steps: int, seconds: float):
        self.num_steps, self.seconds = num_steps, seconds
        self.start = time.monotonic()
        self.step = 0

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def share(self) -> float:
        return max(self.step / self.num_steps, self.elapsed() / self.seconds)


def learning_rate(share: float, highest: float, rise: float = 0.15) -> float:
    """One cycle: up along a cosine, and down to almost zero."""
    low, end = highest / 25, highest / 1e4
    if share < rise:
        return low + (highest - low) * (1 - math.cos(math.pi * share / rise)) / 2
    part = min(1.0, (share - rise) / (1 - rise))
    return end + (highest - end) * (1 + math.cos(math.pi * part)) / 2


def average(mean: torch.nn.Module, now: torch.nn.Module, keep: float) -> None:
    """Moves the averaged parameters and statistics towards the present ones."""
    pairs = zip(mean.state_dict().values(), now.state_dict().values())
    means, nows = zip(*(pair for pair in pairs if pair[0].is_floating_point()))
    with torch.no_grad():
        torch._foreach_lerp_(list(means), list(nows), 1 - keep)
