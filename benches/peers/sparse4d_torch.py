"""A Sparse4D decoder with its memory in plain PyTorch, for views_torch.py.

A frame uses the memory and writes it. Its result are the best 300 boxes.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from torch_frames import CHANNELS, CLASSES, LEVELS, NUM_VIEWS, project, ring

HEADS, GROUPS, HIDDEN, BLOCKS = 8, 8, 1024, 6
# Key points at shares of the extents: the centre and the faces. Six more are learned.
FIXED = [[0, 0, 0], [0.45, 0, 0], [-0.45, 0, 0], [0, 0.45, 0], [0, -0.45, 0], [0, 0, 0.45], [0, 0, -0.45]]
NUM_LEARNED = 6
NUM_POINTS = len(FIXED) + NUM_LEARNED
NUM_BOXES = 300
DECAY, INTERVAL_S = 0.6, 0.1


def layers(num_inputs, *widths):
    """Linear layers of some widths, each with ReLU and a normalization."""
    modules = []
    for width in widths:
        modules += [nn.Linear(num_inputs, width), nn.ReLU(), nn.LayerNorm(width)]
        num_inputs = width
    return modules


def pairs(num_outputs):
    """Two normalized pairs of layers, and one for the result."""
    square = lambda: [nn.Linear(CHANNELS, CHANNELS), nn.ReLU()] + layers(CHANNELS, CHANNELS)
    return nn.Sequential(*square(), *square(), nn.Linear(CHANNELS, num_outputs))


def head(num_outputs):
    return nn.Sequential(*layers(CHANNELS, CHANNELS, CHANNELS), nn.Linear(CHANNELS, num_outputs))


class AnchorEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        parts = [(3, 128), (3, 32), (2, 32), (3, 64)]
        self.parts = nn.ModuleList(nn.Sequential(*layers(n, *[width] * 4)) for n, width in parts)

    def forward(self, anchors):
        columns = anchors.to(self.parts[0][0].weight.dtype).split([3, 3, 2, 3], dim=1)
        return torch.cat([part(rows) for part, rows in zip(self.parts, columns)], 1)


class GraphAttention(nn.Module):
    """Attention of rows [feature, embedding]; `before` widens values, `after` narrows the sum."""

    def __init__(self):
        super().__init__()
        width = 2 * CHANNELS
        self.queries, self.keys, self.values, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, features, embeddings, key_features, key_embeddings, before, after):
        rows = torch.cat([features, embeddings], 1)
        keys = torch.cat([key_features, key_embeddings], 1)
        split = lambda x: x.view(-1, HEADS, 2 * CHANNELS // HEADS).transpose(0, 1)[None]
        values = split(self.values(before(key_features)))
        out = functional.scaled_dot_product_attention(split(self.queries(rows)), split(self.keys(keys)), values)
        return after(rows + self.output(out[0].transpose(0, 1).reshape(-1, 2 * CHANNELS)))


class Views(nn.Module):
    """Samples the views at key points, weighted by a softmax over views, levels and points."""

    def __init__(self):
        super().__init__()
        self.learned = nn.Linear(CHANNELS, 3 * NUM_LEARNED)
        self.cameras = nn.Sequential(*layers(12, CHANNELS, CHANNELS))
        self.weights = nn.Linear(CHANNELS, len(LEVELS) * NUM_POINTS * GROUPS)
        self.output = nn.Linear(CHANNELS, CHANNELS)

    def points(self, features, anchors, fixed):
        learned = self.learned(features).float().sigmoid().view(-1, NUM_LEARNED, 3) - 0.5
        shares = torch.cat([fixed.expand(len(anchors), -1, -1), learned], 1)
        x, y, z = (shares * anchors[:, None, 3:6].exp()).unbind(-1)
        sin, cos = anchors[:, 6:7], anchors[:, 7:8]
        return torch.stack([cos * x - sin * y, sin * x + cos * y, z], -1) + anchors[:, None, :3]

    def forward(self, features, embeddings, anchors, maps, projections, fixed):
        places, seen = project(self.points(features, anchors, fixed), projections)
        cameras = self.cameras(projections.flatten(1).to(features.dtype))
        rows = (features + embeddings)[:, None] + cameras
        logits = self.weights(rows).view(-1, NUM_VIEWS * len(LEVELS) * NUM_POINTS, GROUPS)
        weights = logits.softmax(1).view(-1, NUM_VIEWS, len(LEVELS), NUM_POINTS, GROUPS)
        weights = weights * seen.permute(1, 0, 2)[:, :, None, :, None]
        grid = torch.where(seen[..., None], 2 * places - 1, -2).to(features.dtype)
        total = 0
        for level, values in enumerate(maps):
            sampled = functional.grid_sample(values, grid, align_corners=False)
            sampled = sampled.unflatten(1, (GROUPS, CHANNELS // GROUPS))
            total = total + torch.einsum("ngcqp,qnpg->qgc", sampled, weights[:, :, level])
        return self.output(total.flatten(1))


class Block(nn.Module):
    """Scores of the first block choose the anchors that stay, those of the last one the boxes."""

    def __init__(self, is_first, is_scored):
        super().__init__()
        self.temporal = None if is_first else GraphAttention()
        self.attention = None if is_first else GraphAttention()
        self.norm = None if is_first else nn.LayerNorm(CHANNELS)
        self.views = Views()
        self.wide_norm = nn.LayerNorm(2 * CHANNELS)
        self.identity = nn.Linear(2 * CHANNELS, CHANNELS)
        self.feed_forward = nn.Sequential(nn.Linear(2 * CHANNELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CHANNELS))
        self.last_norm = nn.LayerNorm(CHANNELS)
        self.deltas = pairs(11)
        self.classes, self.quality = (head(CLASSES), head(2)) if is_scored else (None, None)

    def attend(self, features, embeddings, memory, shared):
        cached = embeddings[: len(memory)]
        features = self.temporal(features, embeddings, memory, cached, *shared)
        features = self.attention(features, embeddings, features, embeddings, *shared)
        return self.norm(features)

    def forward(self, features, embeddings, anchors, maps, memory, shared, projections, fixed):
        """Features, refined anchors, logits and quality; `shared` are the layers of all blocks."""
        if self.temporal is not None:
            features = self.attend(features, embeddings, memory, shared)
        sampled = self.views(features, embeddings, anchors, maps, projections, fixed)
        wide = self.wide_norm(torch.cat([sampled, features], 1))
        features = self.last_norm(self.identity(wide) + self.feed_forward(wide))
        scores = None, None
        if self.classes is not None:
            scores = self.classes(features).float(), self.quality(features + embeddings).float()
        deltas = self.deltas(features + embeddings).float()
        anchors = torch.cat([anchors[:, :8] + deltas[:, :8], anchors[:, 8:] + deltas[:, 8:] / INTERVAL_S], 1)
        return features, anchors, *scores


class Decoder(nn.Module):
    def __init__(self, num_anchors, num_cached):
        super().__init__()
        self.blocks = nn.ModuleList(Block(i == 0, i in (0, BLOCKS - 1)) for i in range(BLOCKS))
        self.encoder = AnchorEncoder()
        self.before = nn.Linear(CHANNELS, 2 * CHANNELS, bias=False)
        self.after = nn.Linear(2 * CHANNELS, CHANNELS, bias=False)
        self.num_cached = num_cached
        self.features = nn.Parameter(torch.randn(num_anchors, CHANNELS))
        self.register_buffer("memory_features", torch.randn(num_cached, CHANNELS))
        self.constants = [
            self.boxes(num_anchors), self.boxes(num_cached), torch.rand(num_cached), ring(), torch.tensor(FIXED)
        ]

    @staticmethod
    def boxes(num):
        boxes = torch.rand(num, 11) * 2 - 1
        boxes[:, :2] *= 50
        return boxes

    def parts(self):
        return [*self.blocks, self.encoder]

    def forward(self, maps):
        anchors, cached, confidence, projections, fixed = self.constants
        # The vehicle has moved by a metre.
        moved = torch.cat([cached[:, :3] + cached[:, 8:] * INTERVAL_S, cached[:, 3:]], 1)
        features, embeddings = self.features, self.encoder(anchors)
        shared = (self.before, self.after)
        for index, block in enumerate(self.blocks):
            features, anchors, logits, quality = block(
                features, embeddings, anchors, maps, self.memory_features, shared, projections, fixed
            )
            if index == 0:
                best = logits.amax(1).topk(len(anchors) - self.num_cached).indices
                anchors = torch.cat([moved, anchors[best]])
                features = torch.cat([self.memory_features, features[best]])
            if index < BLOCKS - 1:
                embeddings = self.encoder(anchors)
        scores = logits.sigmoid()
        now = scores.amax(1)
        now = torch.cat([torch.maximum(now[: self.num_cached], DECAY * confidence), now[self.num_cached :]])
        kept = now.topk(self.num_cached)
        stored = (features[kept.indices], anchors[kept.indices], kept.values)
        best = logits.flatten().topk(NUM_BOXES).indices
        rows = best // CLASSES
        score = scores.flatten()[best] * quality[rows, 0].sigmoid()
        return torch.cat([score[:, None], (best % CLASSES)[:, None], anchors[rows]], 1), stored


def cases():
    """Decoders by the name of their case."""
    for num_anchors, num_cached in [(512, 300), (900, 600)]:
        name = f"sparse4d {BLOCKS} blocks, {num_anchors} anchors, {num_cached} cached"
        yield name, partial(Decoder, num_anchors, num_cached)
