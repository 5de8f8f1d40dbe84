"""A small CenterPoint on voxels.

Modules, names and order are those of OpenPCDet (MeanVFE, VoxelBackBone8x,
BaseBEVBackbone, CenterHead), with fewer channels: tools/export_sparse.py reads a
checkpoint of this network as it reads one of OpenPCDet.

    python voxel_network.py model.pth

saves an untrained one.
"""

import sys

import torch
from torch import nn

import sparse
from center_head import CLASSES, MAP_SIZE, REGRESSIONS

NUM_CELLS = 1024
# Voxels of 0.1 x 0.1 x 0.2 m, z y x; one cell higher than the range of 8 m, which
# halves to 21, 11, 5, 2.
GRID = (41, NUM_CELLS, NUM_CELLS)
POINT_CHANNELS = ["x", "y", "z", "intensity", "time_lag"]
# Brings the features to about one; folded into the first convolution when saved.
FEATURE_SCALE = [0.02, 0.02, 0.3, 1.0, 5.0]
CHANNELS = (16, 32, 32, 64)
MAP_CHANNELS = 64
# As in OpenPCDet.
TRUNK_EPS = 1e-3
# OpenPCDet's names of the regressions.
BRANCHES = {"center": 2, "center_z": 1, "dim": 3, "rot": 2, "vel": 2}


class Block(nn.Sequential):
    """Convolution, batch normalization over the sites, ReLU."""

    def __init__(self, num_in, num_out, kernel=(3, 3, 3)):
        super().__init__(
            sparse.SparseConv(num_in, num_out, kernel),
            nn.BatchNorm1d(num_out, eps=TRUNK_EPS, momentum=0.02),
            nn.ReLU(inplace=True),
        )

    def forward(self, rows, rulebook):
        conv, norm, relu = self
        return relu(norm(conv(rows, rulebook)))


class VoxelBackBone8x(nn.Module):
    """Voxels to a map of an eighth of their resolution."""

    def __init__(self):
        super().__init__()
        first, *_, last = CHANNELS
        self.conv_input = Block(len(POINT_CHANNELS), first)
        self.conv1 = nn.Sequential(Block(first, first))
        for stage, (num_in, num_out) in enumerate(zip(CHANNELS, CHANNELS[1:]), 2):
            blocks = [Block(num_in, num_out), Block(num_out, num_out), Block(num_out, num_out)]
            self.add_module(f"conv{stage}", nn.Sequential(*blocks))
        self.conv_out = Block(last, MAP_CHANNELS, (3, 1, 1))

    def forward(self, sites: sparse.Sites, features, dtype=torch.float32):
        """Features [N, 5] of sorted sites to [B, C * D, H, W]. All but the first
        convolution, whose inputs are positions in metres, are computed in `dtype`."""
        kernel = (3, 3, 3)
        rulebook = sparse.submanifold_rulebook(sites, kernel)
        rows = self.conv_input(features, rulebook).to(dtype)
        rows = self.conv1[0](rows, rulebook)
        for stage in (2, 3, 4):
            padding = (0 if stage == 4 else 1, 1, 1)
            down, *blocks = getattr(self, f"conv{stage}")
            sites, rulebook = sparse.strided_rulebook(sites, kernel, (2, 2, 2), padding)
            rows = down(rows, rulebook)
            rulebook = sparse.submanifold_rulebook(sites, kernel)
            for block in blocks:
                rows = block(rows, rulebook)
        sites, rulebook = sparse.strided_rulebook(sites, (3, 1, 1), (2, 1, 1), (0, 0, 0))
        return to_map(sites, self.conv_out(rows, rulebook))


def to_map(sites: sparse.Sites, rows):
    """[B, C * D, H, W], channel c * D + z, channels last in memory."""
    depth, height, width = sites.grid
    b, z, y, x = sites.coordinates.long()
    cells = rows.new_zeros(sites.batch * height * width, rows.shape[1], depth)
    cells[(b * height + y) * width + x, :, z] = rows
    return cells.view(sites.batch, height, width, -1).permute(0, 3, 1, 2)


def conv(inputs, outputs, stride=1, eps=1e-5, bias=False, padding=1) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, 3, stride, padding, bias=bias),
        nn.BatchNorm2d(outputs, eps=eps, momentum=0.02),
        nn.ReLU(inplace=True),
    ]


class BaseBEVBackbone(nn.Module):
    """Three blocks at strides 1, 2 and 4, brought to one resolution and joined."""

    WIDTHS, DEPTHS, UP = (64, 96, 128), (3, 4, 4), 48

    def __init__(self, num_in):
        super().__init__()
        self.blocks, self.deblocks = nn.ModuleList(), nn.ModuleList()
        for level, (width, depth) in enumerate(zip(self.WIDTHS, self.DEPTHS)):
            stride = 1 if level == 0 else 2
            # Padding of its own is OpenPCDet's way.
            layers = [nn.ZeroPad2d(1), *conv(num_in, width, stride, TRUNK_EPS, padding=0)]
            for _ in range(depth - 1):
                layers += conv(width, width, eps=TRUNK_EPS)
            self.blocks.append(nn.Sequential(*layers))
            up = nn.ConvTranspose2d(width, self.UP, 2**level, 2**level, bias=False)
            norm = nn.BatchNorm2d(self.UP, eps=TRUNK_EPS, momentum=0.02)
            self.deblocks.append(nn.Sequential(up, norm, nn.ReLU(inplace=True)))
            num_in = width

    def forward(self, x):
        levels = []
        for block, deblock in zip(self.blocks, self.deblocks):
            x = block(x)
            levels.append(deblock(x))
        return torch.cat(levels, dim=1)


class CenterHead(nn.Module):
    """One task: a heat map and the regressions, each a branch of its own."""

    SHARED, BRANCH = 64, 32

    def __init__(self, num_in):
        super().__init__()
        self.shared_conv = nn.Sequential(*conv(num_in, self.SHARED, bias=True))
        sizes = BRANCHES | {"hm": len(CLASSES)}
        branches = {name: self.branch(size) for name, size in sizes.items()}
        self.heads_list = nn.ModuleList([nn.ModuleDict(branches)])
        nn.init.constant_(branches["hm"][-1].bias, -4.0)

    def branch(self, num_out):
        hidden = nn.Sequential(*conv(self.SHARED, self.BRANCH))
        return nn.Sequential(hidden, nn.Conv2d(self.BRANCH, num_out, 3, padding=1))

    def forward(self, x):
        x = self.shared_conv(x)
        heads = self.heads_list[0]
        return heads["hm"](x), torch.cat([heads[name](x) for name in BRANCHES], dim=1)


assert list(BRANCHES.values()) == list(REGRESSIONS.values())


class VoxelNetwork(nn.Module):
    """Voxels to a heat map [B, 5, 128, 128] and regressions [B, 10, 128, 128]."""

    def __init__(self):
        super().__init__()
        self.register_buffer("feature_scale", torch.tensor(FEATURE_SCALE), persistent=False)
        self.backbone_3d = VoxelBackBone8x()
        self.backbone_2d = BaseBEVBackbone(2 * MAP_CHANNELS)
        self.dense_head = CenterHead(3 * BaseBEVBackbone.UP)

    def forward(self, sites, features, dtype=torch.float32):
        map = self.backbone_3d(sites, features * self.feature_scale, dtype)
        assert map.shape[2:] == (MAP_SIZE, MAP_SIZE), map.shape
        with torch.autocast(map.device.type, dtype, enabled=dtype != torch.float32):
            return self.dense_head(self.backbone_2d(map))

    def checkpoint(self) -> dict:
        """What OpenPCDet saves: parameters by name, for features without a scale."""
        state = {key: value.detach().cpu().clone() for key, value in self.state_dict().items()}
        state["backbone_3d.conv_input.0.weight"] *= self.feature_scale.cpu()
        return {"model_state": state}

    def load_checkpoint(self, checkpoint: dict) -> None:
        """The reverse of `checkpoint`."""
        state = dict(checkpoint["model_state"])
        name = "backbone_3d.conv_input.0.weight"
        state[name] = state[name] / self.feature_scale.cpu()
        self.load_state_dict(state)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.save(VoxelNetwork().checkpoint(), sys.argv[1])
