"""A small CenterPoint on pillars: encoder and network."""

import torch
from torch import nn
from torch.nn import functional as F

from center_head import CLASSES, RANGE_M, REGRESSIONS

CELL_M = 0.2
NUM_CELLS = 512
NUM_POINTS = 16
NUM_CHANNELS = 32
# x y z intensity time_lag, three offsets from the mean, two from the centre.
NUM_FEATURES = 10
# Brings the features to about one.
FEATURE_SCALE = [0.02, 0.02, 0.3, 1.0, 5.0, 4.0, 4.0, 2.0, 8.0, 8.0]


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
