"""Reads what `cargo run --example export_training` writes: one folder a seed.

Everything lies on the training device as flat arrays; a frame is a range in
them. So a batch is a few gathers, and no loader stands between data and GPU.
"""

from pathlib import Path

import numpy as np
import torch


def seeds(folder: Path, max_seeds: int | None = None, part: tuple[int, int] = (0, 1)) -> list[Path]:
    """The folders of the seeds in their order; of `part` (i, n) those of every n-th seed,
    from the i-th on."""
    found = sorted(path for path in folder.iterdir() if path.is_dir())[:max_seeds]
    found = found[part[0] :: part[1]]
    if not found:
        raise SystemExit(f"{folder} holds no seeds; run the exporter first")
    trained = [seed.name for seed in found if int(seed.name) >= 9000]
    if trained:
        raise SystemExit(f"seeds from 9000 on are for evaluation: {', '.join(trained)}")
    return found


def load(
    folder: Path, names: list[str], max_seeds: int | None = None, part: tuple[int, int] = (0, 1)
) -> dict[str, np.ndarray]:
    """Concatenates arrays of all `seeds`, in their order."""
    columns = {name: [] for name in names}
    for seed in seeds(folder, max_seeds, part):
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


# Mirrored along the diagonal, along x, along y: the eight turns of a square.
Turn = tuple[bool, bool, bool]


def mirror(rows: torch.Tensor, turn: Turn, columns: list[int]) -> None:
    """Mirrors vectors in place; `columns` are those of their x, y follows."""
    swap, flip_x, flip_y = turn
    for first in columns:
        if swap:
            rows[:, first : first + 2] = rows[:, first : first + 2].flip(1)
        for flip, axis in ((flip_x, 0), (flip_y, 1)):
            if flip:
                rows[:, first + axis].neg_()


def mirror_cells(cells: torch.Tensor, turn: Turn, num_cells: int) -> torch.Tensor:
    """Mirrors indices of cells, whose first columns are x and y."""
    swap, flip_x, flip_y = turn
    cells = cells.clone()
    if swap:
        cells[:, :2] = cells[:, :2].flip(1)
    for flip, axis in ((flip_x, 0), (flip_y, 1)):
        if flip:
            cells[:, axis] = num_cells - 1 - cells[:, axis]
    return cells


class Boxes:
    """The boxes of all frames, on the device."""

    def __init__(self, rows: torch.Tensor, num_boxes: torch.Tensor):
        self.rows, self.num_boxes = rows, num_boxes
        self.first = starts(num_boxes)[:-1]

    def __len__(self):
        return len(self.rows)

    def of(self, frames: torch.Tensor, turn: Turn):
        """Boxes of frames as `center_head.targets` takes them, mirrored, and
        which of the frames each belongs to."""
        num = self.num_boxes[frames]
        rows = self.rows[ranges(self.first[frames], num)]
        owner = torch.repeat_interleave(torch.arange(len(frames), device=rows.device), num)
        yaw = rows[:, 7:8]
        boxes = torch.cat([rows[:, :7], yaw.cos(), yaw.sin(), rows[:, 8:11]], dim=1)
        mirror(boxes, turn, [1, 7, 9])
        return boxes, owner
