"""A small surround network: a backbone for the images of six cameras, and a
decoder with the modules and tensor names of Sparse4D v3."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from camera_network import Residual, conv, up

CLASSES = ["car", "truck", "bus", "bicycle", "pedestrian"]
NUM_CAMERAS = 6
WIDTH, HEIGHT = 640, 352
STRIDES = (8, 16, 32)
CHANNELS, HEADS, GROUPS = 96, 6, 6
NUM_ANCHORS, NUM_CACHED = 250, 150
NUM_BLOCKS, NUM_SINGLE_FRAME_BLOCKS = 3, 1
HIDDEN = 384
# Shares of the extents at which the fixed key points are, and how many are learned.
FIXED_POINTS = [[0, 0, 0], [0.45, 0, 0], [-0.45, 0, 0], [0, 0.45, 0], [0, -0.45, 0], [0, 0, 0.45], [0, 0, -0.45]]
NUM_LEARNED_POINTS = 4
NUM_POINTS = len(FIXED_POINTS) + NUM_LEARNED_POINTS
MIN_DEPTH_M = 1e-5
# The simulated rig: cameras on a circle, that look outwards.
RIG_CENTER_M, RIG_RADIUS_M = (1.25, 0.0), 0.45
FOCAL_PX, PRINCIPAL_COLUMN_PX = 450.0, 319.5
# Unit of the offsets of the dense head.
OFFSET_CELLS = 8
DEFAULT_INTERVAL_S = 0.5
CONFIDENCE_DECAY = 0.6
# A point is in the overlap of at most this many images.
MAX_VIEWS = 2

# Columns of a box: x, y, z, logarithms of length, width, height, sine and cosine of
# the yaw, velocity along x, y, z.
NUM_COLUMNS = 11


class Backbone(nn.Module):
    """Images [N, 3, H, W] to maps [N, C, h, w] at strides 8, 16 and 32, and the outputs
    of the dense head.

    The coordinates of a pixel are an input: the cameras look level at a level road, so
    that the row of a point on the road tells its depth. What the dense head finds is
    added to the maps as features: the decoder learns where objects are from them.
    """

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 24, 2), conv(24, 32, 2), Residual(32))
        self.down8 = nn.Sequential(conv(32, 64, 2), Residual(64), Residual(64), Residual(64))
        self.down16 = nn.Sequential(conv(64, 128, 2), Residual(128), Residual(128), Residual(128))
        self.down32 = nn.Sequential(conv(128, 160, 2), Residual(160), Residual(160))
        self.position = nn.Conv2d(5, 64, 1)
        self.laterals = nn.ModuleList(conv(c, CHANNELS, size=1) for c in (64, 128, 160))
        self.outputs = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False),
                nn.BatchNorm2d(CHANNELS, eps=1e-3, momentum=0.03),
            )
            for _ in STRIDES
        )
        self.dense = DenseHead()
        self.found = Found()
        self.register_buffer("coordinates", pixel_coordinates(), persistent=False)

    def forward(self, images):
        x8 = self.down8[0](self.stem(images)) + self.position(self.coordinates)
        x8 = self.down8[1:](x8)
        x16 = self.down16(x8)
        x32 = self.down32(x16)
        x32 = self.laterals[2](x32)
        x16 = self.laterals[1](x16) + up(x32)
        x8 = self.laterals[0](x8) + up(x16)
        maps = [output(x) for output, x in zip(self.outputs, (x8, x16, x32))]
        heat, values = self.dense(maps[0])
        # The dense head learns only from its own loss.
        with torch.autocast(heat.device.type, enabled=False):
            found = self.found(heat.detach(), values.detach())
            maps = [x.float() + of_level for x, of_level in zip(maps, found)]
        return maps, (heat, values)


def pixel_coordinates():
    """Functions of the row and the column at stride 8, [1, 5, h, w]."""
    rows, columns = torch.meshgrid(
        (torch.arange(HEIGHT // 8) + 0.5) * 8, (torch.arange(WIDTH // 8) + 0.5) * 8, indexing="ij"
    )
    # Rows below the horizon, which the crop of 8 rows puts above the middle.
    below = rows - (HEIGHT / 2 - 4)
    across = columns / (WIDTH / 2) - 1
    depth = below.clamp(min=4).log() / 2 - 1.5
    return torch.stack([below / HEIGHT * 2, depth, (below > 0).float(), across, across**2])[None]


class ExportedBackbone(nn.Module):
    """What is served: maps with the channels last."""

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone = backbone

    def forward(self, images):
        return [x.permute(0, 2, 3, 1) for x in self.backbone(images)[0]]


class DenseHead(nn.Module):
    """Class heat maps of the centres in the images, and boxes near the centres, from
    the finest map."""

    # Offset of the centre in units of OFFSET_CELLS, logarithm of the depth, logarithms of the extents,
    # sine and cosine of the yaw in the camera's frame.
    NUM_VALUES = 8

    def __init__(self):
        super().__init__()
        self.hidden = conv(CHANNELS, 80)
        self.heat = nn.Conv2d(80, len(CLASSES), 1)
        self.values = nn.Conv2d(80, self.NUM_VALUES, 1)
        nn.init.constant_(self.heat.bias, -4.0)

    def forward(self, x):
        x = self.hidden(x)
        # A depth needs more digits than bfloat16 has.
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            return self.heat(x), self.values(x)


class Found(nn.Module):
    """Features of every level from the outputs of the dense head: at the finest level
    the outputs and the position in base_link that they mean; at every level the classes
    and the mean position that are found nearby, by heat.

    The mounting of the cameras is constant: images come in the order of the rig.
    """

    # Cells of the finest level around a texel, by level.
    WINDOWS = (9, 17, 33)

    def __init__(self):
        super().__init__()
        num_nearby = len(CLASSES) + 2
        num_inputs = len(CLASSES) + DenseHead.NUM_VALUES + 2
        self.layers = nn.ModuleList(
            nn.Conv2d(num_nearby + num_inputs * (level == 0), CHANNELS, 1) for level in range(len(STRIDES))
        )
        yaw = torch.arange(NUM_CAMERAS) * (2 * math.pi / NUM_CAMERAS)
        ahead = torch.stack([yaw.cos(), yaw.sin()], dim=1)[..., None, None]
        right = torch.stack([yaw.sin(), -yaw.cos()], dim=1)[..., None, None]
        column = (torch.arange(WIDTH // STRIDES[0]) + 0.5) * STRIDES[0]
        across = (column - PRINCIPAL_COLUMN_PX) / FOCAL_PX
        center = torch.tensor(RIG_CENTER_M)[None, :, None, None] + RIG_RADIUS_M * ahead
        self.register_buffer("right", right, persistent=False)
        self.register_buffer("ray", ahead + right * across, persistent=False)
        self.register_buffer("center", center, persistent=False)

    def forward(self, heat, values):
        heat = heat.sigmoid()
        position = self.position(values)
        inputs = torch.cat([heat, values, position], dim=1)
        # Background has little weight.
        weight = heat * heat
        total = weight.sum(dim=1, keepdim=True)
        weighted = torch.cat([weight, total * position], dim=1)
        features = []
        for layer, window, stride in zip(self.layers, self.WINDOWS, STRIDES):
            step = stride // STRIDES[0]
            mean = F.avg_pool2d(weighted, window, step, window // 2)
            num_classes = len(CLASSES)
            sum_of_weights = mean[:, :num_classes].sum(dim=1, keepdim=True)
            near = mean[:, num_classes:] / (sum_of_weights + 1e-5)
            nearby = (mean[:, :num_classes] * window * window).clamp(max=4.0)
            parts = [nearby, near, inputs] if step == 1 else [nearby, near]
            features.append(layer(torch.cat(parts, dim=1)))
        return features

    def position(self, values):
        """x and y in base_link of the centres that values [B * 6, 8, h, w] mean, in
        units of 20 m."""
        batch = values.shape[0] // NUM_CAMERAS
        same = lambda x: x.repeat(batch, 1, 1, 1) if batch > 1 else x
        depth = values[:, 2:3].clamp(0.0, 4.5).exp()
        shift = values[:, 0:1] * (OFFSET_CELLS * STRIDES[0] / FOCAL_PX)
        return (same(self.center) + depth * (same(self.ray) + shift * same(self.right))) / 20


def stack(num_inputs: int, width: int, num_layers: int) -> list[nn.Module]:
    """Layers, each with ReLU and then a normalisation."""
    layers = []
    for index in range(num_layers):
        layers += [nn.Linear(width if index else num_inputs, width), nn.ReLU(), nn.LayerNorm(width)]
    return layers


class AnchorEncoder(nn.Module):
    """Boxes [.., 11] to embeddings [.., C]."""

    def __init__(self):
        super().__init__()
        self.pos_fc = nn.Sequential(*stack(3, 48, 4))
        self.size_fc = nn.Sequential(*stack(3, 12, 4))
        self.yaw_fc = nn.Sequential(*stack(2, 12, 4))
        self.vel_fc = nn.Sequential(*stack(3, 24, 4))

    def forward(self, box):
        parts = (self.pos_fc(box[..., :3]), self.size_fc(box[..., 3:6]))
        return torch.cat([*parts, self.yaw_fc(box[..., 6:8]), self.vel_fc(box[..., 8:])], dim=-1)


class GraphAttention(nn.Module):
    """Attention among rows of 2C columns, added to the queries."""

    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(2 * CHANNELS, HEADS, batch_first=True)

    def forward(self, query, key, value, mask):
        weights, biases = self.attn.in_proj_weight.chunk(3), self.attn.in_proj_bias.chunk(3)
        rows = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
        q, k, v = (x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in rows)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return query + self.attn.out_proj(out.transpose(1, 2).flatten(2))


class KeyPoints(nn.Module):
    """Points in boxes [B, Q, P, 3]."""

    def __init__(self):
        super().__init__()
        self.register_buffer("fix_scale", torch.tensor(FIXED_POINTS, dtype=torch.float32))
        self.learnable_fc = nn.Linear(CHANNELS, 3 * NUM_LEARNED_POINTS)

    def forward(self, box, feature):
        learned = self.learnable_fc(feature).unflatten(-1, (-1, 3)).sigmoid() - 0.5
        fixed = self.fix_scale.expand(*feature.shape[:2], -1, -1)
        x, y, z = (torch.cat([fixed, learned], dim=2) * box[..., None, 3:6].exp()).unbind(-1)
        sin, cos = box[..., 6, None], box[..., 7, None]
        return torch.stack([cos * x - sin * y, sin * x + cos * y, z], -1) + box[..., None, :3]


class Atlas:
    """Maps of all cameras below each other with a row of zeros between them, so that
    one sampling reads any camera."""

    def __init__(self, maps: list[torch.Tensor], dtype: torch.dtype):
        self.heights = [x.shape[2] for x in maps]
        self.maps = []
        for x in maps:
            x = F.pad(x.to(dtype).unflatten(0, (-1, NUM_CAMERAS)), (0, 0, 0, 1))
            self.maps.append(x.transpose(1, 2).flatten(2, 3))

    def sample(self, level: int, camera, u, v):
        """Values [B, C, Q, P] at fractions u, v of the images [B, Q, P]."""
        height = self.heights[level]
        row = (v * height + camera * (height + 1)) / (NUM_CAMERAS * (height + 1))
        grid = torch.stack([u, row], dim=-1) * 2 - 1
        return F.grid_sample(self.maps[level], grid, align_corners=False)


class ViewAttention(nn.Module):
    """Samples of the maps where the key points of a box are seen, weighted: [B, Q, 2C]
    with the features beside them."""

    def __init__(self):
        super().__init__()
        self.kps_generator = KeyPoints()
        self.camera_encoder = nn.Sequential(*stack(12, CHANNELS, 2))
        self.weights_fc = nn.Linear(CHANNELS, len(STRIDES) * NUM_POINTS * GROUPS)
        self.output_proj = nn.Linear(CHANNELS, CHANNELS)
        nn.init.zeros_(self.weights_fc.weight)
        nn.init.zeros_(self.weights_fc.bias)

    def forward(self, feature, embedding, box, atlas: Atlas, matrices):
        points = self.kps_generator(box, feature)
        u, v, seen = project(points, matrices)
        weights = self.weights(feature + embedding, matrices)
        # [B, N, Q, P] to the views that see a point.
        num_views = min(MAX_VIEWS, matrices.shape[1])
        camera = seen.float().topk(num_views, dim=1).indices
        u, v, seen = (x.gather(1, camera) for x in (u, v, seen))
        index = camera[..., None, None].expand(-1, -1, -1, -1, *weights.shape[-2:])
        weights = weights.gather(1, index) * seen[..., None, None]
        # Unseen points are sampled outside of everything, which costs nothing.
        u, v = (torch.where(seen, x, -2.0).flatten(1, 2) for x in (u, v))
        out = 0
        for level in range(len(STRIDES)):
            values = atlas.sample(level, camera.flatten(1, 2), u, v)
            values = values.unflatten(1, (GROUPS, -1)).unflatten(3, (num_views, -1))
            of_level = weights[..., level, :].permute(0, 4, 1, 2, 3)[:, :, None]
            out = out + (values * of_level).sum(dim=(3, 5))
        return torch.cat([self.output_proj(out.flatten(1, 2).transpose(1, 2)), feature], dim=-1)

    def weights(self, query, matrices):
        """Shares of views, levels and points by group, [B, N, Q, P, L, G]."""
        of_camera = self.camera_encoder(matrices.flatten(2)) @ self.weights_fc.weight.T
        logits = self.weights_fc(query)[:, None] + of_camera[:, :, None]
        logits = logits.unflatten(-1, (len(STRIDES), NUM_POINTS, GROUPS))
        logits = logits.permute(0, 2, 5, 1, 3, 4)
        shares = logits.flatten(3).softmax(dim=-1).view(logits.shape)
        return shares.permute(0, 3, 1, 5, 4, 2)


def project(points, matrices):
    """Fractions u, v of the images and whether a view sees a point, [B, N, Q, P],
    of points [B, Q, P, 3] by matrices [B, N, 3, 4] in pixels."""
    with torch.autocast(points.device.type, enabled=False):
        turned = (matrices[:, :, None, None, :, :3] * points[:, None, ..., None, :]).sum(-1)
        a, b, depth = (turned + matrices[:, :, None, None, :, 3]).unbind(-1)
    divisor = depth.clamp(min=MIN_DEPTH_M)
    u, v = a / (divisor * WIDTH), b / (divisor * HEIGHT)
    return u, v, (depth > MIN_DEPTH_M) & (u > 0) & (u < 1) & (v > 0) & (v < 1)


class FeedForward(nn.Module):
    """[B, Q, 2C] to [B, Q, C]."""

    def __init__(self):
        super().__init__()
        self.pre_norm = nn.LayerNorm(2 * CHANNELS)
        first = nn.Sequential(nn.Linear(2 * CHANNELS, HIDDEN), nn.ReLU())
        self.layers = nn.Sequential(first, nn.Linear(HIDDEN, CHANNELS))
        self.identity_fc = nn.Linear(2 * CHANNELS, CHANNELS)

    def forward(self, x):
        x = self.pre_norm(x)
        return self.identity_fc(x) + self.layers(x)


class Scale(nn.Module):
    def __init__(self, num: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(num))

    def forward(self, x):
        return x * self.scale


class Refinement(nn.Module):
    """Class logits of features, and deltas of boxes."""

    def __init__(self):
        super().__init__()

        def pair():
            linear = [nn.Linear(CHANNELS, CHANNELS), nn.ReLU()]
            return [*linear, *stack(CHANNELS, CHANNELS, 1)]

        last = nn.Linear(CHANNELS, NUM_COLUMNS)
        nn.init.normal_(last.weight, std=0.01)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(*pair(), *pair(), last, Scale(NUM_COLUMNS))
        self.cls_layers = nn.Sequential(
            *stack(CHANNELS, CHANNELS, 2), nn.Linear(CHANNELS, len(CLASSES))
        )
        nn.init.constant_(self.cls_layers[-1].bias, -math.log(99))

    def forward(self, feature, embedding):
        return self.cls_layers(feature), self.layers(feature + embedding)


class InstanceBank(nn.Module):
    def __init__(self, anchors: torch.Tensor):
        super().__init__()
        self.register_buffer("anchor", anchors.clone())
        self.instance_feature = nn.Parameter(torch.zeros(len(anchors), CHANNELS))


@dataclass
class Memory:
    """The best boxes of the frame before."""

    box: torch.Tensor  # [B, K, 11]
    feature: torch.Tensor  # [B, K, C]
    confidence: torch.Tensor  # [B, K]
    # Since that frame.
    interval_s: torch.Tensor | None = None  # [B]

    def moved(self, current_from_past: torch.Tensor, interval_s: torch.Tensor) -> "Memory":
        """By the boxes' own velocities, then into the base frame of the next frame, by
        transforms of the plane [B, 3, 3]."""
        box = self.box
        center = box[..., :3] + box[..., 8:] * interval_s[:, None, None]
        turn = current_from_past[:, :2, :2].transpose(1, 2)
        plane = center[..., :2] @ turn + current_from_past[:, None, :2, 2]
        heading = box[..., [7, 6]] @ turn
        velocity = box[..., 8:10] @ turn
        columns = [plane, center[..., 2:], box[..., 3:6], heading.flip(-1), velocity, box[..., 10:]]
        return Memory(torch.cat(columns, -1), self.feature, self.confidence, interval_s)


@dataclass
class Denoising:
    """Further queries, which the others do not attend to."""

    box: torch.Tensor  # [B, D, 11]
    mask: torch.Tensor  # Pairs of queries that attend, [Q + D, Q + D]


class Decoder(nn.Module):
    """Sparse4D v3 without a quality head."""

    def __init__(self, anchors: torch.Tensor):
        super().__init__()
        self.instance_bank = InstanceBank(anchors)
        self.anchor_encoder = AnchorEncoder()
        self.fc_before = nn.Linear(CHANNELS, 2 * CHANNELS, bias=False)
        self.fc_after = nn.Linear(2 * CHANNELS, CHANNELS, bias=False)
        layers = []
        for block in range(NUM_BLOCKS):
            if block >= NUM_SINGLE_FRAME_BLOCKS:
                layers.append(GraphAttention())
            if block > 0:
                layers += [GraphAttention(), nn.LayerNorm(CHANNELS)]
            layers += [ViewAttention(), FeedForward(), nn.LayerNorm(CHANNELS), Refinement()]
        self.layers = nn.ModuleList(layers)

    def forward(self, maps, matrices, memory: Memory | None = None, noisy: Denoising | None = None):
        """Logits [B, Q, classes] and boxes [B, Q, 11] after each block, and the memory
        for the next frame. Those of `noisy` are the last queries."""
        atlas = Atlas(maps, matrices.dtype)
        bank, batch = self.instance_bank, len(matrices)
        box = bank.anchor.expand(batch, -1, -1)
        feature = bank.instance_feature.expand(batch, -1, -1)
        mask = None
        if noisy is not None:
            box = torch.cat([box, noisy.box], dim=1)
            feature = torch.cat([feature, feature.new_zeros(*noisy.box.shape[:2], CHANNELS)], dim=1)
            mask = noisy.mask
        interval_s = DEFAULT_INTERVAL_S if memory is None else memory.interval_s[:, None, None]
        embedding = self.anchor_encoder(box)
        outputs = []
        layers = iter(self.layers)
        for block in range(NUM_BLOCKS):
            if block >= NUM_SINGLE_FRAME_BLOCKS:
                feature = self.attend(next(layers), feature, embedding, memory, mask, True)
            if block > 0:
                feature = self.attend(next(layers), feature, embedding, memory, mask, False)
                feature = next(layers)(feature)
            views, feed_forward, norm, refine = (next(layers) for _ in range(4))
            feature = norm(feed_forward(views(feature, embedding, box, atlas, matrices)))
            logits, delta = refine(feature, embedding)
            delta = torch.cat([delta[..., :8], delta[..., 8:] / interval_s], dim=-1)
            outputs.append((logits, box + delta))
            # Each block learns only from its own loss.
            box = outputs[-1][1].detach()
            if block + 1 == NUM_SINGLE_FRAME_BLOCKS and memory is not None:
                feature, box = join(memory, feature, box, logits)
            embedding = self.anchor_encoder(box)
        return outputs, store(memory, feature, box, logits)

    def attend(self, layer, feature, embedding, memory, mask, is_temporal):
        query = torch.cat([feature, embedding], dim=-1)
        if not is_temporal:
            out = layer(query, query, self.fc_before(feature), mask)
        elif memory is None:
            out = layer(query, query, query, mask)
        else:
            key = torch.cat([memory.feature, embedding[:, :NUM_CACHED]], dim=-1)
            out = layer(query, key, self.fc_before(memory.feature), None)
        return self.fc_after(out)


def join(memory: Memory, feature, box, logits):
    """The cached boxes, the best of the frame, and the queries of denoising."""
    best = logits[:, :NUM_ANCHORS].amax(-1).topk(NUM_ANCHORS - NUM_CACHED).indices
    rows = lambda x: x.gather(1, best[..., None].expand(-1, -1, x.shape[-1]))
    feature = torch.cat([memory.feature, rows(feature), feature[:, NUM_ANCHORS:]], dim=1)
    return feature, torch.cat([memory.box, rows(box), box[:, NUM_ANCHORS:]], dim=1)


def store(memory: Memory | None, feature, box, logits) -> Memory:
    """The memory for the next frame, without gradients."""
    with torch.no_grad():
        confidence = logits[:, :NUM_ANCHORS].amax(-1).sigmoid()
        if memory is not None:
            before = F.pad(memory.confidence * CONFIDENCE_DECAY, (0, NUM_ANCHORS - NUM_CACHED))
            confidence = torch.maximum(confidence, before)
        confidence, best = confidence.topk(NUM_CACHED)
        rows = lambda x: x.detach().gather(1, best[..., None].expand(-1, -1, x.shape[-1]))
        return Memory(rows(box), rows(feature), confidence)


class ViewNetwork(nn.Module):
    def __init__(self, anchors: torch.Tensor):
        super().__init__()
        self.backbone = Backbone()
        self.head = Decoder(anchors)
