"""A small anchor-free detector with the export head of YOLOv8."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = ["car", "truck", "bus", "bicycle", "pedestrian"]
WIDTH, HEIGHT = 640, 384
STRIDES = [4, 8, 16, 32]
# An edge lies 0 to NUM_BINS - 1 strides from its anchor point.
NUM_BINS = 12


def conv(inputs: int, outputs: int, stride: int = 1, size: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int):
        super().__init__()
        self.body = nn.Sequential(conv(channels, channels), conv(channels, channels))

    def forward(self, x):
        return x + self.body(x)


class Branch(nn.Module):
    """Logits of the edges and of the classes of one level."""

    def __init__(self, channels: int):
        super().__init__()
        self.edges = nn.Sequential(conv(channels, 32), nn.Conv2d(32, 4 * NUM_BINS, 1))
        self.classes = nn.Sequential(conv(channels, 32), nn.Conv2d(32, len(CLASSES), 1))
        nn.init.constant_(self.classes[-1].bias, -6.0)

    def forward(self, x):
        return self.edges(x).flatten(2), self.classes(x).flatten(2)


class CameraNetwork(nn.Module):
    """[B, 3, 384, 640] to logits [B, 4 * bins, N] and [B, classes, N]."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 2), conv(16, 32, 2), Residual(32))
        self.down8 = nn.Sequential(conv(32, 64, 2), Residual(64), Residual(64))
        self.down16 = nn.Sequential(conv(64, 80, 2), Residual(80), Residual(80))
        self.down32 = nn.Sequential(conv(80, 80, 2), Residual(80))
        self.lateral16 = conv(80, 80, size=1)
        self.lateral8 = conv(80, 64, size=1)
        self.lateral4 = conv(64, 32, size=1)
        self.merge16, self.merge8, self.merge4 = conv(80, 80), conv(64, 64), conv(32, 32)
        self.branches = nn.ModuleList(Branch(channels) for channels in (32, 64, 80, 80))
        points, strides = anchor_points()
        self.register_buffer("points", points)
        self.register_buffer("strides", strides)

    def features(self, image):
        """Maps of strides 2, 4, 8, 16 and 32."""
        x2 = self.stem[0](image)
        x4 = self.stem[1:](x2)
        x8 = self.down8(x4)
        x16 = self.down16(x8)
        x32 = self.down32(x16)
        x16 = self.merge16(x16 + up(self.lateral16(x32)))
        x8 = self.merge8(x8 + up(self.lateral8(x16)))
        x4 = self.merge4(x4 + up(self.lateral4(x8)))
        return x2, x4, x8, x16, x32

    def forward(self, image):
        _, *levels = self.features(image)
        return self.predictions(levels)

    def predictions(self, levels):
        levels = [branch(x) for branch, x in zip(self.branches, levels)]
        edges, classes = zip(*levels)
        return torch.cat(edges, dim=2), torch.cat(classes, dim=2)


def up(x):
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def anchor_points():
    """Centres of the cells of all levels in pixels [N, 2], strides [N]."""
    points, strides = [], []
    for stride in STRIDES:
        y, x = torch.meshgrid(
            torch.arange(HEIGHT // stride), torch.arange(WIDTH // stride), indexing="ij"
        )
        points.append((torch.stack([x, y], dim=-1).reshape(-1, 2) + 0.5) * stride)
        strides.append(torch.full((x.numel(),), float(stride)))
    return torch.cat(points), torch.cat(strides)


def boxes_of(edges, points, strides):
    """Corners in pixels [B, N, 4] from logits [B, 4 * bins, N]: the expected
    distance of each edge."""
    batch, _, num = edges.shape
    share = edges.view(batch, 4, NUM_BINS, num).softmax(dim=2)
    bins = torch.arange(NUM_BINS, device=edges.device, dtype=share.dtype)
    distance = (share * bins[None, None, :, None]).sum(dim=2).transpose(1, 2) * strides[:, None]
    return torch.cat([points - distance[..., :2], points + distance[..., 2:]], dim=2)


class Exported(nn.Module):
    """What is served: [B, 4 + classes, N], centre and size in pixels, then
    scores."""

    def __init__(self, network: CameraNetwork):
        super().__init__()
        self.network = network

    def forward(self, images):
        return self.rows(*self.network(images))

    def rows(self, edges, classes):
        corners = boxes_of(edges, self.network.points, self.network.strides).transpose(1, 2)
        first, second = corners[:, :2], corners[:, 2:]
        return torch.cat([(first + second) / 2, second - first, classes.sigmoid()], dim=1)


def iou(a, b, eps=1e-6):
    """IoU of boxes by corners."""
    overlap = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2]))
    overlap = overlap.clamp(min=0).prod(dim=-1)
    area_a, area_b = ((box[..., 2:] - box[..., :2]).prod(dim=-1) for box in (a, b))
    return overlap / (area_a + area_b - overlap + eps)


def complete_iou(a, b, eps=1e-6):
    """IoU with distance and shape."""
    plain = iou(a, b, eps)
    size_a, size_b = a[..., 2:] - a[..., :2], b[..., 2:] - b[..., :2]
    hull = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    diagonal = (hull**2).sum(dim=-1) + eps
    apart = ((a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) ** 2).sum(dim=-1) / 4
    angle_a = torch.atan(size_a[..., 0] / (size_a[..., 1] + eps))
    angle_b = torch.atan(size_b[..., 0] / (size_b[..., 1] + eps))
    shape = 4 / torch.pi**2 * (angle_a - angle_b) ** 2
    with torch.no_grad():
        alpha = shape / (1 - plain + shape + eps)
    return plain - apart / diagonal - alpha * shape


def contains(boxes, points):
    """Whether boxes [B, M, 4] contain points [N, 2]: [B, M, N]."""
    x, y = points[:, 0], points[:, 1]
    left, top, right, bottom = boxes[..., None].unbind(dim=2)
    return (x > left) & (x < right) & (y > top) & (y < bottom)


def assign(scores, boxes, truth, truth_class, is_truth, points, top=10):
    """Task-aligned assignment: which truth each anchor learns, and how well
    it should score.

    scores [B, N, K] and boxes [B, N, 4] are predictions, truth [B, M, 4] with
    a mask [B, M]. Returns indices [B, N], a mask [B, N], wanted scores [B, N];
    and by truth its best anchors and whether they learn it, [B, M, top] each.
    """
    inside = contains(truth, points) & is_truth[..., None]
    # An object so small that no point lies in it takes the nearest ones.
    center = (truth[..., :2] + truth[..., 2:]) / 2
    away = ((points[None, None] - center[:, :, None]) ** 2).sum(dim=-1)
    nearest = away <= 4.0**2
    inside = torch.where(inside.sum(dim=-1, keepdim=True) < 4, nearest & is_truth[..., None], inside)

    overlap = iou(boxes[:, None], truth[:, :, None])
    index = truth_class[:, :, None].expand(-1, -1, points.shape[0])
    score = scores.transpose(1, 2).gather(1, index)
    metric = score.sqrt() * overlap.clamp(min=1e-6) ** 6 * inside
    best = metric.topk(top, dim=-1)
    chosen = torch.zeros_like(metric, dtype=torch.bool).scatter_(-1, best.indices, True) & inside
    chosen &= metric > 0

    # An anchor claimed by several goes to the one it overlaps most.
    claimed = torch.where(chosen, overlap, -1.0)
    owner = claimed.argmax(dim=1)
    is_owned = chosen.any(dim=1)
    mine = chosen & (owner[:, None] == torch.arange(truth.shape[1], device=truth.device)[None, :, None])
    metric = metric * mine
    strongest = metric.amax(dim=-1, keepdim=True)
    highest = (overlap * mine).amax(dim=-1, keepdim=True)
    wanted = (metric / (strongest + 1e-9) * highest).amax(dim=1)
    learners = best.indices, mine.gather(-1, best.indices)
    return owner, is_owned, wanted, learners


class Learners(NamedTuple):
    """The anchors that learn an object, of each image."""

    rows: torch.Tensor  # the objects, as rows of the truth [B, R]
    anchors: torch.Tensor  # [B, R, top]
    shares: torch.Tensor  # the weights of the anchors [B, R, top], in sum 1 or less


def first_rows(wanted):
    """The rows of a mask [B, M], as many for each image as the most: indices [B, R], the mask of these."""
    num = max(1, int(wanted.sum(dim=1).max()))
    rows = wanted.int().argsort(dim=1, descending=True, stable=True)[:, :num]
    return rows, wanted.gather(1, rows)


def losses(edges, classes, network, truth, truth_class, is_truth, is_ignored):
    """Losses of classes, boxes and distributions, and `Learners`; regions of ignored truth do not
    count against a detection."""
    points, strides = network.points, network.strides
    edges, classes = edges.float(), classes.float().transpose(1, 2)
    boxes = boxes_of(edges, points, strides)
    with torch.no_grad():
        rows, is_learned = first_rows(is_truth & ~is_ignored)
        goal_box, goal_class = truth.gather(1, rows[..., None].expand(-1, -1, 4)), truth_class.gather(1, rows)
        owner, is_owned, wanted, (anchors, learns) = assign(
            classes.sigmoid(), boxes.detach(), goal_box, goal_class, is_learned, points
        )
        goal = F.one_hot(goal_class.gather(1, owner), len(CLASSES)) * (wanted * is_owned)[..., None]
        goal_box = goal_box.gather(1, owner[..., None].expand(-1, -1, 4))
        rows_hidden, is_hidden = first_rows(is_truth & is_ignored)
        hidden = truth.gather(1, rows_hidden[..., None].expand(-1, -1, 4))
        hides = (contains(hidden, points) & is_hidden[..., None]).any(dim=1)
        judged = (is_owned | ~hides).float()[..., None]
    total = goal.sum().clamp(min=1)
    class_loss = F.binary_cross_entropy_with_logits(classes, goal, reduction="none")
    class_loss = (class_loss * judged).sum() / total

    weight = wanted[is_owned]
    complete = complete_iou(boxes[is_owned], goal_box[is_owned])
    box_loss = ((1 - complete) * weight).sum() / total

    anchor, stride = points.expand(len(owner), -1, -1)[is_owned], strides.expand(len(owner), -1)[is_owned]
    mine = goal_box[is_owned]
    distance = torch.cat([anchor - mine[:, :2], mine[:, 2:] - anchor], dim=1) / stride[:, None]
    distance = distance.clamp(0, NUM_BINS - 1.01)
    logits = edges.transpose(1, 2)[is_owned].view(-1, NUM_BINS)
    low = distance.floor().long().view(-1)
    part = distance.view(-1) - low
    both = F.cross_entropy(logits, low, reduction="none") * (1 - part) + F.cross_entropy(
        logits, low + 1, reduction="none"
    ) * part
    edge_loss = (both.view(-1, 4).mean(dim=1) * weight).sum() / total
    shares = wanted[:, None].expand(-1, anchors.shape[1], -1).gather(-1, anchors) * learns / total
    return (class_loss, box_loss, edge_loss), Learners(rows, anchors, shares)
