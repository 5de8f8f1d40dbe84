"""Reads what `cargo run --example export_training` writes: one folder a seed.

Everything lies on the training device as flat arrays; a frame is a range in
them. So a batch is a few gathers, and no loader stands between data and GPU.
"""

from pathlib import Path

import numpy as np
import torch


def load(folder: Path, names: list[str], max_seeds: int | None = None) -> dict[str, np.ndarray]:
    """Concatenates arrays of all seeds, in the order of the seeds."""
    seeds = sorted(path for path in folder.iterdir() if path.is_dir())[:max_seeds]
    if not seeds:
        raise SystemExit(f"{folder} holds no seeds; run the exporter first")
    trained = [seed.name for seed in seeds if int(seed.name) >= 9000]
    if trained:
        raise SystemExit(f"seeds from 9000 on are for evaluation: {', '.join(trained)}")
    columns = {name: [] for name in names}
    for seed in seeds:
        for name in names:
            columns[name].append(np.load(seed / f"{name}.npy"))
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def starts(counts: torch.Tensor) -> torch.Tensor:
    """Where each range begins, given their lengths; one more for the end."""
    return torch.nn.functional.pad(counts.long().cumsum(0), (1, 0))


def ranges(first: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Indices of ranges one after the other: first[i], first[i] + 1, ..."""
    begin = starts(count)
    index = torch.arange(int(begin[-1]), device=first.device)
    owner = torch.repeat_interleave(torch.arange(len(count), device=first.device), count.long())
    return first[owner] + index - begin[owner]
