"""A small CenterPoint on pillars: encoder, network, targets, losses."""

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = ["car", "truck", "bus", "bicycle", "pedestrian"]
RANGE_M = 51.2
CELL_M = 0.2
NUM_CELLS = 512
NUM_POINTS = 16
NUM_CHANNELS = 32
DOWNSAMPLE = 4
# x y z intensity time_lag, three offsets from the mean, two from the centre.
NUM_FEATURES = 10
# Brings the features to about one.
FEATURE_SCALE = [0.02, 0.02, 0.3, 1.0, 5.0, 4.0, 4.0, 2.0, 8.0, 8.0]
# Offset, height, size, rotation, velocity: the order of the outputs.
REGRESSIONS = {"reg": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2}
REGRESSION_WEIGHTS = [2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5]


def features_of(points: torch.Tensor, voxel: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """As `ops::pillar_features`: [V, P, F] from points [N, 5] in the order of
    their voxels, the voxel of each, and the cell [V, 2] of each voxel."""
    num_voxels = len(cells)
    count = torch.bincount(voxel, minlength=num_voxels)
    first = count.cumsum(0) - count
    slot = torch.arange(len(points), device=points.device) - first[voxel]
    mean = torch.zeros(num_voxels, 3, device=points.device).index_add_(0, voxel, points[:, :3])
    mean /= count[:, None]
    center = (cells + 0.5) * CELL_M - RANGE_M
    rows = torch.cat(
        [points, points[:, :3] - mean[voxel], points[:, :2] - center[voxel]], dim=1
    )
    out = points.new_zeros(num_voxels, NUM_POINTS, NUM_FEATURES)
    out[voxel, slot] = rows
    return out


class PillarEncoder(nn.Module):
    """[V, P, F] to [V, C]: one layer, the maximum over the points."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(FEATURE_SCALE))
        self.linear = nn.Linear(NUM_FEATURES, NUM_CHANNELS)

    def forward(self, features):
        return F.relu(self.linear(features * self.scale)).amax(dim=1)


def conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.02),
        nn.ReLU(inplace=True),
    )


class CenterNetwork(nn.Module):
    """[1, C, 512, 512] to a heat map and regressions on [128, 128]."""

    def __init__(self):
        super().__init__()
        self.stem = conv(NUM_CHANNELS, 32, 2)
        self.down4 = nn.Sequential(conv(32, 64, 2), conv(64, 64), conv(64, 64))
        self.down8 = nn.Sequential(conv(64, 96, 2), conv(96, 96), conv(96, 96), conv(96, 96))
        self.down16 = nn.Sequential(conv(96, 128, 2), conv(128, 128), conv(128, 128))
        self.lateral8 = nn.Conv2d(128, 96, 1)
        self.lateral4 = nn.Conv2d(96, 64, 1)
        self.merge = conv(64, 64)
        self.heat = nn.Sequential(conv(64, 32), nn.Conv2d(32, len(CLASSES), 1))
        self.box = nn.Sequential(conv(64, 64), nn.Conv2d(64, sum(REGRESSIONS.values()), 1))
        nn.init.constant_(self.heat[-1].bias, -4.0)

    def forward(self, map):
        x4 = self.down4(self.stem(map))
        x8 = self.down8(x4)
        x16 = self.down16(x8)
        x8 = x8 + F.interpolate(self.lateral8(x16), scale_factor=2.0, mode="nearest")
        x4 = x4 + F.interpolate(self.lateral4(x8), scale_factor=2.0, mode="nearest")
        x = self.merge(x4)
        return self.heat(x), self.box(x)


class Exported(nn.Module):
    """What is served: regressions apart, and in the heat map nothing but
    peaks, so that neighbours of a centre are no candidates. Pedestrians may
    stand in neighbouring cells, and keep theirs."""

    def __init__(self, network: CenterNetwork):
        super().__init__()
        self.network = network
        small = torch.tensor([name == "pedestrian" for name in CLASSES])
        self.register_buffer("small", small[None, :, None, None])

    def forward(self, spatial_features):
        heat, box = self.network(spatial_features)
        peak = torch.where(self.small, heat, F.max_pool2d(heat, 3, 1, 1))
        heat = torch.where(heat == peak, heat, torch.full_like(heat, -1e4))
        return (heat, *torch.split(box, list(REGRESSIONS.values()), dim=1))


def targets(boxes: torch.Tensor, frame: torch.Tensor, num_frames: int, min_points: int):
    """Heat maps [B, K, H, W] (negative: not to be judged), regressions
    [B, 10, H, W] and their weights [B, 1, H, W].

    `boxes` [N, 12]: class, x, y, z, length, width, height, cos, sin, vx, vy,
    number of points. Objects of fewer than `min_points` points are neither
    right nor wrong to find.
    """
    size = NUM_CELLS // DOWNSAMPLE
    cell = CELL_M * DOWNSAMPLE
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
