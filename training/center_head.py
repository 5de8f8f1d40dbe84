"""What the CenterPoints of the demo have in common: classes, the map they are
decoded on, targets and losses."""

import torch
from torch.nn import functional as F

CLASSES = ["car", "truck", "bus", "bicycle", "pedestrian"]
RANGE_M = 51.2
# The map of the head: cells along each axis, and their edge.
MAP_SIZE = 128
MAP_CELL_M = 2 * RANGE_M / MAP_SIZE
# Offset, height, size, rotation, velocity: the order of the regressions.
REGRESSIONS = {"reg": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2}
REGRESSION_WEIGHTS = [2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5]


def targets(boxes: torch.Tensor, frame: torch.Tensor, num_frames: int, min_points: int):
    """Heat maps [B, K, H, W] (negative: not to be judged), regressions
    [B, 10, H, W] and their weights [B, 1, H, W].

    `boxes` [N, 12]: class, x, y, z, length, width, height, cos, sin, vx, vy,
    number of points. Objects of fewer than `min_points` points are neither
    right nor wrong to find.
    """
    size, cell = MAP_SIZE, MAP_CELL_M
    device = boxes.device
    place = (boxes[:, 1:3] + RANGE_M) / cell
    inside = ((place >= 0) & (place < size)).all(dim=1)
    boxes, frame, place = boxes[inside], frame[inside], place[inside]
    whole = place.floor().long()
    seen = boxes[:, 11] >= min_points

    # A bump of about the object's size around its cell.
    reach = 4
    step = torch.arange(-reach, reach + 1, device=device)
    dy, dx = torch.meshgrid(step, step, indexing="ij")
    sigma = (0.35 * (boxes[:, 4] * boxes[:, 5]).sqrt() / cell + 0.5).clamp(0.7, 1.6)
    bump = torch.exp(-(dx**2 + dy**2)[None] / (2 * sigma[:, None, None] ** 2))
    bump = torch.where(bump < 0.02, 0.0, bump)
    x, y = whole[:, 0, None, None] + dx, whole[:, 1, None, None] + dy
    valid = (x >= 0) & (x < size) & (y >= 0) & (y < size)
    klass = boxes[:, 0].long()[:, None, None].expand_as(x)
    owner = frame[:, None, None].expand_as(x)
    index = ((owner * len(CLASSES) + klass) * size + y) * size + x

    flat = torch.zeros(num_frames * len(CLASSES) * size * size, device=device)
    keep = valid & seen[:, None, None]
    flat.scatter_reduce_(0, index[keep], bump[keep], "amax")
    hidden = valid & ~seen[:, None, None] & (bump > 0.1)
    blind = torch.zeros_like(flat, dtype=torch.bool)
    blind[index[hidden]] = True
    flat[blind & (flat == 0)] = -1.0
    heat = flat.view(num_frames, len(CLASSES), size, size)

    # The cell of the centre and its neighbours, which are near enough to be
    # taken for it, learn the box; the nearest centre wins.
    regressions = torch.zeros(num_frames, 10, size, size, device=device)
    weights = torch.zeros(num_frames, 1, size, size, device=device)
    for weight, ring in ((0.3, 1), (1.0, 0)):
        near = valid & seen[:, None, None] & (torch.maximum(dx.abs(), dy.abs()) == ring)
        n, j, i = near.nonzero(as_tuple=True)
        xs, ys, b = x[n, j, i], y[n, j, i], boxes[n]
        values = torch.cat(
            [
                place[n] - torch.stack([xs, ys], dim=1),
                b[:, 3:4],
                b[:, 4:7].log(),
                b[:, 8:9],
                b[:, 7:8],
                b[:, 9:11],
            ],
            dim=1,
        )
        regressions[frame[n], :, ys, xs] = values
        weights[frame[n], 0, ys, xs] = weight
    return heat, regressions, weights


def losses(heat, box, target_heat, target_box, weights):
    """Focal loss of the heat map (CornerNet's form) and L1 of the boxes."""
    heat, box = heat.float(), box.float()
    log_p, log_q = F.logsigmoid(heat), F.logsigmoid(-heat)
    p = log_p.exp()
    positive = target_heat == 1
    negative = (target_heat >= 0) & ~positive
    num = positive.sum().clamp(min=1)
    found = -(log_p * (1 - p) ** 2)[positive].sum()
    invented = -(log_q * p**2 * (1 - target_heat.clamp(min=0)) ** 4)[negative].sum()
    weight = box.new_tensor(REGRESSION_WEIGHTS)[None, :, None, None] * weights
    distance = ((box - target_box).abs() * weight).sum() / weights.sum().clamp(min=1)
    return (found + invented) / num, distance
