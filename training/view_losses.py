"""Truth, denoising, matching and losses of the surround network."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch.nn import functional as F

import view_network as net

# Truth that is hidden further than this, smaller or further away is neither right nor wrong.
MIN_VISIBILITY, MIN_PIXELS, MAX_RANGE_M = 0.4, 12, 55.0
# Unmatched queries this near to such truth are not judged.
IGNORED_WITHIN_M = 3.0
# x, y, z, logarithms of the extents, sine and cosine, velocity.
BOX_WEIGHTS = [2.0, 2.0, 2.0, 0.5, 0.5, 0.5, 1.0, 1.0, 0.2, 0.2, 0.0]
MATCH_WEIGHTS = [2.0, 2.0, 2.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
CLASS_WEIGHT, BOX_WEIGHT = 2.0, 0.25
# The assignments of a batch are solved side by side.
THREADS = ThreadPoolExecutor(8)
# Groups of denoising queries, and the objects of a frame that they are made of.
NUM_NOISY_GROUPS, NUM_NOISY = 2, 32


@dataclass
class Truth:
    """Objects of a batch, padded to the frame with the most."""

    box: torch.Tensor  # [B, M, 11]
    klass: torch.Tensor  # [B, M]
    counts: torch.Tensor  # [B, M]: it is to be found.
    is_ignored: torch.Tensor  # [B, M]: visible, but neither right nor wrong.

    @staticmethod
    def of(rows: torch.Tensor, owner: torch.Tensor, num_frames: int) -> "Truth":
        """From rows of class, x, y, z, length, width, height, yaw, vx, vy, pixels,
        visibility, in the order of their frames."""
        counts = (rows[:, 10] >= MIN_PIXELS) & (rows[:, 11] >= MIN_VISIBILITY)
        counts &= rows[:, 1:3].norm(dim=1) < MAX_RANGE_M
        is_kept = counts | (rows[:, 10] > 0)
        rows, owner, counts = rows[is_kept], owner[is_kept], counts[is_kept]
        # Those that count come first.
        order = (owner * 2 + (~counts).long()).argsort(stable=True)
        rows, owner, counts = rows[order], owner[order], counts[order]
        num = torch.bincount(owner, minlength=num_frames)
        place = torch.arange(len(rows), device=rows.device) - (num.cumsum(0) - num)[owner]
        shape = (num_frames, max(NUM_NOISY, int(num.max())))
        yaw = rows[:, 7:8]
        columns = [rows[:, 1:4], rows[:, 4:7].log(), yaw.sin(), yaw.cos(), rows[:, 8:10]]
        box = torch.cat([*columns, torch.zeros_like(yaw)], dim=1)

        def padded(values, fill):
            out = values.new_full((*shape, *values.shape[1:]), fill)
            out[owner, place] = values
            return out

        counted = padded(counts, False)
        return Truth(padded(box, 0.0), padded(rows[:, 0].long(), 0), counted, padded(~counts, False))

    def __post_init__(self):
        self.num_counted = max(1, int(self.counts.sum(dim=1).max()))


def sigmoid_focal(logits, goal):
    """Focal loss by element, alpha 0.25 and gamma 2."""
    share = logits.sigmoid()
    loss = F.binary_cross_entropy_with_logits(logits, goal, reduction="none")
    missed = share + goal - 2 * share * goal
    return (0.75 - 0.5 * goal) * missed**2 * loss


def nearness(box):
    """Weights of the position error: far objects are seen less exactly."""
    return 20 / (10 + box[..., :2].norm(dim=-1, keepdim=True))


def box_error(found, goal, weights):
    weights = found.new_tensor(weights)
    error = (found - goal).abs() * weights
    return (error[..., :3] * nearness(goal)).sum(-1) + error[..., 3:].sum(-1)


@torch.no_grad()
def match(logits, box, truth: Truth):
    """Pairs of queries and objects with the least cost: indices of frame, query and
    object, by block. `logits` and `box` are stacked by block."""
    num = truth.num_counted
    goal, klass = truth.box[:, :num], truth.klass[:, :num]
    share = logits.float().sigmoid()
    right = 0.25 * (1 - share) ** 2 * -(share + 1e-8).log()
    wrong = 0.75 * share**2 * -(1 - share + 1e-8).log()
    index = klass[None, :, None].expand(len(logits), -1, logits.shape[2], -1)
    cost = CLASS_WEIGHT * (right - wrong).gather(3, index)
    cost += BOX_WEIGHT * box_error(box[:, :, :, None], goal[None, :, None], MATCH_WEIGHTS)
    cost = torch.nan_to_num(cost, 1e4, 1e4, -1e4).cpu().numpy()
    counts = truth.counts.sum(dim=1).cpu().numpy()
    problems = [values[:, :count] for of_block in cost for values, count in zip(of_block, counts)]
    solutions = iter(list(THREADS.map(linear_sum_assignment, problems)))
    matched = []
    for _ in cost:
        of_block = [next(solutions) for _ in counts]
        frames = [np.full(len(queries), frame) for frame, (queries, _) in enumerate(of_block)]
        queries, objects = zip(*of_block)
        indices = np.stack([np.concatenate(x) for x in (frames, queries, objects)])
        matched.append(torch.from_numpy(indices).to(logits.device))
    return matched


def detection_losses(logits, box, truth: Truth, matched):
    """Classes and boxes of one block's queries."""
    frame, query, thing = matched
    goal = torch.zeros_like(logits)
    goal[frame, query, truth.klass[frame, thing]] = 1
    is_matched = goal.sum(dim=-1) > 0
    with torch.no_grad():
        away = torch.cdist(box[..., :2], truth.box[..., :2])
        near_ignored = ((away < IGNORED_WITHIN_M) & truth.is_ignored[:, None]).any(dim=-1)
        judged = (is_matched | ~near_ignored).float()[..., None]
    total = max(1, len(frame))
    class_loss = (sigmoid_focal(logits, goal) * judged).sum() / total
    error = box_error(box[frame, query], truth.box[frame, thing], BOX_WEIGHTS)
    return CLASS_WEIGHT * class_loss, BOX_WEIGHT * error.sum() / total


def denoising(truth: Truth, generator) -> net.Denoising:
    """Groups of noisy truth, and as many boxes further off that are background."""
    num, device = NUM_NOISY, truth.box.device
    clean = truth.box[:, :num].repeat(1, 2 * NUM_NOISY_GROUPS, 1)
    is_wrong = torch.arange(clean.shape[1], device=device) // num % 2 == 1
    draw = lambda columns: torch.rand(*clean.shape[:2], columns, generator=generator, device=device) * 2 - 1
    shift = draw(3) * clean.new_tensor([2.0, 2.0, 0.4])
    # From 2 to 4 m.
    far = shift + 2 * shift.sign() * clean.new_tensor([1.0, 1.0, 0.2])
    center = clean[..., :3] + torch.where(is_wrong[:, None], far, shift)
    extents = clean[..., 3:6] + draw(3) * 0.3
    turn = draw(1) * 0.5
    sin, cos = clean[..., 6:7], clean[..., 7:8]
    heading = [sin * turn.cos() + cos * turn.sin(), cos * turn.cos() - sin * turn.sin()]
    velocity = torch.zeros_like(clean[..., 8:])
    box = torch.cat([center, extents, *heading, velocity], dim=-1)
    group = torch.arange(clean.shape[1], device=device) // (2 * num)
    group = torch.cat([group.new_full((net.NUM_ANCHORS,), -1), group])
    mask = (group[None] == -1) | (group[None] == group[:, None])
    return net.Denoising(box, mask)


def denoising_losses(logits, box, truth: Truth):
    """Classes and boxes of one block's queries of denoising."""
    num = NUM_NOISY
    pairs = (-1, 2, num)
    counts = truth.counts[:, None, :num].expand(-1, NUM_NOISY_GROUPS, -1)
    goal = F.one_hot(truth.klass[:, :num], logits.shape[-1])[:, None] * counts[..., None]
    goal = torch.stack([goal, torch.zeros_like(goal)], dim=2).to(logits.dtype)
    logits, box = logits.unflatten(1, pairs), box.unflatten(1, pairs)
    total = counts.sum().clamp(min=1)
    class_loss = (sigmoid_focal(logits, goal) * counts[:, :, None, :, None]).sum() / total
    error = box_error(box[:, :, 0], truth.box[:, None, :num], BOX_WEIGHTS)
    return CLASS_WEIGHT * class_loss, BOX_WEIGHT * (error * counts).sum() / total


def dense_losses(heat, values, truth: Truth, matrices):
    """Heat maps of the centres, and boxes in the cells around them."""
    rows, columns = heat.shape[-2:]
    heat = heat.float().unflatten(0, (-1, net.NUM_CAMERAS))
    values = values.float().unflatten(0, (-1, net.NUM_CAMERAS))
    box = truth.box
    u, v, seen = (x[..., 0] for x in net.project(box[:, :, None, :3], matrices))
    u, v = u * columns - 0.5, v * rows - 0.5  # In cells, [B, N, M].
    center = F.pad(box[:, None, :, :3], (0, 1), value=1.0)
    depth = (matrices[:, :, None, 2] * center).sum(-1).clamp(min=0.5)
    height = (box[:, None, :, 5].exp() * net.FOCAL_PX / depth) / net.STRIDES[0]
    with torch.no_grad():
        sigma = (0.12 * height).clamp(0.6, 4.0)
        grid = torch.arange(columns, device=u.device), torch.arange(rows, device=u.device)
        across, down = ((g - x[..., None]) ** 2 / (2 * sigma[..., None] ** 2) for g, x in zip(grid, (u, v)))
        # The cell of the centre is 1.
        across, down = across - across.amin(-1, keepdim=True), down - down.amin(-1, keepdim=True)
        bump = (-across[..., None, :] - down[..., None]).exp()  # [B, N, M, rows, columns]
        counts = (seen & truth.counts[:, None])[..., None, None]
        ignored = (seen & truth.is_ignored[:, None])[..., None, None]
        of_class = [
            (bump * (counts & (truth.klass == k)[:, None, :, None, None])).amax(dim=2)
            for k in range(len(net.CLASSES))
        ]
        goal = torch.stack(of_class, dim=2)
        judged = 1 - ((bump * ignored).amax(dim=2, keepdim=True) > 0.3).float()
        total = counts.sum().clamp(min=1)
    share = heat.sigmoid().clamp(1e-5, 1 - 1e-5)
    is_center = (goal > 0.9999).float()
    positive = is_center * (1 - share) ** 2 * -share.log()
    negative = (1 - is_center) * (1 - goal) ** 4 * share**2 * -(1 - share).log()
    heat_loss = ((positive + negative) * judged).sum() / total

    # 5 x 5 cells around each centre, over a half of its height or at least 5 cells,
    # [B, N, M, 25].
    step = torch.arange(-2, 3, device=u.device)
    apart = (height / 8).clamp(1.0, 4.0)[..., None]
    column = (u[..., None] + apart * step.repeat(5)).round().long().clamp(0, columns - 1)
    row = (v[..., None] + apart * step.repeat_interleave(5)).round().long().clamp(0, rows - 1)
    index = (row * columns + column).flatten(2)[:, :, None].expand(-1, -1, values.shape[2], -1)
    found = values.flatten(3).gather(3, index).unflatten(3, column.shape[2:]).permute(0, 1, 3, 4, 2)
    # Yaw of the optical axis in base_link.
    axis = torch.atan2(matrices[..., 2, 1], matrices[..., 2, 0])[:, :, None]
    yaw = torch.atan2(box[..., 6], box[..., 7])[:, None] - axis
    same = lambda x: x[..., None].expand(column.shape)
    extents = (same(x[:, None].expand(u.shape)) for x in box[..., 3:6].unbind(-1))
    offset = [(same(u) - column) / net.OFFSET_CELLS, (same(v) - row) / net.OFFSET_CELLS]
    goal = [*offset, same(depth.log()), *extents, same(yaw.sin()), same(yaw.cos())]
    weights = found.new_tensor([2.0, 2.0, 3.0, 0.5, 0.5, 0.5, 0.5, 0.5])
    error = ((found - torch.stack(goal, dim=-1)).abs() * weights).sum(-1).mean(-1)
    return heat_loss, (error * counts[..., 0, 0]).sum() / total
