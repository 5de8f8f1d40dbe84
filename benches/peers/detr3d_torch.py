"""A DETR3D decoder in plain PyTorch, for views_torch.py."""

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from torch_frames import CHANNELS, CLASSES, LEVELS, project, ring

HEADS, HIDDEN = 8, 512
LOW, EXTENT = (-51.2, -51.2, -5.0), (102.4, 102.4, 8.0)


def inverse_sigmoid(points):
    points = points.clamp(0, 1)
    return torch.log(points.clamp(min=1e-5) / (1 - points).clamp(min=1e-5))


def encoder():
    """Encodes reference points."""
    norm = lambda: nn.LayerNorm(CHANNELS)
    return nn.Sequential(
        nn.Linear(3, CHANNELS), norm(), nn.ReLU(), nn.Linear(CHANNELS, CHANNELS), norm(), nn.ReLU()
    )


class Block(nn.Module):
    def __init__(self, num_views):
        super().__init__()
        self.projections = nn.Linear(CHANNELS, 3 * CHANNELS)
        self.attention_output = nn.Linear(CHANNELS, CHANNELS)
        self.weights = nn.Linear(CHANNELS, num_views * len(LEVELS))
        self.view_output = nn.Linear(CHANNELS, CHANNELS)
        self.encoder = encoder()
        self.hidden = nn.Linear(CHANNELS, HIDDEN)
        self.feed_forward = nn.Linear(HIDDEN, CHANNELS)
        self.norms = nn.ModuleList(nn.LayerNorm(CHANNELS) for _ in range(3))
        self.regression = nn.Sequential(
            nn.Linear(CHANNELS, CHANNELS), nn.ReLU(), nn.Linear(CHANNELS, CHANNELS), nn.ReLU(), nn.Linear(CHANNELS, 10)
        )

    def attend(self, rows, positions):
        weights, bias = self.projections.weight, self.projections.bias
        queries_keys = functional.linear(rows + positions, weights[: 2 * CHANNELS], bias[: 2 * CHANNELS])
        values = functional.linear(rows, weights[2 * CHANNELS :], bias[2 * CHANNELS :])
        split = lambda x: x.view(-1, HEADS, CHANNELS // HEADS).transpose(0, 1)[None]
        queries, keys = queries_keys.chunk(2, dim=1)
        out = functional.scaled_dot_product_attention(split(queries), split(keys), split(values))
        return self.attention_output(out[0].transpose(0, 1).reshape(-1, CHANNELS))

    def sample(self, rows, positions, references, maps, projections, low, extent):
        num_views = projections.shape[0]
        places, seen = project((low + references * extent)[:, None], projections)
        places, seen = places[:, :, 0], seen[:, :, 0]
        weights = self.weights(rows + positions).sigmoid().view(-1, num_views, len(LEVELS))
        weights = weights * seen.transpose(0, 1)[..., None]
        grid = (2 * places - 1).to(rows.dtype)[:, :, None]
        total = 0
        for level, features in enumerate(maps):
            sampled = functional.grid_sample(features, grid, align_corners=False)[..., 0]
            # What is not seen may be anything.
            sampled = torch.where(seen[:, None], sampled, 0)
            total = total + torch.einsum("ncq,qn->qc", sampled, weights[..., level])
        return self.view_output(total)

    def forward(self, rows, positions, references, maps, projections, low, extent):
        rows = self.norms[0](rows + self.attend(rows, positions))
        encoded = self.encoder(inverse_sigmoid(references).to(rows.dtype))
        sampled = self.sample(rows, positions, references, maps, projections, low, extent)
        rows = self.norms[1](rows + sampled + encoded)
        rows = self.norms[2](rows + self.feed_forward(functional.relu(self.hidden(rows))))
        change = self.regression(rows).float()
        moved = torch.cat([change[:, :2], change[:, 4:5]], 1)
        references = torch.sigmoid(moved + inverse_sigmoid(references))
        return rows, change, references


class Decoder(nn.Module):
    def __init__(self, num_blocks, num_queries, projections):
        super().__init__()
        self.blocks = nn.ModuleList(Block(len(projections)) for _ in range(num_blocks))
        head = lambda: [nn.Linear(CHANNELS, CHANNELS), nn.LayerNorm(CHANNELS), nn.ReLU()]
        self.classes = nn.Sequential(*head(), *head(), nn.Linear(CHANNELS, CLASSES))
        self.content = nn.Parameter(torch.randn(num_queries, CHANNELS))
        self.positions = nn.Parameter(torch.randn(num_queries, CHANNELS))
        self.constants = [torch.rand(num_queries, 3), projections, torch.tensor(LOW), torch.tensor(EXTENT)]

    def parts(self):
        return [*self.blocks, self.classes]

    def forward(self, maps):
        references, projections, low, extent = self.constants
        rows = self.content
        for block in self.blocks:
            rows, change, references = block(rows, self.positions, references, maps, projections, low, extent)
        centres = low + references * extent
        logits = self.classes(rows).float()
        return torch.cat([centres, change[:, 2:4], change[:, 5:], logits], 1), None


def cases():
    """Decoders by the name of their case."""
    for num_blocks, num_queries in [(4, 512), (6, 512), (6, 900)]:
        name = f"detr3d {num_blocks} blocks, {num_queries} queries"
        yield name, partial(Decoder, num_blocks, num_queries, ring())
