"""The camera network with instance masks: prototypes, and coefficients at every location, as the
export head of YOLOv8-seg has them."""

import torch
from torch import nn
from torch.nn import functional as F

import camera_network as net
from camera_network import conv, up

NUM_PROTOTYPES = 24
# Points in which a mask is compared with its truth, along each side of its box.
NUM_POINTS = 24
# How far around a box masks are learned, in boxes: found boxes are never exact.
MARGIN = 0.06


class Prototypes(nn.Module):
    """Maps of stride 2 from the maps of strides 2 and 4: edges from the one, objects from the other."""

    def __init__(self):
        super().__init__()
        self.inner = conv(32, NUM_PROTOTYPES)
        self.lateral = conv(16, NUM_PROTOTYPES, size=1)
        self.merge = conv(NUM_PROTOTYPES, NUM_PROTOTYPES)
        self.last = nn.Conv2d(NUM_PROTOTYPES, NUM_PROTOTYPES, 1)

    def forward(self, x2, x4):
        return self.last(self.merge(self.lateral(x2) + up(self.inner(x4))))


class MaskNetwork(net.CameraNetwork):
    """[B, 3, 384, 640] to logits [B, 4 * bins, N] and [B, classes, N], coefficients
    [B, prototypes, N] and prototypes [B, prototypes, 192, 320]."""

    def __init__(self):
        super().__init__()
        self.prototypes = Prototypes()
        self.coefficients = nn.ModuleList(
            nn.Sequential(conv(channels, 32), nn.Conv2d(32, NUM_PROTOTYPES, 1))
            for channels in (32, 64, 80, 80)
        )

    def forward(self, image):
        x2, *levels = self.features(image)
        coefficients = [of(x).flatten(2) for of, x in zip(self.coefficients, levels)]
        masks = torch.cat(coefficients, dim=2), self.prototypes(x2, levels[0])
        return *self.predictions(levels), *masks


class Exported(net.Exported):
    """What is served: rows as of the camera network, then the coefficients; and the prototypes."""

    def forward(self, images):
        edges, classes, coefficients, prototypes = self.network(images)
        return torch.cat([self.rows(edges, classes), coefficients], dim=1), prototypes


def points_in(boxes, generator):
    """Points [B, M, P, 2] in boxes [B, M, 4] and their margins: one in each cell of a grid."""
    num, device = NUM_POINTS, boxes.device
    y, x = torch.meshgrid(torch.arange(num), torch.arange(num), indexing="ij")
    cells = torch.stack([x, y], dim=-1).view(1, 1, -1, 2).to(device)
    shape = (*boxes.shape[:2], num * num, 2)
    place = torch.rand(shape, generator=generator, device=device)
    share = (cells + place) / num * (1 + 2 * MARGIN) - MARGIN
    low, high = boxes[:, :, None, :2], boxes[:, :, None, 2:]
    return low + (high - low) * share


def in_grid(points):
    """Pixels of the input as positions from -1 to 1."""
    return points / points.new_tensor([net.WIDTH / 2, net.HEIGHT / 2]) - 1


def seen_objects(objects, theta, points):
    """The number of the object at points [B, M, P, 2] of images that were distorted by theta [B, 2, 3]
    from images with objects [B, H, W]; -1 outside."""
    scale = torch.stack([theta[:, 0, 0], theta[:, 1, 1]], dim=-1)[:, None, None]
    position = in_grid(points) * scale + theta[:, :, 2][:, None, None]
    size = position.new_tensor([net.WIDTH, net.HEIGHT])
    column, row = ((position + 1) / 2 * size).floor().long().unbind(dim=-1)
    inside = (column >= 0) & (column < net.WIDTH) & (row >= 0) & (row < net.HEIGHT)
    index = (row.clamp(0, net.HEIGHT - 1) * net.WIDTH + column.clamp(0, net.WIDTH - 1)).flatten(1)
    found = objects.flatten(1).gather(1, index).view(column.shape).long()
    return torch.where(inside, found, -1)


def mask_loss(coefficients, prototypes, learners, points, seen):
    """Cross entropy and dice of masks at points [B, R, P, 2] of the boxes that are learned, as masks are
    served: prototypes between cells are linear. `seen` [B, R, P] are the objects there, by their rows
    of the truth from 1 on."""
    rows, anchors, shares = learners
    index = anchors.flatten(1)[:, None].expand(-1, coefficients.shape[1], -1)
    chosen = coefficients.float().gather(2, index).unflatten(2, anchors.shape[1:])
    grid = in_grid(points)
    there = F.grid_sample(prototypes.float(), grid, padding_mode="border", align_corners=False)
    logits = torch.einsum("bcmk,bcmp->bmkp", chosen, there)
    judged = (seen >= 0).float()[:, :, None]
    goal = (seen == rows[..., None] + 1).float()[:, :, None].expand_as(logits)
    entropy = F.binary_cross_entropy_with_logits(logits, goal, reduction="none") * judged
    entropy = entropy.sum(dim=-1) / judged.sum(dim=-1).clamp(min=1)
    found = logits.sigmoid() * judged
    both = (found * goal).sum(dim=-1)
    dice = 1 - (2 * both + 1) / (found.sum(dim=-1) + goal.sum(dim=-1) + 1)
    return ((entropy + dice) * shares).sum()
